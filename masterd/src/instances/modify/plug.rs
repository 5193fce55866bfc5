//! Plugs devices into an instance that lives, and takes them out.

use model::Uuid;
use model::instance::Instance;
use rpc::calls::{InstancePlug, InstancePlugged};
use serde_json::Value;

use crate::instances::agent::{self, NotDone};
use crate::instances::{info, launch, warning};
use crate::units::{Context, Failure};

/// A device that changes: its name among the changes that the client is told, and its identity.
pub(super) type Device = (String, Uuid);

/// Has the run of an instance be as its record about these devices; gives those with which that failed.
///
/// # Errors
/// The outer one: the master is ending. The inner one: nobody knows whether it was done.
pub(in crate::instances) async fn plug(
    context: &mut Context,
    instance: &Instance,
    about: &[Uuid],
    without: &[Uuid],
) -> Result<Result<Vec<(Uuid, String)>, NotDone>, Failure> {
    let all = launch::launch(&context.config(), instance);
    let concerns = |uuid: Uuid| about.contains(&uuid) && !without.contains(&uuid);
    let call = InstancePlug {
        uuid: instance.uuid,
        run: instance.runs,
        disks: all.disks.into_iter().filter(|disk| concerns(disk.uuid)).collect(),
        nics: all.nics.into_iter().filter(|nic| concerns(nic.uuid)).collect(),
        without: without.to_vec(),
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
    (devices, gone): (&[Device], &[Uuid]),
    changes: &mut Vec<(String, Value)>,
) -> Result<bool, Failure> {
    if devices.is_empty() {
        return Ok(true);
    }
    context.say(info("Trying to hotplug device...")).await;
    let about: Vec<Uuid> = devices.iter().map(|(_, uuid)| *uuid).collect();
    let failed = match plug(context, instance, &about, gone).await? {
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
