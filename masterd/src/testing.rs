//! Parts that several tests need.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Answer, Link, PeerError, Peers};
use model::blob::Blob;
use model::cluster::{CANDIDATE_POOL_SIZE, Cluster, Role};
use model::enrol::Fingerprint;
use model::image::{Image, ImageFiles};
use model::instance::Instance;
use model::instance::launch::Sight;
use model::instance::state::Seen;
use model::ipam::IpamConfig;
use model::layout::PEER_PORT;
use model::machine::MachineSpec;
use model::network::{Claim, ClaimState, Network, Subnet};
use model::node::{Node, NodeRole};
use model::switch::SwitchPort;
use model::token::{RANDOM_BYTES, Token, TokenText};
use model::{NodeName, Timestamp};
use queue_format::Epoch;
use rpc::calls::{AllowList, Caller, NodeFacts};
use rpc::identity::{Authority, NodeIdentity};
use rpc::peer::{PeerLimits, PeerServer};
use rpc::tls::AllowedCallers;
use stdx::Clock;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::config::{Config, ConfigChange};
use crate::role::local_member::{LocalMember, RoleCommand};
use crate::store::bootstrap::Init;
use membership::peers::PeerBook;

/// The moment at which everything here happened.
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The rules of sabakan's specification.
pub(crate) fn ipam() -> IpamConfig {
    serde_json::from_str(
        r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6,
            "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
            "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20}"#,
    )
    .unwrap()
}

/// An image whose files are nowhere.
pub(crate) fn image(id: &str) -> Image {
    let uki = Blob { sha256: "ee".repeat(32).parse().unwrap(), size: 1 };
    let (id, files) = (id.parse().unwrap(), ImageFiles::Uki(uki));
    Image { id, files, parameters: Vec::new(), ctime: NOW }
}

/// A network of 172.16.`number`.0/24.
pub(crate) fn network(name: &str, number: u8) -> Network {
    let prefix = ipnet::Ipv4Net::new_assert([172, 16, number, 0].into(), 24);
    let mut subnet = Subnet::new(prefix.into(), None);
    subnet.pools = vec![subnet.hosts()];
    let mut network: Network = serde_json::from_value(serde_json::json!({
        "name": name, "uuid": Uuid::from_u128(number.into()), "serial_no": 1,
        "ctime": NOW, "mtime": NOW, "subnets": [],
    }))
    .unwrap();
    network.subnets = vec![subnet];
    network
}

pub(crate) fn claim(network: &str, owner: &str, address: [u8; 4]) -> Claim {
    let (network, owner) = (network.parse().unwrap(), owner.parse().unwrap());
    let state = ClaimState::Bound(vec![address.into()]);
    Claim { network, owner, wanted: None, state, ctime: NOW }
}

/// A token that never ends, of this byte.
pub(crate) fn token(name: &str, byte: u8) -> Token {
    Token {
        name: name.parse().unwrap(),
        sha256: TokenText::of_random([byte; RANDOM_BYTES]).digest(),
        role: model::access::Role::Read,
        expires: None,
        revoked: None,
        ctime: NOW,
    }
}

/// A node; the first one made is the master.
pub(crate) fn node(name: &str, role: NodeRole) -> Node {
    let name: NodeName = name.parse().unwrap();
    let number = name.as_str().bytes().rfind(u8::is_ascii_digit).unwrap_or(b'0') - b'0';
    Node {
        uuid: format!("uuid-{number}"),
        id: u64::from(number),
        role,
        primary_ip: [10, 0, 0, number].into(),
        rpc_port: 1811,
        peer_port: PEER_PORT,
        member: None,
        secondary_ip: [10, 0, 0, number].into(),
        fingerprint: Fingerprint::from_bytes([number; 32]),
        renewing: None,
        rack: None,
        group: None,
        master_capable: true,
        witness: false,
        machine: None,
        vm_capable: true,
        powered: true,
        serial_no: 1,
        ctime: NOW,
        mtime: NOW,
        tags: Vec::new(),
        name,
    }
}

