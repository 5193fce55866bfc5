//! Core: the steps from the devices that a guest has to those that it is to have.

use std::collections::BTreeSet;

use model::Uuid;
use model::instance::launch::{DiskLaunch, Launch, NicLaunch};
use serde_json::Value;

use crate::kvm::parts::{card_id, disk_id};

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step<'a> {
    UnplugDisk(Uuid),
    UnplugCard(Uuid),
    PlugDisk(&'a DiskLaunch),
    PlugCard(&'a NicLaunch),
    /// The disk is larger than the guest knows.
    Resize(&'a DiskLaunch),
}

/// A change of the devices of a run; others stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// Disks and cards that it is to have.
    pub disks: Vec<DiskLaunch>,
    pub nics: Vec<NicLaunch>,
    /// Disks and cards that it is not to have.
    pub without: Vec<Uuid>,
}

/// The steps of a change for a guest that has the devices `present`, and was told `had` of them. Devices
/// leave first.
///
/// A card that changes leaves and comes back: its guest sees another one.
pub(super) fn steps<'a>(
    present: &BTreeSet<String>,
    had: &Launch,
    change: &'a Change,
) -> Vec<Step<'a>> {
    let has_disk = |uuid: Uuid| present.contains(&disk_id(uuid));
    let has_card = |uuid: Uuid| present.contains(&card_id(uuid));
    let mut steps = Vec::new();
    // A device that its guest let go of after its time has left something open, which goes now.
    for uuid in &change.without {
        if has_disk(*uuid) || had.disks.iter().any(|disk| disk.uuid == *uuid) {
            steps.push(Step::UnplugDisk(*uuid));
        }
        if has_card(*uuid) || had.nics.iter().any(|nic| nic.uuid == *uuid) {
            steps.push(Step::UnplugCard(*uuid));
        }
    }
    let coming: Vec<&NicLaunch> =
        change.nics.iter().filter(|nic| !has_card(nic.uuid) || !had.nics.contains(nic)).collect();
    let was_there = |nic: &NicLaunch| had.nics.iter().any(|one| one.uuid == nic.uuid);
    let anew = coming.iter().filter(|nic| has_card(nic.uuid) || was_there(nic));
    steps.extend(anew.map(|nic| Step::UnplugCard(nic.uuid)));
    for disk in &change.disks {
        match had.disks.iter().find(|before| before.uuid == disk.uuid) {
            _ if !has_disk(disk.uuid) => steps.push(Step::PlugDisk(disk)),
            Some(before) if before.size < disk.size => steps.push(Step::Resize(disk)),
            _ => {}
        }
    }
    steps.extend(coming.into_iter().map(Step::PlugCard));
    steps
}

/// The devices of a run after a change, but for those with which it failed: they stay on record as they were.
pub(crate) fn after(had: Launch, change: Change, failed: impl Fn(Uuid) -> bool) -> Launch {
    let mut now = had;
    now.disks.retain(|disk| failed(disk.uuid) || !change.without.contains(&disk.uuid));
    now.nics.retain(|nic| failed(nic.uuid) || !change.without.contains(&nic.uuid));
    for disk in change.disks.into_iter().filter(|disk| !failed(disk.uuid)) {
        match now.disks.iter_mut().find(|had| had.uuid == disk.uuid) {
            // Its other copy is what it was, and one that comes has none before it is joined.
            Some(had) => *had = DiskLaunch { replica: had.replica.take(), ..disk },
            None => now.disks.push(DiskLaunch { replica: None, ..disk }),
        }
    }
    for nic in change.nics.into_iter().filter(|nic| !failed(nic.uuid)) {
        match now.nics.iter_mut().find(|had| had.uuid == nic.uuid) {
            Some(had) => *had = nic,
            None => now.nics.push(nic),
        }
    }
    now
}

/// The identities of devices, by the answer to `qom-list`; none where it is no such answer.
pub(super) fn devices(told: &Value) -> Option<BTreeSet<String>> {
    told.as_array()?.iter().map(|device| Some(device["name"].as_str()?.to_owned())).collect()
}

/// The first port into which nothing is plugged, by the answer to `query-pci`; none where the machine has no such
/// ports.
///
/// # Errors
/// All are taken.
pub(super) fn free_port(buses: &Value) -> Result<Option<String>, String> {
    let devices =
        buses.as_array().into_iter().flatten().filter_map(|bus| bus["devices"].as_array());
    let mut ports: Vec<(usize, bool)> = devices
        .flatten()
        .filter_map(|device| {
            let number = device["qdev_id"].as_str()?.strip_prefix("port")?.parse().ok()?;
            let behind = device["pci_bridge"]["devices"].as_array();
            Some((number, behind.is_none_or(Vec::is_empty)))
        })
        .collect();
    ports.sort_unstable();
    match ports.iter().find(|(_, is_free)| *is_free) {
        Some((number, _)) => Ok(Some(format!("port{number}"))),
        None if ports.is_empty() => Ok(None),
        None => Err(format!(
            "all {} ports for devices are taken; kvm_pci_reservations gives more from its next start on",
            ports.len()
        )),
    }
}

