//! The paths of a node that have to do with its instances.

use std::path::PathBuf;

/// QEMU's program that serves disks, of the package qemu-utils.
const STORAGE_DAEMON: &str = "/usr/bin/qemu-storage-daemon";

/// The paths of a node that have to do with its instances.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The directory of their records.
    pub records: PathBuf,
    /// The directories with descriptors of firmware; a name in the first hides it in others.
    pub firmware: Vec<PathBuf>,
    /// The program that is told of cards, where there is one.
    pub nic_hook: PathBuf,
    /// The agent's own program, which confines others ([`crate::confine`]).
    pub agent: PathBuf,
    /// Xen's program `xl`, where it is there.
    pub xl: PathBuf,
    /// The directory on tmpfs of the keys to copies of disks.
    pub keys: PathBuf,
    /// QEMU's program that serves copies of disks to other nodes, where it is there.
    pub storage_daemon: PathBuf,
}

impl Paths {
    /// Those of a node that has records alone.
    pub fn of(records: PathBuf) -> Self {
        let (nic_hook, xl) = (records.join("no-hook"), records.join("no-xl"));
        let (keys, agent) = (records.join("keys"), crate::confine::AGENT.into());
        let storage_daemon = STORAGE_DAEMON.into();
        Self { records, firmware: Vec::new(), nic_hook, agent, xl, keys, storage_daemon }
    }
}