/// An instance by the fake hypervisor, without disks and NICs, which runs on a node.
pub(crate) fn instance(name: &str, node: &str) -> Instance {
    let number = name.bytes().fold(0_u128, |sum, byte| sum * 256 + u128::from(byte));
    let node: NodeName = node.parse().unwrap();
    serde_json::from_value(serde_json::json!({
        "name": name, "uuid": Uuid::from_u128(number), "serial_no": 1, "ctime": NOW, "mtime": NOW,
        "primary_node": node, "hypervisor": "fake", "disk_template": "diskless",
        "admin_state": "up", "run": {"number": 1, "node": node, "since": NOW}, "runs": 1,
    }))
    .unwrap()
}

/// The word of a node on an instance that runs there.
pub(crate) fn sight(instance: &Instance) -> Sight {
    Sight {
        uuid: instance.uuid,
        name: instance.name.clone(),
        run: instance.runs,
        seen: Seen::Running,
        since: NOW,
        memory: 128,
        vcpus: 1,
        exit: None,
        guest: None,
        copies: Vec::new(),
    }
}

/// A machine with 8 processors, 64 GiB of memory and 1 TiB of disk.
pub(crate) fn facts() -> NodeFacts {
    NodeFacts {
        hostname: "host".to_owned(),
        kernel: "6.1".to_owned(),
        architecture: "x86_64".to_owned(),
        boot_id: "boot".to_owned(),
        uptime_seconds: 1,
        cpus: 8,
        memory_total_mib: 64 << 10,
        memory_free_mib: 60 << 10,
        disk_total_mib: 1 << 20,
        disk_free_mib: 1 << 19,
        exports: Vec::new(),
        systems: Vec::new(),
    }
}

/// A cluster with the rules of sabakan's specification, the master n1 and these further nodes.
pub(crate) fn config(further: &[Node]) -> Config {
    let cluster: Cluster = serde_json::from_value(serde_json::json!({
        "cluster_name": "demo.example", "uuid": "c-1", "serial_no": 1, "ctime": [1, 0],
        "mtime": [1, 0], "candidate_pool_size": 10, "max_running_jobs": 20,
        "max_tracked_jobs": 25, "mac_prefix": "aa:00:00", "master_netdev": null,
        "master_netmask": null, "tags": [], "next_node_id": 10,
    }))
    .unwrap();
    let master = node("n1.example", NodeRole::Candidate);
    let role = Role { master: master.name.clone(), term: 2, node: 1, since: NOW };
    let mut config = Config::new(cluster, role);
    let nodes = std::iter::once(master).chain(further.iter().cloned()).map(ConfigChange::Node);
    config.apply(nodes.chain([ConfigChange::Ipam(ipam())]));
    config
}

/// A machine to register.
pub(crate) fn spec(serial: &str, rack: u32, role: &str) -> MachineSpec {
    serde_json::from_value(serde_json::json!({"serial": serial, "rack": rack, "role": role}))
        .unwrap()
}

/// The beginning of a cluster whose first node is n1.
pub(crate) fn first_node() -> Init {
    Init {
        cluster: "demo.example".parse().unwrap(),
        node: "n1.example".parse().unwrap(),
        primary_ip: [127, 0, 0, 1].into(),
        rpc_port: 1811,
        peer_port: PEER_PORT,
        rack: None,
        master_ip: None,
        master_netdev: None,
        master_netmask: None,
        candidate_pool_size: CANDIDATE_POOL_SIZE,
        segment_bytes: Some(1 << 20),
    }
}

/// A network in which nobody answers.
#[derive(Debug)]
pub(crate) struct Nobody;

impl Peers for Nobody {
    fn link(&self, _member: u64, _node: &str) -> Box<dyn Link> {
        Box::new(Self)
    }
}

impl Link for Nobody {
    fn ask(&mut self, _kind: u8, _body: Bytes, _limit: Duration) -> Answer<'_> {
        let reason = "nobody is there".to_owned();
        Box::pin(async { Err(PeerError { reason, soon: false }) })
    }
}

/// The cluster of [`AskedHouse`].
const CLUSTER: Uuid = Uuid::from_u128(7);

