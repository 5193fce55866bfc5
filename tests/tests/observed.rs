//! The master does not miss what an agent's outbox forgets. Both keep the same rules of which event
//! overtakes which, though neither program knows the other.

#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use masterd::config::Config;
use masterd::config::load::Loader;
use masterd::machines::observe;
use model::enrol::Fingerprint;
use model::machine::BootStage;
use model::rack::{Event, Lease, LeaseState, Observation};
use model::{MacAddress, Serial, Timestamp, document};
use netboot::outbox::Outbox;
use proptest::prelude::*;
use serde_json::{Value, json};

const AGENT: &str = "n2.example";
/// The rack that the agent serves; it may hold documents of others.
const RACK: u32 = 0;
const SECOND: i64 = 1_000_000;
/// A lease lasts longer than any history here.
const LEASE: i64 = 3_600 * SECOND;
/// Machines; a port of number `n` is one of machine `n % MACHINES`.
const MACHINES: u8 = 2;

/// A cluster with the agent's node and machines that no Ethernet address is known of.
fn config() -> Config {
    let (then, fingerprint) = ([1, 0], Fingerprint::from_bytes([2; 32]));
    let mut loader = Loader::default();
    let mut add = |key: &str, content: Value| {
        loader.add(key, content.to_string().as_bytes()).unwrap();
    };
    add(
        document::CLUSTER,
        json!({
            "cluster_name": "demo.example", "uuid": "c-1", "serial_no": 1, "ctime": then,
            "mtime": then, "candidate_pool_size": 10, "max_running_jobs": 20,
            "max_tracked_jobs": 25, "mac_prefix": "aa:00:00", "master_netdev": null,
            "master_netmask": null, "tags": [], "next_node_id": 10,
        }),
    );
    add(document::ROLE, json!({"master": "n1.example", "term": 2, "node": 1, "since": then}));
    add(
        &document::node(&AGENT.parse().unwrap()),
        json!({
            "name": AGENT, "uuid": "u-2", "id": 2, "role": "candidate", "primary_ip": "192.0.2.2",
            "rpc_port": 1811, "secondary_ip": "192.0.2.2", "fingerprint": fingerprint,
            "rack": RACK, "master_capable": true, "vm_capable": true, "powered": true,
            "serial_no": 1, "ctime": then, "mtime": then,
        }),
    );
    let numbers: Vec<u8> = (0..MACHINES).collect();
    add(&document::node_indices(RACK), json!(numbers));
    for number in numbers {
        add(
            &format!("{}/{}", document::MACHINES, serial(number)),
            json!({
                "serial": serial(number), "product": "", "datacenter": "", "rack": RACK,
                "index-in-rack": number, "role": "worker", "network": {},
                "bmc": {"ipv4": [], "ipv6": null}, "register-date": then,
            }),
        );
    }
    loader.finish().unwrap()
}

fn serial(number: u8) -> Serial {
    format!("S{}", number % MACHINES).parse().unwrap()
}

fn mac(port: u8) -> MacAddress {
    MacAddress::new([2, 0, 0, 0, 0, port])
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 69, 0, 32 + number)
}

/// Events that an agent may see, and more: nothing here keeps one address for one client.
fn observation() -> impl Strategy<Value = Observation> {
    let rack = prop_oneof![5 => Just(RACK), 1 => Just(RACK + 1)];
    let state = prop_oneof![
        3 => Just(LeaseState::Bound),
        2 => Just(LeaseState::Released),
        1 => Just(LeaseState::Declined),
    ];
    let lease = (rack.clone(), 0_u8..5, 0_u8..4, state).prop_map(|(rack, port, at, state)| {
        let until = Timestamp::from_micros(LEASE);
        Observation::Lease(Lease { rack, mac: mac(port), address: address(at), state, until })
    });
    let stages = [
        BootStage::Lease,
        BootStage::Loader,
        BootStage::Script,
        BootStage::Kernel,
        BootStage::System,
    ];
    let stage = proptest::sample::select(stages.to_vec());
    let boot = (rack, 0_u8..5, 0_u8..4, any::<bool>(), stage);
    let boot = boot.prop_map(|(rack, port, at, known, stage)| Observation::Boot {
        cycle: 0,
        rack,
        serial: serial(port),
        address: address(at),
        mac: known.then(|| mac(port)),
        stage,
        registered: None,
        earlier: Vec::new(),
        every: None,
        cycle_guessed: false,
        fetched: None,
    });
    prop_oneof![3 => lease, 2 => boot]
}

