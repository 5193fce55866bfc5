//! Plugs devices into an instance that lives, and takes them out.

use model::Uuid;
use model::instance::Instance;
use rpc::calls::{Control, InstanceControl, InstancePlug, InstancePlugged};
use serde_json::Value;

use crate::instances::agent::{self, NotDone};
use crate::instances::{info, launch, warning};
use crate::units::{Context, Failure};

/// A device that changes: its name among the changes that the client is told, and its identity.
pub(super) type Device = (String, Uuid);

/// Has the run of an instance be as this record about some devices, which come, change or leave; gives those with
/// which that failed.
///
/// # Errors
/// The outer one: the master is ending. The inner one: nobody knows whether it was done.
pub(in crate::instances) async fn plug(
    context: &mut Context,
    instance: &Instance,
    about: &[Uuid],
) -> Result<Result<Vec<(Uuid, String)>, NotDone>, Failure> {
    let mut all = launch::launch(&context.config(), instance);
    all.disks.retain(|disk| about.contains(&disk.uuid));
    all.nics.retain(|nic| about.contains(&nic.uuid));
    let stays = |uuid: &Uuid| {
        all.disks.iter().any(|disk| disk.uuid == *uuid)
            || all.nics.iter().any(|nic| nic.uuid == *uuid)
    };
    let call = InstancePlug {
        uuid: instance.uuid,
        run: instance.runs,
        without: about.iter().copied().filter(|uuid| !stays(uuid)).collect(),
        disks: all.disks,
        nics: all.nics,
    };
    let node = &instance.primary_node;
    Ok(agent::call(context, node, call).await?.map(|InstancePlugged { seen, failed }| {
        context.contacts().instances.note(node, seen.known, seen.sight);
        failed
    }))
}

/// The same for devices that a client changes, with Ganeti's words. A failure stops nothing: the change counts from
/// the next start on. Gives whether all went well.
pub(super) async fn plugged(
    context: &mut Context,
    instance: &Instance,
    devices: &[Device],
    changes: &mut Vec<(String, Value)>,
) -> Result<bool, Failure> {
    if devices.is_empty() {
        return Ok(true);
    }
    context.say(info("Trying to hotplug device...")).await;
    let about: Vec<Uuid> = devices.iter().map(|(_, uuid)| *uuid).collect();
    let failed = match plug(context, instance, &about).await? {
        Ok(failed) => failed,
        Err(not) => about.iter().map(|uuid| (*uuid, not.why.clone())).collect(),
    };
    for (_, why) in &failed {
        context.say(warning(&format!("Could not hotplug device: {why}"))).await;
    }
    let is_done = failed.is_empty();
    context.say(info(if is_done { "Hotplug done." } else { "Continuing execution.." })).await;
    changes.extend(devices.iter().map(|(name, uuid)| {
        let has_failed = failed.iter().any(|(other, _)| other == uuid);
        let told = if has_failed { "hotplug:failed" } else { "hotplug:done" };
        (name.clone(), told.into())
    }));
    Ok(is_done)
}

/// Gives an instance that lives the memory and the processors that its record has now, where they were others
/// before. A failure stops nothing: the change counts from the next start on. Gives whether all went well.
pub(super) async fn resized(
    context: &mut Context,
    before: &Instance,
    after: &Instance,
    changes: &mut Vec<(String, Value)>,
) -> Result<bool, Failure> {
    let config = context.config();
    let number = |instance: &Instance, name: &str| {
        config.settings_of(instance).backend_number(instance, name)
    };
    let processors = |count| Control::Processors(u32::try_from(count).unwrap_or(u32::MAX));
    let sizes = [("maxmem", Control::Memory as fn(u64) -> Control), ("vcpus", processors)];
    let mut is_done = true;
    for (name, control) in sizes {
        let wanted = number(after, name);
        if number(before, name) == wanted {
            continue;
        }
        let call = InstanceControl { uuid: after.uuid, run: after.runs, control: control(wanted) };
        let told = match agent::seen(context, &after.primary_node, call).await? {
            Ok(_) => "hotplug:done",
            Err(not) => {
                context.say(warning(&format!("Could not hotplug {name}: {}", not.why))).await;
                is_done = false;
                "hotplug:failed"
            }
        };
        changes.push((format!("be/{name}"), told.into()));
    }
    Ok(is_done)
}
