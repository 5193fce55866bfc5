//! Core: changes of an instance's disks.

use model::error::ErrorCode;
use model::instance::Disk;
use model::instance::record::DISKS_MAX;
use model::opcode::InstanceSetParams;
use model::opcode::instance::{DeviceChange, DeviceVerb};
use model::{Exception, Timestamp, Uuid};

use super::decide::{Around, Changed};
use super::order::{Device, new_place, place, takes_none};
use crate::config::Config;
use crate::instances::blueprint::{self, Placed};
use crate::instances::devices;
use crate::units::wrong;

impl Device for Disk {
    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// Makes the changes of disks.
pub(super) fn change(
    op: &InstanceSetParams,
    config: &Config,
    around: &Around,
    changed: &mut Changed,
) -> Result<(), Exception> {
    if op.disks.is_empty() {
        return Ok(());
    }
    let template = changed.instance.disk_template.clone();
    if template == "diskless" {
        return Err(wrong("Disk operations not supported for diskless instances"));
    }
    let mut disks: Vec<Disk> =
        config.disks_of(&changed.instance).map(|disk| disk.as_ref().clone()).collect();
    for (turn, told) in (1_u128..).zip(&op.disks) {
        takes_none(told)?;
        match told.0 {
            DeviceVerb::Add => {
                let settings = config.settings_of(&changed.instance);
                let making = (around.seed.wrapping_add(turn << 64), around.now);
                let directory = op.file_storage_dir.as_deref();
                let directory = blueprint::directory(&changed.instance, directory, &settings);
                let usual = settings.ipolicy.std.disk_size;
                // A copy of it comes to the node that has copies of the others.
                let nodes = disks.first().map(|disk| disk.nodes.clone()).unwrap_or_default();
                let place = Placed { directory: &directory, nodes: &nodes };
                added((told, usual), place, making, &mut disks, changed)?;
            }
            DeviceVerb::Attach => attached(config, told, &mut disks, changed)?,
            DeviceVerb::Modify => modified(around, told, &mut disks, changed)?,
            DeviceVerb::Remove | DeviceVerb::Detach => {
                stands_still(around, changed)?;
                let at = place(&disks, &told.1, "disk")?;
                let disk = disks.remove(at);
                changed.devices.push((format!("disk/{at}"), disk.uuid));
                if told.0 == DeviceVerb::Remove {
                    changed.told.push((format!("disk/{at}"), "remove".into()));
                    changed.removed.push(disk);
                } else {
                    changed.told.push((format!("disk/{at}"), "detach".into()));
                    changed.modified.push(Disk { instance: None, ..disk.changed(around.now) });
                }
            }
        }
    }
    if disks.len() > DISKS_MAX {
        return Err(wrong(format!("{} disks; an instance has at most {DISKS_MAX}", disks.len())));
    }
    changed.instance.disks = disks.iter().map(|disk| disk.uuid).collect();
    Ok(())
}

fn stands_still(around: &Around, changed: &Changed) -> Result<(), Exception> {
    if !around.is_alive || around.plugs {
        return Ok(());
    }
    let text = format!(
        "Instance {} is running, can't remove its disks; --hotplug takes them out first",
        changed.instance.name
    );
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

/// A new disk at this place, of a usual size where none is told.
fn added(
    (told, usual): (&DeviceChange, i64),
    place: Placed<'_>,
    (seed, now): (u128, Timestamp),
    disks: &mut Vec<Disk>,
    changed: &mut Changed,
) -> Result<(), Exception> {
    let at = new_place(disks.len(), told, "disk")?;
    let wanted = devices::disk(&told.2, &changed.instance.disk_template, usual)?;
    let uuid = uuid::Builder::from_random_bytes(seed.to_le_bytes()).into_uuid();
    let disk = blueprint::made(&wanted, &changed.instance, place, (uuid, now));
    let text = format!("add:size={},mode={}", disk.size, disk.mode);
    changed.told.push((format!("disk/{at}"), text.into()));
    disks.insert(at, disk.clone());
    changed.devices.push((format!("disk/{at}"), uuid));
    changed.added.push(disk);
    Ok(())
}

/// A disk that was detached comes to this instance.
fn attached(
    config: &Config,
    told: &DeviceChange,
    disks: &mut Vec<Disk>,
    changed: &mut Changed,
) -> Result<(), Exception> {
    let by = |name: &str| told.2.get(name).and_then(serde_json::Value::as_str);
    let found = match (by("uuid"), by("name")) {
        (Some(uuid), _) => uuid.parse().ok().and_then(|uuid: Uuid| config.disks.get(&uuid)),
        (None, Some(name)) => config.disks.by.name.of(name.to_owned()).next(),
        (None, None) => return Err(wrong("a disk that is attached is meant by uuid or name")),
    };
    let disk = found.ok_or_else(|| {
        Exception::prereq("there is no such disk to attach", ErrorCode::UnknownEntity)
    })?;
    if let Some(owner) = disk.instance {
        let of = config.instance_of(owner).map_or("another one", |owner| owner.name.as_str());
        let text = format!("Disk {} is attached to instance {of}", disk.uuid);
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    let instance = &changed.instance;
    let is_here = disk.nodes.is_empty() || disk.nodes.contains(&instance.primary_node);
    if disk.place.template() != instance.disk_template || !is_here {
        let text = format!("Disk {} is of another template, or on another node", disk.uuid);
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    let at = new_place(disks.len(), told, "disk")?;
    let disk = Disk { instance: Some(instance.uuid), ..disk.as_ref().clone() };
    let text = format!("attach:size={},mode={}", disk.size, disk.mode);
    changed.told.push((format!("disk/{at}"), text.into()));
    disks.insert(at, disk.clone());
    changed.devices.push((format!("disk/{at}"), disk.uuid));
    changed.modified.push(disk);
    Ok(())
}

fn modified(
    around: &Around,
    told: &DeviceChange,
    disks: &mut [Disk],
    changed: &mut Changed,
) -> Result<(), Exception> {
    const KNOWN: [&str; 2] = ["mode", "name"];
    if let Some(other) = told.2.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(wrong(format!(
            "Disk parameter {other} cannot be changed; `gnt instance grow-disk` makes a disk larger"
        )));
    }
    let at = place(disks, &told.1, "disk")?;
    let mut disk = disks[at].changed(around.now);
    if let Some(mode) = devices::disk_mode(&told.2)? {
        disk.mode = mode;
        changed.told.push((format!("disk.mode/{at}"), mode.as_str().into()));
    }
    if told.2.contains_key("name") {
        disk.name = devices::device_name(&told.2)?;
        changed.told.push((format!("disk.name/{at}"), disk.name.clone().into()));
    }
    disks[at] = disk.clone();
    changed.modified.push(disk);
    Ok(())
}
