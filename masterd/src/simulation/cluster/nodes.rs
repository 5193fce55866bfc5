//! The nodes of a simulated cluster: who they are, where, and what the store says of them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

use model::cluster::Cluster;
use model::enrol::Fingerprint;
use model::node::{Member, Node, NodeRole};
use model::{NodeName, Timestamp, document};
use queue_format::{Change, Epoch, Key};
use rpc::calls::{AllowList, Caller};
use rpc::identity::{NodeIdentity, NodeKey};
use rpc::simulation::Network;
use uuid::Uuid;

use super::super::{BEGIN, ground};
use crate::process::leadership::Keys;

/// Nodes of the largest cluster.
pub(in crate::simulation) const NODES_MAX: u64 = 5;
/// Where agents listen.
pub(in crate::simulation) const AGENT_PORT: u16 = 1811;
/// Port for the questions of other members.
pub(in crate::simulation) const PEER_PORT: u16 = 1817;

/// The papers from which the identities of all nodes are made, anew for each of their processes.
struct Papers {
    authority: String,
    cluster_uuid: Uuid,
    nodes: Vec<NodePapers>,
}

struct NodePapers {
    name: NodeName,
    key: NodeKey,
    certificate: String,
    fingerprint: Fingerprint,
}

fn papers() -> &'static Papers {
    static ALL: OnceLock<Papers> = OnceLock::new();
    ALL.get_or_init(|| {
        let Keys { authority, membership, .. } = ground().keys();
        let issue = |id: u64| {
            let (name, key) = (name(id), NodeKey::generate().unwrap());
            let now = Timestamp::from_micros(BEGIN);
            let request = key.request().unwrap();
            let certificate = authority.sign(&request, &name, &[address(id)], now).unwrap();
            let made = NodeIdentity::assemble(name, &key, &certificate, authority.certificate());
            let made = made.unwrap();
            let (name, fingerprint) = (made.name().clone(), made.fingerprint());
            NodePapers { name, key, certificate, fingerprint }
        };
        let nodes = (1..=NODES_MAX).map(issue).collect();
        let authority = authority.certificate().to_owned();
        Papers { authority, cluster_uuid: membership.cluster_uuid, nodes }
    })
}

fn papers_of(id: u64) -> &'static NodePapers {
    &papers().nodes[usize::try_from(id).unwrap() - 1]
}

pub(in crate::simulation) fn cluster_uuid() -> Uuid {
    papers().cluster_uuid
}

pub(in crate::simulation) fn name(id: u64) -> NodeName {
    format!("n{id}.example").parse().unwrap()
}

pub(in crate::simulation) fn address(id: u64) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(id).unwrap()).into()
}

/// A node's identity, on its machine of this network.
pub(in crate::simulation) fn identity(id: u64, network: &Network) -> NodeIdentity {
    let NodePapers { name, key, certificate, .. } = papers_of(id);
    let made = NodeIdentity::assemble(name.clone(), key, certificate, &papers().authority);
    made.unwrap().on(network.host(address(id)))
}

/// By what a master on this node is known.
pub(in crate::simulation) fn keys(id: u64, network: &Network) -> Keys {
    let mut keys = ground().keys();
    keys.identity = Arc::new(identity(id, network));
    keys.membership.node = name(id);
    keys.membership.node_id = id;
    keys
}

/// All nodes, whom agents let in.
pub(in crate::simulation) fn allow_list() -> AllowList {
    let caller = |node: &NodePapers| {
        let NodePapers { name, fingerprint, .. } = node;
        Caller { name: name.clone(), fingerprint: *fingerprint }
    };
    AllowList { epoch: Epoch::default(), callers: papers().nodes.iter().map(caller).collect() }
}

/// The documents of a cluster whose members have these stores, from those of the ground of all
/// histories. The role moves by itself, or not.
pub(in crate::simulation) fn documents(incarnations: &[Uuid], by_itself: bool) -> Vec<Change> {
    let below = format!("{}/", document::NODES);
    let content = |wanted: &dyn Fn(&str) -> bool| {
        ground().documents.iter().find_map(|change| match change {
            Change::Put { key, content } if wanted(key.as_str()) => Some(content.clone()),
            _ => None,
        })
    };
    let put = |key: &str, content: Vec<u8>| Change::Put {
        key: Key::parse(key).unwrap(),
        content: content.into(),
    };
    let first = content(&|key| key.starts_with(&below)).unwrap();
    let cluster = content(&|key| key == document::CLUSTER).unwrap();
    let mut cluster: Cluster = serde_json::from_slice(&cluster).unwrap();
    cluster.auto_failover = by_itself;
    cluster.next_node_id = incarnations.len() as u64 + 1;
    let is_made_here = |change: &&Change| match change {
        Change::Put { key, .. } => {
            key.as_str() == document::CLUSTER || key.as_str().starts_with(&below)
        }
        _ => false,
    };
    let others = ground().documents.iter().filter(|change| !is_made_here(change));
    let mut documents: Vec<Change> = others.cloned().collect();
    documents.push(put(document::CLUSTER, serde_json::to_vec(&cluster).unwrap()));
    for (id, incarnation) in (1..).zip(incarnations) {
        let mut node: Node = serde_json::from_slice(&first).unwrap();
        (node.name, node.id, node.uuid) = (name(id), id, format!("uuid-{id}"));
        (node.primary_ip, node.secondary_ip) = (address(id), address(id));
        (node.rpc_port, node.peer_port) = (AGENT_PORT, PEER_PORT);
        node.fingerprint = papers_of(id).fingerprint;
        node.role = NodeRole::Candidate;
        node.member = Some(Member { id, incarnation: Some(*incarnation), acknowledged: None });
        node.ctime = Timestamp::from_micros(BEGIN);
        documents.push(put(&format!("{below}{}", node.name), serde_json::to_vec(&node).unwrap()));
    }
    documents
}
