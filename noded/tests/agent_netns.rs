//! The agent as a whole against the `udhcpc` of busybox and a plain HTTP client, in two network
//! namespaces: lease, boot script, and the events that tell of them. Needs root, `ip` and `udhcpc`.

#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use model::ipam::LeaseRange;
use model::layout::Layout;
use model::rack::{
    BootChoice, DocumentVersion, LeaseState, Observation, RackDocument, RackMachine,
};
use model::{MacAddress, Timestamp};
use noded::daemon::{Daemon, Settings};
use noded::leasing::Leasing;
use queue_format::Epoch;
use rpc::calls::{AllowList, Caller, Exchange, Membership, RackPush};
use rpc::identity::Authority;
use rpc::{Client, Meta, NodeTarget};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use stdx::{Clock, Tasks};
use uuid::Uuid;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
const MAC: &str = "52:54:00:aa:bb:07";
/// For anything that should happen at once; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces and a cable, gone when dropped.
struct Wire {
    server: String,
    client: String,
}

impl Wire {
    fn new() -> Self {
        let unique = format!("ga{}", std::process::id());
        let wire = Self { server: format!("{unique}-s"), client: format!("{unique}-c") };
        let (at, to) = (wire.server.as_str(), wire.client.as_str());
        ip(&["netns", "add", at]);
        ip(&["netns", "add", to]);
        ip(&["-n", at, "link", "add", "rack0", "type", "veth", "peer", "eth0", "netns", to]);
        ip(&["-n", to, "link", "set", "eth0", "address", MAC]);
        ip(&["-n", at, "addr", "add", &format!("{SERVER}/26"), "dev", "rack0"]);
        ip(&["-n", at, "link", "set", "lo", "up"]);
        ip(&["-n", at, "link", "set", "rack0", "up"]);
        ip(&["-n", to, "link", "set", "eth0", "up"]);
        wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            // There may be nothing to delete, if the test failed early.
            drop(Command::new("ip").args(["netns", "del", name]).status());
        }
    }
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success(), "ip {args:?}");
}

/// Runs `work` on a thread of its own in a namespace, as all threads that it starts.
fn within<R: Send>(namespace: &str, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{namespace}")).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Why this test cannot run here.
fn missing() -> Option<&'static str> {
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).exists())
    };
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root");
    }
    if !has("ip") || !has("udhcpc") {
        return Some("there is no `ip` or no `udhcpc`");
    }
    let probe = format!("ga{}-probe", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output().unwrap();
    drop(Command::new("ip").args(["netns", "del", &probe]).output());
    (!made.status.success()).then_some("this system does not allow network namespaces")
}

fn document() -> RackDocument {
    RackDocument {
        cluster_name: "cluster".parse().unwrap(),
        rack: 0,
        version: DocumentVersion { term: 1, position: 1 },
        ranges: vec![LeaseRange {
            subnet: "10.69.0.0/26".parse().unwrap(),
            first: "10.69.0.32".parse().unwrap(),
            last: "10.69.0.62".parse().unwrap(),
            gateway: "10.69.0.1".parse().unwrap(),
        }],
        lease_seconds: 3_600,
        machines: vec![RackMachine {
            serial: "S1".parse().unwrap(),
            role: "worker".to_owned(),
            index: 4,
            mac: Vec::new(),
            addresses: vec!["10.69.0.4".parse().unwrap()],
            boot: BootChoice::Local,
        }],
    }
}

/// The master's side of the test, and the agent.
struct Rig {
    daemon: Daemon,
    client: Client,
    target: NodeTarget,
}

impl Rig {
    const META: Meta = Meta { epoch: Epoch { term: 1, node: 1 }, job: None };

