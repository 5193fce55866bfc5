//! Core: machines that stay in a state for longer than they may, or that failed (`model::machine::life`).

use std::sync::Arc;

use model::bmc::Inspection;
use model::machine::Machine;
use model::machine::life::State;
use model::power_cycle::PowerCycle;
use model::{JobId, Serial, Timestamp};

use crate::config::Config;
use crate::health::alarm::{Alarm, Subject};

/// Machines that are told one by one, those that are late the longest first: a hall that lost its power
/// fills no screen.
pub const TOLD_MAX: usize = 50;
/// Changes of hardware that an alarm names; the list of machines has all.
const CHANGES_TOLD_MAX: usize = 5;
/// Machines that one look takes up to end what they do: more than one round submits jobs for.
const ENDED_MAX: usize = 50;

/// A machine, its state, and since when it is in it.
pub type Stay = (Serial, State, Timestamp);

/// Machines that somebody should look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machines {
    /// Those to tell.
    pub told: Vec<Trouble>,
    /// Those whose state is to end.
    pub ended: Vec<Stay>,
    /// Machines that a job prepared which has ended: nothing goes on there.
    pub left: Vec<Stay>,
    /// Machines that a job was to switch on, and that it had not seen on when it ended.
    pub off: Vec<Serial>,
    /// Alarms about those, for as long as no job saw them on.
    pub left_off: Vec<Alarm>,
    /// Alarms about those whose hardware changed.
    pub hardware: Vec<Alarm>,
}

/// A machine that is late, or that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The machine.
    pub serial: Serial,
    pub state: State,
    /// Since when it is late, or has failed.
    pub since: Timestamp,
    /// For how many seconds it might have been there; none where it failed.
    pub deadline: Option<i64>,
    /// Why it failed.
    pub reason: Option<String>,
}

/// Finds the machines that somebody should look at now.
pub fn find(config: &Config, now: Timestamp, has_ended: impl Fn(JobId) -> bool) -> Machines {
    let mut told: Vec<Trouble> =
        config.machines.values().filter_map(|machine| trouble(machine, now)).collect();
    told.sort_by(|a, b| (a.since, &a.serial).cmp(&(b.since, &b.serial)));
    let ends = |trouble: &&Trouble| {
        let machine = config.machines.get(&trouble.serial);
        machine.and_then(|machine| machine.overdue(now)).is_some_and(|o| o.fails.is_some())
    };
    let stay = |trouble: &Trouble| {
        let late = trouble.deadline.unwrap_or(0);
        (trouble.serial.clone(), trouble.state, trouble.since.plus_seconds(-late))
    };
    let ended = told.iter().filter(ends).take(ENDED_MAX).map(stay).collect();
    told.truncate(TOLD_MAX);
    let is_left = |machine: &&Arc<Machine>| machine.life.preparing().is_some_and(&has_ended);
    let mut left: Vec<Stay> = config
        .machines
        .values()
        .filter(is_left)
        .map(|machine| (machine.serial.clone(), machine.life.state, machine.state_since()))
        .collect();
    left.sort_by(|a, b| (a.2, &a.0).cmp(&(b.2, &b.0)));
    left.truncate(ENDED_MAX);
    let is_off = |cycle: &&Arc<PowerCycle>| cycle.switches_on.is_some_and(&has_ended);
    let off = config.power_cycles.values().filter(is_off).take(ENDED_MAX);
    let off = off.map(|cycle| cycle.serial.clone()).collect();
    let left_off = left_off(config, now, has_ended);
    Machines { told, ended, left, off, left_off, hardware: hardware(config) }
}

/// Alarms about the first of the machines that a job left off. A later job that tries to switch one on
/// ends nothing before it sees the machine on.
fn left_off(config: &Config, now: Timestamp, has_ended: impl Fn(JobId) -> bool) -> Vec<Alarm> {
    let is_quiet = |serial| config.machines.get(serial).is_some_and(|m| m.maintenance.is_some());
    let alarm = |cycle: &Arc<PowerCycle>| {
        let (serial, job) = (&cycle.serial, cycle.switches_on?);
        let is_left = cycle.left_off.is_some() || has_ended(job);
        is_left.then(|| Alarm {
            what: Subject::MachineOff(serial.clone()),
            since: cycle.left_off.unwrap_or(now),
            text: format!("it is off, or may be: job {job} was to switch it on, and did not see it on"),
            todo: format!(
                "the watcher tries again; `gnt job info {job}` shows why it failed. Mend its controller and \
                 `gnt machine power on {serial}`, or press its button; `gnt machine power off {serial}` where it \
                 is to stay off"
            ),
        })
    };
    let cycles = config.power_cycles.values().filter(|cycle| !is_quiet(&cycle.serial));
    cycles.filter_map(alarm).take(TOLD_MAX).collect()
}

