//! Two agents of one rack, each a daemon of its own, and a client behind a relay.

use std::net::SocketAddrV4;

use model::rack::{RackAgent, RackDocument};
use model::shares::Part;
use tokio::net::UdpSocket;

use netboot::dhcp::packet::{MessageType, Packet};

use super::*;

/// Only a test that fails waits for so long.
const PATIENCE: Duration = Duration::from_secs(60);
const RELAY: Ipv4Addr = Ipv4Addr::new(127, 77, 1, 1);

/// An agent on loopback that serves relays.
struct Other {
    dir: tempfile::TempDir,
    identity: NodeIdentity,
    address: Ipv4Addr,
}

impl Other {
    fn new(scene: &Scene, node: &str, last: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let identity = scene.authority.issue(&name(node), &[LOCALHOST], now()).unwrap();
        let allow = AllowList { epoch: epoch(1), callers: vec![caller(&scene.master)] };
        let membership = Membership { allow, ..membership(node) };
        identity.store(&Layout::new(dir.path()), &membership).unwrap();
        Self { dir, identity, address: Ipv4Addr::new(127, 77, 1, last) }
    }

    async fn start(&self, scene: &Scene, (rpc, port): (SocketAddr, u16)) -> Daemon {
        let boot = SocketAddr::new(self.address.into(), 0);
        let counters = Arc::default();
        let leasing = Leasing { port, relays_only: vec![self.address], boot, counters };
        let layout = Layout::new(self.dir.path());
        Daemon::start(Settings { layout, rpc, leasing, ..scene.settings() }).await.unwrap()
    }

    fn agent(&self, daemon: &Daemon) -> RackAgent {
        RackAgent {
            name: self.identity.name().clone(),
            address: daemon.rpc_address(),
            fingerprints: vec![self.identity.fingerprint()],
        }
    }

    async fn push(&self, scene: &Scene, daemon: &Daemon, document: RackDocument) {
        let target = NodeTarget {
            name: self.identity.name().clone(),
            address: daemon.rpc_address(),
            fingerprint: Some(self.identity.fingerprint()),
            renewing: None,
            offline: false,
        };
        let push = RackPush { base: None, document };
        scene.client.call(&target, push, meta(1)).await.unwrap();
    }
}

/// A document in which the two agents lease every other address.
fn document(agents: Vec<RackAgent>) -> RackDocument {
    let mut document = rack(0, 1);
    let [range] = document.ranges.as_mut_slice() else { panic!() };
    range.subnet = "127.77.1.0/26".parse().unwrap();
    range.first = "127.77.1.32".parse().unwrap();
    range.last = "127.77.1.62".parse().unwrap();
    range.gateway = RELAY;
    let part = |agent: &RackAgent| Part { owner: Some(agent.name.clone()), ..Part::default() };
    document.parts = agents.iter().cycle().take(4).map(part).collect();
    document.agents = agents;
    document
}

