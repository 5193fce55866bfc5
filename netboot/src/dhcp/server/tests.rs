use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use parking_lot::Mutex;
use stdx::net::{Binding, UdpSocket};

use super::*;
use crate::dhcp::config::tests::sample;
use crate::dhcp::packet::vectors::Request;
use crate::dhcp::packet::{MessageType, Packet};

const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Fails a test that would hang; never the reason that one passes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Records in memory; refuses while told to.
#[derive(Debug, Clone, Default)]
struct Memory {
    records: Arc<Mutex<Vec<LeaseRecord>>>,
    broken: Arc<Mutex<bool>>,
}

impl LeaseStore for Memory {
    fn is_open(&self) -> bool {
        !*self.broken.lock()
    }

    async fn persist(&self, records: Vec<LeaseRecord>) -> Result<(), PersistError> {
        tokio::task::yield_now().await;
        if *self.broken.lock() {
            return Err(PersistError("the disk is full".into()));
        }
        self.records.lock().extend(records);
        Ok(())
    }

    async fn persist_learned(&self, records: Vec<LeaseRecord>) -> Result<(), PersistError> {
        self.persist(records).await
    }
}

/// A server on loopback and a relay that talks to it.
struct Rig {
    tasks: Tasks,
    handle: Handle,
    store: Memory,
    observed: mpsc::Receiver<Observation>,
    relay: UdpSocket,
    server: SocketAddrV4,
}

fn config() -> Config {
    Config { ranges: vec![sample()] }
}

impl Rig {
    fn new() -> Self {
        let (tasks, store) = (Tasks::new(), Memory::default());
        let (observations, observed) = mpsc::channel(1);
        let link = Link::address(LOCAL, 0).unwrap();
        let server = link.local_addr().unwrap();
        let parts = Parts {
            engine: Engine::new(config(), []).unwrap(),
            links: vec![link],
            store: store.clone(),
            observations,
            clock: Clock::manual(7),
            counters: Arc::default(),
        };
        let handle = start(parts, &tasks);
        let relay = UdpSocket::bind(&Binding::Address(LOCAL), 0).unwrap();
        Self { tasks, handle, store, observed, relay, server }
    }

    /// Sends as a relay on another port than 67 for the network of the sample.
    async fn send(&self, request: Request) {
        let agent = [19, 0, 5, 4, 10, 69, 0, 1];
        self.send_bytes(&request.giaddr(LOCAL).option(82, &agent).build()).await;
    }

    async fn send_bytes(&self, bytes: &[u8]) {
        self.relay.send(bytes, None, self.server).await.unwrap();
    }

    async fn receive(&self) -> Packet {
        let mut buffer = [0; 1_500];
        let waited = tokio::time::timeout(PATIENCE, self.relay.receive(&mut buffer)).await;
        let datagram = waited.expect("a reply comes").unwrap();
        Packet::decode(&buffer[..datagram.len]).unwrap()
    }

    async fn offer(&self, mac: u8) -> Ipv4Addr {
        self.send(Request::new(MessageType::Discover, [2, 0, 0, 0, 0, mac])).await;
        let offer = self.receive().await;
        assert_eq!(offer.message_type(), Some(MessageType::Offer));
        offer.header.yiaddr
    }

    async fn request(&self, mac: u8, address: Ipv4Addr) {
        let request = Request::new(MessageType::Request, [2, 0, 0, 0, 0, mac]);
        self.send(request.address(50, address).address(54, sample().server_id)).await;
    }

    fn count(&self, of: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        of(self.handle.counters()).load(Ordering::Relaxed)
    }

    async fn stop(self) {
        drop(self.handle);
        tokio::time::timeout(PATIENCE, self.tasks.join()).await.expect("all tasks end");
    }
}

#[tokio::test]
async fn a_lease_is_durable_when_its_acknowledgement_arrives() {
    let mut rig = Rig::new();
    let address = rig.offer(1).await;
    assert!(rig.store.records.lock().is_empty());
    rig.request(1, address).await;
    let ack = rig.receive().await;
    assert_eq!((ack.message_type(), ack.header.yiaddr), (Some(MessageType::Ack), address));
    let durable = rig.store.records.lock().clone();
    assert_eq!(durable.len(), 1);
    assert_eq!(durable[0].bound_until_us(), Some(3_600_000_007));
    assert_eq!(rig.handle.records().await.unwrap(), durable);
    let observed = rig.observed.recv().await.unwrap();
    assert!(matches!(observed, Observation::Leased { record, .. } if record == durable[0]));
    rig.stop().await;
}

