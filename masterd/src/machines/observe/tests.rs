use std::sync::Arc;

use model::Timestamp;
use model::node::NodeRole;

use super::*;
use crate::machines::machine::register;
use crate::testing::{NOW, config, node, spec};

const MAC: &str = "52:54:00:00:00:07";

const DAY: i64 = 24 * 3_600 * 1_000_000;

fn agent() -> NodeName {
    "n2.example".parse().unwrap()
}

/// Events number `number` happen so many microseconds after [`NOW`].
fn event(number: u64, observation: Observation) -> Event {
    let after = i64::try_from(number).unwrap();
    Event { number, at: Timestamp::from_micros(NOW.micros() + after), observation }
}

fn lease_of(port: u8, address: u8, state: LeaseState) -> Lease {
    Lease {
        rack: 0,
        mac: MacAddress::new([0x52, 0x54, 0, 0, 0, port]),
        address: [10, 69, 0, address].into(),
        state,
        until: NOW,
    }
}

fn lease(state: LeaseState) -> Observation {
    Observation::Lease(lease_of(7, 32, state))
}

fn boot(serial: &str) -> Observation {
    Observation::Boot {
        cycle: 0,
        rack: 0,
        serial: serial.parse().unwrap(),
        address: [10, 69, 0, 32].into(),
        mac: Some(MAC.parse().unwrap()),
        stage: BootStage::Script,
        registered: None,
        earlier: Vec::new(),
        every: None,
        cycle_guessed: false,
        fetched: None,
    }
}

fn with_machine() -> Config {
    let mut agent = node("n2.example", NodeRole::Candidate);
    agent.rack = Some(0);
    let mut config = config(&[agent]);
    let machines = register(&config, &[spec("s1", 0, "worker")], NOW).unwrap();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    config
}

fn seen(config: &mut Config, observations: Vec<Observation>) -> Led {
    let events: Vec<Event> = (1..).zip(observations).map(|(n, o)| event(n, o)).collect();
    let observed = observed(config, &agent(), &events, event(1, boot("s1")).at);
    config.apply(observed.changes.clone());
    observed
}

/// Clients and their addresses, by their last bytes.
fn held(config: &Config) -> Vec<(u8, u8)> {
    let of = |lease: &Arc<Lease>| (lease.mac.bytes()[5], lease.address.octets()[3]);
    config.leases.values().map(of).collect()
}

#[test]
fn what_the_operator_told_no_boot_extends() {
    let mut config = with_machine();
    let mut machine = config.machine("s1").unwrap().as_ref().clone();
    machine.mac_told = true;
    config.apply([ConfigChange::Machine(machine)]);
    let observed = seen(&mut config, vec![lease(LeaseState::Bound), boot("s1")]);
    assert!(observed.learnt.is_empty() && config.machine("s1").unwrap().mac.is_empty());
    assert!(config.boots.contains_key("s1"), "it boots all the same");
}

#[test]
fn a_boot_teaches_the_machine_its_address() {
    let mut config = with_machine();
    let observed = seen(&mut config, vec![lease(LeaseState::Bound), boot("s1"), boot("s1")]);
    assert_eq!(observed.learnt, [("s1".parse().unwrap(), MAC.parse().unwrap())]);
    let machine = config.machine("s1").unwrap();
    assert_eq!(machine.mac, [MAC.parse().unwrap()]);
    assert_eq!(config.boots[&machine.serial].boot.stage, BootStage::Script);
    assert_eq!(config.leases.len(), 1);
}

#[test]
fn a_renewal_does_not_take_a_boot_back() {
    let mut config = with_machine();
    seen(&mut config, vec![boot("s1"), lease(LeaseState::Bound)]);
    let serial: Serial = "s1".parse().unwrap();
    assert_eq!(config.boots[&serial].boot.stage, BootStage::Script);
    assert_eq!(config.boots[&serial].boot.seen.micros(), NOW.micros() + 2);
    seen(&mut config, vec![lease(LeaseState::Released)]);
    assert!(config.leases.is_empty());
}

#[test]
fn boots_have_a_timeline() {
    let mut config = with_machine();
    let at = |stage: BootStage| {
        let Observation::Boot { rack, serial, address, mac, .. } = boot("s1") else { panic!() };
        let (registered, earlier) = (Some(NOW), Vec::new());
        Observation::Boot {
            rack,
            serial,
            address,
            mac,
            stage,
            registered,
            cycle: 0,
            every: None,
            cycle_guessed: false,
            earlier,
            fetched: None,
        }
    };
    use BootStage::{Kernel, Loader, Script, System};
    seen(&mut config, [Loader, Script, Kernel, System, Loader, Script].map(at).to_vec());
    let told = |stages: &[StageSeen]| -> Vec<BootStage> {
        assert!(stages.iter().all(|seen| seen.agent == "n2.example"));
        stages.iter().map(|seen| seen.stage).collect()
    };
    let serial: Serial = "s1".parse().unwrap();
    let boot = &config.boots[&serial].boot;
    assert_eq!(told(&boot.stages), [Loader, Script]);
    assert_eq!(told(&boot.before), [Loader, Script, Kernel, System]);
    assert_eq!(boot.stages[1].at.micros(), NOW.micros() + 6);
}

