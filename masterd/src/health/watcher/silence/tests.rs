//! The machines that are silent, and the agents that may say so.

use model::machine::life::Life;
use model::machine::{LastBoot, StageSeen};
use model::node::NodeRole;
use model::power_cycle::{PowerCycle, Ramdisk};

use super::*;
use crate::config::ConfigChange;
use crate::machines::machine::register;
use crate::testing::{NOW, config, node, spec};

/// Machines s0, s1, … in service, all of which gave their last sign to n2 so many seconds ago.
struct Scene {
    config: Config,
    signs: HashMap<Serial, LastSign>,
    reached: Option<u64>,
    at: u64,
}

const ELAPSED: Duration = Duration::from_secs(100_000);

fn serial(number: usize) -> Serial {
    format!("s{number}").parse().unwrap()
}

fn agent() -> NodeName {
    "n2.example".parse().unwrap()
}

impl Scene {
    fn new(ages: &[u64]) -> Self {
        let mut agent_node = node("n2.example", NodeRole::Candidate);
        agent_node.rack = Some(0);
        let mut config = config(&[agent_node]);
        let specs: Vec<_> =
            (0..ages.len()).map(|n| spec(serial(n).as_str(), 0, "worker")).collect();
        let machines = register(&config, &specs, NOW).unwrap();
        config.apply(machines.into_iter().map(|mut machine| {
            machine.life.state = State::Healthy;
            ConfigChange::Machine(machine)
        }));
        let mut scene = Self { config, signs: HashMap::new(), reached: Some(9_999), at: 9_999 };
        for (number, age) in ages.iter().enumerate() {
            scene.boot(number, BootStage::System, 0, Some(30));
            scene.sign(number, *age, 0);
        }
        scene
    }

    fn boot(&mut self, number: usize, stage: BootStage, cycle: u64, every: Option<u32>) {
        let at = NOW.plus_seconds(-1_000);
        let seen = StageSeen { stage, at, agent: agent().to_string(), fetched: None, cycle };
        let boot = Boot {
            stage,
            address: [10, 69, 0, 32].into(),
            mac: None,
            agent: agent().to_string(),
            seen: NOW,
            stages: vec![seen],
            before: Vec::new(),
            every,
        };
        self.config.apply([ConfigChange::Boot(LastBoot { serial: serial(number), boot })]);
    }

    fn sign(&mut self, number: usize, age: u64, cycle: u64) {
        let last = LastSign {
            registered: Some(NOW),
            cycle,
            agent: agent(),
            heard: ELAPSED - Duration::from_secs(age),
            at: NOW.plus_seconds(-i64::try_from(age).unwrap()),
            every: Some(30),
        };
        self.signs.insert(serial(number), last);
    }

    fn cycle(&mut self, number: usize, ago: i64) {
        let cycle = PowerCycle {
            serial: serial(number),
            rack: 0,
            number: 1,
            began: NOW.plus_seconds(-ago),
            sealed: serde_json::from_value("1:AQID".into()).unwrap(),
            ramdisk: Ramdisk::default(),
            switches_on: None,
            left_off: None,
            enrolment: None,
        };
        self.config.apply([ConfigChange::PowerCycle(cycle)]);
    }

    fn change(&mut self, number: usize, by: impl FnOnce(&mut Machine)) {
        let mut machine = self.config.machine(serial(number).as_str()).unwrap().as_ref().clone();
        by(&mut machine);
        self.config.apply([ConfigChange::Machine(machine)]);
    }

    fn find(&self) -> Silence {
        let ears = Ears { signs: &self.signs, elapsed: ELAPSED, at: self.at, now: NOW };
        find(&self.config, ears, |name| self.reached.filter(|_| *name == agent()))
    }

    /// Whether s0, of several, is moved.
    fn moves(&self) -> bool {
        let found = self.find();
        assert_eq!(found.held, []);
        found.moves.iter().any(|((moved, ..), _)| *moved == serial(0))
    }
}

