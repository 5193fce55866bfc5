//! Core: the needs of copies of disks, by the record and by the word of the run's agent.

use model::instance::launch::{CopyState, Sight};
use model::instance::{Disk, Instance};
use model::{NodeName, Timestamp, Uuid};

use crate::config::{Config, ConfigChange};

/// The one template whose disks have copies.
pub(crate) const MIRROR: &str = "mirror";

/// A need of the other copy of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The run does not write it: it is to be recorded as stale, and let go.
    Detach,
    /// It is stale: the run is to fill it.
    Join,
    /// The run has filled it: it is to be recorded as fresh.
    Fresh,
}

/// The node that has the other copy of a disk.
pub(crate) fn other<'d>(disk: &'d Disk, primary: &NodeName) -> Option<&'d NodeName> {
    disk.nodes.iter().find(|node| *node != primary)
}

/// The need of the other copy of a disk, whose run is in this state.
fn need(disk: &Disk, primary: &NodeName, state: &CopyState) -> Option<Need> {
    let is_stale = disk.stale.contains_key(other(disk, primary)?);
    match (state, is_stale) {
        (CopyState::Lost(_), _) | (CopyState::Alone | CopyState::Filling, false) => {
            Some(Need::Detach)
        }
        (CopyState::Alone, true) => Some(Need::Join),
        (CopyState::InStep, true) => Some(Need::Fresh),
        (CopyState::Filling, true) | (CopyState::InStep, false) => None,
    }
}

/// The needs of the copies of an instance's disks, by the word on its present run; none by a word on another.
pub(crate) fn needs(config: &Config, instance: &Instance, sight: &Sight) -> Vec<(Uuid, Need)> {
    let is_of_run = instance.run.as_ref().is_some_and(|run| run.number == sight.run);
    if !is_of_run || !sight.seen.is_alive() {
        return Vec::new();
    }
    let of = |disk: &Disk| {
        let copy = sight.copies.iter().find(|copy| copy.disk == disk.uuid)?;
        Some((disk.uuid, need(disk, &instance.primary_node, &copy.state)?))
    };
    config.disks_of(instance).filter_map(|disk| of(disk)).collect()
}

/// The changes by which the other copies of these disks are stale. A disk changes though it was so already: who
/// looked before, and takes its copy for fresh, must not commit that any more.
pub(crate) fn stale<'d>(
    disks: impl IntoIterator<Item = &'d Disk>,
    primary: &NodeName,
    now: Timestamp,
) -> Vec<ConfigChange> {
    let stale = |disk: &Disk| {
        let other = other(disk, primary).filter(|_| disk.place.template() == MIRROR)?;
        let mut after = disk.changed(now);
        after.stale.entry(other.clone()).or_insert(now);
        Some(ConfigChange::Disk(after))
    };
    disks.into_iter().filter_map(stale).collect()
}

/// The changes by which all other copies of an instance's disks are stale.
///
/// So they are after a run that did not end well: the copies differ in writes that were on their way.
pub(crate) fn all_stale(config: &Config, instance: &Instance, now: Timestamp) -> Vec<ConfigChange> {
    let primary = &instance.primary_node;
    let is_fresh =
        |disk: &&Disk| other(disk, primary).is_some_and(|it| !disk.stale.contains_key(it));
    stale(config.disks_of(instance).map(AsRef::as_ref).filter(is_fresh), primary, now)
}

#[cfg(test)]
mod tests {
    use model::instance::DiskPlace;
    use model::instance::launch::CopySight;
    use model::instance::state::Seen;

    use super::*;
    use crate::testing::{NOW, config, instance};

    fn disk(instance: &Instance, is_stale: bool) -> Disk {
        let (own, other): (NodeName, NodeName) =
            (instance.primary_node.clone(), "n2.example".parse().unwrap());
        Disk {
            uuid: Uuid::from_u128(7),
            instance: Some(instance.uuid),
            name: None,
            serial_no: 1,
            ctime: NOW,
            mtime: NOW,
            size: 64,
            mode: model::instance::disk::DiskMode::ReadWrite,
            place: DiskPlace::Mirror { path: "/srv/i1/7".to_owned() },
            stale: is_stale.then(|| (other.clone(), NOW)).into_iter().collect(),
            nodes: vec![own, other],
            spindles: None,
            params: model::instance::parameters::Parameters::new(),
        }
    }

    #[test]
    fn needs_follow_the_word_of_the_present_run() {
        let mut held = config(&[]);
        let mut instance = instance("i1", "n1.example");
        instance.disks = vec![Uuid::from_u128(7)];
        let number = instance.run.as_ref().unwrap().number;
        let sight = |state: CopyState, run: u64, seen: Seen| Sight {
            uuid: instance.uuid,
            name: instance.name.clone(),
            run,
            seen,
            since: NOW,
            memory: 64,
            vcpus: 1,
            exit: None,
            guest: None,
            copies: vec![CopySight { disk: Uuid::from_u128(7), state }],
        };
        let lost = || CopyState::Lost("cut off".to_owned());
        for (state, is_stale, wanted) in [
            (lost(), false, Some(Need::Detach)),
            (lost(), true, Some(Need::Detach)),
            (CopyState::Alone, false, Some(Need::Detach)),
            (CopyState::Alone, true, Some(Need::Join)),
            (CopyState::Filling, true, None),
            (CopyState::InStep, true, Some(Need::Fresh)),
            (CopyState::InStep, false, None),
        ] {
            held.apply([ConfigChange::Disk(disk(&instance, is_stale))]);
            let found = needs(&held, &instance, &sight(state.clone(), number, Seen::IoError));
            assert_eq!(found.first().map(|(_, need)| *need), wanted, "{state:?} {is_stale}");
        }
        let old = sight(lost(), number + 1, Seen::Running);
        assert_eq!(needs(&held, &instance, &old), [], "another run");
        let dead = sight(lost(), number, Seen::Crashed);
        assert_eq!(needs(&held, &instance, &dead), [], "it does not live");
    }

    #[test]
    fn a_copy_is_stale_since_the_first_time() {
        let (instance, mut held) = (instance("i1", "n1.example"), config(&[]));
        let instance = Instance { disks: vec![Uuid::from_u128(7)], ..instance };
        held.apply([ConfigChange::Disk(disk(&instance, false))]);
        let changes = all_stale(&held, &instance, NOW.plus_seconds(1));
        assert_eq!(changes.len(), 1);
        held.apply(changes);
        assert!(all_stale(&held, &instance, NOW.plus_seconds(2)).is_empty());
        let since = held.disks.values().next().unwrap().stale.values().next().copied();
        assert_eq!(since, Some(NOW.plus_seconds(1)));
    }
}
