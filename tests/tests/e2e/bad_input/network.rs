//! Strangers and noise at an agent's ports.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;

use model::{Secret, Timestamp};
use rpc::calls::Facts;
use rpc::identity::{Authority, NodeIdentity};
use rpc::{Client, Meta, NodeTarget, RpcError};
use stdx::{Clock, Tasks};
use tests::cluster::{Cluster, Host, IPAM, MASTER, PATIENCE};
use tests::run::{run, wait_for};
use tests::seed::Seed;
use tests::wire::{RACK_ADDRESS, Wire};

/// Packets of noise: seconds of a machine gone mad.
const PACKETS: u32 = 2_000;
/// To everybody in the rack's subnet.
const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 63);
/// Length of a DHCP packet without options, RFC 2131 section 2, and of the magic cookie.
const FIXED_BYTES: usize = 236 + 4;
/// The beginning of the options, RFC 2131 section 3.
const COOKIE: [u8; 4] = [99, 130, 83, 99];

fn call(identity: NodeIdentity, host: &Host) -> Result<rpc::calls::NodeFacts, RpcError> {
    let target = NodeTarget {
        name: host.name.parse().unwrap(),
        address: SocketAddr::new(host.address.into(), model::layout::RPC_PORT),
        fingerprint: None,
        renewing: None,
        offline: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(Arc::new(identity), Tasks::new());
        client.call(&target, Facts {}, Meta::default()).await
    })
}

/// The cluster's own authority, as one who can read the store has it.
fn authority(host: &Host) -> Authority {
    let path = host.layout().data().join(model::document::AUTHORITY);
    let key = Secret::new(std::fs::read_to_string(path).unwrap());
    Authority::with_key(&host.layout(), &key).unwrap()
}

#[test]
fn only_the_clusters_master_is_listened_to() {
    let cluster = Cluster::begin_with_agent();
    let host = &cluster.master;
    let now = Timestamp::from_micros(Clock::system().now_micros());
    let (own, _) = NodeIdentity::load(&host.layout()).unwrap();
    assert!(call(own, host).is_ok(), "the test can call at all");

    let other = Authority::create(&"other.example".parse().unwrap(), now).unwrap();
    let impostor = other.issue(&MASTER.parse().unwrap(), &[], now).unwrap();
    let refused = call(impostor, host).unwrap_err();
    assert!(refused.certainly_not_done(), "another cluster's certificate: {refused:?}");

    let authority = authority(host);
    let stranger = authority.issue(&"n7.example".parse().unwrap(), &[], now).unwrap();
    let refused = call(stranger, host).unwrap_err();
    assert!(matches!(refused, RpcError::Refused { .. }), "no caller of the list: {refused:?}");

    let mut curl = Command::new("curl");
    let url = format!("https://{}:{}/", host.address, model::layout::RPC_PORT);
    curl.args(["--silent", "--show-error", "--insecure", "--max-time", "20", &url]);
    let nobody = run(curl);
    assert_ne!(nobody.code(), 0, "no certificate at all: {nobody:?}");
    assert!(nobody.stderr.contains("certificate") || nobody.stderr.contains("alert"), "{nobody:?}");

    let _goes_on = cluster.gnt(&format!("debug delay 0 --no-master -n {MASTER}")).ok();
}

/// A DISCOVER of one client, as RFC 2131 has it, without its end.
fn discover() -> Vec<u8> {
    let mut packet = vec![0; FIXED_BYTES];
    packet[..3].copy_from_slice(&[1, 1, 6]);
    packet[28..34].copy_from_slice(&[0x52, 0x54, 0, 9, 9, 9]);
    packet[236..].copy_from_slice(&COOKIE);
    packet.extend([53, 1, 1]);
    packet
}

/// A packet that is wrong in one way or another.
fn noise(seed: &mut Seed) -> Vec<u8> {
    let mut packet = discover();
    let byte = |seed: &mut Seed| u8::try_from(seed.below(256)).unwrap();
    let length = usize::try_from(seed.below(1_400)).unwrap();
    match seed.below(6) {
        0 => return (0..length).map(|_| byte(seed)).collect(),
        1 => packet.truncate(usize::try_from(seed.below(243)).unwrap()),
        2 => packet[2] = byte(seed) | 0x10,
        3 => packet[236] ^= 1 + byte(seed) % 255,
        4 => packet.extend([55, 255, 1]),
        _ => {
            packet.truncate(FIXED_BYTES);
            packet.extend((0..length).map(|_| byte(seed)));
        }
    }
    packet
}

