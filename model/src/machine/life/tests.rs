//! The table whole, and what holds of any sequence of events.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

const DOCS: &str = include_str!("../../../../docs/machines.md");
const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn told(event: Event) -> String {
    match event {
        Event::Intent(intent) => intent.as_str().to_owned(),
        Event::Observed(seen) => seen.as_str().to_owned(),
        Event::Set(status) => format!("set {status}"),
    }
}

#[test]
fn the_whole_table() {
    let mut table = String::new();
    for state in State::ALL {
        for event in Event::all() {
            let next = match state.next(event) {
                Ok(next) if next == *state => "=".to_owned(),
                Ok(next) => next.to_string(),
                Err(Refusal::Busy { .. }) => "waits".to_owned(),
                Err(_) => "-".to_owned(),
            };
            writeln!(table, "{state:16}{:20}{next}", told(event)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_external_controllers_set_is_sabakans_table() {
    let sabakan = [
        ("uninitialized", &["healthy", "retiring"][..]),
        ("healthy", &["unhealthy", "unreachable", "updating", "retiring"]),
        ("unhealthy", &["healthy", "unreachable", "updating", "retiring"]),
        ("unreachable", &["healthy", "unhealthy", "updating", "retiring"]),
        ("updating", &["uninitialized"]),
        ("retiring", &["retired"]),
        ("retired", &["uninitialized"]),
    ];
    for state in State::ALL {
        let (_, others) =
            sabakan.iter().find(|(from, _)| *from == state.status().as_str()).unwrap();
        for status in Status::ALL {
            let next = state.next(Event::Set(status));
            if status == state.status() {
                assert_eq!(next, Ok(*state), "{state}: the same state changes nothing");
            } else if others.contains(&status.as_str()) {
                assert_eq!(next.unwrap().status(), status, "{state}");
            } else {
                assert!(matches!(next, Err(Refusal::NoTransition { .. })), "{state}: {status}");
            }
            assert_eq!(status.as_str().parse(), Ok(status));
        }
    }
    assert!("Healthy".parse::<Status>().is_err());
    let refused = State::Retiring.next(Event::Set(Status::Healthy)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a machine that is retiring cannot become healthy, but retired"
    );
}

/// The states that events lead to, from this one on.
fn reached(state: State) -> BTreeSet<State> {
    let (mut all, mut edge) = (BTreeSet::from([state]), vec![state]);
    while let Some(state) = edge.pop() {
        let next = Event::all().filter_map(|event| state.next(event).ok());
        edge.extend(next.filter(|state| all.insert(*state)));
    }
    all
}

#[test]
fn every_state_has_a_way_in_and_out_and_what_runs_has_an_end() {
    let from_the_box = reached(State::Enrolled);
    for state in State::ALL {
        assert!(from_the_box.contains(state), "{state} is never entered");
        let on = reached(*state);
        assert!(on.contains(&State::Retired), "{state} cannot be retired");
        assert!(on.contains(&State::Healthy), "{state} cannot come into service");
        let late = state.next(Event::Observed(Observed::DeadlinePassed)).unwrap();
        if let Phase::Runs { fails, .. } = state.phase() {
            assert!(state.deadline().is_some(), "{state} has no end");
            assert_eq!(late, fails);
            assert!(!matches!(fails.phase(), Phase::Runs { .. }), "{state} fails to what runs");
            assert_eq!(state.next(Event::Intent(Intent::Abort)), Ok(fails));
        } else {
            assert_eq!(late, *state);
        }
        if state.is_failed() {
            assert!(state.provision_state().ends_with("failed"), "{state}");
            let again = Intent::ALL.into_iter().filter(|i| *i != Intent::Retire);
            let again = again.filter(|intent| state.next(Event::Intent(*intent)).is_ok());
            assert!(again.count() > 0, "{state}: nothing can be tried again");
        }
    }
}

#[test]
fn ramdisks_are_expected_where_ironic_expects_them() {
    let ironic = [
        "deploying",
        "wait call-back",
        "cleaning",
        "clean wait",
        "inspecting",
        "inspect wait",
        "rescuing",
        "rescue wait",
    ];
    for state in State::ALL {
        assert_eq!(state.expects_ramdisk(), ironic.contains(&state.provision_state()), "{state}");
    }
}

#[test]
fn a_life_from_the_box_to_the_scrap_heap() {
    let mut life = Life::default();
    for (event, state) in [
        (Event::Intent(Intent::Inspect), State::Inspecting),
        (Event::Observed(Observed::Awaited), State::InspectWait),
        (Event::Observed(Observed::AgentCalled), State::Inspecting),
        (Event::Observed(Observed::Done), State::Manageable),
        (Event::Intent(Intent::Deploy), State::Deploying),
        // Its old system, which is not off yet.
        (Event::Observed(Observed::SystemCalled), State::Deploying),
        (Event::Observed(Observed::Awaited), State::DeployWait),
        (Event::Observed(Observed::DeadlinePassed), State::DeployFailed),
        (Event::Intent(Intent::Deploy), State::Deploying),
        (Event::Observed(Observed::Awaited), State::DeployWait),
        (Event::Observed(Observed::SystemCalled), State::Healthy),
        (Event::Observed(Observed::Silent), State::Unreachable),
        (Event::Observed(Observed::SystemCalled), State::Healthy),
        (Event::Intent(Intent::Retire), State::Retiring),
        (Event::Intent(Intent::Clean), State::Erasing),
        (Event::Observed(Observed::Done), State::Retiring),
        (Event::Set(Status::Retired), State::Retired),
        (Event::Set(Status::Uninitialized), State::Enrolled),
    ] {
        life = life.after(event, Some("because"), NOW).unwrap();
        assert_eq!(life.state, state, "after {}", told(event));
    }
    assert_eq!((life.since, life.reason.as_deref()), (Some(NOW), Some("because")));
    let later = NOW.plus_seconds(9);
    let same = life.after(Event::Set(Status::Uninitialized), None, later).unwrap();
    assert_eq!(same, life, "the same state is not entered again");
}

#[test]
fn an_intent_cancels_what_runs_and_waits_while_disks_are_wiped() {
    let wants = |state: State, intent| state.next(Event::Intent(intent));
    assert_eq!(wants(State::InspectWait, Intent::Deploy), Ok(State::Deploying));
    assert_eq!(wants(State::DeployWait, Intent::Deploy), Ok(State::Deploying));
    assert!(matches!(wants(State::DeployWait, Intent::Reboot), Err(Refusal::NotFrom { .. })));
    assert!(matches!(wants(State::CleanWait, Intent::Deploy), Err(Refusal::Busy { .. })));
    assert_eq!(wants(State::CleanWait, Intent::Retire), Ok(State::Retiring));
    let begun = Life { state: State::DeployWait, since: Some(NOW), ..Life::default() };
    let anew = begun.after(Event::Intent(Intent::Deploy), None, NOW.plus_seconds(60)).unwrap();
    assert_eq!(anew.since, Some(NOW.plus_seconds(60)));
}

#[test]
fn a_job_prepares_a_machine_until_it_awaits_it() {
    let job = JobId(7);
    for (intent, from) in [(Intent::Reboot, State::Healthy), (Intent::Clean, State::Available)] {
        let mut life = Life { state: from, ..Life::default() };
        life = life.after(Event::Intent(intent), None, NOW).unwrap();
        life.carried = Some(Carried { intent, job, awaits: false });
        life.boot = Some("ramdisk".parse().unwrap());
        assert_eq!((life.preparing(), life.is_carried_by(job)), (Some(job), true));
        life = life.after(Event::Observed(Observed::Awaited), None, NOW).unwrap();
        assert_eq!((life.preparing(), life.is_carried_by(job)), (None, true));
        assert!(life.boot.is_some());
        let failed = life.after(Event::Observed(Observed::Failed), Some("no"), NOW).unwrap();
        assert_eq!((failed.boot, failed.carried.map(|c| c.job)), (None, Some(job)));
        assert!(!life.is_carried_by(JobId(8)));
    }
    let set = Life { state: State::Healthy, carried: None, ..Life::default() };
    let begun = Some(Carried { intent: Intent::Deploy, job, awaits: true });
    let set = Life { carried: begun, ..set }.after(Event::Set(Status::Updating), None, NOW);
    assert_eq!(set.unwrap().carried, None, "another controller took over");
}

fn event() -> impl Strategy<Value = Event> {
    prop::sample::select(Event::all().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn no_sequence_of_events_gets_stuck(events in prop::collection::vec(event(), 0..60)) {
        let mut life = Life::default();
        for (at, event) in events.into_iter().enumerate() {
            let now = NOW.plus_seconds(i64::try_from(at).unwrap());
            let before = life.state;
            if let Ok(after) = life.after(event, None, now) {
                life = after;
            } else {
                prop_assert!(!matches!(event, Event::Observed(_)), "{before}: a fact was refused");
            }
            // Nothing comes back from retirement but by the one word that says so.
            if before == State::Retired {
                let back = event == Event::Set(Status::Uninitialized);
                prop_assert_eq!(life.state != before, back);
            }
            // A machine that goes out of service has no way but that.
            if before.status() == Status::Retiring {
                prop_assert!(matches!(life.state.status(), Status::Retiring | Status::Retired));
            }
            let out = Event::all().any(|event| life.state.next(event).is_ok_and(|s| s != life.state));
            prop_assert!(out, "{} has no way out", life.state);
        }
    }
}

fn rows() -> String {
    let mut rows = String::new();
    for state in State::ALL {
        let deadline = match state.deadline() {
            Some(seconds) if seconds % 3_600 == 0 => format!("{} h", seconds / 3_600),
            Some(seconds) => format!("{} min", seconds / 60),
            None => "-".to_owned(),
        };
        let (then, others) = match state.phase() {
            Phase::Runs { fails, meanwhile: Meanwhile::Cancels, .. } => {
                (fails.as_str(), "cancel it")
            }
            Phase::Runs { fails, meanwhile: Meanwhile::Waits, .. } => (fails.as_str(), "wait"),
            Phase::Settled if state.deadline().is_some() => ("the alarm alone", "begin"),
            Phase::Settled | Phase::Failed => ("-", "begin"),
        };
        let (status, provision, meaning) =
            (state.status(), state.provision_state(), state.meaning());
        let row = format!(
            "| `{state}` | `{status}` | `{provision}` | {deadline} | {then} | {others} | {meaning} |"
        );
        writeln!(rows, "{row}").unwrap();
    }
    rows
}

/// The ways between states, without those that a machine has from everywhere.
fn drawing() -> String {
    let node = |state: &State| state.as_str().replace('-', "_");
    let mut lines = vec!["stateDiagram-v2".to_owned(), "    [*] --> enrolled".to_owned()];
    for from in State::ALL {
        for to in State::ALL.iter().filter(|to| *to != from) {
            let leads = |event: &Event| match event {
                // The text tells of intents that cancel.
                Event::Intent(Intent::Retire | Intent::Abort) => false,
                Event::Intent(intent) => from.begun(*intent) == Some(*to),
                Event::Observed(Observed::Failed) => false,
                Event::Observed(_) => from.next(*event) == Ok(*to),
                Event::Set(status) => {
                    matches!(status, Status::Retired | Status::Uninitialized)
                        && !matches!(from.phase(), Phase::Runs { .. })
                        && from.next(*event) == Ok(*to)
                }
            };
            let events: Vec<String> = Event::all().filter(leads).map(told).collect();
            if !events.is_empty() {
                lines.push(format!("    {} --> {}: {}", node(from), node(to), events.join(", ")));
            }
        }
    }
    lines.join("\n")
}

#[test]
fn the_documentation_has_this_table_and_its_drawing() {
    assert!(DOCS.contains(&rows()), "docs/machines.md lacks:\n{}", rows());
    assert!(DOCS.contains(&drawing()), "docs/machines.md lacks:\n{}", drawing());
}

#[test]
fn maintenance_silences_deadlines() {
    let text = r#"{"serial":"s1","product":"","datacenter":"","rack":1,"index-in-rack":4,"role":"w",
        "network":{},"bmc":{"ipv4":[],"ipv6":null},"register-date":[1700000000,0]}"#;
    let mut machine: crate::machine::Machine = serde_json::from_str(text).unwrap();
    machine.life = machine.life.after(Event::Intent(Intent::Deploy), None, NOW).unwrap();
    assert_eq!(machine.overdue(NOW.plus_seconds(BOOT - 1)), None);
    let overdue = machine.overdue(NOW.plus_seconds(BOOT)).unwrap();
    assert_eq!((overdue.state, overdue.fails), (State::Deploying, Some(State::DeployFailed)));
    machine.maintenance = Some("new card".to_owned());
    assert_eq!(machine.overdue(NOW.plus_seconds(BOOT)), None);
    machine.maintenance = None;
    machine.life.state = State::Updating;
    assert_eq!(machine.overdue(NOW.plus_seconds(UPDATE)).unwrap().fails, None);
}
