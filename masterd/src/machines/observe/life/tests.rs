//! Machines' messages: some change a state, and some change nothing.

use model::JobId;
use model::machine::life::{Carried, Intent, Phase};
use model::machine::{BootStage, StageSeen};
use model::node::NodeRole;
use model::power_cycle::RamdiskAgent;
use model::rack::{Event as Seen, Observation};
use proptest::prelude::*;

use super::super::observed;
use super::*;
use crate::machines::machine::register;
use crate::testing::{NOW, config, node, spec};

/// A machine that is in a state in its power cycle 2.
fn in_state(state: State) -> Config {
    let mut agent = node("n2.example", NodeRole::Candidate);
    agent.rack = Some(0);
    let mut config = config(&[agent]);
    let mut machine = register(&config, &[spec("s1", 0, "worker")], NOW).unwrap().remove(0);
    machine.life.state = state;
    machine.life.carried = Some(Carried { intent: Intent::Deploy, job: JobId(7), awaits: true });
    machine.life.boot = Some("ramdisk".parse().unwrap());
    let cycle = PowerCycle {
        serial: machine.serial.clone(),
        rack: 0,
        number: 2,
        began: NOW,
        sealed: serde_json::from_value("1:AQID".into()).unwrap(),
        ramdisk: Ramdisk::default(),
        switches_on: None,
        left_off: None,
        enrolment: None,
    };
    config.apply([ConfigChange::Machine(machine), ConfigChange::PowerCycle(cycle)]);
    config
}

fn says(config: &mut Config, observation: Observation) {
    let agent = "n2.example".parse().unwrap();
    let events = [Seen { number: 1, at: NOW, observation }];
    let changes = observed(config, &agent, &events, NOW).changes;
    config.apply(changes);
}

fn up(cycle: u64, stage: BootStage) -> Observation {
    Observation::Boot {
        rack: 0,
        serial: "s1".parse().unwrap(),
        address: [10, 69, 0, 32].into(),
        mac: None,
        stage,
        registered: None,
        cycle,
        earlier: Vec::new(),
        every: None,
        cycle_guessed: false,
        fetched: None,
    }
}

fn ramdisk(cycle: u64, status: Option<AgentStatus>) -> Observation {
    let agent = RamdiskAgent {
        callback_url: "https://10.69.0.32:9999".to_owned(),
        version: String::new(),
        verify_ca: None,
        status,
        status_message: "the disk is gone".to_owned(),
        heard: NOW,
    };
    let heard = Ramdisk { token_told: Some(NOW), agent: Some(agent), ..Ramdisk::default() };
    Observation::Ramdisk { rack: 0, serial: "s1".parse().unwrap(), registered: None, cycle, heard }
}

fn inspected(cycle: u64, error: Option<&str>) -> Observation {
    Observation::Inspected {
        rack: 0,
        serial: "s1".parse().unwrap(),
        registered: None,
        cycle,
        inventory: Box::default(),
        error: error.map(str::to_owned),
    }
}

fn after(state: State, observation: Observation) -> State {
    let mut config = in_state(state);
    says(&mut config, observation);
    config.machine("s1").unwrap().life.state
}

#[test]
fn words_of_this_power_cycle_end_what_waits_for_them() {
    use AgentStatus::{End, Error, Start};
    for (from, said, to) in [
        (State::DeployWait, up(2, BootStage::System), State::Healthy),
        (State::DeployWait, up(2, BootStage::Kernel), State::DeployWait),
        (State::Deploying, up(2, BootStage::System), State::Deploying),
        (State::Rebooting, up(2, BootStage::System), State::Healthy),
        (State::Unrescuing, up(2, BootStage::System), State::Healthy),
        (State::Unreachable, up(2, BootStage::System), State::Healthy),
        (State::RescueWait, up(2, BootStage::System), State::Rescued),
        (State::RescueWait, ramdisk(2, None), State::Rescued),
        (State::CleanWait, ramdisk(2, Some(Start)), State::CleanWait),
        (State::CleanWait, ramdisk(2, Some(End)), State::Available),
        (State::CleanWait, ramdisk(2, Some(Error)), State::CleanFailed),
        (State::EraseWait, ramdisk(2, Some(End)), State::Retiring),
        (State::DeployWait, ramdisk(2, Some(End)), State::DeployWait),
        (State::DeployWait, ramdisk(2, Some(Error)), State::DeployFailed),
        (State::InspectWait, inspected(2, None), State::Manageable),
        (State::InspectWait, inspected(2, Some("no disk")), State::InspectFailed),
        (State::Healthy, inspected(2, None), State::Healthy),
        (State::Healthy, ramdisk(2, Some(Error)), State::Healthy),
    ] {
        assert_eq!(after(from, said.clone()), to, "{from}: {said:?}");
        let earlier = match said {
            Observation::Boot { stage, .. } => up(1, stage),
            Observation::Ramdisk { heard, .. } => ramdisk(1, heard.agent.unwrap().status),
            _ => inspected(1, None),
        };
        assert_eq!(after(from, earlier.clone()), from, "{from}: {earlier:?}");
    }
}

