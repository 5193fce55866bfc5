use std::net::SocketAddrV4;

use tokio::net::UdpSocket;

use super::*;
use crate::dhcp::packet::Identity;
use crate::testing::{SMALL, membership, name, now, rack};

#[tokio::test]
async fn a_lease_and_its_event_are_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    let (ledger, racks) = (Arc::new(ledger), Arc::new(Racks::new(vec![rack(4, 1)])));
    let clock = Clock::manual(now().micros());
    let store = LedgerLeases { ledger: Arc::clone(&ledger), racks, clock };
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, 9]);
    let record = |client| LeaseRecord {
        address: Ipv4Addr::new(10, 69, 0, 40),
        client,
        state: LeaseState::Bound { until_us: 77 },
    };
    store.persist(vec![record(Identity::Ethernet(mac))]).await.unwrap();
    let (events, _) = ledger.pending(10);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let Observation::Lease(lease) = &event.observation else { panic!() };
    assert_eq!((lease.rack, lease.mac, lease.state), (4, mac, TellState::Bound));
    assert_eq!(lease.until, Timestamp::from_micros(77));
    // A client that is no machine has a lease, but nobody is told.
    store.persist(vec![record(Identity::ClientId(vec![1, 2]))]).await.unwrap();
    assert_eq!(ledger.pending(10).0.len(), 1);
    assert_eq!(ledger.lease(Ipv4Addr::new(10, 69, 0, 40)).unwrap().client.mac(), None);
}

/// Whether something can listen on the port of `address`, that is, whether nobody else does.
async fn is_free(address: SocketAddrV4) -> bool {
    UdpSocket::bind(address).await.is_ok()
}

#[tokio::test]
async fn the_server_comes_and_goes_with_the_rack_document() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    let (ledger, racks) = (Arc::new(ledger), Arc::new(Racks::new(Vec::new())));
    let mut document = rack(0, 1);
    document.ranges[0].subnet = "127.77.0.0/26".parse().unwrap();
    document.ranges[0].first = "127.77.0.32".parse().unwrap();
    document.ranges[0].last = "127.77.0.62".parse().unwrap();
    document.ranges[0].gateway = "127.77.0.1".parse().unwrap();
    let address = Ipv4Addr::new(127, 77, 0, 3);
    let port = UdpSocket::bind((address, 0)).await.unwrap().local_addr().unwrap().port();
    let leasing = Leasing {
        port,
        relays_only: vec![address],
        boot: "127.77.0.3:10080".parse().unwrap(),
        counters: Arc::default(),
    };
    let at = SocketAddrV4::new(address, port);
    let (stop, stopped) = watch::channel(false);
    let tasks = Tasks::new();
    let (its_ledger, its_racks) = (Arc::clone(&ledger), Arc::clone(&racks));
    tasks.spawn(
        "leasing",
        serve(leasing, name("n2"), (its_ledger, its_racks), Clock::system(), stopped),
    );
    assert!(is_free(at).await);
    racks.install(&ledger, document).await.unwrap();
    while is_free(at).await {
        tokio::task::yield_now().await;
    }
    racks.withdraw(&ledger, 0).await.unwrap();
    while !is_free(at).await {
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    tasks.join().await;
}
