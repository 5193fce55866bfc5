//! Core: the files that every node has of what its tools must know without a master: who that is,
//! since which epoch, and where the candidates are. Names and contents are those of Ganeti's
//! `ssconf` files, with a few of this cluster's own.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::enrol::Fingerprint;
use crate::name::NodeName;
use crate::rack::DocumentVersion;

/// File with the cluster's name.
pub const CLUSTER_NAME: &str = "cluster_name";
/// File with the cluster's identity: files of another cluster are never newer.
pub const CLUSTER_UUID: &str = "cluster_uuid";
/// File with the master's name.
pub const MASTER_NODE: &str = "master_node";
/// File with the address at which the master is reached.
pub const MASTER_IP: &str = "master_ip";
/// File with the epoch of the master that sent the files, as `TERM.NODE`.
pub const EPOCH: &str = "epoch";
/// File with one [`Peer`] in each line: the candidates.
pub const PEERS: &str = "peers";
/// File with the version of all of them; the node itself writes it.
pub const VERSION: &str = "version";

/// Most files of one version: Ganeti has some thirty.
pub const FILES_MAX: usize = 64;
/// Longest name of a file, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The files of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssconf {
    /// Which of two is newer.
    pub version: DocumentVersion,
    /// Contents by name, without the last end of line.
    pub files: BTreeMap<String, String>,
}

/// Files that no node takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SsconfError {
    /// There are too many, or none.
    #[error("{0} ssconf files are not 1 to {FILES_MAX}")]
    Count(usize),
    /// A name is none.
    #[error(
        "`{0}` cannot be an ssconf file: its name must have 1 to {NAME_BYTES_MAX} characters out of \
         a-z and _, and not be `{VERSION}`"
    )]
    Name(String),
}

impl Ssconf {
    /// The digest that tells apart files with different contents: SHA-256 of all but the version, in
    /// hexadecimal.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(&self.files).expect("a map of texts has plain keys");
        hex::encode(Sha256::digest(text))
    }

    /// Checks that the names can be names of files.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), SsconfError> {
        if self.files.is_empty() || self.files.len() > FILES_MAX {
            return Err(SsconfError::Count(self.files.len()));
        }
        let fits = |name: &str| {
            (1..=NAME_BYTES_MAX).contains(&name.len())
                && name != VERSION
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        match self.files.keys().find(|name| !fits(name)) {
            Some(name) => Err(SsconfError::Name(name.chars().take(NAME_BYTES_MAX).collect())),
            None => Ok(()),
        }
    }
}

/// A candidate, as a line of the file [`PEERS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub name: NodeName,
    /// The address of its `masterd` for that of other candidates.
    pub address: SocketAddr,
    /// Its certificate's.
    pub fingerprint: Fingerprint,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, address, fingerprint } = self;
        write!(f, "{name} {address} {fingerprint}")
    }
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(line: &str) -> Result<Self, PeerError> {
        let wrong = || PeerError(line.chars().take(120).collect());
        let words: Vec<&str> = line.split(' ').collect();
        let [name, address, fingerprint] = words[..] else { return Err(wrong()) };
        Ok(Self {
            name: name.parse().map_err(|_wrong| wrong())?,
            address: address.parse().map_err(|_wrong| wrong())?,
            fingerprint: fingerprint.parse().map_err(|_wrong| wrong())?,
        })
    }
}

/// Most candidates that a message names: who looks for one finds it among so many.
const LISTED_MAX: usize = 5;

/// Candidates and their addresses, for a message; none where there are none.
pub fn listed<'a>(peers: impl IntoIterator<Item = &'a Peer>) -> Option<String> {
    let mut all = peers.into_iter().map(|peer| format!("{} ({})", peer.name, peer.address.ip()));
    let named: Vec<String> = all.by_ref().take(LISTED_MAX).collect();
    let more = all.count();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("{}{rest}", named.join(", ")))
}

/// The way to the master, as the files tell it on a machine whose master is not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterHint {
    /// Name of the cluster.
    pub cluster: Option<String>,
    pub master: NodeName,
    /// The address of the master.
    pub address: Option<IpAddr>,
    /// Term and node of the master's epoch: the higher one is the newer one.
    pub epoch: Option<(u64, u64)>,
    /// The candidates, the master among them.
    pub candidates: Vec<Peer>,
}

impl MasterHint {
    /// The hint in files whose contents `read` gives by name; none where they name no master.
    pub fn of(read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let line = |name: &str| {
            let text = read(name)?;
            let line = text.lines().next().map(str::trim);
            line.filter(|line| !line.is_empty()).map(str::to_owned)
        };
        let epoch = line(EPOCH).and_then(|text| {
            let (term, node) = text.split_once('.')?;
            Some((term.parse().ok()?, node.parse().ok()?))
        });
        Some(Self {
            cluster: line(CLUSTER_NAME),
            master: line(MASTER_NODE)?.parse().ok()?,
            address: line(MASTER_IP).and_then(|address| address.parse().ok()),
            epoch,
            candidates: read(PEERS)
                .iter()
                .flat_map(|text| text.lines())
                .filter_map(|line| line.parse().ok())
                .collect(),
        })
    }

    /// The candidates besides the master and the node `me`, for a message; none where there are none.
    pub fn others(&self, me: Option<&NodeName>) -> Option<String> {
        let is_other = |peer: &&Peer| peer.name != self.master && Some(&peer.name) != me;
        listed(self.candidates.iter().filter(is_other))
    }
}

/// A line that names no candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name, an address with its port, and a fingerprint")]
pub struct PeerError(String);

#[cfg(test)]
mod tests {
    use super::*;

    fn ssconf(names: &[&str]) -> Ssconf {
        let files = names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        Ssconf { version: DocumentVersion { term: 1, position: 2 }, files }
    }

    #[test]
    fn names_stay_in_their_directory() {
        assert_eq!(ssconf(&["master_node", "epoch"]).check(), Ok(()));
        for name in ["", "a/b", "..", ".x", "A", "version", "a b", &"x".repeat(65)] {
            assert!(matches!(ssconf(&[name]).check(), Err(SsconfError::Name(_))), "{name}");
        }
        assert_eq!(ssconf(&[]).check(), Err(SsconfError::Count(0)));
    }

    #[test]
    fn the_digest_is_of_what_is_said() {
        let one = ssconf(&["epoch"]);
        let later = Ssconf { version: DocumentVersion::default(), ..one.clone() };
        assert_eq!(one.digest(), later.digest());
        assert_ne!(one.digest(), ssconf(&["peers"]).digest());
    }

    #[test]
    fn a_peer_reads_as_it_was_written() {
        for address in ["10.0.0.1:1817", "[fd00::1]:1817"] {
            let peer = Peer {
                name: "n1.example".parse().unwrap(),
                address: address.parse().unwrap(),
                fingerprint: Fingerprint::from_bytes([7; 32]),
            };
            assert_eq!(peer.to_string().parse::<Peer>(), Ok(peer));
        }
        for line in ["", "n1", "n1 10.0.0.1 x", "n1 10.0.0.1:1 ab", "n1 10.0.0.1:1817  x"] {
            assert!(line.parse::<Peer>().is_err(), "{line}");
        }
    }
}
