//! Changes an instance: parameters, NICs, disks, and whether it is offline. `decide` makes the change.

mod decide;
mod disks;
mod nics;
mod order;
pub(super) mod plug;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::{Disk, Instance};
use model::opcode::InstanceSetParams;
use model::{Exception, Uuid};
use rpc::calls::{Control, InstanceControl};
use serde_json::Value;

use super::{agent, copies, find, info, power};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};
use decide::{Around, decide};

impl LogicalUnit for InstanceSetParams {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level == Level::Network {
            let named = self.nics.iter().filter_map(|change| change.2.get("network")?.as_str());
            let named = named.filter(|name| !["", "none"].contains(name));
            return named
                .map(|name| {
                    let uuid = config.network(name)?.uuid.to_string();
                    Ok((LockName::member(level, uuid), Mode::Shared))
                })
                .collect();
        }
        let (name, uuid) = (&self.instance_name, self.instance_uuid.as_deref());
        find::locks(level, config, name, uuid, &[self.pnode.as_deref()])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        power::is_whole(instance)?;
        let around = around(context, instance, self);
        if self.hotplug && !around.plugs {
            let text =
                format!("Hotplug is not possible: instance {} is not running", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        let changed = decide(self, &config, instance, &around)?;
        let told = &changed.instance;
        if told.hvparams != instance.hvparams && !self.force {
            agent::check_hypervisor(context, &instance.primary_node, told).await?;
        }
        if self.runtime_mem.is_some() && !around.is_alive {
            let text = format!("Instance {} is not running", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        if let Some(memory) = self.runtime_mem.filter(|_| !self.force) {
            let settings = config.settings_of(instance);
            let least = settings.backend_number(told, "minmem");
            let most = settings.backend_number(told, "maxmem");
            if !(least..=most).contains(&memory.0) {
                return Err(wrong(format!(
                    "Instance {} must have memory between {least} and {most} MB of memory unless --force is \
                     given",
                    instance.name
                ))
                .into());
            }
        }
        Ok(instance.uuid)
    }

    async fn exec(
        self,
        uuid: Uuid,
        context: &mut Context,
    ) -> Result<Vec<(String, Value)>, Failure> {
        let config = context.config();
        let before = find::present(&config, uuid)?.clone();
        let around = around(context, &before, &self);
        let plugs = around.plugs;
        let decided = decide(&self, &config, &before, &around)?;
        // Disks that go are removed before their records, so that none is without one.
        let leaving: Vec<&Disk> = decided.leaving().collect();
        if !decided.removed.is_empty() || plugs && !leaving.is_empty() {
            context.point_of_no_return().await?;
            if plugs {
                taken_out(context, &before, &leaving).await?;
            }
            removed(context, &before, &decided.removed).await?;
        }
        let devices = decided.devices;
        let runtime_mem = self.runtime_mem;
        let plugged_alone = self.hvparams.is_empty() && self.osparams.is_empty();
        let (instance, added, mut changes) = context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                let changed = decide(&self, config, instance, &around)?;
                let told = (changed.instance.clone(), changed.added.clone(), changed.told.clone());
                Ok((changed.changes(), told))
            })
            .await?;
        if !added.is_empty() {
            created(context, &instance, &added).await?;
        }
        if let Some(memory) = runtime_mem {
            let run = instance.runs;
            let control = InstanceControl { uuid, run, control: Control::Memory(memory.0) };
            let done = agent::seen(context, &instance.primary_node, control).await?;
            done.map_err(|not| not.exception("Could not change the memory"))?;
            changes.push(("runtime_memory".to_owned(), memory.0.into()));
        }
        let is_done = match plugs {
            true => {
                let plugged = plug::plugged(context, &instance, &devices, &mut changes).await?;
                plug::resized(context, &before, &instance, &mut changes).await? && plugged
            }
            false => false,
        };
        let is_live = is_done && plugged_alone;
        if !is_live && may_live(context, &instance) && instance.serial_no > before.serial_no {
            context.say(info("What is changed counts from its next start on")).await;
        }
        Ok(changes)
    }
}

/// Whether an instance lives, or may, as its node has not told.
fn may_live(context: &Context, instance: &Instance) -> bool {
    power::is_alive(context, instance).unwrap_or(true)
}

/// The surroundings of a change.
fn around(context: &Context, instance: &Instance, op: &InstanceSetParams) -> Around {
    let is_alive = may_live(context, instance);
    Around {
        facts: context.contacts().facts(),
        is_alive,
        plugs: is_alive && (op.hotplug || op.hotplug_if_possible),
        now: context.now(),
        seed: Uuid::new_v4().as_u128(),
    }
}

/// Has the guest let go of disks that leave the instance.
///
/// # Errors
/// It does not: then nothing was changed.
async fn taken_out(
    context: &mut Context,
    instance: &Instance,
    disks: &[&Disk],
) -> Result<(), Failure> {
    let leaving: Vec<Uuid> = disks.iter().map(|disk| disk.uuid).collect();
    let mut without = instance.clone();
    without.disks.retain(|disk| !leaving.contains(disk));
    let what = "Could not take the disk out of the running instance, so that nothing was changed";
    match plug::plug(context, &without, &leaving).await? {
        Err(not) => Err(not.exception(what).into()),
        Ok(failed) => match failed.into_iter().next() {
            None => Ok(()),
            Some((_, why)) => {
                Err(agent::NotDone { why, said: true, by_copy: false }.exception(what).into())
            }
        },
    }
}

/// Removes disks on the node of an instance.
async fn removed(
    context: &mut Context,
    instance: &Instance,
    disks: &[Disk],
) -> Result<(), Failure> {
    let done = copies::remove_disks(context, instance, disks).await?;
    done.map_err(|not| not.exception("Could not remove the disk").into())
}

/// Makes disks whose records are there; takes the records back where that fails.
async fn created(
    context: &mut Context,
    instance: &Instance,
    disks: &[Disk],
) -> Result<(), Failure> {
    let wipe = context.config().settings_of(instance).prealloc_wipe_disks;
    let Err(not) = copies::make_disks(context, instance, disks, wipe).await? else { return Ok(()) };
    let failed = not.exception("Can't create the disk");
    removed(context, instance, disks).await?;
    let (uuid, gone): (Uuid, Vec<Uuid>) =
        (instance.uuid, disks.iter().map(|disk| disk.uuid).collect());
    context
        .transact(move |config| {
            let mut after = find::present(config, uuid)?.clone();
            after.disks.retain(|disk| !gone.contains(disk));
            let gone = gone.into_iter().map(ConfigChange::DiskRemoved);
            Ok((gone.chain([ConfigChange::Instance(after)]).collect(), ()))
        })
        .await?;
    Err(failed.into())
}