#[test]
fn what_was_seen_of_a_removed_machine_is_not_on_the_new_record() {
    let mut config = with_machine();
    let Observation::Boot { rack, serial, address, mac, stage, earlier, .. } = boot("s1") else {
        panic!()
    };
    let registered = Some(NOW.plus_seconds(-1));
    let fetched = None;
    let old = Observation::Boot {
        rack,
        serial,
        address,
        mac,
        stage,
        registered,
        cycle: 0,
        every: None,
        cycle_guessed: false,
        earlier,
        fetched,
    };
    assert!(seen(&mut config, vec![old]).changes.is_empty());
    assert!(config.boots.is_empty() && config.machine("s1").unwrap().mac.is_empty());
    let mut machine = config.machine("s1").unwrap().as_ref().clone();
    machine.mac = vec![MAC.parse().unwrap()];
    machine.register_date = NOW.plus_seconds(60);
    config.apply([ConfigChange::Machine(machine)]);
    seen(&mut config, vec![lease(LeaseState::Bound)]);
    assert!(config.boots.is_empty(), "the lease is from before the registration");
}

#[test]
fn strangers_change_nothing() {
    let mut config = with_machine();
    seen(&mut config, vec![boot("nobody"), lease(LeaseState::Released)]);
    assert!(config.boots.is_empty() && config.leases.is_empty());
    assert!(config.machine("s1").unwrap().mac.is_empty());
}

#[test]
fn what_is_told_twice_changes_nothing() {
    let mut config = with_machine();
    let observations = vec![lease(LeaseState::Bound), boot("s1")];
    assert_eq!(seen(&mut config, observations.clone()).changes.len(), 3);
    let again = seen(&mut config, observations);
    assert!(again.changes.is_empty() && again.learnt.is_empty(), "{again:?}");
}

#[test]
fn an_address_has_one_client_and_a_client_one_address() {
    use LeaseState::{Bound, Declined, Released};
    for (told, left) in [
        (vec![(1, 32, Bound), (2, 33, Bound)], vec![(1, 32), (2, 33)]),
        (vec![(1, 32, Bound), (2, 32, Bound)], vec![(2, 32)]),
        (vec![(1, 32, Bound), (1, 33, Bound)], vec![(1, 33)]),
        (vec![(1, 32, Bound), (1, 33, Bound), (2, 32, Bound)], vec![(1, 33), (2, 32)]),
        (vec![(1, 32, Bound), (2, 32, Bound), (2, 33, Bound)], vec![(2, 33)]),
        (vec![(1, 32, Released), (2, 32, Bound)], vec![(2, 32)]),
        (vec![(1, 32, Bound), (2, 32, Declined)], vec![(2, 32)]),
        (vec![(1, 32, Bound), (2, 32, Released)], vec![]),
    ] {
        let lease = |(port, at, state): &_| Observation::Lease(lease_of(*port, *at, *state));
        let mut together = with_machine();
        seen(&mut together, told.iter().map(lease).collect());
        assert_eq!(held(&together), left, "{told:?}");
        let mut apart = with_machine();
        for one in &told {
            seen(&mut apart, vec![lease(one)]);
        }
        assert_eq!(held(&apart), left, "{told:?}");
    }
}

#[test]
fn another_racks_lease_of_the_same_address_stays() {
    let mut config = with_machine();
    let other = Lease { rack: 1, ..lease_of(1, 32, LeaseState::Bound) };
    config.apply([ConfigChange::Lease(other)]);
    seen(&mut config, vec![lease(LeaseState::Bound)]);
    assert_eq!(held(&config), [(7, 32), (1, 32)]);
}

/// Leases that end that long before the event which `seen` gives number 1, in racks 0 and 1.
fn with_leases(count: usize, before: i64) -> Config {
    let mut config = with_machine();
    for number in 0..u32::try_from(count).unwrap() {
        let [_, _, high, low] = number.to_be_bytes();
        for rack in [0, 1] {
            let until = Timestamp::from_micros(NOW.micros() + 1 - before);
            let mac = MacAddress::new([2, 0, 0, 0, high, low]);
            let address = [10, 70, high, low].into();
            let lease = Lease { rack, mac, address, state: LeaseState::Bound, until };
            config.apply([ConfigChange::Lease(lease)]);
        }
    }
    config
}

