//! Core: instances that do not stay alive, and copies of their disks that lack writes.

use std::sync::Arc;

use model::instance::launch::Sight;
use model::instance::state::Seen;
use model::instance::{Instance, Phase};
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

/// Alarms about guests that stand still, as one of their disks could not be written.
pub(crate) fn still(config: &Config, sight: impl Fn(&Instance) -> Option<Sight>) -> Vec<Alarm> {
    let stands = |instance: &Arc<Instance>| {
        let sight = sight(instance).filter(|sight| sight.seen == Seen::IoError)?;
        let name = &instance.name;
        Some(Alarm {
            what: Subject::StillInstance(name.clone()),
            text: sight.exit.unwrap_or_else(|| "one of its disks could not be written".to_owned()),
            todo: format!(
                "make room on {}, or mend its storage; `gnt instance startup {name}` has it go on",
                instance.primary_node
            ),
            since: sight.since,
        })
    };
    config.instances.values().filter_map(stands).collect()
}
