//! An agent of a rack whose master is away: it was enrolled, got its document, and serves.

use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command};
use std::time::Duration;

use model::layout::Layout;
use model::power_cycle::{ExpectedRamdisk, Ramdisk, RamdiskToken};
use model::rack::{BootChoice, DocumentVersion, RackDocument, RackMachine};
use model::{MacAddress, NodeName, Timestamp, Uuid};
use queue_format::Epoch;
use rpc::calls::{AllowList, Caller, Exchange, Membership, RackPush};
use rpc::identity::{Authority, NodeIdentity};
use rpc::{Client, Meta, NodeTarget};
use serde_json::Value;
use stdx::{Clock, Tasks};
use tests::place;
use tests::run::wait_for;

/// Only a test that fails waits for so long.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// The token of the ramdisk.
pub(super) const TOKEN: &str = "b25lLXRva2VuLWZvci10aGUtdGVzdHMtb2YtcmFtZGlz";
const RPC_PORT: u16 = 1811;
const BOOT_PORT: u16 = 10_080;
const EPOCH: Epoch = Epoch { term: 1, node: 1 };

pub(super) struct Scene {
    pub(super) dir: tempfile::TempDir,
    pub(super) address: IpAddr,
    runtime: tokio::runtime::Runtime,
    node: NodeIdentity,
    client: Client,
    agent: Option<Child>,
    mac: MacAddress,
}

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_micros(Clock::system().now_micros())
}

impl Scene {
    /// An enrolled agent that runs, in whose rack a machine has this card.
    pub(super) fn new(mac: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = IpAddr::from(place::address());
        let authority = Authority::create(&name("c1"), now()).unwrap();
        let master = authority.issue(&name("n1"), &[address], now()).unwrap();
        let node = authority.issue(&name("n2"), &[address], now()).unwrap();
        let caller = Caller { name: name("n1"), fingerprint: master.fingerprint() };
        let membership = Membership {
            cluster_uuid: Uuid::from_u128(7),
            cluster_name: name("c1"),
            node: name("n2"),
            node_id: 2,
            allow: AllowList { epoch: EPOCH, callers: vec![caller] },
            epoch: EPOCH,
            enrolled: now(),
        };
        node.store(&Layout::new(dir.path()), &membership).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = {
            let _inside = runtime.enter();
            Client::new(master.into(), Tasks::new())
        };
        let mut scene =
            Self { dir, address, runtime, node, client, agent: None, mac: mac.parse().unwrap() };
        scene.start();
        scene
    }

    /// The URL that machines ask.
    pub(super) fn url(&self) -> String {
        format!("http://{}", SocketAddr::new(self.address, BOOT_PORT))
    }

    pub(super) fn start(&mut self) {
        let mut command: Command = place::programs().command("noded");
        let address = self.address.to_string();
        command.arg("--root").arg(self.dir.path()).args(["--rpc-address", &address]);
        command.args(["--boot-address", &address, "--boot-alias-port", "0"]);
        command.args(["--dhcp-address", &address, "--dhcp-port", "10067"]);
        command.args(["--rpc-port", &RPC_PORT.to_string(), "--boot-port", &BOOT_PORT.to_string()]);
        self.agent = Some(command.spawn().unwrap());
        let boot = SocketAddr::new(self.address, BOOT_PORT);
        wait_for("the boot side", PATIENCE, || std::net::TcpStream::connect(boot).ok());
    }

    /// Ends the agent as a crash would.
    pub(super) fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
    }

    fn target(&self) -> NodeTarget {
        NodeTarget {
            name: name("n2"),
            address: SocketAddr::new(self.address, RPC_PORT),
            fingerprint: Some(self.node.fingerprint()),
            renewing: None,
            offline: false,
        }
    }

    /// Gives the agent a document of this version, in whose power cycle the machine S1 expects a ramdisk.
    pub(super) fn push(&self, version: u64, is_expected: bool) {
        let token = RamdiskToken::new(TOKEN.to_owned());
        let ramdisk =
            ExpectedRamdisk { token, boots: true, enrols: None, heard: Ramdisk::default() };
        let machine = RackMachine {
            serial: "S1".parse().unwrap(),
            role: "worker".to_owned(),
            index: 4,
            mac: vec![self.mac],
            uuid: None,
            addresses: Vec::new(),
            boot: BootChoice::Local,
            registered: None,
            cycle: version,
            ramdisk: is_expected.then_some(ramdisk),
            documents: Vec::new(),
        };
        let document = RackDocument {
            cluster_name: name("c1"),
            rack: 3,
            version: DocumentVersion { term: 1, position: version },
            ranges: Vec::new(),
            lease_seconds: 3_600,
            parts: Vec::new(),
            agents: Vec::new(),
            dhcp: model::dhcp::RackDhcp::default(),
            assets: Vec::new(),
            machines: vec![machine],
        };
        let push = RackPush { base: None, document };
        self.runtime.block_on(self.client.call(&self.target(), push, meta())).unwrap();
    }

    /// The events that the agent would tell the master.
    pub(super) fn seen(&self) -> Vec<Value> {
        let call = Exchange { incarnation: None, acknowledged: 0, wait_ms: 0, sights: None };
        let told = self.runtime.block_on(self.client.call(&self.target(), call, meta())).unwrap();
        let events = told.events.iter();
        events.map(|event| serde_json::to_value(&event.observation).unwrap()).collect()
    }
}

fn meta() -> Meta {
    Meta { epoch: EPOCH, job: None }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.kill();
    }
}