/// Those whose hardware changed, the first of them.
fn hardware(config: &Config) -> Vec<Alarm> {
    let is_quiet = |serial| config.machines.get(serial).is_some_and(|m| m.maintenance.is_some());
    let alarm = |found: &Arc<Inspection>| {
        let (serial, since) = (&found.serial, found.changed?);
        let told = &found.changes[..found.changes.len().min(CHANGES_TOLD_MAX)];
        let more = found.changes.len() - told.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Some(Alarm {
            what: Subject::Hardware(serial.clone()),
            since,
            text: format!("its hardware changed: {}{more}", told.join("; ")),
            todo: format!(
                "mend it and inspect it again; where it is as it should be, `gnt machine modify {serial} \
                 --clear hardware-changes`"
            ),
        })
    };
    let found = config.inspections.values().filter(|found| !is_quiet(&found.serial));
    found.filter_map(alarm).take(TOLD_MAX).collect()
}

fn trouble(machine: &Machine, now: Timestamp) -> Option<Trouble> {
    let (serial, state) = (machine.serial.clone(), machine.life.state);
    if let Some(overdue) = machine.overdue(now) {
        let since = overdue.since.plus_seconds(overdue.deadline);
        return Some(Trouble {
            serial,
            state,
            since,
            deadline: Some(overdue.deadline),
            reason: None,
        });
    }
    let failed = state.is_failed() || machine.life.silent_since.is_some();
    let failed = failed && machine.maintenance.is_none();
    let (since, reason) = (machine.state_since(), machine.life.reason.clone());
    failed.then_some(Trouble { serial, state, since, deadline: None, reason })
}