/// The set of descriptors behind a file, by the answer to `query-named-block-nodes`.
pub(super) fn descriptors(nodes: &Value, file: &str) -> Option<u64> {
    let node = nodes.as_array()?.iter().find(|node| node["node-name"] == file)?;
    node["file"].as_str()?.strip_prefix("/dev/fdset/")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use model::instance::DiskPlace;
    use model::instance::disk::DiskMode;
    use model::instance::parameters::Parameters;
    use serde_json::json;

    use super::*;

    fn disk(number: u128, size: u64) -> DiskLaunch {
        DiskLaunch {
            uuid: Uuid::from_u128(number),
            place: DiskPlace::File { path: format!("/srv/{number}") },
            size,
            mode: DiskMode::ReadWrite,
            params: Parameters::new(),
            replica: None,
        }
    }

    fn nic(number: u128, mac: &str) -> NicLaunch {
        NicLaunch {
            uuid: Uuid::from_u128(number),
            mac: mac.parse().unwrap(),
            ip: None,
            network: None,
            nicparams: Parameters::new(),
        }
    }

    const MACS: [&str; 2] = ["aa:00:00:00:00:01", "aa:00:00:00:00:02"];

    #[test]
    fn devices_leave_come_grow_and_are_made_anew() {
        let had = Launch {
            uuid: Uuid::nil(),
            name: "web1".parse().unwrap(),
            run: 1,
            hypervisor: "kvm".to_owned(),
            hvparams: Parameters::new(),
            beparams: Parameters::new(),
            nics: vec![nic(1, MACS[0]), nic(2, MACS[0])],
            disks: vec![disk(1, 10), disk(2, 10)],
            paused: false,
            seed: None,
            users: Vec::new(),
            network_port: None,
        };
        let id = |number| Uuid::from_u128(number);
        let all = [disk_id(id(1)), disk_id(id(2)), card_id(id(1)), card_id(id(2))];
        let present: BTreeSet<String> =
            all.into_iter().chain(["seed-disk".to_owned(), "balloon".to_owned()]).collect();
        let change = Change { disks: had.disks.clone(), nics: had.nics.clone(), without: vec![] };
        assert_eq!(steps(&present, &had, &change), []);
        let change = Change {
            disks: vec![disk(2, 20), disk(3, 1)],
            nics: vec![nic(2, MACS[1]), nic(3, MACS[0])],
            without: vec![id(1)],
        };
        let wanted = [
            Step::UnplugDisk(id(1)),
            Step::UnplugCard(id(1)),
            Step::UnplugCard(id(2)),
            Step::Resize(&change.disks[0]),
            Step::PlugDisk(&change.disks[1]),
            Step::PlugCard(&change.nics[0]),
            Step::PlugCard(&change.nics[1]),
        ];
        assert_eq!(steps(&present, &had, &change), wanted);
        // The agent ended between two steps: the rest is done by the next call.
        let present = [disk_id(id(2)), card_id(id(1))].into();
        assert_eq!(steps(&present, &had, &change), wanted, "what they left is closed");
        let now = after(had.clone(), change.clone(), |_| false);
        assert_eq!((&now.disks, &now.nics), (&change.disks, &change.nics));
        let none = after(had.clone(), change, |_| true);
        assert_eq!(none, had);
    }

    #[test]
    fn an_odd_answer_is_not_taken_for_no_devices() {
        let told = json!([{"name": "disk-1", "type": "child<x>"}, {"name": "type"}]);
        let names = BTreeSet::from(["disk-1".to_owned(), "type".to_owned()]);
        assert_eq!(devices(&told), Some(names));
        assert_eq!(devices(&json!([])), Some(BTreeSet::new()));
        for odd in [json!(null), json!({}), json!([{"type": "x"}])] {
            assert_eq!(devices(&odd), None, "{odd}");
        }
    }

    #[test]
    fn the_first_free_port_is_taken() {
        let port = |number: usize, behind: Value| json!({"qdev_id": format!("port{number}"), "pci_bridge": behind});
        let taken = || json!({"devices": [{"qdev_id": "x"}]});
        let buses = |ports: Vec<Value>| json!([{"bus": 0, "devices": ports}]);
        let some =
            buses(vec![port(10, json!({})), port(2, json!({"devices": []})), port(0, taken())]);
        assert_eq!(free_port(&some), Ok(Some("port2".to_owned())));
        assert_eq!(free_port(&buses(vec![json!({"qdev_id": "balloon"})])), Ok(None));
        assert!(free_port(&buses(vec![port(0, taken())])).unwrap_err().contains("all 1 ports"));
    }

    #[test]
    fn descriptors_are_found_by_the_name_of_their_file() {
        let nodes = json!([{"node-name": "d1f", "file": "/dev/fdset/7"}, {"node-name": "x", "file": "json:{}"}]);
        assert_eq!(descriptors(&nodes, "d1f"), Some(7));
        assert_eq!(descriptors(&nodes, "x"), None);
        assert_eq!(descriptors(&nodes, "d2f"), None);
    }
}