#[test]
fn leases_that_ended_long_ago_are_removed_a_few_at_a_time() {
    let mut config = with_leases(LEASES_REMOVED_MAX + 1, DAY + 1);
    let all = config.leases.len();
    assert!(super::observed(&config, &agent(), &[], NOW).changes.is_empty());
    seen(&mut config, vec![boot("nobody")]);
    assert_eq!(config.leases.len(), all - LEASES_REMOVED_MAX);
    seen(&mut config, vec![boot("nobody")]);
    assert_eq!(config.leases.len(), all / 2, "another rack's leases stay");
    seen(&mut config, vec![boot("nobody")]);
    assert_eq!(config.leases.len(), all / 2);
    // Its client is heard of again, and then is not among those that ended.
    let mut renewed = with_leases(1, DAY + 1);
    let mac = MacAddress::new([2, 0, 0, 0, 0, 0]);
    seen(
        &mut renewed,
        vec![Observation::Lease(Lease { mac, ..lease_of(0, 32, LeaseState::Bound) })],
    );
    assert_eq!(renewed.leases[&LeaseKey { rack: 0, mac }].address, Ipv4Addr::new(10, 69, 0, 32));
}

#[test]
fn leases_within_their_grace_stay_and_news_past_it_is_none() {
    let mut config = with_leases(1, DAY);
    seen(&mut config, vec![boot("nobody")]);
    assert_eq!(config.leases.len(), 2);
    let until = Timestamp::from_micros(NOW.micros() - DAY);
    let old = Observation::Lease(Lease { until, ..lease_of(1, 32, LeaseState::Bound) });
    let forever = Timestamp::from_micros(i64::MAX);
    let endless = Lease { until: forever, ..lease_of(2, 33, LeaseState::Bound) };
    seen(&mut config, vec![old]);
    assert_eq!(config.leases.len(), 2);
    seen(&mut config, vec![Observation::Lease(endless)]);
    assert_eq!(config.leases.len(), 3);
    assert!(config.leases.values().any(|lease| lease.until == forever));
}

/// A clock that was four years ahead for a moment.
#[test]
fn a_clock_that_was_ahead_costs_no_lease_and_its_stage_is_passed_by_the_next() {
    let mut config = with_leases(3, -DAY);
    let leases = config.leases.len();
    let years = NOW.plus_seconds(4 * 365 * 86_400);
    let lasts = |at: Timestamp| Lease {
        until: at.plus_seconds(3_600),
        ..lease_of(1, 32, LeaseState::Bound)
    };
    let stage = |stage| {
        let mut seen = boot("s1");
        let Observation::Boot { stage: told, .. } = &mut seen else { panic!() };
        *told = stage;
        seen
    };
    let mut events = [
        Event { number: 1, at: years, observation: Observation::Lease(lasts(years)) },
        Event { number: 2, at: years, observation: stage(BootStage::Script) },
        Event { number: 3, at: NOW.plus_seconds(-1), observation: stage(BootStage::Kernel) },
    ];
    let clocks = Clocks { master: NOW, agent: Some(NOW) };
    EventTimes::default().correct(&mut events, clocks);
    let changes = super::observed(&config, &agent(), &events, NOW).changes;
    config.apply(changes);
    assert_eq!(config.leases.len(), leases + 1);
    let told = lease_of(1, 32, LeaseState::Bound).key();
    assert_eq!(config.leases[&told].until, NOW.plus_seconds(3_600));
    let boot = &config.boots[&"s1".parse::<Serial>().unwrap()].boot;
    assert_eq!(
        boot.stages.iter().map(|seen| seen.stage).collect::<Vec<_>>(),
        [BootStage::Script, BootStage::Kernel]
    );
    assert!(boot.stages.iter().all(|seen| seen.at.seconds() == NOW.seconds()), "{boot:?}");
}

#[test]
fn another_racks_events_are_refused_and_counted() {
    let mut config = with_machine();
    let elsewhere = |rack| Observation::Lease(Lease { rack, ..lease_of(1, 40, LeaseState::Bound) });
    let observations = vec![elsewhere(1), lease(LeaseState::Bound), elsewhere(3), elsewhere(1)];
    let observed = seen(&mut config, observations.clone());
    assert_eq!(observed.refused, BTreeMap::from([(1, 2), (3, 1)]));
    assert_eq!(held(&config), [(7, 32)]);
    let events: Vec<Event> = observations.into_iter().map(|o| event(1, o)).collect();
    let stranger = super::observed(&config, &"n9.example".parse().unwrap(), &events, NOW);
    assert_eq!(stranger.refused.values().sum::<usize>(), 4);
    assert!(stranger.changes.is_empty());
}