/// A message of the client 02:00:00:00:00:07 by way of the relay, whose port option 82.19 tells.
async fn ask(
    relay: &UdpSocket,
    server: SocketAddrV4,
    (kind, ciaddr, options): (MessageType, Ipv4Addr, &[u8]),
) -> Packet {
    let mut bytes = vec![0; 240];
    bytes[..4].copy_from_slice(&[1, 1, 6, 1]);
    bytes[12..16].copy_from_slice(&ciaddr.octets());
    bytes[24..28].copy_from_slice(&RELAY.octets());
    bytes[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
    bytes[236..240].copy_from_slice(&[99, 130, 83, 99]);
    bytes.extend([53, 1, kind as u8]);
    bytes.extend(options);
    bytes.extend([82, 8, 19, 0, 5, 4, 127, 77, 1, 1, 255]);
    relay.send_to(&bytes, server).await.unwrap();
    let mut buffer = [0; 1_500];
    let waited = timeout(PATIENCE, relay.recv_from(&mut buffer)).await.expect("a reply comes");
    Packet::decode(&buffer[..waited.unwrap().0]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_one_agent_is_renewed_by_the_other_when_that_is_gone() {
    let scene = Scene::new();
    let (one, two) = (Other::new(&scene, "n2", 2), Other::new(&scene, "n3", 3));
    let free = UdpSocket::bind((one.address, 0)).await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let anywhere = SocketAddr::new(LOCALHOST, 0);
    let first = one.start(&scene, (anywhere, port)).await;
    let second = two.start(&scene, (anywhere, port)).await;
    let told = document(vec![one.agent(&first), two.agent(&second)]);
    one.push(&scene, &first, told.clone()).await;
    two.push(&scene, &second, told).await;

    let relay = UdpSocket::bind((RELAY, 0)).await.unwrap();
    let of_first = SocketAddrV4::new(one.address, port);
    let of_second = SocketAddrV4::new(two.address, port);
    let none = Ipv4Addr::UNSPECIFIED;
    // The servers come with the document, a moment later.
    for server in [of_first, of_second] {
        while UdpSocket::bind(server).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
    let offer = ask(&relay, of_first, (MessageType::Discover, none, &[])).await;
    let address = offer.header.yiaddr;
    let mut wish = vec![50, 4];
    wish.extend(address.octets());
    wish.extend([54, 4]);
    wish.extend(offer.address(54).unwrap().octets());
    let ack = ask(&relay, of_first, (MessageType::Request, none, &wish)).await;
    assert_eq!((ack.message_type(), ack.header.yiaddr), (Some(MessageType::Ack), address));

    // The second one is told before long, and then the first is not needed any more.
    while second.ledger.lease(address).is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(second.ledger.lease(address), first.ledger.lease(address));
    assert!(second.ledger.pending(9).0.is_empty(), "the master knows it from the first one");
    let at = first.rpc_address();
    first.stop().await.unwrap();
    let rebind = ask(&relay, of_second, (MessageType::Request, address, &[])).await;
    assert_eq!((rebind.message_type(), rebind.header.yiaddr), (Some(MessageType::Ack), address));

    // It comes back, and learns that its lease was renewed meanwhile.
    let renewed = second.ledger.lease(address);
    let first = one.start(&scene, (at, port)).await;
    while first.ledger.lease(address) != renewed {
        tokio::task::yield_now().await;
    }
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

/// The token that a lookup of S1 tells at an agent.
async fn look_up(daemon: &Daemon) -> String {
    let mut stream = TcpStream::connect(daemon.boot_address()).await.unwrap();
    let text = "GET /v1/lookup?addresses=02:00:00:00:00:09 HTTP/1.1\r\nhost: x\r\n\
                x-openstack-ironic-api-version: 1.62\r\nconnection: close\r\n\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let told = answer.split("\"agent_token\":\"").nth(1).unwrap_or_else(|| panic!("{answer}"));
    told.split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_told_once_in_a_rack_with_the_master_away() {
    let scene = Scene::new();
    let (one, two) = (Other::new(&scene, "n2", 6), Other::new(&scene, "n3", 7));
    let free = UdpSocket::bind((one.address, 0)).await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let anywhere = SocketAddr::new(LOCALHOST, 0);
    let first = one.start(&scene, (anywhere, port)).await;
    let second = two.start(&scene, (anywhere, port)).await;
    let mut told = document(vec![one.agent(&first), two.agent(&second)]);
    told.machines[0].mac = vec!["02:00:00:00:00:09".parse().unwrap()];
    told.machines[0].cycle = 1;
    told.machines[0].ramdisk = Some(netboot::testing::ramdisk());
    one.push(&scene, &first, told.clone()).await;
    two.push(&scene, &second, told).await;

    assert_eq!(look_up(&first).await, "dG9rZW4");
    assert_eq!(look_up(&second).await, "******");
    assert!(second.ledger.pending(9).0.is_empty(), "the master knows it from the first one");
    // At the same time, whichever of them the boot began at.
    for begins_at in [&first, &second].repeat(4) {
        assert!(fetch(begins_at, "/api/v1/boot/ipxe/S1").await.contains("#!ipxe"));
        let (one, two) = tokio::join!(look_up(&first), look_up(&second));
        assert_eq!(
            [&one, &two].iter().filter(|token| **token == "******").count(),
            1,
            "{one} {two}"
        );
    }
    // The second one is away, and asked as soon as it is back; then the first one, which decides.
    let at = second.rpc_address();
    second.stop().await.unwrap();
    assert!(fetch(&first, "/api/v1/boot/ipxe/S1").await.contains("#!ipxe"));
    assert_ne!(look_up(&first).await, "******");
    let second = two.start(&scene, (at, port)).await;
    assert_eq!(look_up(&second).await, "******");
    let at = first.rpc_address();
    first.stop().await.unwrap();
    assert!(fetch(&second, "/api/v1/boot/ipxe/S1").await.contains("#!ipxe"));
    assert_ne!(look_up(&second).await, "******");
    let first = one.start(&scene, (at, port)).await;
    assert_eq!(look_up(&first).await, "******");
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test]
async fn another_agent_gets_leases_told_and_nothing_else() {
    let scene = Scene::new();
    let (one, two) = (Other::new(&scene, "n2", 4), Other::new(&scene, "n3", 5));
    let anywhere = SocketAddr::new(LOCALHOST, 0);
    let first = one.start(&scene, (anywhere, 1)).await;
    let agent = RackAgent { address: anywhere, ..one.agent(&first) };
    let stranger = Arc::new(two.identity);
    let client = Client::new(Arc::clone(&stranger), Tasks::new());
    let target = NodeTarget {
        name: name("n2"),
        address: first.rpc_address(),
        fingerprint: agent.fingerprints.first().copied(),
        renewing: None,
        offline: false,
    };
    let sync = rpc::calls::LeaseSync::default();
    client.call(&target, sync, Meta::default()).await.unwrap_err();
    let other = RackAgent {
        name: name("n3"),
        address: anywhere,
        fingerprints: vec![stranger.fingerprint()],
    };
    let told = document(vec![agent, other]);
    let push = RackPush { base: None, document: told };
    scene.client.call(&target, push, meta(1)).await.unwrap();
    let answer = loop {
        if let Ok(answer) = client.call(&target, sync, Meta::default()).await {
            break answer;
        }
    };
    assert!(answer.leases.is_empty());
    let refused = client.call(&target, Facts {}, Meta::default()).await.unwrap_err();
    assert!(matches!(refused, RpcError::Refused { refusal: Refusal::Stranger { .. }, .. }));
    client.close().await;
    first.stop().await.unwrap();
}
