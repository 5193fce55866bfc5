//! Core: instances that do not stay alive, and copies of their disks that lack writes.

use model::instance::Phase;
use model::{InstanceName, Timestamp};

use crate::config::Config;
use crate::health::alarm::{Alarm, Subject};
use crate::instances::keep::rules::{Attempts, TRIES_MAX};

/// Alarms about instances that were tried as often as they may be.
pub(crate) fn find(config: &Config, attempts: &Attempts) -> Vec<Alarm> {
    let given_up = attempts.given_up().into_iter();
    let alarm = |(name, since): (InstanceName, Timestamp)| {
        let phase = config.instances.get(&name).map(|instance| &instance.phase);
        let again = match phase {
            Some(Phase::Removing { .. }) => "remove",
            Some(Phase::Moving { .. } | Phase::Copying { .. }) => "migrate --cleanup",
            Some(Phase::Ready | Phase::Creating { .. }) | None => "startup",
        };
        let why = match phase {
            Some(Phase::Removing { why: Some(why), .. }) => format!(": {why}"),
            _ => String::new(),
        };
        Alarm {
            text: format!("{TRIES_MAX} jobs for it within an hour did not help{why}"),
            todo: format!(
                "`gnt instance info {name}` shows how it stands; `gnt instance {again} {name}` tries again"
            ),
            what: Subject::Instance(name),
            since,
        }
    };
    given_up.map(alarm).collect()
}

/// Alarms about disks that have one whole copy alone; one for each instance.
pub(crate) fn stale_copies(config: &Config) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    for instance in config.instances.values() {
        let disks = config.disks_of(instance).enumerate();
        let stale: Vec<_> = disks
            .flat_map(|(place, disk)| disk.stale.iter().map(move |copy| (place, copy)))
            .collect();
        let Some(since) = stale.iter().map(|(_, (_, since))| **since).min() else { continue };
        let named: Vec<String> =
            stale.iter().map(|(place, (node, _))| format!("disk/{place} on {node}")).collect();
        let name = &instance.name;
        alarms.push(Alarm {
            what: Subject::StaleCopies(name.clone()),
            text: format!("no whole copy: {}", named.join(", ")),
            todo: format!(
                "copies are filled while the instance runs and their nodes answer; `gnt instance info {name}` shows how it stands"
            ),
            since,
        });
    }
    alarms
}
