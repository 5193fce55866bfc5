use proptest::prelude::*;

use model::machine::BootStage;
use model::rack::{Lease, LeaseState};

use super::*;

pub(crate) fn lease(address: u8, until: i64) -> Observation {
    Observation::Lease(Lease {
        rack: 0,
        mac: model::MacAddress::new([2, 0, 0, 0, 0, address]),
        address: Ipv4Addr::new(10, 69, 0, address),
        state: LeaseState::Bound,
        until: Timestamp::from_micros(until),
    })
}

fn boot(serial: u8) -> Observation {
    Observation::Boot {
        cycle: 0,
        rack: 0,
        serial: format!("S{serial}").parse().unwrap(),
        address: Ipv4Addr::new(10, 69, 0, serial),
        mac: None,
        stage: BootStage::Script,
        registered: None,
        earlier: Vec::new(),
        every: None,
        cycle_guessed: false,
        fetched: None,
    }
}

fn add(outbox: &mut Outbox, observations: Vec<Observation>) -> Plan {
    let plan = outbox.plan(Timestamp::from_micros(1), observations);
    outbox.apply(plan.clone());
    plan
}

#[test]
fn inventories_are_handed_out_as_they_fit() {
    let inspected = |serial: usize| Observation::Inspected {
        rack: 0,
        serial: format!("S{serial}").parse().unwrap(),
        registered: None,
        cycle: 1,
        inventory: Box::default(),
        error: None,
    };
    let mut outbox = Outbox::default();
    let told = (0..INVENTORIES_MAX + 2).map(inspected).chain([boot(1)]).collect();
    add(&mut outbox, told);
    assert_eq!((outbox.kept().count(), outbox.len()), (INVENTORIES_MAX + 3, INVENTORIES_MAX + 3));
    let first = outbox.pending(u64::MAX, 1_000);
    assert_eq!(first.len(), INVENTORIES_MAX);
    outbox.acknowledge(first.last().unwrap().number);
    assert_eq!(outbox.pending(u64::MAX, 1_000).len(), 3, "nothing is left behind");
}

fn numbers(outbox: &Outbox) -> Vec<u64> {
    outbox.pending(u64::MAX, usize::MAX).iter().map(|event| event.number).collect()
}

#[test]
fn a_later_event_of_the_same_lease_overtakes() {
    let mut outbox = Outbox::default();
    add(&mut outbox, vec![lease(1, 10), lease(2, 10)]);
    let plan = add(&mut outbox, vec![lease(1, 20), boot(1)]);
    assert_eq!(plan.forget, [1]);
    assert_eq!(numbers(&outbox), [2, 3, 4]);
    // Within one group, too.
    add(&mut outbox, vec![boot(7), boot(7)]);
    assert_eq!(numbers(&outbox), [2, 3, 4, 6]);
    assert_eq!(outbox.acknowledge(3), [2, 3]);
    assert_eq!(numbers(&outbox), [4, 6]);
}

#[test]
fn an_event_takes_the_stages_before_it_along() {
    let at = |stage, registered: i64| {
        let Observation::Boot { rack, serial, address, mac, earlier, .. } = boot(1) else {
            unreachable!()
        };
        let registered = Some(Timestamp::from_micros(registered));
        Observation::Boot {
            rack,
            serial,
            address,
            mac,
            stage,
            registered,
            cycle: 0,
            earlier,
            fetched: None,
            every: None,
            cycle_guessed: false,
        }
    };
    let mut outbox = Outbox::default();
    let mut carried = |micros, observation| {
        let plan = outbox.plan(Timestamp::from_micros(micros), vec![observation]);
        outbox.apply(plan);
        let events = outbox.pending(u64::MAX, usize::MAX);
        let [event] = events.as_slice() else { panic!("{events:?}") };
        let Observation::Boot { earlier, .. } = &event.observation else { unreachable!() };
        earlier.iter().map(|seen| (seen.stage, seen.at.micros())).collect::<Vec<_>>()
    };
    assert_eq!(carried(1, at(BootStage::Loader, 7)), []);
    assert_eq!(carried(2, at(BootStage::Script, 7)), [(BootStage::Loader, 1)]);
    let two = [(BootStage::Loader, 1), (BootStage::Script, 2)];
    assert_eq!(carried(3, at(BootStage::Kernel, 7)), two);
    assert_eq!(carried(4, at(BootStage::Kernel, 8)), [], "another machine of that serial number");
}

