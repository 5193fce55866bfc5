//! Core: comparing what two members hold, without sending it.
//!
//! Keys fall into groups. A digest has one checksum for each; where those differ, the checksums of
//! the group's keys tell which keys do.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key::Key;
use crate::position::Position;

/// Groups with more than one segment in their name, the longest first.
const DEEP_GROUPS: [&str; 1] = ["queue/archive"];

/// Keys that are compared together: `queue/archive`, and for all others their first segment, as
/// `queue` or `config`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group(String);

impl Group {
    /// The group of this key.
    pub fn of(key: &Key) -> Self {
        Self(group_name(key.as_str()).to_owned())
    }

    /// The group with this name; none if there can be no such group.
    pub fn named(name: &str) -> Option<Self> {
        let key = Key::parse(name).ok()?;
        let deep = DEEP_GROUPS.contains(&name);
        (deep || !key.as_str().contains('/')).then(|| Self(name.to_owned()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn holds(&self, key: &Key) -> bool {
        group_name(key.as_str()) == self.0
    }

    /// Whether keys of the group may be below this directory.
    pub(crate) fn enters(&self, directory: &Key) -> bool {
        let directory = directory.as_str();
        group_name(directory) == self.0 || self.0.starts_with(&format!("{directory}/"))
    }
}

/// The name of the group of the key with this name.
pub fn group_name(key: &str) -> &str {
    let is_in = |name: &&&str| {
        key.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match DEEP_GROUPS.iter().find(is_in) {
        Some(name) => name,
        None => key.split('/').next().unwrap_or(key),
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A SHA-256, in texts as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash([u8; 32]);

/// A text that is no [`struct@Hash`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no SHA-256: it has 64 hexadecimal digits")]
pub struct NoHash {
    /// The text as given.
    text: String,
}

impl Hash {
    /// The hash of one content.
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = NoHash;

    fn try_from(text: String) -> Result<Self, NoHash> {
        let mut hash = [0; 32];
        let read = hex::decode_to_slice(&text, &mut hash);
        read.map(|()| Self(hash)).map_err(|_error| NoHash { text })
    }
}

/// The number of keys in one group, and a hash over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDigest {
    /// Number of keys.
    pub keys: u64,
    /// Over all keys and contents, in one order everywhere.
    pub hash: Hash,
}

/// The digests of a store's groups at one position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreDigest {
    /// The moment. Only digests of the same one can be compared.
    pub position: Position,
    /// Its groups; one without keys is not in here.
    pub groups: BTreeMap<Group, GroupDigest>,
}

/// Takes keys and contents in the order of a walk.
#[derive(Debug, Default)]
pub struct Digester(BTreeMap<Group, (u64, Sha256)>);

impl Digester {
    /// Takes the next key.
    pub fn add(&mut self, key: &Key, content: &[u8]) {
        let (keys, hash) = self.0.entry(Group::of(key)).or_default();
        *keys += 1;
        // With their lengths first, no two lists of keys and contents are the same bytes.
        for part in [key.as_str().as_bytes(), content] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        }
    }

    /// The digest of all that was taken in, as the store at `position`.
    pub fn finish(self, position: Position) -> StoreDigest {
        let digest = |(group, (keys, hash)): (Group, (u64, Sha256))| {
            (group, GroupDigest { keys, hash: Hash(hash.finalize().into()) })
        };
        StoreDigest { position, groups: self.0.into_iter().map(digest).collect() }
    }
}

/// How one name differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    OnlyFirst,
    /// It is only in the second.
    OnlySecond,
    /// It is in both, and they differ.
    Content,
}

/// The names that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences<N> {
    /// The first of them by name.
    pub named: Vec<(N, Difference)>,
    /// How many there are.
    pub total: usize,
}

/// The differences between two lists, naming `named_max` at most: groups by their digests, or keys by
/// their hashes.
pub fn differences<N: Ord + Clone, V: PartialEq>(
    first: &BTreeMap<N, V>,
    second: &BTreeMap<N, V>,
    named_max: usize,
) -> Differences<N> {
    let of_first = first.iter().filter_map(|(name, value)| match second.get(name) {
        None => Some((name, Difference::OnlyFirst)),
        Some(other) if other != value => Some((name, Difference::Content)),
        Some(_same) => None,
    });
    let of_second = second.keys().filter(|name| !first.contains_key(name));
    let mut all: Vec<_> =
        of_first.chain(of_second.map(|name| (name, Difference::OnlySecond))).collect();
    all.sort_unstable_by_key(|(name, _difference)| *name);
    let total = all.len();
    all.truncate(named_max);
    let named = all.into_iter().map(|(name, difference)| (name.clone(), difference)).collect();
    Differences { named, total }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    #[test]
    fn every_key_is_in_one_group() {
        for (text, group) in [
            ("queue/job-1", "queue"),
            ("queue/serial", "queue"),
            ("queue/archive/0/job-1", "queue/archive"),
            ("queue/archived", "queue"),
            ("config/nodes/n1", "config"),
            ("ipam", "ipam"),
            ("crypts/S1/a/b", "crypts"),
        ] {
            let found = Group::of(&key(text));
            assert_eq!(found.as_str(), group, "{text}");
            assert_eq!(Group::named(group), Some(found.clone()));
            assert!(found.holds(&key(text)));
            for (end, _slash) in text.match_indices('/') {
                assert!(found.enters(&key(&text[..end])), "{group} is below {}", &text[..end]);
            }
        }
        assert_eq!(Group::named("config/nodes"), None);
        assert_eq!(Group::named("../etc"), None);
        assert!(!Group::named("queue").unwrap().enters(&key("queue/archive")));
        assert!(!Group::named("queue/archive").unwrap().enters(&key("queue/other")));
    }

    #[test]
    fn hashes_are_texts_of_64_digits() {
        let hash = Hash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(Hash::try_from(text.to_owned()), Ok(hash));
        assert_eq!(serde_json::to_string(&hash).unwrap(), format!("\"{text}\""));
        for wrong in ["", "ab", &"g".repeat(64), &"0".repeat(66)] {
            assert!(Hash::try_from(wrong.to_owned()).is_err());
        }
    }

    #[test]
    fn contents_do_not_flow_into_one_another() {
        let digest = |rows: &[(&str, &str)]| {
            let mut digester = Digester::default();
            rows.iter().for_each(|(name, content)| digester.add(&key(name), content.as_bytes()));
            digester.finish(Position::default()).groups
        };
        assert_ne!(digest(&[("a/b", "cd")]), digest(&[("a/b", "c"), ("a/d", "")]));
        assert_eq!(digest(&[("a/b", "x"), ("c", "y")]).len(), 2);
        assert_eq!(digest(&[("a/b", "x"), ("c", "y")]), digest(&[("c", "y"), ("a/b", "x")]));
    }

    proptest! {
        #[test]
        fn what_differs_is_named_up_to_the_limit(
            first in proptest::collection::btree_map(0..20_u8, 0..3_u8, 0..20),
            second in proptest::collection::btree_map(0..20_u8, 0..3_u8, 0..20),
            named_max in 0..10_usize,
        ) {
            let expected: Vec<u8> =
                (0..20).filter(|name| first.get(name) != second.get(name)).collect();
            let found = differences(&first, &second, named_max);
            prop_assert_eq!(found.total, expected.len());
            let named: Vec<u8> = found.named.iter().map(|(name, _)| *name).collect();
            prop_assert_eq!(named, &expected[..named_max.min(expected.len())]);
            for (name, difference) in found.named {
                prop_assert_eq!(difference == Difference::OnlyFirst, !second.contains_key(&name));
                prop_assert_eq!(difference == Difference::OnlySecond, !first.contains_key(&name));
            }
        }
    }
}