#[test]
fn who_repeats_its_sign_and_gives_none_is_unreachable() {
    type Change = fn(&mut Scene);
    let cases: &[(&str, u64, Change, bool)] = &[
        ("in time", 299, |_| {}, false),
        ("late", 300, |_| {}, true),
        ("unhealthy and late", 300, |s| s.change(0, |m| m.life.state = State::Unhealthy), true),
        ("once is no habit", 300, |s| s.boot(0, BootStage::System, 0, None), false),
        ("a slow one", 899, |s| s.boot(0, BootStage::System, 0, Some(300)), false),
        ("a slow one that is late", 900, |s| s.boot(0, BootStage::System, 0, Some(300)), true),
        ("in maintenance", 300, |s| s.change(0, |m| m.maintenance = Some("fan".into())), false),
        ("deployed", 300, |s| s.change(0, |m| m.life.state = State::Deploying), false),
        ("by hand", 300, |s| s.change(0, |m| m.life.state = State::Unreachable), false),
        ("its agent is away", 300, |s| s.reached = None, false),
        ("its agent came back", 5_000, |s| s.reached = Some(299), false),
        ("and heard nothing since", 5_000, |s| s.reached = Some(300), true),
        ("a new master", 5_000, |s| s.at = 299, false),
        ("nobody knows of a sign", 0, |s| drop(s.signs.remove(&serial(0))), true),
        ("a sign of an earlier machine", 0, |s| s.change(0, |m| m.register_date = LATER), true),
    ];
    for (case, age, change, is_moved) in cases {
        let mut scene = Scene::new(&[*age, 1, 1]);
        change(&mut scene);
        assert_eq!(scene.moves(), *is_moved, "{case}");
    }
    let mut never = Scene::new(&[5_000, 1, 1]);
    let mut cluster = never.config.cluster.as_ref().clone();
    cluster.silence_deadline = 0;
    never.config.apply([ConfigChange::Cluster(cluster)]);
    assert!(!never.moves());
}

const LATER: Timestamp = Timestamp::from_micros(NOW.micros() + 1);

#[test]
fn signs_from_before_the_power_was_switched_count_for_nothing() {
    for (ago, cycle_of_sign, is_moved) in
        [(60, 0, false), (1_799, 0, false), (1_800, 0, true), (1_800, 1, false)]
    {
        let mut scene = Scene::new(&[5, 1, 1]);
        scene.cycle(0, ago);
        scene.sign(0, 5, cycle_of_sign);
        assert_eq!(scene.moves(), is_moved, "{ago} s ago");
    }
    // It restarts by itself, and loaded its kernel 1,000 s ago.
    let mut scene = Scene::new(&[5_000, 1, 1]);
    scene.boot(0, BootStage::Kernel, 0, Some(30));
    assert!(!scene.moves());
}

#[test]
fn a_sign_brings_back_whom_silence_made_unreachable() {
    let mut scene = Scene::new(&[5, 1, 1]);
    let mut silent = |since: i64, cycle| {
        scene.change(0, |machine| {
            machine.life = Life {
                state: State::Unreachable,
                since: Some(NOW.plus_seconds(-since)),
                silent_since: Some(NOW.plus_seconds(-400)),
                ..Life::default()
            };
        });
        scene.sign(0, 5, cycle);
        scene.find().moves
    };
    assert_eq!(silent(3, 0), [], "the sign came before");
    assert_eq!(silent(60, 7), [], "it is of another power cycle");
    let since = NOW.plus_seconds(-60);
    let stay = (serial(0), State::Unreachable, since);
    assert_eq!(silent(60, 0), [(stay, NOW.plus_seconds(-5))]);
}

#[test]
fn those_that_fall_silent_together_are_no_case_for_a_job() {
    let ages = |silent: usize, age, well: usize| -> Vec<u64> {
        std::iter::repeat_n(age, silent).chain(std::iter::repeat_n(1, well)).collect()
    };
    for (silent, well, moved, held) in [
        (2, 0, 2, None),
        (3, 0, 0, Some((3, 3))),
        (3, 3, 3, None),
        (10, 18, 10, None),
        (11, 17, 0, Some((11, 28))),
    ] {
        let found = Scene::new(&ages(silent, 400, well)).find();
        assert_eq!(found.moves.len(), moved, "{silent} of {}", silent + well);
        let told = found.held.first().map(|held| (held.silent, held.of));
        assert_eq!(told, held, "{silent} of {}", silent + well);
    }
    // The first of them is late, and the others follow.
    let found = Scene::new(&[300, 290, 280, 5]).find();
    assert_eq!((found.moves.len(), found.held[0].silent), (0, 3));
    assert!(found.held[0].alarm().text.starts_with("3 of 4 machines"));
}