#[derive(Debug, Clone)]
enum Step {
    /// The agent sees this at one moment.
    See(Vec<Observation>),
    /// The master fetches and commits as many events as this; its word of it arrives, or does not.
    Exchange { most: usize, acknowledged: bool },
    /// The agent starts anew from its disk.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let exchange = (1_usize..5, any::<bool>())
        .prop_map(|(most, acknowledged)| Step::Exchange { most, acknowledged });
    let step = prop_oneof![
        6 => proptest::collection::vec(observation(), 1..5).prop_map(at_one_moment),
        3 => exchange,
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 0..30)
}

/// A machine is in one stage at a moment.
fn at_one_moment(mut seen: Vec<Observation>) -> Step {
    let mut booted = BTreeSet::new();
    seen.retain(|one| match one {
        Observation::Boot { rack, serial, .. } => booted.insert((*rack, serial.clone())),
        _ => true,
    });
    Step::See(seen)
}

fn commit(config: &mut Config, events: &[Event]) {
    let Some(now) = events.last().map(|event| event.at) else { return };
    config.apply(observe::observed(config, &AGENT.parse().unwrap(), events, now).changes);
}

/// The master's knowledge from agents; the order in which a machine's ports were learnt does not matter.
fn told(config: &Config) -> (Value, BTreeMap<Serial, BTreeSet<MacAddress>>) {
    let machines = config.machines.values();
    let ports = machines.map(|m| (m.serial.clone(), m.mac.iter().copied().collect())).collect();
    let leases: Vec<_> = config.leases.values().collect();
    let boots: BTreeMap<_, _> = config.boots.iter().collect();
    (json!({"leases": leases, "boots": boots}), ports)
}

proptest! {
    /// A master takes the events that the outbox kept, in pieces of any size and some of them twice. At
    /// the end, it knows what it would know of every event.
    #[test]
    fn what_the_outbox_forgets_is_not_missed(steps in steps()) {
        let (mut outbox, mut disk) = (Outbox::default(), BTreeMap::new());
        let (mut master, mut witness) = (config(), config());
        let mut now = 0;
        for step in steps {
            match step {
                Step::See(observations) => {
                    now += SECOND;
                    let at = Timestamp::from_micros(now);
                    for observation in &observations {
                        commit(&mut witness, &[Event { number: 0, at, observation: observation.clone() }]);
                    }
                    let plan = outbox.plan(at, observations);
                    for number in &plan.forget {
                        disk.remove(number);
                    }
                    disk.extend(plan.put.iter().map(|event| (event.number, event.clone())));
                    outbox.apply(plan);
                }
                Step::Exchange { most, acknowledged } => {
                    let events = outbox.pending(u64::MAX, most);
                    commit(&mut master, &events);
                    if let Some(last) = events.last().filter(|_| acknowledged) {
                        for number in outbox.acknowledge(last.number) {
                            disk.remove(&number);
                        }
                    }
                }
                Step::Restart => {
                    outbox = Outbox::restore(outbox.numbers(), disk.values().cloned());
                }
            }
        }
        commit(&mut master, &outbox.pending(u64::MAX, usize::MAX));
        prop_assert_eq!(told(&master), told(&witness));
        let addresses: BTreeSet<_> = master.leases.values().map(|lease| lease.address).collect();
        prop_assert_eq!(addresses.len(), master.leases.len(), "an address has one client");
    }
}