#[tokio::test]
async fn without_a_disk_nothing_is_acknowledged_and_nothing_offered() {
    let rig = Rig::new();
    let address = rig.offer(1).await;
    *rig.store.broken.lock() = true;
    rig.request(1, address).await;
    rig.send(Request::new(MessageType::Discover, [2, 0, 0, 0, 0, 2])).await;
    // The next reply is neither acknowledgement nor offer, but the refusal of another's address.
    rig.request(3, address).await;
    assert_eq!(rig.receive().await.message_type(), Some(MessageType::Nak));
    // All may have been one turn, which is over when a command is answered.
    rig.handle.records().await.unwrap();
    assert_eq!(rig.count(|c| &c.persist_failed), 1);
    assert_eq!((rig.count(|c| &c.replied), rig.count(|c| &c.ignored)), (2, 1));
    *rig.store.broken.lock() = false;
    rig.request(1, address).await;
    assert_eq!(rig.receive().await.message_type(), Some(MessageType::Ack));
    rig.offer(2).await;
    rig.stop().await;
}

#[tokio::test]
async fn nonsense_is_counted_and_others_notice_nothing() {
    let rig = Rig::new();
    rig.send_bytes(b"").await;
    rig.send_bytes(&[0xff; 300]).await;
    rig.send_bytes(&vec![1; 20_000]).await;
    rig.send(Request::new(MessageType::Offer, [2, 0, 0, 0, 0, 1])).await;
    rig.offer(1).await;
    assert_eq!(rig.count(|c| &c.malformed), 3);
    assert_eq!(rig.count(|c| &c.ignored), 1);
    assert_eq!(rig.count(|c| &c.received), 5);
    assert_eq!(rig.count(|c| &c.replied), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_client_in_a_loop_keeps_no_other_waiting() {
    let rig = Rig::new();
    for _ in 0..100 {
        rig.send(Request::new(MessageType::Discover, [2, 0, 0, 0, 0, 1])).await;
    }
    for _ in 0..32 {
        assert_eq!(rig.receive().await.message_type(), Some(MessageType::Offer));
    }
    rig.offer(2).await;
    assert_eq!(rig.count(|c| &c.limited_client), 68);
    rig.stop().await;
}

#[tokio::test]
async fn a_full_channel_of_observations_delays_nobody() {
    let rig = Rig::new();
    let address = rig.offer(1).await;
    for _ in 0..3 {
        rig.request(1, address).await;
        assert_eq!(rig.receive().await.message_type(), Some(MessageType::Ack));
    }
    // The third is told after its acknowledgement was sent; a further answer proves that it was.
    rig.offer(1).await;
    assert_eq!(rig.count(|c| &c.observations_dropped), 2);
    rig.stop().await;
}

#[tokio::test]
async fn another_configuration_while_running() {
    let rig = Rig::new();
    let mut later = config();
    later.ranges[0].first = Ipv4Addr::new(10, 69, 0, 60);
    rig.handle.configure(later).await.unwrap().unwrap();
    assert_eq!(rig.offer(1).await, Ipv4Addr::new(10, 69, 0, 60));
    let mut wrong = config();
    wrong.ranges[0].lease_seconds = 0;
    assert!(rig.handle.configure(wrong).await.unwrap().is_err());
    rig.stop().await;
}

#[tokio::test]
async fn an_address_serves_relays_only() {
    let rig = Rig::new();
    let mut later = config();
    later.ranges[0].prefix_len = 8;
    later.ranges[0].interface_address = Ipv4Addr::new(127, 0, 0, 1);
    later.ranges[0].first = Ipv4Addr::new(127, 0, 0, 32);
    later.ranges[0].last = Ipv4Addr::new(127, 0, 0, 62);
    rig.handle.configure(later).await.unwrap().unwrap();
    let direct = Request::new(MessageType::Discover, [2, 0, 0, 0, 0, 1]);
    rig.send_bytes(&direct.broadcast().build()).await;
    rig.send(Request::new(MessageType::Offer, [2, 0, 0, 0, 0, 1])).await;
    let relayed = Request::new(MessageType::Discover, [2, 0, 0, 0, 0, 1]).giaddr(LOCAL);
    rig.send_bytes(&relayed.option(82, &[19, 0]).build()).await;
    assert_eq!(rig.receive().await.header.giaddr, LOCAL);
    assert_eq!(rig.count(|c| &c.send_failed), 1);
    rig.stop().await;
}