#[test]
fn words_while_a_job_prepares_the_machine_are_of_its_old_system() {
    for state in [State::Rebooting, State::Unrescuing, State::DeployWait] {
        let mut config = in_state(state);
        let mut machine = config.machine("s1").unwrap().as_ref().clone();
        machine.life.carried.as_mut().unwrap().awaits = false;
        config.apply([ConfigChange::Machine(machine)]);
        says(&mut config, up(2, BootStage::System));
        assert_eq!(config.machine("s1").unwrap().life.state, state);
    }
}

/// Until somebody switches the power by hand, the old system says by its own URL that it runs.
#[test]
fn a_system_without_its_power_cycle_counts_behind_a_fetch() {
    let guessed = |cycle| {
        let mut said = up(cycle, BootStage::System);
        let Observation::Boot { cycle_guessed, .. } = &mut said else { unreachable!() };
        *cycle_guessed = true;
        said
    };
    for (from, fetched, to) in [
        (State::DeployWait, None, State::DeployWait),
        (State::DeployWait, Some((2, BootStage::Lease)), State::DeployWait),
        (State::DeployWait, Some((1, BootStage::Script)), State::DeployWait),
        (State::DeployWait, Some((2, BootStage::Script)), State::Healthy),
        (State::DeployWait, Some((2, BootStage::Loader)), State::Healthy),
        (State::Rebooting, None, State::Rebooting),
        (State::RescueWait, None, State::RescueWait),
        (State::RescueWait, Some((2, BootStage::Kernel)), State::Rescued),
        // No job waits for another boot.
        (State::Unreachable, None, State::Healthy),
    ] {
        let mut config = in_state(from);
        fetched.into_iter().for_each(|(cycle, stage)| says(&mut config, up(cycle, stage)));
        says(&mut config, guessed(2));
        let state = config.machine("s1").unwrap().life.state;
        assert_eq!(state, to, "{from}: {fetched:?}");
        // A message that names its power cycle needs nothing more.
        says(&mut config, up(2, BootStage::System));
        assert_ne!(config.machine("s1").unwrap().life.state, State::DeployWait);
    }
}

#[test]
fn a_system_that_called_is_found_among_earlier_stages() {
    let system = StageSeen {
        stage: BootStage::System,
        at: NOW,
        agent: String::new(),
        fetched: None,
        cycle: 2,
    };
    let with = |cycle| {
        let mut said = up(2, BootStage::Config);
        let Observation::Boot { earlier, .. } = &mut said else { unreachable!() };
        earlier.push(StageSeen { cycle, ..system.clone() });
        said
    };
    assert_eq!(after(State::DeployWait, with(2)), State::Healthy);
    assert_eq!(after(State::DeployWait, with(1)), State::DeployWait);
}

#[test]
fn what_a_ramdisk_says_is_kept_and_its_boot_ends_with_its_work() {
    let mut config = in_state(State::CleanWait);
    says(&mut config, ramdisk(2, Some(AgentStatus::Error)));
    let life = &config.machine("s1").unwrap().life;
    assert_eq!(life.reason.as_deref(), Some("its ramdisk says: the disk is gone"));
    assert_eq!((&life.boot, life.carried.map(|c| c.job)), (&None, Some(JobId(7))));
    let serial: Serial = "s1".parse().unwrap();
    let heard = |config: &Config| config.power_cycles.get(&serial).unwrap().ramdisk.clone();
    assert_eq!(heard(&config).token_told, Some(NOW));
    // Another agent of the rack knows less.
    let empty = Observation::Ramdisk {
        rack: 0,
        serial: serial.clone(),
        registered: None,
        cycle: 2,
        heard: Ramdisk::default(),
    };
    let before = heard(&config);
    says(&mut config, empty);
    assert_eq!(heard(&config), before);
    let mut config = in_state(State::InspectWait);
    says(&mut config, inspected(2, None));
    assert_eq!(config.inspections.get(&serial).unwrap().source, Source::Ramdisk);
}

fn words() -> impl Strategy<Value = (u64, u8)> {
    (0..4_u64, 0..8_u8)
}

proptest! {
    #[test]
    fn no_words_leave_a_state_without_an_end(
        state in prop::sample::select(State::ALL),
        words in prop::collection::vec(words(), 0..8),
    ) {
        let mut config = in_state(state);
        for (cycle, what) in words {
            let before = config.machine("s1").unwrap().life.clone();
            says(&mut config, match what {
                0 => up(cycle, BootStage::System),
                1 => up(cycle, BootStage::Script),
                2 => ramdisk(cycle, None),
                3 => ramdisk(cycle, Some(AgentStatus::Start)),
                4 => ramdisk(cycle, Some(AgentStatus::End)),
                5 => ramdisk(cycle, Some(AgentStatus::Error)),
                6 => inspected(cycle, None),
                _ => inspected(cycle, Some("no")),
            });
            let life = &config.machine("s1").unwrap().life;
            if cycle != 2 {
                prop_assert_eq!(life, &before);
            }
            let has_end = life.state.deadline().is_some() || !matches!(life.state.phase(), Phase::Runs { .. });
            prop_assert_eq!(has_end, true);
            // A ramdisk is booted no longer than it is wanted, and words begin nothing.
            let wants = life.state.expects_ramdisk() || life.state == State::Rescued;
            prop_assert!(wants || life.boot.is_none() || *life == before);
            let runs = |state: State| matches!(state.phase(), Phase::Runs { .. });
            let begins = !runs(before.state) && runs(life.state);
            prop_assert!(!begins);
        }
    }
}
