//! Core: where things live: paths, ports, users, groups and modes. One table, used by every
//! program and printed in `docs/install.md`.

use std::path::{Path, PathBuf};

/// Port of the agent's node protocol (Ganeti's).
pub const RPC_PORT: u16 = 1811;
/// Port on which `masterd` talks with that of other candidates: next to those of Ganeti's daemons.
pub const PEER_PORT: u16 = 1817;
/// Port of the HTTPS front door (Ganeti's).
pub const RAPI_PORT: u16 = 5080;
/// Port of the agent's boot and REST side (sabakan's).
pub const BOOT_PORT: u16 = 10_080;
/// Further port of the boot and REST side, the one that the specification's examples use.
pub const BOOT_PORT_ALIAS: u16 = 8_888;
/// Port at which agents take requests for keys of disks, as sabakan's clients know it.
pub const KEYS_PORT: u16 = 10_443;
/// Port of DHCP servers, RFC 2131 section 4.1.
pub const DHCP_SERVER_PORT: u16 = 67;

/// Port of the master's metrics, on loopback (Ganeti's monitoring daemon has it).
pub const MASTER_METRICS_PORT: u16 = 1815;
/// Port of the agent's metrics, on loopback.
pub const NODE_METRICS_PORT: u16 = 1816;
/// Port of the front door's metrics, on loopback.
pub const RAPI_METRICS_PORT: u16 = 1819;

/// User whose files no daemon may change.
pub const ROOT_USER: &str = "root";
/// User that `masterd` runs as.
pub const MASTER_USER: &str = "gantry-master";
/// User that `noded` runs as.
pub const NODE_USER: &str = "gantry-node";
/// User that `rapi` runs as.
pub const RAPI_USER: &str = "gantry-rapi";
/// User of guests of QEMU for which no other one was named.
pub const GUEST_USER: &str = "gantry-guest";
/// Group of the daemons: may read the node's key.
pub const DAEMON_GROUP: &str = "gantry-daemons";
/// Group whose members administer the cluster.
pub const ADMIN_GROUP: &str = "gantry-admin";
/// Group whose members operate it.
pub const OPERATOR_GROUP: &str = "gantry-operator";
/// Group whose members may look at everything but secrets.
pub const READ_GROUP: &str = "gantry-read";

/// Mode of the LUXI sockets: owner and group may connect, and the groups of their access lists.
pub const SOCKET_MODE: u32 = 0o660;
/// Mode of the spool: operators add files, which get its group.
pub const SPOOL_MODE: u32 = 0o2770;
/// Mode of job files and configuration documents.
pub const DOCUMENT_MODE: u32 = 0o640;
/// Mode of directories of the store.
pub const DIRECTORY_MODE: u32 = 0o750;
/// Mode of the node's private key: both daemons of the machine use it.
pub const NODE_KEY_MODE: u32 = 0o640;
/// Mode of what is no secret.
pub const PUBLIC_MODE: u32 = 0o644;

/// All paths of one machine, below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