impl Trouble {
    /// The alarm about it.
    pub fn alarm(&self) -> Alarm {
        let Self { serial, state, since, deadline, reason } = self;
        let silence = format!(
            "`gnt machine modify {serial} --maintenance TEXT` silences it while you work on the machine"
        );
        match deadline {
            Some(deadline) => Alarm {
                what: Subject::LateMachine(serial.clone()),
                since: *since,
                text: format!("it is {state} for longer than {deadline} s"),
                todo: format!(
                    "see what it does on its console and in the jobs on it (`gnt job list -F 'summary =~ \
                     m/{serial}/'`); {silence}"
                ),
            },
            None => Alarm {
                what: match state {
                    State::Unreachable => Subject::SilentMachine(serial.clone()),
                    _ => Subject::FailedMachine(serial.clone()),
                },
                since: *since,
                text: match reason {
                    Some(reason) => format!("it is {state}: {reason}"),
                    None => format!("it is {state}"),
                },
                todo: format!("mend the cause and try again, or retire it; {silence}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use model::machine::life::{Carried, Event, Intent, Observed, Status};

    use super::*;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, spec};

    #[test]
    fn the_latest_are_told_and_those_of_others_are_left_to_them() {
        let mut config = config(&[]);
        let specs = ["s1", "s2", "s3", "s4"].map(|serial| spec(serial, 1, "worker"));
        let mut machines = register(&config, &specs, NOW).unwrap();
        let deploy = [Event::Intent(Intent::Deploy)];
        let failed = [deploy[0], Event::Observed(Observed::Failed)];
        let update = [Event::Set(Status::Healthy), Event::Set(Status::Updating)];
        let events: [&[Event]; 4] = [&deploy, &failed, &update, &[]];
        for (machine, events) in machines.iter_mut().zip(events) {
            for event in events {
                machine.life = machine.life.after(*event, Some("no power"), NOW).unwrap();
            }
        }
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        let told = |now| -> Vec<String> {
            let found = find(&config, now, |_job| false);
            found.told.iter().map(|trouble| format!("{}", trouble.alarm().what)).collect()
        };
        assert_eq!(told(NOW), ["failed machine s2"]);
        let late = NOW.plus_seconds(7_200);
        assert_eq!(told(late), ["failed machine s2", "machine s1", "machine s3"]);
        let found = find(&config, late, |_job| false);
        assert_eq!(found.ended, [("s1".parse().unwrap(), State::Deploying, NOW)]);
        assert_eq!(found.left, []);
        let mut s1 = config.machine("s1").unwrap().as_ref().clone();
        s1.life.carried = Some(Carried { intent: Intent::Deploy, job: JobId(7), awaits: false });
        config.apply([ConfigChange::Machine(s1)]);
        let left = |ended| find(&config, NOW, |job| job == JobId(ended)).left;
        assert_eq!(left(6), []);
        assert_eq!(left(7), [("s1".parse().unwrap(), State::Deploying, NOW)]);
        assert!(found.told[0].alarm().text.ends_with("deploy-failed: no power"));
    }

    #[test]
    fn a_machine_that_was_left_off_is_told_until_somebody_saw_it_on() {
        use crate::machines::power_cycle::switches_on;
        let mut config = config(&[]);
        let machines = register(&config, &[spec("s1", 1, "worker")], NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        let serial: Serial = "s1".parse().unwrap();
        let sealed = serde_json::from_value("1:AQID".into()).unwrap();
        let marked = |config: &mut Config, job: Option<u64>| {
            let change = switches_on(config, &serial, &sealed, (job.map(JobId), NOW)).unwrap();
            config.apply(change);
        };
        let told = |config: &Config, ended: u64| {
            let found = find(config, NOW, |job| job <= JobId(ended));
            let alarms =
                found.left_off.iter().map(|alarm| format!("{}: {}", alarm.what, alarm.text));
            (found.off.len(), alarms.collect::<Vec<_>>())
        };
        assert_eq!(told(&config, 9), (0, vec![]));
        marked(&mut config, Some(7));
        assert_eq!(told(&config, 6), (0, vec![]), "it is at work");
        let alarm = "machine s1 left off: it is off, or may be: job 7 was to switch it on, and did not see it \
                     on";
        assert_eq!(told(&config, 7), (1, vec![alarm.to_owned()]));
        // Another job tries, and the alarm stands meanwhile.
        let mut cycle = config.power_cycles[&serial].as_ref().clone();
        (cycle.switches_on, cycle.left_off) = (Some(JobId(8)), Some(NOW));
        config.apply([ConfigChange::PowerCycle(cycle)]);
        let (off, alarms) = told(&config, 7);
        assert_eq!((off, alarms.len()), (0, 1), "{alarms:?}");
        marked(&mut config, None);
        assert_eq!(told(&config, 9), (0, vec![]));
        assert_eq!(config.power_cycles[&serial].left_off, None);
    }

    #[test]
    fn changed_hardware_is_told_until_somebody_accepts_it() {
        use model::bmc::Source;
        use model::inventory::Inventory;
        let mut config = config(&[]);
        let machines = register(&config, &[spec("s1", 1, "worker")], NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        let mut found = |source, mib| {
            let inventory = Inventory { memory_mib: mib, ..Inventory::default() };
            let serial: Serial = "s1".parse().unwrap();
            let before = config.inspections.get(&serial).map(AsRef::as_ref);
            let after = Inspection::after(before, serial, NOW, (source, inventory));
            config.apply([ConfigChange::Inspection(after)]);
            find(&config, NOW, |_job| false).hardware.into_iter().map(|alarm| alarm.text).next()
        };
        assert_eq!(found(Source::Bmc, 1024), None);
        assert_eq!(found(Source::Ramdisk, 1000), None, "another source counts otherwise");
        assert_eq!(found(Source::Ramdisk, 1000), None);
        let less = "its hardware changed: memory: 1024 MiB, now 512 MiB";
        assert_eq!(found(Source::Bmc, 512).as_deref(), Some(less));
        assert_eq!(found(Source::Ramdisk, 1000).as_deref(), Some(less), "nobody accepted it");
        let both = format!("{less}; memory: 1000 MiB, now 500 MiB");
        assert_eq!(found(Source::Ramdisk, 500), Some(both));
        let accepted = config.inspections.values().next().unwrap().accepted();
        config.apply([ConfigChange::Inspection(accepted)]);
        assert_eq!(find(&config, NOW, |_job| false).hardware, []);
    }
}
