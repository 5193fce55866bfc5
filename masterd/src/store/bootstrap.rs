//! Begins a cluster on this machine: the one change that is no job, because there is no queue yet.

use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use model::cluster::{
    Cluster, MAC_PREFIX, MAX_RUNNING_JOBS, MAX_TRACKED_JOBS, MasterAddressError, Role,
    master_address,
};
use model::enrol::Fingerprint;
use model::layout::{self, Layout};
use model::node::{Node, NodeRole};
use model::vault::VaultKeys;
use model::{NodeName, Secret, Timestamp, document};
use queue_format::{Callbacks, Change, Epoch, Key, Store, StoreOptions};
use rpc::calls::{AllowList, Caller, Membership};
use rpc::identity::{Authority, IdentityError, load_membership};
use uuid::Uuid;

use crate::config::vault::{self, VaultError};

/// Id of the first node; zero is nobody.
const FIRST_NODE_ID: u64 = 1;

/// An operator's parameters for a new cluster.
#[derive(Debug, Clone)]
pub struct Init {
    pub cluster: NodeName,
    /// Name of its first node, this machine.
    pub node: NodeName,
    /// The address on which the agent of this node listens.
    pub primary_ip: IpAddr,
    /// Port of the agent of this node.
    pub rpc_port: u16,
    /// Port where `masterd` of this node is asked by those of other candidates.
    pub peer_port: u16,
    /// Rack that the agent of this node serves.
    pub rack: Option<u32>,
    /// The address that moves with the master, if there is one.
    pub master_ip: Option<IpAddr>,
    /// Interface that carries it.
    pub master_netdev: Option<String>,
    /// Its prefix length.
    pub master_netmask: Option<u8>,
    /// How many candidates the cluster tries to have.
    pub candidate_pool_size: u32,
    /// Size of the journal's segments, if not the usual one.
    pub segment_bytes: Option<u64>,
}

