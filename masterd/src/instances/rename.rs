//! Gives an instance another name. The directories of its files follow.

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::{Disk, Instance};
use model::opcode::InstanceRename;
use model::{Exception, InstanceName, Uuid};
use rpc::calls::DiskRename;

use super::{agent, blueprint, find, launch, name, power, remove};
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
        power::is_whole(instance)?;
        if instance.run.is_some() || power::is_alive(context, instance)? {
            let text = format!("Instance {} is running, cannot rename", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        let name: InstanceName =
            self.new_name.parse().map_err(|error| wrong(format!("{error}")))?;
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
        let before = remove::present(&config, uuid)?.clone();
        let disks = renamed(&config, &before, &name);
        if !disks.is_empty() {
            context.point_of_no_return().await?;
            let settings = config.settings_of(&before);
            let moves =
                disks.iter().map(|(disk, path)| (launch::disk(disk, &settings), path.clone()));
            let call = DiskRename { disks: moves.collect() };
            let done = agent::call(context, &before.primary_node, call).await?;
            done.map_err(|not| not.exception("Could not rename the directory of disks"))?;
        }
        context.add_lock(&LockName::member(Level::Instance, name.as_str()));
        let (now, new) = (context.now(), name.clone());
        context
            .transact(move |config| {
                let instance = remove::present(config, uuid)?;
                blueprint::new_name(config, &new)?;
                let disks = renamed(config, instance, &new).into_iter();
                let mut changes: Vec<ConfigChange> = disks
                    .map(|(disk, path)| Disk { place: disk.place.moved(path), ..disk.changed(now) })
                    .map(ConfigChange::Disk)
                    .collect();
                changes.push(ConfigChange::InstanceRemoved(instance.name.clone()));
                let after = Instance { name: new, ..instance.changed(now) };
                changes.push(ConfigChange::Instance(after));
                Ok((changes, ()))
            })
            .await?;
        context.remove_lock(&LockName::member(Level::Instance, before.name.as_str()))?;
        Ok(name)
    }
}

/// The disks whose files follow a name, with their new paths.
fn renamed(config: &Config, instance: &Instance, name: &InstanceName) -> Vec<(Disk, String)> {
    let (old, new) = (format!("/{}/", instance.name), format!("/{name}/"));
    let moved = |disk: &Disk| {
        let (before, file) = disk.place.path().rsplit_once(&old)?;
        Some((disk.clone(), format!("{before}{new}{file}")))
    };
    config.disks_of(instance).filter_map(|disk| moved(disk)).collect()
}
