//! Gives an instance another name. The directories of its files follow.
//!
//! The new name is committed as such before the first file is moved, so that a repetition or a removal
//! finds the files wherever the job has ended.

use std::collections::BTreeMap;

use jobs::locks::{Level, LockName, Mode};
use model::instance::launch::DiskLaunch;
use model::instance::{Disk, Instance};
use model::opcode::InstanceRename;
use model::{Exception, InstanceName, NodeName, Uuid};
use rpc::calls::DiskRename;

use super::agent::{self, NotDone};
use super::{blueprint, find, launch, name, os, power, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

impl LogicalUnit for InstanceRename {
    type Plan = (Uuid, InstanceName);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        let (name, uuid) = (&self.instance_name, self.instance_uuid.as_deref());
        let mut wanted = find::locks(level, config, name, uuid, &[])?;
        if level == Level::Instance {
            let new = LockName::member(level, self.new_name.to_ascii_lowercase());
            if wanted.iter().all(|(lock, _)| *lock != new) {
                wanted.push((new, Mode::Exclusive));
            }
            wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        Ok(wanted)
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        let name: InstanceName =
            self.new_name.parse().map_err(|error| wrong(format!("{error}")))?;
        let goes_on = instance.renaming.as_ref() == Some(&name);
        let same = Instance { renaming: None, ..instance.as_ref().clone() };
        power::is_whole(if goes_on { &same } else { instance })?;
        power::stands_still(context, instance, "cannot rename")?;
        // Ganeti runs the script of its system also where the name stays.
        if goes_on || name == instance.name {
            return Ok((instance.uuid, name));
        }
        blueprint::new_name(&config, &name)?;
        name::check(&name, self.name_check, self.ip_check).await?;
        Ok((instance.uuid, name))
    }

    async fn exec(
        self,
        (uuid, name): Self::Plan,
        context: &mut Context,
    ) -> Result<InstanceName, Failure> {
        let config = context.config();
        let before = find::present(&config, uuid)?.clone();
        if name == before.name {
            return told(context, &before, &before.name).await.map(|()| name);
        }
        let disks = renamed(&config, &before, &name);
        if !disks.is_empty() {
            begun(context, uuid, Some(name.clone())).await?;
            if let Err(not) = moved(context, &before, &disks, true).await? {
                // A move that cannot be taken back either goes on later.
                if moved(context, &before, &disks, false).await?.is_ok() {
                    begun(context, uuid, None).await?;
                }
                return Err(not.exception("Could not rename the directory of disks").into());
            }
        }
        let (now, new) = (context.now(), name.clone());
        context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                if instance.renaming.is_none() {
                    blueprint::new_name(config, &new)?;
                }
                let disks = renamed(config, instance, &new).into_iter();
                let mut changes: Vec<ConfigChange> = disks
                    .map(|(disk, path)| Disk { place: disk.place.moved(path), ..disk.changed(now) })
                    .map(ConfigChange::Disk)
                    .collect();
                changes.push(ConfigChange::InstanceRemoved(instance.name.clone()));
                let after = Instance { name: new, renaming: None, ..instance.changed(now) };
                changes.push(ConfigChange::Instance(after));
                Ok((changes, ()))
            })
            .await?;
        let after = find::present(&context.config(), uuid)?.clone();
        told(context, &after, &before.name).await?;
        Ok(name)
    }
}

/// Tells the system of an instance its name; a system that does not take it is no failure.
async fn told(
    context: &mut Context,
    instance: &Instance,
    old: &InstanceName,
) -> Result<(), Failure> {
    if let Err(why) = os::renamed(context, instance, old.as_str()).await? {
        context.say(warning(&why)).await;
    }
    Ok(())
}

/// Commits that an instance is being given a name, or is not.
async fn begun(
    context: &mut Context,
    uuid: Uuid,
    renaming: Option<InstanceName>,
) -> Result<(), Failure> {
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            if let Some(new) = renaming.as_ref().filter(|_| instance.renaming.is_none()) {
                blueprint::new_name(config, new)?;
            }
            let after = Instance { renaming, ..instance.clone() };
            Ok((vec![ConfigChange::Instance(after)], ()))
        })
        .await
}

/// Moves the files of disks to their new paths, or back. Files that are there already stay.
async fn moved(
    context: &mut Context,
    instance: &Instance,
    disks: &[(Disk, String)],
    forth: bool,
) -> Result<Result<(), NotDone>, Failure> {
    let settings = context.config().settings_of(instance);
    let mut moves: BTreeMap<NodeName, Vec<(DiskLaunch, String)>> = BTreeMap::new();
    for (disk, path) in disks {
        let is_shared = disk.nodes.is_empty();
        let own = is_shared.then_some(&instance.primary_node);
        for node in disk.nodes.iter().chain(own) {
            let place = disk.place.moved(path.clone());
            let there = Disk { place, ..disk.clone() };
            moves.entry(node.clone()).or_default().push(match forth {
                true => (launch::disk(disk, &settings), path.clone()),
                false => (launch::disk(&there, &settings), disk.place.path().to_owned()),
            });
        }
    }
    for (node, disks) in moves {
        if let Err(not) = agent::call(context, &node, DiskRename { disks }).await? {
            return Ok(Err(not));
        }
    }
    Ok(Ok(()))
}

/// The disks whose files follow a name, with their new paths.
pub(crate) fn renamed(
    config: &Config,
    instance: &Instance,
    name: &InstanceName,
) -> Vec<(Disk, String)> {
    let (old, new) = (format!("/{}/", instance.name), format!("/{name}/"));
    let moved = |disk: &Disk| {
        let (before, file) = disk.place.path().rsplit_once(&old)?;
        Some((disk.clone(), format!("{before}{new}{file}")))
    };
    config.disks_of(instance).filter_map(|disk| moved(disk)).collect()
}