/// A cluster that was not begun.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The vault gets no key.
    #[error("cannot make the first key of the vault")]
    Vault(#[from] VaultError),
    /// There is one already.
    #[error("`{0}` exists: this machine belongs to a cluster already; start `masterd`")]
    Exists(PathBuf),
    /// The machine is a node of another cluster.
    #[error(
        "`{path}` exists: this machine is the node {node} of the cluster {cluster}; to begin \
         another cluster here, end its agent, `gnt node remove` it there, and remove `{path}`"
    )]
    Member {
        /// The file that says so.
        path: PathBuf,
        /// The node's name.
        node: NodeName,
        /// The cluster's name.
        cluster: NodeName,
    },
    /// The master's address can be none.
    #[error("the cluster is not begun: its master's address is wrong")]
    MasterAddress(#[from] MasterAddressError),
    /// A directory cannot be made.
    #[error("cannot make the directory `{path}`")]
    Directory {
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// A file cannot be given to its user.
    #[error("the cluster is begun, but a file has the wrong owner")]
    Owner(#[from] stdx::owner::OwnerError),
    /// No certificate could be made or stored.
    #[error("cannot make the cluster's certificates")]
    Identity(#[from] IdentityError),
    /// The store cannot be opened.
    #[error(
        "cannot make the store; its journal takes {mib} MiB, and less with `--journal-segment MIB`"
    )]
    Open {
        /// Size of the journal, in MiB.
        mib: u64,
        /// What went wrong.
        #[source]
        error: queue_format::OpenError,
    },
    /// The store cannot be started.
    #[error("cannot start the store")]
    Start(#[from] queue_format::StartError),
    /// The store did not take the first documents.
    #[error("the store refused the first documents: {0}")]
    Refused(String),
    /// The store cannot be closed.
    #[error("cannot close the store")]
    Close(#[from] queue_format::CloseError),
}

/// Begins a cluster.
///
/// # Errors
/// There is one already, or something cannot be written. Then it can be tried again.
pub fn init(layout: &Layout, wanted: &Init, now: Timestamp) -> Result<(), InitError> {
    let netdev = wanted.master_netdev.as_deref();
    master_address::of(wanted.master_ip, netdev, wanted.master_netmask)?;
    let path = layout.data().join(document::CLUSTER);
    if path.exists() {
        return Err(InitError::Exists(path));
    }
    match load_membership(layout) {
        Err(IdentityError::NotEnrolled { .. }) => {}
        Err(error) => return Err(error.into()),
        Ok(Membership { node, cluster_name, .. }) => {
            let path = layout.membership();
            return Err(InitError::Member { path, node, cluster: cluster_name });
        }
    }
    let begun = begin(layout, wanted, now);
    if begun.is_err() {
        undo(layout);
    }
    begun
}

/// Removes the identity of a cluster that was not begun, so that it can be tried again.
fn undo(layout: &Layout) {
    if let Err(why) = rpc::identity::forget(layout) {
        let why = stdx::daemon::chain(&why);
        tracing::warn!(why, pki = %layout.pki().display(), "remove this before you try again");
    }
}

fn begin(layout: &Layout, wanted: &Init, now: Timestamp) -> Result<(), InitError> {
    make_directories(layout)?;
    let uuid = Uuid::new_v4();
    let authority = Authority::create(&wanted.cluster, now)?;
    let identity = authority.issue(&wanted.node, &[wanted.primary_ip], now)?;
    let epoch = Epoch { term: 1, node: FIRST_NODE_ID };
    let fingerprint = identity.fingerprint();
    let caller = Caller { name: wanted.node.clone(), fingerprint };
    identity.store(
        layout,
        &Membership {
            cluster_uuid: uuid,
            cluster_name: wanted.cluster.clone(),
            node: wanted.node.clone(),
            node_id: FIRST_NODE_ID,
            epoch,
            allow: AllowList { epoch, callers: vec![caller] },
            enrolled: now,
        },
    )?;
    store_documents(layout, wanted, uuid, (fingerprint, authority.key()), now)?;
    give_to_users(layout)
}

pub(crate) fn make_directories(layout: &Layout) -> Result<(), InitError> {
    for (path, mode) in [
        (layout.etc(), 0o755),
        (layout.pki(), 0o770),
        (layout.data(), 0o751),
        (layout.node_data(), 0o751),
        (layout.run(), 0o755),
        (layout.log(), 0o775),
    ] {
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&path);
        made.map_err(|error| InitError::Directory { path, error })?;
    }
    Ok(())
}

fn store_documents(
    layout: &Layout,
    wanted: &Init,
    uuid: Uuid,
    (fingerprint, authority): (Fingerprint, Secret<String>),
    now: Timestamp,
) -> Result<(), InitError> {
    let cluster = Cluster {
        cluster_name: wanted.cluster.clone(),
        uuid: uuid.to_string(),
        serial_no: 1,
        ctime: now,
        mtime: now,
        candidate_pool_size: wanted.candidate_pool_size,
        max_running_jobs: MAX_RUNNING_JOBS,
        max_tracked_jobs: MAX_TRACKED_JOBS,
        mac_prefix: MAC_PREFIX.to_owned(),
        master_ip: wanted.master_ip,
        master_netdev: wanted.master_netdev.clone(),
        master_netmask: wanted.master_netmask,
        auto_failover: false,
        mend_network: false,
        silence_deadline: model::cluster::SILENCE_DEADLINE,
        ramdisk_image: None,
        tags: Vec::new(),
        watcher_pause: None,
        first_term: 0,
        overridden: None,
        next_node_id: FIRST_NODE_ID + 1,
    };
    let node = first_node(wanted, fingerprint, now);
    let role = Role { master: wanted.node.clone(), term: 1, node: FIRST_NODE_ID, since: now };
    let changes = vec![
        put(document::CLUSTER, json(&cluster)),
        put(document::ROLE, json(&role)),
        put(document::AUTHORITY, authority.expose().clone().into()),
        put(document::VAULT, json(&VaultKeys::first(vault::new_key()?))),
        put(&document::node(&node.name), json(&node)),
        put(document::QUEUE_VERSION, Bytes::from_static(document::QUEUE_FORMAT.as_bytes())),
        put(document::QUEUE_SERIAL, Bytes::from_static(b"0\n")),
    ];
    let store = open_store(&layout.data(), wanted.segment_bytes)?;
    let epoch = Epoch { term: 1, node: FIRST_NODE_ID };
    let committer = store.start(epoch, Callbacks::new(|_: Vec<()>, _| {}))?;
    let taken = committer.submit(changes, ());
    taken.map_err(|refused| InitError::Refused(refused.reason.to_string()))?;
    Ok(committer.close()?)
}

/// Opens the store of a machine, or makes it.
pub(crate) fn open_store(data: &Path, segment_bytes: Option<u64>) -> Result<Store, InitError> {
    let mut options = StoreOptions::default();
    options.segment_bytes = segment_bytes.unwrap_or(options.segment_bytes);
    let segments = u64::try_from(options.segments).unwrap_or(u64::MAX);
    let mib = options.segment_bytes.saturating_mul(segments) >> 20;
    Store::open(data, options).map_err(|error| InitError::Open { mib, error })
}

fn first_node(wanted: &Init, fingerprint: Fingerprint, now: Timestamp) -> Node {
    Node {
        name: wanted.node.clone(),
        uuid: Uuid::new_v4().to_string(),
        id: FIRST_NODE_ID,
        role: NodeRole::Candidate,
        primary_ip: wanted.primary_ip,
        rpc_port: wanted.rpc_port,
        peer_port: wanted.peer_port,
        member: None,
        secondary_ip: wanted.primary_ip,
        fingerprint,
        renewing: None,
        rack: wanted.rack,
        group: None,
        master_capable: true,
        witness: false,
        machine: None,
        vm_capable: true,
        powered: true,
        serial_no: 1,
        ctime: now,
        mtime: now,
        tags: Vec::new(),
    }
}

fn put(key: &str, content: Bytes) -> Change {
    let key = Key::parse(key).expect("keys of documents are good keys");
    Change::Put { key, content }
}

fn json(value: &impl serde::Serialize) -> Bytes {
    let mut text = serde_json::to_vec(value).expect("documents have plain keys");
    text.push(b'\n');
    text.into()
}

/// On an installed machine the daemons' users get what is theirs.
pub(crate) fn give_to_users(layout: &Layout) -> Result<(), InitError> {
    if layout.root() != Path::new("/") {
        return Ok(());
    }
    let node_data = layout.node_data();
    for (path, user, group) in [
        (layout.pki(), layout::MASTER_USER, layout::DAEMON_GROUP),
        (layout.data(), layout::MASTER_USER, layout::DAEMON_GROUP),
        (layout.run(), layout::MASTER_USER, layout::ADMIN_GROUP),
    ] {
        stdx::owner::give(&path, user, group, Some(&node_data))?;
    }
    stdx::owner::give(&node_data, layout::NODE_USER, layout::DAEMON_GROUP, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::first_node;

    #[test]
    fn a_cluster_that_could_not_be_begun_can_be_begun_later() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        // A file that is no directory stands in the way of the journal.
        std::fs::create_dir_all(layout.data()).unwrap();
        let obstacle = layout.data().join("journal");
        stdx::atomic::write(&obstacle, b"", 0o600).unwrap();
        let told = init(&layout, &first_node(), Timestamp::from_micros(1_700_000_000_000_000))
            .unwrap_err()
            .to_string();
        assert!(told.contains("its journal takes 4 MiB"), "{told}");
        std::fs::remove_file(&obstacle).unwrap();
        init(&layout, &first_node(), Timestamp::from_micros(1_700_000_000_000_000)).unwrap();
        let twice = init(&layout, &first_node(), Timestamp::from_micros(1_700_000_000_000_000))
            .unwrap_err();
        assert!(matches!(twice, InitError::Exists(_)), "{twice}");
    }

    #[test]
    fn a_node_of_a_cluster_begins_no_other() {
        let (here, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (member, layout) = (Layout::new(here.path()), Layout::new(root.path()));
        init(&layout, &first_node(), Timestamp::from_micros(1_700_000_000_000_000)).unwrap();
        std::fs::create_dir_all(member.pki()).unwrap();
        let before = std::fs::read(layout.membership()).unwrap();
        stdx::atomic::write(&member.membership(), &before, 0o600).unwrap();
        let told = init(&member, &first_node(), Timestamp::from_micros(1_700_000_000_000_000))
            .unwrap_err()
            .to_string();
        assert!(told.contains("the node n1.example of the cluster demo.example"), "{told}");
        assert_eq!(std::fs::read(member.membership()).unwrap(), before);
    }
}
