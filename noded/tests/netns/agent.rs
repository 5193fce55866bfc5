//! The agent as a whole, by busybox's `udhcpc` and a plain HTTP client: lease, boot script, and the
//! events that tell of them.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use model::MacAddress;
use model::layout::Layout;
use model::rack::{LeaseState, Observation};
use netboot::leasing::Leasing;
use noded::daemon::{Daemon, Settings};
use rpc::calls::{AllowList, Caller, Exchange, Membership, RackPush};
use rpc::identity::Authority;
use rpc::{Call, Client, Meta, NodeTarget, RpcError};
use stdx::{Clock, Tasks};

use crate::wire::{FIRST, MAC, SERVER, Wire};
use netboot::testing::{SMALL, epoch, membership, name, now, rack};

/// For anything that should happen at once; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The master's side of the test, and the agent.
pub(crate) struct Rig {
    pub(crate) daemon: Daemon,
    client: Client,
    target: NodeTarget,
}

impl Rig {
    pub(crate) async fn start(root: &std::path::Path) -> Self {
        let authority = Authority::create(&name("cluster.example.com"), now()).unwrap();
        let master = authority.issue(&name("n1"), &[], now()).unwrap();
        let node = authority.issue(&name("n2"), &[], now()).unwrap();
        let caller = Caller { name: master.name().clone(), fingerprint: master.fingerprint() };
        let allow = AllowList { epoch: epoch(1), callers: vec![caller] };
        let membership = Membership { allow, ..membership("n2") };
        node.store(&Layout::new(root), &membership).unwrap();
        let boot = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 10_080);
        let settings = Settings {
            layout: Layout::new(root),
            rpc: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            boot,
            boot_alias: None,
            keys: None,
            metrics: stdx::metrics::Endpoint::Nowhere,
            versions: rpc::wire::Versions::OURS,
            leasing: Leasing { port: 67, relays_only: Vec::new(), boot, counters: Arc::default() },
            powercycle: noded::powercycle::of_machine(false, &Layout::new(root)),
            segment_bytes: SMALL,
            blob_bytes_max: 1 << 30,
            ipxe: "/nowhere".into(),
            clock: Clock::system(),
        };
        let daemon = Daemon::start(settings).await.unwrap();
        let target = NodeTarget {
            name: node.name().clone(),
            address: daemon.rpc_address(),
            fingerprint: Some(node.fingerprint()),
            renewing: None,
            offline: false,
        };
        Self { daemon, client: Client::new(Arc::new(master), Tasks::new()), target }
    }

    fn meta() -> Meta {
        Meta { epoch: epoch(1), job: None }
    }

    /// Calls the agent as the master does.
    pub(crate) async fn call<C: Call>(&self, call: C) -> Result<C::Reply, RpcError> {
        self.client.call(&self.target, call, Self::meta()).await
    }

    async fn push(&self) {
        let push = RackPush { base: None, document: rack(0, 1) };
        self.client.call(&self.target, push, Self::meta()).await.unwrap();
    }

    /// Takes events until one is what is wanted.
    async fn observe<R>(&self, wanted: impl Fn(&Observation) -> Option<R>) -> R {
        let (mut incarnation, mut acknowledged) = (None, 0);
        let looking = async {
            loop {
                let call = Exchange { incarnation, acknowledged, wait_ms: 10_000, sights: None };
                let exchanged = self.client.call(&self.target, call, Self::meta()).await.unwrap();
                incarnation = Some(exchanged.incarnation);
                for event in exchanged.events {
                    acknowledged = event.number;
                    if let Some(found) = wanted(&event.observation) {
                        return found;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap()
    }
}

/// Gets a lease for good and configures the interface by it, as a ramdisk would.
fn lease(wire: &Wire, root: &std::path::Path) {
    let script = root.join("udhcpc.sh");
    let text = "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\n\
                ip addr add \"$ip/${mask:-26}\" dev eth0\necho \"$bootfile\" > \"$OUT\"\n";
    stdx::atomic::write(&script, text.as_bytes(), 0o755).unwrap();
    let script = script.to_str().unwrap();
    let status = wire
        .in_client("udhcpc")
        .args(["-i", "eth0", "-s", script, "-O", "bootfile"])
        .args(["-q", "-n", "-f", "-t", "15", "-T", "1"])
        .env("OUT", root.join("boot-file"))
        .status()
        .unwrap();
    assert!(status.success(), "udhcpc: {status}");
}

fn fetch(wire: &Wire, path: &str) -> String {
    wire.at_client(|| {
        let mut stream = TcpStream::connect((SERVER, 10_080)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

#[test]
fn a_machine_gets_its_lease_and_script_and_the_master_learns_of_both() {
    let Some(wire) = Wire::new("agent") else { return };
    let dir = tempfile::tempdir().unwrap();
    wire.at_server(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let rig = runtime.block_on(Rig::start(dir.path()));
        runtime.block_on(rig.push());
        lease(&wire, dir.path());
        let boot_file = std::fs::read_to_string(dir.path().join("boot-file")).unwrap();
        assert_eq!(boot_file.trim(), "http://10.69.0.3:10080/api/v1/boot/ipxe");
        let mac: MacAddress = MAC.parse().unwrap();
        let address = runtime.block_on(rig.observe(|seen| match seen {
            Observation::Lease(l) if l.mac == mac && l.state == LeaseState::Bound => {
                Some(l.address)
            }
            _ => None,
        }));
        assert_eq!(address, FIRST);
        let chain = fetch(&wire, "/api/v1/boot/ipxe");
        assert!(
            chain.contains("http://10.69.0.3:10080/api/v1/boot/ipxe/${serial:uristring}"),
            "{chain}"
        );
        assert!(fetch(&wire, "/api/v1/boot/ipxe/S1").starts_with("HTTP/1.1 200"));
        let holder = runtime.block_on(rig.observe(|seen| match seen {
            Observation::Boot { serial, mac, .. } if serial.as_str() == "S1" => Some(*mac),
            _ => None,
        }));
        assert_eq!(holder, Some(mac));
        runtime.block_on(rig.daemon.stop()).unwrap();
    });
}