macro_rules! paths {
    ($($(#[doc = $doc:literal])+ $name:ident = $path:literal, $owner:ident, $mode:literal;)+) => {
        impl Layout {
            $($(#[doc = $doc])+
            pub fn $name(&self) -> PathBuf {
                self.root.join($path)
            })+

            /// Every path as (path below the root, owner, octal mode, what it is).
            pub const TABLE: &[(&'static str, &'static str, &'static str, &'static str)] =
                &[$(($path, $owner, $mode, concat!($($doc),+)),)+];
        }
    };
}

impl Layout {
    /// The paths on an installed machine that the daemon of this user works with, each with what it is.
    pub fn paths_of(user: &str) -> impl Iterator<Item = (String, &'static str)> {
        let of_door = user == RAPI_USER;
        let paths = Self::TABLE.iter().filter(move |(path, owner, ..)| {
            let identity = path.starts_with("etc/gantry/pki/node") || path.ends_with("ca.pem");
            *owner == user || identity || (of_door && path.starts_with("etc/gantry/rapi"))
        });
        paths.map(|(path, _owner, _mode, about)| (format!("/{path}"), *about))
    }
}

paths! {
    /// Settings and keys of this machine.
    etc = "etc/gantry", ROOT_USER, "0755";
    /// Certificates and keys of this machine; its group may remove them when the node leaves.
    pki = "etc/gantry/pki", MASTER_USER, "0770";
    /// Certificate of the cluster's authority.
    ca_certificate = "etc/gantry/pki/ca.pem", MASTER_USER, "0644";
    /// The authority's key of versions before replication; it is in the store now.
    ca_key = "etc/gantry/pki/ca.key", MASTER_USER, "0600";
    /// This node's certificate.
    node_certificate = "etc/gantry/pki/node.pem", MASTER_USER, "0644";
    /// This node's private key.
    node_key = "etc/gantry/pki/node.key", MASTER_USER, "0640";
    /// Key that is to take the place of this node's, while its certificate is renewed.
    renewed_key = "etc/gantry/pki/renewed.key", NODE_USER, "0640";
    /// Certificate of that key: from when it is there, both count.
    renewed_certificate = "etc/gantry/pki/renewed.pem", NODE_USER, "0644";
    /// Certificate that the agent shows machines: that of its node with the addresses that it serves.
    machine_certificate = "etc/gantry/pki/machines.pem", NODE_USER, "0644";
    /// Identity of this machine: its node, its cluster and its allow-list.
    membership = "etc/gantry/pki/membership.json", MASTER_USER, "0644";
    /// The store: queue, configuration, machines (keys are paths below it).
    data = "var/lib/gantry", MASTER_USER, "0751";
    /// State of the agent: leases, rack documents, events for the master.
    node_data = "var/lib/gantry/node", NODE_USER, "0751";
    /// Link to the newest files about the master, for this machine's tools.
    ssconf = "var/lib/gantry/node/ssconf", NODE_USER, "0755";
    /// Files by their SHA-256 digests, for machines that boot.
    blobs = "var/lib/gantry/node/blobs", NODE_USER, "0755";
    /// The network to which the host rolls back if its change is not committed.
    host_network = "var/lib/gantry/node/host-network", NODE_USER, "0755";
    /// Records of the runs of instances here.
    instances = "var/lib/gantry/node/instances", NODE_USER, "0700";
    /// The directory below which files of disks may lie, where no list names others.
    file_storage = "srv/gantry", NODE_USER, "0750";
    /// Exports of instances, a directory each.
    exports = "srv/gantry/export", NODE_USER, "0700";
    /// Directories in which files of disks may lie, one in a line; the operator makes it.
    file_storage_paths = "etc/gantry/file-storage.paths", ROOT_USER, "0644";
    /// A program that is told of each card of a guest; the operator makes it.
    nic_hook = "etc/gantry/nic-hook", ROOT_USER, "0755";
    /// Uploads that are not blobs yet, by their digests.
    spool = "var/spool/gantry", MASTER_USER, "2770";
    /// Sockets and PID files.
    run = "run/gantry", MASTER_USER, "0755";
    /// The master's LUXI socket.
    luxi_socket = "run/gantry/luxi.sock", MASTER_USER, "0660";
    /// The master's LUXI socket for queries.
    query_socket = "run/gantry/query.sock", MASTER_USER, "0660";
    /// Lock of `masterd`: one for each machine.
    master_lock = "run/gantry/masterd.lock", MASTER_USER, "0644";
    /// Keys by which nodes reach copies of disks on each other, on tmpfs alone.
    replica_keys = "run/gantry/replicas", NODE_USER, "0700";
    /// Log files.
    log = "var/log/gantry", ROOT_USER, "0775";
    /// Log of `masterd`.
    master_log = "var/log/gantry/master-daemon.log", MASTER_USER, "0640";
    /// Changes that this machine's `masterd` made and that are no jobs.
    changes_log = "var/log/gantry/audit-changes.jsonl", MASTER_USER, "0640";
    /// Requests that were refused for want of rights, as far as this machine's `masterd` knows.
    refusals_log = "var/log/gantry/audit-refusals.jsonl", MASTER_USER, "0640";
    /// Log of `noded`.
    node_log = "var/log/gantry/node-daemon.log", NODE_USER, "0640";
    /// Outputs of scripts of operating systems, a file for each run.
    os_logs = "var/log/gantry/os", NODE_USER, "0750";
    /// Log of `rapi`.
    rapi_log = "var/log/gantry/rapi-daemon.log", RAPI_USER, "0640";
    /// Requests that `rapi` answered, in the common log format.
    rapi_access_log = "var/log/gantry/rapi-access.log", RAPI_USER, "0640";
    /// Programs by which agents set ports of switches; the operator puts them there.
    switch_programs = "etc/gantry/switch-programs", ROOT_USER, "0755";
    /// Programs that choose the nodes of instances; the operator puts them there.
    allocators = "etc/gantry/iallocators", ROOT_USER, "0755";
    /// Users of `rapi` with their passwords and roles; the operator makes it.
    rapi_users = "etc/gantry/rapi.users", ROOT_USER, "0640";
    /// Certificate and key of `rapi`, if not those of the node; the operator makes it.
    rapi_certificate = "etc/gantry/rapi.pem", ROOT_USER, "0640";
}

impl Layout {
    /// The layout below `root`; `/` on an installed machine.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directories with definitions of operating systems; the first that has a name counts (the
    /// packages of Ganeti's definitions for Debian use them).
    pub fn os_directories(&self) -> Vec<PathBuf> {
        let places = ["srv", "usr/local/lib", "usr/lib", "usr/share"];
        places.map(|place| self.root.join(place).join("ganeti/os")).to_vec()
    }

    /// The directories with descriptors of UEFI firmware for guests, those of the operator first (QEMU's
    /// `docs/interop/firmware.json`).
    pub fn firmware_directories(&self) -> Vec<PathBuf> {
        ["etc", "usr/share"].map(|place| self.root.join(place).join("qemu/firmware")).to_vec()
    }

    /// Xen's program.
    pub fn xl(&self) -> PathBuf {
        self.root.join("usr/sbin/xl")
    }

    /// The root of the environment, where set to nothing is as not set, or that of an installed machine.
    pub fn default_root() -> PathBuf {
        let set = std::env::var_os("GANTRY_ROOT").filter(|root| !root.is_empty());
        set.map_or_else(|| PathBuf::from("/"), PathBuf::from)
    }

    /// Whether this is the layout of an installed machine, of which there is one.
    pub fn is_installed(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The root itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::new("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_moves_with_the_root() {
        let layout = Layout::new("/tmp/x");
        assert_eq!(layout.luxi_socket(), Path::new("/tmp/x/run/gantry/luxi.sock"));
        assert_eq!(Layout::default().data(), Path::new("/var/lib/gantry"));
        assert!(Layout::TABLE.iter().all(|(path, ..)| !path.starts_with('/')));
    }
}
