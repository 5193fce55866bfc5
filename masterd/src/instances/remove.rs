//! Removes an instance: what it has on its node first, its record last.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::instance::state::AdminState;
use model::instance::{Disk, Instance, Phase};
use model::opcode::InstanceRemove;
use model::{Exception, JobId, Timestamp, Uuid};

use super::agent::{self, NotDone};
use super::{copies, devices, find, launch, rename, warning};
use crate::config::{Config, ConfigChange};
use crate::machines::network::claim;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for InstanceRemove {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        if instance.protected {
            let text = format!(
                "Instance {0} is protected; `gnt instance modify --protected no {0}` allows its removal",
                instance.name
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        let (job, now) = (context.job(), context.now());
        let instance =
            context.transact(move |config| leaving(config, uuid, (job, None), now)).await?;
        let name = instance.name.clone();
        let timeout = self.shutdown_timeout.0;
        if let Err((what, not)) = taken_away(context, &instance, timeout).await? {
            if !self.ignore_failures {
                let why = not.why.clone();
                context
                    .transact(move |config| leaving(config, uuid, (job, Some(why)), now))
                    .await?;
                return Err(not.exception(&format!("{what} of instance {name}")).into());
            }
            context.say(warning(&format!("{what}: {}", not.why))).await;
        }
        // Its lock stays, by its name: the next in line may be about to make another of that name.
        gone(context, uuid).await
    }
}

/// The change by which an instance is about to go: nothing of it may live any more.
fn leaving(
    config: &Config,
    uuid: Uuid,
    (job, why): (JobId, Option<String>),
    now: Timestamp,
) -> Result<(Vec<ConfigChange>, Instance), Exception> {
    let instance = find::present(config, uuid)?;
    let instance = Instance {
        phase: Phase::Removing { job, why },
        admin_state: AdminState::Down,
        run: None,
        ..instance.changed(now)
    };
    Ok((vec![ConfigChange::Instance(instance.clone())], instance))
}

/// Ends what lives of an instance on its nodes, and removes its disks; or what did not work.
pub(super) async fn taken_away(
    context: &mut Context,
    instance: &Instance,
    timeout_s: u32,
) -> Result<Result<(), (&'static str, NotDone)>, Failure> {
    if instance.forthcoming {
        return Ok(Ok(()));
    }
    let seen_on = context.contacts().instances.alive_on(instance.uuid);
    let primary = &instance.primary_node;
    let others = seen_on.into_iter().filter(|node| node != primary);
    for node in others.chain([primary.clone()]) {
        if let Err(not) = copies::stop(context, &node, instance, (timeout_s, true)).await? {
            return Ok(Err(("Could not shut down what lives", not)));
        }
    }
    let config = context.config();
    let mut disks = launch::disks(&config, instance);
    if let Some(new) = &instance.renaming {
        let settings = config.settings_of(instance);
        for (disk, path) in rename::renamed(&config, instance, new) {
            let there = Disk { place: disk.place.moved(path), ..disk };
            disks.push(launch::disk(&there, &settings));
        }
    }
    let on_others = copies::on_others(&config, instance);
    for (node, disks) in on_others.into_iter().chain([(primary.clone(), disks)]) {
        if let Err(not) = agent::remove_disks(context, &node, disks).await? {
            return Ok(Err(("Could not remove the disks", not)));
        }
    }
    Ok(Ok(()))
}

/// Removes the record of an instance, with all that it reserves.
pub(super) async fn gone(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    let seed = Uuid::new_v4().as_u128();
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let mut changes = released(config, instance, seed);
            changes.extend(instance.disks.iter().copied().map(ConfigChange::DiskRemoved));
            changes.push(ConfigChange::InstanceRemoved(instance.name.clone()));
            Ok((changes, ()))
        })
        .await
}

/// The changes that give the addresses of an instance back.
fn released(config: &Config, instance: &Instance, seed: u128) -> Vec<ConfigChange> {
    let mut after = config.clone();
    let mut changes = Vec::new();
    for (_, owner) in devices::claims_of(&instance.nics) {
        let released = claim::released_by(&after, &owner, seed);
        after.apply(released.clone());
        changes.extend(released);
    }
    changes
}
