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
        since_us: None,
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

#[tokio::test]
async fn the_lease_of_a_machines_firmware_begins_a_boot() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, 9]);
    let mut document = rack(4, 1);
    document.machines[0].mac = vec![mac];
    let (registered, racks) = (Some(now()), Racks::new(vec![document.clone()]));
    document.machines[0].registered = registered;
    document.version.position = 2;
    racks.install(&ledger, document).await.unwrap();
    let leased = |stage, client| dhcp::Observation::Leased {
        record: LeaseRecord {
            address: Ipv4Addr::new(10, 69, 0, 40),
            client,
            state: LeaseState::Bound { until_us: 77 },
            since_us: None,
        },
        stage,
        uuid: None,
    };
    let range = RangeUse {
        first: Ipv4Addr::new(10, 69, 0, 32),
        last: Ipv4Addr::new(10, 69, 0, 62),
        addresses: 15,
        leased: 12,
        offered: 2,
        quarantined: 1,
    };
    tell(&dhcp::Observation::Full(range), &racks, &ledger, 1);
    let [told] = racks.troubles().try_into().unwrap();
    let numbers = "of the 15 that this agent gives of 10.69.0.32 to 10.69.0.62, 12 are leased, \
                   2 offered and 1 in quarantine";
    assert!(told.contains(numbers), "{told}");
    let crowded = dhcp::Observation::Crowded { range, guests_max: 3 };
    assert!(
        super::crowded(&range, 3).starts_with("cards that are not registered have 3 of the 15")
    );
    tell(&crowded, &racks, &ledger, 1);
    assert_eq!(racks.troubles().len(), 2);
    racks.end_passing(Passing::Crowded);
    let mut durable = ledger.watch();
    let stranger = model::MacAddress::new([2, 0, 0, 0, 0, 8]);
    tell(&leased(Stage::HttpFirmware, Identity::Ethernet(stranger)), &racks, &ledger, 2);
    tell(&leased(Stage::Ipxe, Identity::Ethernet(mac)), &racks, &ledger, 3);
    tell(&leased(Stage::HttpFirmware, Identity::Ethernet(mac)), &racks, &ledger, 4);
    durable.changed().await.unwrap();
    let (events, _) = ledger.pending(10);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let Observation::Boot { stage, registered: told, .. } = &event.observation else { panic!() };
    assert_eq!((*stage, *told), (BootStage::Lease, registered));
    racks.miss_loader(dir.path().join("ipxe.efi"));
    assert!(racks.troubles()[1].contains("ipxe.efi is missing"));
    stdx::atomic::write(&dir.path().join("ipxe.efi"), b"MZ", 0o600).unwrap();
    assert_eq!(racks.troubles().len(), 1, "the package was installed");
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
    let (learner, _) = watch::channel(None);
    let tasks = Tasks::new();
    let (its_ledger, its_racks) = (Arc::clone(&ledger), Arc::clone(&racks));
    tasks.spawn(
        "leasing",
        serve(leasing, name("n2"), (its_ledger, its_racks), Clock::system(), (learner, stopped)),
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

#[test]
fn an_agent_yields_to_another_server_where_it_is_told_to() {
    let (racks, address) = (Racks::new(Vec::new()), Ipv4Addr::new(10, 69, 0, 3));
    let place = Listener::Interface { name: "rack0".to_owned(), address };
    let other = || BTreeSet::from([Ipv4Addr::new(10, 69, 0, 9)]);
    for (hold_back, servers, observes) in [
        (false, BTreeSet::new(), false),
        (false, other(), false),
        (true, other(), true),
        (true, BTreeSet::new(), false),
    ] {
        let mut document = rack(0, 1);
        document.dhcp.hold_back = hold_back;
        let boot = "0.0.0.0:10080".parse().unwrap();
        let mut wanted =
            compile(&[Arc::new(document)], std::slice::from_ref(&place), boot, &name("n2"));
        assert_eq!(speaking(&wanted), [place.clone()].into());
        racks.set_other_servers("rack0", &servers);
        yield_to_others(&mut wanted, &racks);
        assert_eq!(wanted.config.ranges[0].observe, observes);
        let told = ["another DHCP server answers on rack0: 10.69.0.9".to_owned()];
        assert_eq!(racks.troubles(), if servers.is_empty() { &[][..] } else { &told });
    }
    racks.set_other_servers("rack0", &other());
    racks.keep_other_servers(|name| name != "rack0");
    assert!(racks.troubles().is_empty());
}

#[test]
fn a_rack_that_is_observed_is_asked_nothing() {
    let place = Listener::Interface { name: "rack0".to_owned(), address: [10, 69, 0, 3].into() };
    let mut document = rack(0, 1);
    document.dhcp.observe = true;
    let boot = "0.0.0.0:10080".parse().unwrap();
    let wanted = compile(&[Arc::new(document)], &[place], boot, &name("n2"));
    assert!(wanted.config.ranges[0].observe);
    assert!(speaking(&wanted).is_empty());
}