#[test]
fn malformed_dhcp_packets_disturb_nobody() {
    if let Some(why) = Wire::missing() {
        return tests::skip("malformed DHCP packets", why);
    }
    let (wire, mut seed) = (Wire::new(), Seed::new());
    let cluster = Cluster::init_on(&wire);
    cluster.start_master();
    cluster.start_agent(&cluster.master);
    cluster.wait_for_facts(MASTER);
    let ipam = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _given = cluster.gnt(&format!("node modify --rack 0 {MASTER}")).ok();
    wire.become_machine("52:54:00:00:00:01");
    let before = wire.lease(&cluster.dir());
    wire.in_client(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_broadcast(true).unwrap();
        for at in 0..PACKETS {
            let to = if at % 2 == 0 { BROADCAST } else { RACK_ADDRESS };
            socket.send_to(&noise(&mut seed), (to, 67)).unwrap();
        }
    });
    wire.become_machine("52:54:00:00:00:01");
    assert_eq!(wire.lease(&cluster.dir()), before);
    wire.become_machine("52:54:00:00:00:02");
    assert_ne!(wire.lease(&cluster.dir()).address, before.address);
}

#[test]
fn wrong_requests_for_scripts_are_refused() {
    let cluster = Cluster::begin_with_agent();
    let ipam = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _given = cluster.gnt(&format!("node modify --rack 0 {MASTER}")).ok();
    let _added = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let get = |path: &str| {
        let mut curl = Command::new("curl");
        let url = format!("http://{}:10080{path}", cluster.master.address);
        curl.args(["--silent", "--path-as-is", "--max-time", "20", "-w", "%{http_code}"]);
        curl.args(["-o", "/dev/null", &url]);
        run(curl).ok().to_owned()
    };
    wait_for("the machine at the agent", PATIENCE, || {
        (get("/api/v1/boot/ipxe/SN1") == "200").then_some(())
    });
    let long = format!("/api/v1/boot/ipxe/{}", "x".repeat(5_000));
    for (path, status) in [
        ("/api/v1/boot/ipxe/SN2", "404"),
        ("/api/v1/boot/ipxe/..%2f..%2f..%2fetc%2fpasswd", "404"),
        ("/api/v1/boot/ipxe/../../../../etc/passwd", "404"),
        ("/favicon.ico", "404"),
        (long.as_str(), "404"),
    ] {
        let got = get(path);
        assert!(got == status || got == "400" || got == "414", "{path:.60}: {got}");
    }
    assert_eq!(get("/api/v1/boot/ipxe"), "200");
}

/// Connections to one port that say nothing, or nonsense.
const NOISY: usize = 150;

#[test]
fn noise_at_the_agents_ports_disturbs_nobody() {
    let cluster = Cluster::begin_with_agent();
    let call = format!("debug delay 0 --no-master -n {MASTER}");
    let mut noisy = Vec::new();
    // The beginning of a TLS handshake that never goes on; half a request; nonsense; nothing.
    let parts: [&[u8]; 4] =
        [b"\x16\x03\x01\x02\x00\x01", b"GET /api/v1/boot", b"\0\xff\n\n\r\n", b""];
    for at in 0..NOISY {
        for port in [model::layout::RPC_PORT, model::layout::BOOT_PORT] {
            let mut stream = TcpStream::connect((cluster.master.address, port)).unwrap();
            // A connection that is turned away at once cannot be written to.
            drop(stream.write_all(parts[at % parts.len()]));
            noisy.push(stream);
        }
    }
    let _works = cluster.gnt(&call).ok();
    // Also over a connection that has yet to be made.
    cluster.kill_master();
    cluster.start_master();
    let _works = cluster.gnt(&call).ok();
    let mut curl = Command::new("curl");
    let url = format!("http://{}:10080/api/v1/boot/ipxe", cluster.master.address);
    curl.args(["--silent", "--max-time", "20", "-w", "%{http_code}", "-o", "/dev/null", &url]);
    let answered = run(curl);
    assert!(answered.ok().parse::<u16>().is_ok_and(|status| status >= 200), "{answered:?}");
    drop(noisy);
}
