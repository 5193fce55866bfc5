//! Core: keys of documents that more than one place names. Keys are paths below the data directory. Each
//! other kind of object has its directory in its row of the table of objects.

use crate::job_id::JobId;
use crate::name::NodeName;

/// The last job id that was given out, as text with a newline.
pub const QUEUE_SERIAL: &str = "queue/serial";
/// Format of the queue, as text with a newline.
pub const QUEUE_VERSION: &str = "queue/version";
/// Present while no new jobs are taken.
pub const QUEUE_DRAIN: &str = "queue/drain";
/// Directory of archived jobs.
pub const ARCHIVE: &str = "queue/archive";
/// The cluster as a whole.
pub const CLUSTER: &str = "config/cluster";
/// Who is master.
pub const ROLE: &str = "config/role";
/// The key of the cluster's authority, PEM; readable by the master's user alone.
pub const AUTHORITY: &str = "config/authority";
/// Kernel parameters of all machines and of roles, once some were set.
pub const KERNEL: &str = "config/kernel";
/// Directory of nodes.
pub const NODES: &str = "config/nodes";
/// Directory of the queue's filter rules.
pub const FILTERS: &str = "config/filters";
/// Node groups by their UUIDs, once there was a change; the first one is `default` there.
pub const GROUPS: &str = "config/groups";
/// Settings of DHCP, once they were changed.
pub const DHCP: &str = "config/dhcp";
/// Rules of addresses.
pub const IPAM: &str = "ipam";
/// Directory of images, by name.
pub const IMAGES: &str = "images";
/// Directory of assets.
pub const ASSETS: &str = "assets";
/// Directory of networks.
pub const NETWORKS: &str = "networks";
/// Directory of claims on addresses, by network.
pub const CLAIMS: &str = "claims";
/// Directory of templates of what machines boot with, by kind and role.
pub const BOOT_TEMPLATES: &str = "boot-templates";
/// Directory of machines.
pub const MACHINES: &str = "machines";
/// Directory of the machines' last boots.
pub const BOOTS: &str = "boots";
/// Directory of leases, by rack.
pub const LEASES: &str = "leases";
/// Directory of indices in use, by rack.
pub const NODE_INDICES: &str = "node-indices";
/// Format of the queue that this version reads and writes (Ganeti's).
pub const QUEUE_FORMAT: &str = "1\n";

/// The keys with which the vault seals; readable by the master's user alone.
pub const VAULT: &str = "config/vault";
/// Directory of sealed keys of disks, by machine.
pub const CRYPTS: &str = "crypts";

/// Directory of how management controllers are reached, with their sealed passwords, by machine.
pub const BMCS: &str = "bmcs";

/// Directory of the machines' power cycles, with the sealed tokens of their ramdisks.
pub const POWER_CYCLES: &str = "power-cycles";

/// Directory of how Gantry logs in at switches, with the sealed secrets.
pub const SWITCH_ACCESS: &str = "switch-access";

/// Whether a document is a secret: exports leave it out, or seal it.
pub fn is_secret(key: &str) -> bool {
    let is_below =
        |directory| key.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    [CRYPTS, BMCS, POWER_CYCLES, SWITCH_ACCESS].into_iter().any(is_below)
        || key == AUTHORITY
        || key == VAULT
}

/// Key of a live job.
pub fn job(id: JobId) -> String {
    format!("queue/job-{id}")
}

/// Key of an archived job.
pub fn archived_job(id: JobId) -> String {
    format!("queue/archive/{}/job-{id}", id.archive_directory())
}

/// Key of a node.
pub fn node(name: &NodeName) -> String {
    format!("{NODES}/{name}")
}

/// Key of a rack's indices in use.
pub fn node_indices(rack: u32) -> String {
    format!("{NODE_INDICES}/{rack}")
}