    async fn start(root: &std::path::Path) -> Self {
        let now = Timestamp::from_micros(Clock::system().now_micros());
        let authority = Authority::create(&"cluster".parse().unwrap(), now).unwrap();
        let master = authority.issue(&"n1".parse().unwrap(), &[], now).unwrap();
        let node = authority.issue(&"n2".parse().unwrap(), &[], now).unwrap();
        let caller = Caller { name: master.name().clone(), fingerprint: master.fingerprint() };
        let membership = Membership {
            cluster_uuid: Uuid::from_u128(1),
            cluster_name: "cluster".parse().unwrap(),
            node: node.name().clone(),
            node_id: 2,
            allow: AllowList { epoch: Self::META.epoch, callers: vec![caller] },
            epoch: Self::META.epoch,
        };
        node.store(&Layout::new(root), &membership).unwrap();
        let boot = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 10_080);
        let settings = Settings {
            layout: Layout::new(root),
            rpc: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            boot,
            boot_alias: None,
            leasing: Leasing { port: 67, relays_only: Vec::new(), boot },
            clock: Clock::system(),
        };
        let daemon = Daemon::start(settings).await.unwrap();
        let target = NodeTarget {
            name: node.name().clone(),
            address: daemon.rpc_address(),
            fingerprint: Some(node.fingerprint()),
            offline: false,
        };
        Self { daemon, client: Client::new(Arc::new(master), Tasks::new()), target }
    }

    async fn push(&self) {
        let push = RackPush { base: None, document: document() };
        self.client.call(&self.target, push, Self::META).await.unwrap();
    }

    /// Takes events until one is what is wanted.
    async fn observe<R>(&self, wanted: impl Fn(&Observation) -> Option<R>) -> R {
        let (mut incarnation, mut acknowledged) = (None, 0);
        let looking = async {
            loop {
                let call = Exchange { incarnation, acknowledged, wait_ms: 10_000 };
                let exchanged = self.client.call(&self.target, call, Self::META).await.unwrap();
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
fn lease(client: &str, root: &std::path::Path) {
    let script = root.join("udhcpc.sh");
    let text = "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\n\
                ip addr add \"$ip/${mask:-26}\" dev eth0\necho \"$bootfile\" > \"$OUT\"\n";
    stdx::atomic::write(&script, text.as_bytes(), 0o755).unwrap();
    let script = script.to_str().unwrap();
    let status = Command::new("ip")
        .args(["netns", "exec", client, "udhcpc", "-i", "eth0", "-s", script, "-O", "bootfile"])
        .args(["-q", "-n", "-f", "-t", "15", "-T", "1"])
        .env("OUT", root.join("boot-file"))
        .status()
        .unwrap();
    assert!(status.success(), "udhcpc: {status}");
}

fn fetch(client: &str, path: &str) -> String {
    within(client, || {
        let mut stream = TcpStream::connect((SERVER, 10_080)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

#[test]
fn a_machine_gets_its_lease_and_script_and_the_master_learns_of_both() {
    if let Some(why) = missing() {
        eprintln!("skipped: agent in network namespaces: {why}");
        return;
    }
    let (wire, dir) = (Wire::new(), tempfile::tempdir().unwrap());
    within(&wire.server, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let rig = runtime.block_on(Rig::start(dir.path()));
        runtime.block_on(rig.push());
        lease(&wire.client, dir.path());
        let boot_file = std::fs::read_to_string(dir.path().join("boot-file")).unwrap();
        assert_eq!(boot_file.trim(), "http://10.69.0.3:10080/api/v1/boot/ipxe");
        let mac: MacAddress = MAC.parse().unwrap();
        let address = runtime.block_on(rig.observe(|seen| match seen {
            Observation::Lease(l) if l.mac == mac && l.state == LeaseState::Bound => {
                Some(l.address)
            }
            _ => None,
        }));
        assert_eq!(address, Ipv4Addr::new(10, 69, 0, 32));
        let chain = fetch(&wire.client, "/api/v1/boot/ipxe");
        assert!(chain.contains("http://10.69.0.3:10080/api/v1/boot/ipxe/${serial}"), "{chain}");
        assert!(fetch(&wire.client, "/api/v1/boot/ipxe/S1").starts_with("HTTP/1.1 200"));
        let holder = runtime.block_on(rig.observe(|seen| match seen {
            Observation::Boot { serial, mac, .. } if serial.as_str() == "S1" => Some(*mac),
            _ => None,
        }));
        assert_eq!(holder, Some(mac));
        runtime.block_on(rig.daemon.stop()).unwrap();
    });
}
