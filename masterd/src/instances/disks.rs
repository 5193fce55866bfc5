//! Opcodes on the disks of an instance.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::instance::disk::DISK_MIB_MAX;
use model::instance::{Disk, Instance};
use model::opcode::instance::disks::RecreatedDisk;
use model::opcode::{
    InstanceActivateDisks, InstanceDeactivateDisks, InstanceGrowDisk, InstanceRecreateDisks,
};
use model::{Exception, NodeName, Uuid};
use rpc::calls::{DiskGrow, DiskSizes};

use super::agent::NotDone;
use super::capacity::{Share, broken, fits, local_disk};
use super::copies::rules::MIRROR;
use super::modify::plug::plug;
use super::{agent, copies, find, launch, power, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// The instance of an opcode on disks, which is whole.
fn whole(context: &Context, name: &str, uuid: Option<&str>) -> Result<Instance, Exception> {
    let config = context.config();
    let instance = config.instance_with(name, uuid)?;
    power::is_whole(instance)?;
    Ok(instance.as_ref().clone())
}

impl LogicalUnit for InstanceGrowDisk {
    /// The instance, its disk, and the new size.
    type Plan = (Instance, Disk, u64);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let instance = whole(context, &self.instance_name, self.instance_uuid.as_deref())?;
        let config = context.config();
        let disk = config.disks_of(&instance).nth(self.disk.0).cloned();
        let disk = disk.ok_or_else(|| {
            let text =
                format!("Invalid disk index {}: it has {}", self.disk.0, instance.disks.len());
            wrong(text)
        })?;
        let size = match self.absolute {
            true => self.amount.0,
            false => disk.size.saturating_add(self.amount.0),
        };
        if size <= disk.size || size > DISK_MIB_MAX {
            let text = format!(
                "Requested size ({size} MiB) is not larger than the disk ({} MiB), or more than {DISK_MIB_MAX}",
                disk.size
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        has_room(self, context, &instance, (&disk, size))?;
        if disk.place.template() == MIRROR && power::is_alive(context, &instance)? {
            let text = format!(
                "Instance {} is running, and a disk with a copy grows while it does not in this version",
                instance.name
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        grown(context, &instance, (&disk, size), true).await?.map_err(|not| {
            let text = format!("Can't grow the disk: {}", not.why);
            Exception::prereq(text, ErrorCode::InsufficientResources)
        })?;
        Ok((instance, disk.as_ref().clone(), size))
    }

    async fn exec(
        self,
        (instance, disk, size): Self::Plan,
        context: &mut Context,
    ) -> Result<(), Failure> {
        context.point_of_no_return().await?;
        let grown = grown(context, &instance, (&disk, size), false).await?;
        grown.map_err(|not| not.exception("Could not grow the disk"))?;
        let (uuid, now) = (disk.uuid, context.now());
        context
            .transact(move |config| {
                let disk = config.disks.get(&uuid).ok_or_else(|| gone(uuid))?;
                Ok((vec![ConfigChange::Disk(Disk { size, ..disk.changed(now) })], ()))
            })
            .await?;
        if power::is_alive(context, &instance).unwrap_or(true) {
            let why = match plug(context, &instance, &[uuid]).await? {
                Ok(failed) => failed.into_iter().next().map(|(_, why)| why),
                Err(not) => Some(not.why),
            };
            if let Some(why) = why {
                let text = format!("The guest sees the new size from its next start on: {why}");
                context.say(warning(&text)).await;
            }
        }
        Ok(())
    }
}

/// Makes a disk larger on every node that has it, or looks whether there is room.
async fn grown(
    context: &mut Context,
    instance: &Instance,
    (disk, size): (&Disk, u64),
    dry_run: bool,
) -> Result<Result<(), NotDone>, Failure> {
    let disks = copies::by_node(&context.config(), instance, std::slice::from_ref(disk));
    for (node, disks) in disks {
        for disk in disks {
            if let Err(not) = agent::call(context, &node, DiskGrow { disk, size, dry_run }).await? {
                return Ok(Err(not));
            }
        }
    }
    Ok(Ok(()))
}

fn gone(disk: Uuid) -> Exception {
    Exception::prereq(format!("Disk {disk} is gone"), ErrorCode::UnknownEntity)
}

/// Looks whether the limits and the node of an instance have room for a larger disk.
fn has_room(
    op: &InstanceGrowDisk,
    context: &Context,
    instance: &Instance,
    (disk, size): (&Disk, u64),
) -> Result<(), Exception> {
    let config = &*context.config();
    let node = config.node(instance.primary_node.as_str())?;
    let settings = config.settings_on(node);
    let sizes: Vec<i64> = config
        .disks_of(instance)
        .map(|one| if one.uuid == disk.uuid { size } else { one.size })
        .map(|size| i64::try_from(size).unwrap_or(i64::MAX))
        .collect();
    let broken = broken(instance, &settings, &sizes);
    if !broken.is_empty() && !op.ignore_ipolicy {
        let text = format!("Instance violates the policy of its group: {}", broken.join(", "));
        return Err(wrong(text));
    }
    if disk.nodes.is_empty() {
        return Ok(());
    }
    let total = local_disk(config, instance) + (size - disk.size);
    let facts = context.contacts().facts();
    let share = Share::of(instance, &settings, total);
    fits(config, node, facts.get(&node.name).map(AsRef::as_ref), share, Some(instance))
}

impl LogicalUnit for InstanceRecreateDisks {
    /// The instance, and the disks that are made anew.
    type Plan = (Instance, Vec<Disk>);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let instance = whole(context, &self.instance_name, self.instance_uuid.as_deref())?;
        let elsewhere = !self.nodes.is_empty() || self.iallocator.is_some();
        if elsewhere {
            return Err(
                wrong("this version makes disks anew where they are, and not elsewhere").into()
            );
        }
        power::stands_still(context, &instance, "cannot recreate disks")?;
        let mut places = Vec::new();
        for disk in &self.disks {
            match disk {
                RecreatedDisk::Index(index) => places.push(index.0),
                RecreatedDisk::With(index, told) if told.is_empty() => places.push(index.0),
                RecreatedDisk::With(..) => {
                    let text =
                        "disks are made anew as they were; this version changes nothing of them";
                    return Err(wrong(text).into());
                }
            }
        }
        let config = context.config();
        let all: Vec<Disk> = config.disks_of(&instance).map(|disk| disk.as_ref().clone()).collect();
        if let Some(place) = places.iter().find(|place| **place >= all.len()) {
            return Err(wrong(format!("Invalid disk index {place}: it has {}", all.len())).into());
        }
        let is_meant = |(place, _): &(usize, Disk)| places.is_empty() || places.contains(place);
        let (places, disks): (Vec<usize>, Vec<Disk>) =
            all.into_iter().enumerate().filter(is_meant).unzip();
        are_lost(context, &instance, &places, &disks).await?;
        Ok((instance, disks))
    }

    async fn exec(
        self,
        (instance, disks): Self::Plan,
        context: &mut Context,
    ) -> Result<(), Failure> {
        context.point_of_no_return().await?;
        let wipe = context.config().settings_of(&instance).prealloc_wipe_disks;
        let made = copies::make_disks(context, &instance, &disks, wipe).await?;
        Ok(made.map_err(|not| not.exception("Could not make the disks anew"))?)
    }
}

/// Refuses to make a disk anew that is there: what is on it would be lost.
async fn are_lost(
    context: &mut Context,
    instance: &Instance,
    places: &[usize],
    disks: &[Disk],
) -> Result<(), Failure> {
    let settings = context.config().settings_of(instance);
    let filled = disks.iter().map(|disk| launch::disk(disk, &settings)).collect();
    let node = &instance.primary_node;
    let sizes = agent::call(context, node, DiskSizes { disks: filled }).await?;
    let sizes =
        sizes.map_err(|not| not.exception(&format!("Could not look for disks on {node}")))?;
    let there = places.iter().zip(sizes).find(|(_, size)| size.is_some());
    let Some((place, _)) = there else { return Ok(()) };
    let text = format!(
        "disk/{place} of instance {} is on {node}, and only disks that are lost are made anew; name these by \
         --disk, or remove that one first",
        instance.name
    );
    Err(Exception::prereq(text, ErrorCode::AlreadyExists).into())
}

/// A disk that is active: its node, its name there, and its device.
pub type ActiveDisk = (NodeName, String, Option<String>);

impl LogicalUnit for InstanceActivateDisks {
    type Plan = Instance;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Instance, Failure> {
        Ok(whole(context, &self.instance_name, self.instance_uuid.as_deref())?)
    }

    async fn exec(
        self,
        instance: Instance,
        context: &mut Context,
    ) -> Result<Vec<ActiveDisk>, Failure> {
        active(context, instance.uuid, true).await?;
        let config = context.config();
        let disks = launch::disks(&config, &instance);
        let node = instance.primary_node.clone();
        let found = agent::call(context, &node, DiskSizes { disks: disks.clone() }).await?;
        let found = found.map_err(|not| not.exception("Cannot activate block devices"))?;
        let mut told = Vec::new();
        for (place, (disk, size)) in disks.iter().zip(found).enumerate() {
            let path = disk.place.path().to_owned();
            match size {
                Some(size) if size != disk.size && !self.ignore_size => {
                    let text =
                        format!("disk/{place} has {size} MiB where its record says {}", disk.size);
                    context.say(warning(&text)).await;
                }
                Some(_) => {}
                None => {
                    let text =
                        format!("Cannot activate block devices: disk/{place} is not on {node}");
                    return Err(Exception::exec(text).into());
                }
            }
            told.push((node.clone(), format!("disk/{place}"), Some(path)));
        }
        Ok(told)
    }
}

/// Commits whether the disks of an instance are to be active.
async fn active(context: &mut Context, uuid: Uuid, active: bool) -> Result<(), Failure> {
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?.clone();
            let after = Instance { disks_active: active, ..instance };
            Ok((vec![ConfigChange::Instance(after)], ()))
        })
        .await
}

impl LogicalUnit for InstanceDeactivateDisks {
    type Plan = Instance;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Instance, Failure> {
        let instance = whole(context, &self.instance_name, self.instance_uuid.as_deref())?;
        if !self.force && power::is_alive(context, &instance)? {
            let text = format!("Instance {} is running, cannot shutdown disks", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(instance)
    }

    async fn exec(self, instance: Instance, context: &mut Context) -> Result<(), Failure> {
        active(context, instance.uuid, false).await
    }
}