/// Node n1, which asks, and the house of n2, which answers behind its door.
pub(crate) struct AskedHouse {
    /// The commands for n2.
    pub(crate) commands: mpsc::Receiver<RoleCommand>,
    /// By which n1 asks.
    pub(crate) book: PeerBook,
    /// n2, as the configuration has it.
    pub(crate) asked: Node,
    /// Its door, with the house behind it.
    pub(crate) server: PeerServer<LocalMember>,
}

impl AskedHouse {
    /// The house has its data in `dir`, nobody lives there, and it lets n1 in, as it was told under
    /// `epoch`.
    pub(crate) async fn start(dir: &Path, epoch: Epoch) -> Self {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let now = Timestamp::from_micros(Clock::system().now_micros());
        let authority = Authority::create(&"c1".parse().unwrap(), now).unwrap();
        let identity = |name: &str| -> Arc<NodeIdentity> {
            Arc::new(authority.issue(&name.parse().unwrap(), &[here], now).unwrap())
        };
        let (asks, answers) = (identity("n1.example"), identity("n2.example"));
        let caller = Caller { name: asks.name().clone(), fingerprint: asks.fingerprint() };
        let list = AllowList { epoch, callers: vec![caller] };
        let book = PeerBook::new(Arc::clone(&answers), CLUSTER);
        let (local, commands) =
            LocalMember::new((answers.name().clone(), CLUSTER), book, dir.to_owned());
        let listener = TcpListener::bind((here, 0)).await.unwrap();
        let (allowed, limits) = (AllowedCallers::new(list), PeerLimits::default());
        let server = PeerServer::start(listener, &answers, allowed, local, limits).unwrap();
        let mut asked = node("n2.example", NodeRole::Candidate);
        asked.primary_ip = here;
        asked.peer_port = server.address().port();
        asked.fingerprint = answers.fingerprint();
        Self { commands, book: PeerBook::new(asks, CLUSTER), asked, server }
    }
}

/// A switch with these ports, which a program reaches.
pub(crate) fn switch(name: &str, ports: &[&str]) -> model::switch::Switch {
    let ports: serde_json::Map<String, serde_json::Value> =
        ports.iter().map(|port| ((*port).to_owned(), serde_json::json!({"name": port}))).collect();
    let switch = serde_json::json!({"name": name, "uuid": Uuid::nil(), "serial_no": 1, "ctime": NOW,
        "mtime": NOW, "url": format!("command:{name}"), "ports": ports});
    serde_json::from_value(switch).expect("it is one")
}

/// A tenant with these machines.
pub(crate) fn tenant(name: &str, machines: &[&str]) -> model::tenant::Tenant {
    let tenant = serde_json::json!({"name": name, "uuid": Uuid::nil(), "serial_no": 1, "ctime": NOW,
        "mtime": NOW, "machines": machines});
    serde_json::from_value(tenant).expect("it is one")
}

/// A configuration of ports in one VLAN.
pub(crate) fn port_configuration(name: &str, vlan: u16) -> model::switch::PortConfiguration {
    let configuration = serde_json::json!({"name": name, "ctime": NOW, "untagged": vlan});
    serde_json::from_value(configuration).expect("it is one")
}

/// Tenants `acme`, of alice, with the port `tor/p1`, and `other`, of bob, with `tor/p2`; nobody has `tor/p3`.
pub(crate) fn with_tenants() -> Config {
    let mut config = config(&[]);
    let switch = switch("tor", &["p1", "p2", "p3"]);
    for (number, key) in switch.keys().into_iter().enumerate() {
        let serves = serde_json::json!({"serial": format!("SN{}", number + 1),
            "mac": format!("52:54:00:00:00:0{number}")});
        let serves = serde_json::from_value(serves).expect("it is one");
        let port = SwitchPort { serves, ..SwitchPort::new(key, NOW) };
        config.apply([ConfigChange::SwitchPort(port)]);
    }
    let tenant = |name: &str, member: &str, machine: &str| {
        let members = [member.to_owned()].into();
        ConfigChange::Tenant(model::tenant::Tenant { members, ..tenant(name, &[machine]) })
    };
    config.apply([
        ConfigChange::Switch(switch),
        tenant("acme", "alice", "SN1"),
        tenant("other", "bob", "SN2"),
    ]);
    config
}
