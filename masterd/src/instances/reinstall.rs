//! Writes an operating system anew onto the disks of an instance that stands still.

use jobs::locks::Level;
use model::instance::Instance;
use model::opcode::InstanceReinstall;
use model::{Exception, Uuid};

use super::copies::rules::all_stale;
use super::{find, os, power};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for InstanceReinstall {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        power::is_whole(instance)?;
        power::stands_still(context, instance, "can not reinstall")?;
        let after = with_system(self, instance);
        os::known(&config, &context.contacts().facts(), &after.os)?;
        let disk = os::system_disk(config.disks_of(instance).map(AsRef::as_ref))?;
        let (size, force_variant) = (disk.size, self.force_variant);
        os::suits(context, os::SystemAsked { instance: &after, size, force_variant }).await?;
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        context.point_of_no_return().await?;
        let now = context.now();
        // The record says first what is to be there: who reads it afterwards knows what was begun.
        let instance = context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                let after = with_system(&self, instance).changed(now);
                // Its system is written to its own copies alone.
                let mut changes = all_stale(config, &after, now);
                changes.push(ConfigChange::Instance(after.clone()));
                Ok((changes, after))
            })
            .await?;
        os::install(context, &instance, true).await?.map_err(Failure::from)
    }
}

/// An instance with the system and its parameters that are asked for.
fn with_system(op: &InstanceReinstall, instance: &Instance) -> Instance {
    let mut after = instance.clone();
    if let Some(os) = op.os_type.as_ref().filter(|os| !os.is_empty()) {
        after.os.clone_from(os);
    }
    after.osparams.extend(op.osparams.clone().unwrap_or_default());
    after
}