#[test]
fn an_event_stays_until_later_ones_tell_all_of_it() {
    let of = |client: u8, address: u8, state| {
        let Observation::Lease(lease) = lease(address, 10) else { unreachable!() };
        let mac = model::MacAddress::new([2, 0, 0, 0, 0, client]);
        Observation::Lease(Lease { mac, state, ..lease })
    };
    let port = |port: Option<u8>| {
        let Observation::Boot { rack, serial, address, stage, registered, earlier, .. } = boot(1)
        else {
            unreachable!()
        };
        let mac = port.map(|port| model::MacAddress::new([2, 0, 0, 0, 0, port]));
        Observation::Boot {
            rack,
            serial,
            address,
            mac,
            stage,
            registered,
            cycle: 0,
            earlier,
            fetched: None,
            every: None,
            cycle_guessed: false,
        }
    };
    let (bound, released) = (LeaseState::Bound, LeaseState::Released);
    for (seen, kept) in [
        // The address has another client: that the first one gave it back is still news.
        (vec![of(1, 1, released), of(2, 1, bound)], vec![1, 2]),
        // The client has another address: who lost the first one is not told again.
        (vec![of(1, 1, bound), of(1, 2, bound)], vec![1, 2]),
        (vec![of(1, 1, bound), of(1, 2, bound), of(2, 1, bound)], vec![2, 3]),
        (vec![of(1, 1, bound), of(1, 1, released), of(1, 1, bound)], vec![3]),
        // Each port of a machine is told once.
        (vec![port(Some(1)), port(Some(2)), port(None)], vec![1, 2, 3]),
        (vec![port(Some(1)), port(None), port(Some(1))], vec![3]),
    ] {
        let mut together = Outbox::default();
        add(&mut together, seen.clone());
        assert_eq!(numbers(&together), kept, "{seen:?}");
        let mut apart = Outbox::default();
        for observation in seen.clone() {
            add(&mut apart, vec![observation]);
        }
        assert_eq!(numbers(&apart), kept, "{seen:?}");
    }
}

#[test]
fn what_is_not_durable_is_not_handed_out() {
    let mut outbox = Outbox::default();
    add(&mut outbox, vec![lease(1, 10), lease(2, 10), lease(3, 10)]);
    assert_eq!(outbox.pending(2, 10).len(), 2);
    assert_eq!(outbox.pending(3, 1).len(), 1);
}

#[test]
fn a_full_outbox_gives_up_the_oldest_and_counts() {
    let mut outbox = Outbox::default();
    let many = |from: u32| -> Vec<Observation> {
        (0..2_000)
            .map(|i| {
                let Observation::Lease(lease) = lease(1, 1) else { unreachable!() };
                let address = Ipv4Addr::from(0x0A00_0000 + from + i);
                Observation::Lease(Lease { address, ..lease })
            })
            .collect()
    };
    for group in 0..6 {
        add(&mut outbox, many(group * 2_000));
    }
    assert_eq!(outbox.pending(u64::MAX, usize::MAX).len(), EVENTS_MAX);
    assert_eq!(outbox.numbers(), Numbers { last: 12_000, dropped: 2_000 });
    assert_eq!(numbers(&outbox).first(), Some(&2_001));
}

#[derive(Debug, Clone)]
enum Step {
    See(Vec<u8>),
    Take,
    Acknowledge,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => proptest::collection::vec(0_u8..6, 0..4).prop_map(Step::See),
        2 => Just(Step::Take),
        2 => Just(Step::Acknowledge),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// A master that takes, commits, and may acknowledge late or never, ends up with the newest
    /// state of everything that was seen, in order, whatever restarts in between.
    #[test]
    fn nothing_is_lost_and_order_holds(steps in steps()) {
        let mut outbox = Outbox::default();
        let mut disk: BTreeMap<u64, Event> = BTreeMap::new();
        let mut truth: HashMap<Ipv4Addr, i64> = HashMap::new();
        let mut master: HashMap<Ipv4Addr, i64> = HashMap::new();
        let (mut taken, mut until) = (0, 0);
        let mut take = |outbox: &Outbox, taken: &mut u64| {
            for event in outbox.pending(u64::MAX, 3) {
                let Observation::Lease(lease) = event.observation else { unreachable!() };
                if event.number > *taken {
                    *taken = event.number;
                    master.insert(lease.address, lease.until.micros());
                }
            }
            master.clone()
        };
        for step in steps {
            match step {
                Step::See(addresses) => {
                    let seen: Vec<_> = addresses
                        .into_iter()
                        .map(|address| {
                            until += 1;
                            truth.insert(Ipv4Addr::new(10, 69, 0, address), until);
                            lease(address, until)
                        })
                        .collect();
                    let plan = add(&mut outbox, seen);
                    for number in plan.forget {
                        disk.remove(&number);
                    }
                    disk.extend(plan.put.into_iter().map(|event| (event.number, event)));
                }
                Step::Take => {
                    take(&outbox, &mut taken);
                }
                Step::Acknowledge => {
                    for number in outbox.acknowledge(taken) {
                        disk.remove(&number);
                    }
                }
                Step::Restart => {
                    outbox = Outbox::restore(outbox.numbers(), disk.values().cloned());
                }
            }
            let kept = numbers(&outbox);
            prop_assert!(kept.is_sorted());
            prop_assert_eq!(&kept, &disk.keys().copied().collect::<Vec<_>>());
        }
        let mut state = take(&outbox, &mut taken);
        while !outbox.acknowledge(taken).is_empty() {
            state = take(&outbox, &mut taken);
        }
        prop_assert_eq!(state, truth);
    }
}
