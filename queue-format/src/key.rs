//! Core: the name of one object, which is also the path of its file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes in one segment: file systems stop at 255, and a temporary name needs a few more.
pub const SEGMENT_BYTES_MAX: usize = 200;

/// Segments in one key: the deepest layout, `crypts/SERIAL/PATH`, uses three.
pub const SEGMENTS_MAX: usize = 8;

/// Names that belong to the store itself and can be no keys. The agent of the same machine keeps a store
/// of its own in `node`, and files for the machine's tools in `ssconf`. Stores that were kept aside are
/// in `aside`; `later.json` has what the owner was told of other ones. `lost+found` is the file system's
/// where it has no other directory.
const RESERVED: [&str; 9] = [
    "store.json",
    "journal",
    "queue/lock",
    "incoming",
    "node",
    "ssconf",
    "aside",
    "later.json",
    "lost+found",
];

/// Names that only the master itself may read: the keys of the authority and the vault, what those
/// sealed, and whatever else may hold their content.
const SECRET: [&str; 6] =
    ["config/authority", "config/vault", "bmcs", "crypts", "journal", "incoming"];

/// Mode bits of files at and below those names, whatever is configured.
const SECRET_MODE: u32 = 0o600;

/// Mode bits that a file below the data directory must have, if it may not have the configured ones.
pub(crate) fn mode_of(path: &str) -> Option<u32> {
    SECRET.iter().any(|name| is_at_or_below(path, name)).then_some(SECRET_MODE)
}

/// A relative path below the data directory, such as `queue/job-37` or `config/nodes/n1`.
///
/// Each of its at most [`SEGMENTS_MAX`] segments has 1 to [`SEGMENT_BYTES_MAX`] bytes out of
/// `A-Z a-z 0-9 . _ @ : + % -`. None starts with a dot, so a key never leaves the directory and never
/// meets a temporary file. Cloning shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too many segments.
    #[error("key `{key}` has more than {SEGMENTS_MAX} segments")]
    Deep {
        /// The text as given.
        key: String,
    },
    /// A segment that is empty, too long, starts with a dot or has a forbidden byte.
    #[error(
        "`{segment}` in key `{key}` must have 1 to {SEGMENT_BYTES_MAX} characters out of \
         A-Z a-z 0-9 . _ @ : + % - and not start with a dot"
    )]
    Segment {
        /// The text as given.
        key: String,
        /// The segment that is wrong.
        segment: String,
    },
    /// A name that the store uses for itself.
    #[error("key `{key}` is a name of the store itself")]
    Reserved {
        /// The text as given.
        key: String,
    },
}

impl Key {
    /// Checks `text` and makes it a key.
    ///
    /// # Errors
    /// The text breaks a rule of [`Key`] or names a file of the store itself.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut segments = 0;
        for segment in text.split('/') {
            segments += 1;
            if segments > SEGMENTS_MAX {
                return Err(KeyError::Deep { key: text.to_owned() });
            }
            if !is_segment(segment) {
                return Err(KeyError::Segment {
                    key: text.to_owned(),
                    segment: segment.to_owned(),
                });
            }
        }
        if RESERVED.iter().any(|name| is_at_or_below(text, name)) {
            return Err(KeyError::Reserved { key: text.to_owned() });
        }
        Ok(Self(text.into()))
    }

    /// The key as text, as it stands in the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory of the key relative to the data directory; empty for a key of one segment.
    pub fn directory(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(directory, _name)| directory)
    }
}

fn is_segment(segment: &str) -> bool {
    !segment.is_empty()
        && segment.len() <= SEGMENT_BYTES_MAX
        && !segment.starts_with('.')
        && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"._@:+%-".contains(&b))
}

fn is_at_or_below(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A key in the order in which a walk through the directories meets it: the files of a directory,
/// then what is below its directories. So a queue is met before its archive, which is long and
/// hardly changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed(pub(crate) Key);

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.steps().cmp(other.steps())
    }
}

impl Placed {
    /// Each segment, and whether it is a directory.
    fn steps(&self) -> impl Iterator<Item = (bool, &str)> {
        let mut segments = self.0.as_str().split('/').peekable();
        std::iter::from_fn(move || {
            let segment = segments.next()?;
            Some((segments.peek().is_some(), segment))
        })
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for Key {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_of_the_data_directory_is_made_of_keys() {
        for text in [
            "ipam",
            "queue/job-37",
            "queue/serial",
            "queue/archive/0/job-12",
            "config/nodes/n1.example.com",
            "machines/SN1",
            "machines/%2F5Q4Q7Y1%2FCN72%2F",
            "crypts/SN1/disk:0",
            "a/b/c/d/e/f/g/h",
        ] {
            assert_eq!(Key::parse(text).map(|k| k.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(Key::parse("queue/archive/0/job-12").unwrap().directory(), "queue/archive/0");
        assert_eq!(Key::parse("ipam").unwrap().directory(), "");
    }

    #[test]
    fn a_key_never_leaves_its_directory_or_touches_the_store() {
        let long = "x".repeat(SEGMENT_BYTES_MAX + 1);
        for text in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", ".tmp/x", "a b", "ä", &long]
        {
            assert!(matches!(Key::parse(text), Err(KeyError::Segment { .. })), "{text}");
        }
        assert!(matches!(Key::parse("a/b/c/d/e/f/g/h/i"), Err(KeyError::Deep { .. })));
        for text in [
            "store.json",
            "journal",
            "journal/segment-0",
            "queue/lock",
            "incoming",
            "node/queue/lock",
            "ssconf",
        ] {
            assert!(matches!(Key::parse(text), Err(KeyError::Reserved { .. })), "{text}");
        }
        assert!(Key::parse("queue/locked").is_ok() && Key::parse("nodes").is_ok());
    }

    #[test]
    fn secrets_have_a_mode_of_their_own() {
        for path in ["config/authority", "config/authority/key", "journal/segment-0", "incoming"] {
            assert_eq!(mode_of(path), Some(0o600), "{path}");
        }
        assert_eq!(mode_of("config/authority.pub"), None);
        assert_eq!(mode_of("config/cluster"), None);
    }

    #[test]
    fn a_walk_meets_files_before_directories() {
        let texts = ["b", "z", "a/c", "a/d", "a/b/z", "a-b/c"];
        let mut keys = texts.map(|text| Placed(Key::parse(text).unwrap()));
        keys.reverse();
        keys.sort();
        assert_eq!(keys.each_ref().map(|key| key.0.as_str()), texts);
    }

    proptest! {
        #[test]
        fn parsing_is_total(text in ".{0,40}") {
            if let Ok(key) = Key::parse(&text) {
                prop_assert_eq!(key.as_str(), text.as_str());
            }
        }
    }
}
