//! Exports of instances: directories on nodes with the content of all disks and a description, from which
//! an instance is made again, here or elsewhere. `import` is the way back, [`fields`] the list.

mod description;
pub mod fields;
pub(super) mod import;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::{Disk, Instance};
use model::opcode::instance::backup::{ExportMode, Exported};
use model::opcode::{BackupExport, BackupPrepare, BackupRemove, InstanceRemove};
use model::{Exception, InstanceName, NodeName, Uuid};
use rpc::calls::{
    ExportAbandon, ExportBegin, ExportFinish, ExportRemove, ExportSnapshot, Facts, Volume,
};

use super::transfer::{Place, carried};
use super::{agent, failover, find, info, launch, power, warning};
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Refuses what only another cluster could take.
fn is_local(mode: ExportMode) -> Result<(), Exception> {
    match mode {
        ExportMode::Local => Ok(()),
        ExportMode::Remote => Err(wrong(
            "this version exports to nodes of its own cluster; an export can be copied to another one, and \
             be imported there",
        )),
    }
}

impl LogicalUnit for BackupPrepare {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        context.config().instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        Ok(is_local(self.mode)?)
    }

    /// An export to a node needs no preparation.
    async fn exec(self, (): (), _context: &mut Context) -> Result<(), Failure> {
        Ok(())
    }
}

/// The node that an export goes to, by its name.
fn target(op: &BackupExport) -> Result<&str, Exception> {
    op.target_node.as_str().ok_or_else(|| wrong("target_node: the name of a node is expected"))
}

impl LogicalUnit for BackupExport {
    type Plan = (Uuid, NodeName);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        is_local(self.mode)?;
        let (name, uuid) = (&self.instance_name, self.instance_uuid.as_deref());
        find::locks(level, config, name, uuid, &[Some(target(self)?)])
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        power::is_whole(instance)?;
        let node = config.node_with(target(self)?, self.target_node_uuid.as_deref())?;
        if self.zero_free_space {
            return Err(
                wrong("zero_free_space: exports leave out only what was never written").into()
            );
        }
        if self.remove_instance && !self.shutdown {
            return Err(wrong("Can not remove instance without shutting it down before").into());
        }
        if self.remove_instance && instance.protected {
            return Err(wrong(format!("Instance {} is protected", instance.name)).into());
        }
        if power::is_alive(context, instance)? && !self.shutdown && instance.hypervisor != "kvm" {
            let text = format!(
                "Instance {} is running, and hypervisor {} copies no disks meanwhile: export it with shutdown",
                instance.name, instance.hypervisor
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok((instance.uuid, node.name.clone()))
    }

    async fn exec(
        self,
        (uuid, to): Self::Plan,
        context: &mut Context,
    ) -> Result<Exported, Failure> {
        let config = context.config();
        let instance = find::present(&config, uuid)?.clone();
        let name = &instance.name;
        let was_alive = power::is_alive(context, &instance)?;
        context.point_of_no_return().await?;
        let stops = was_alive && self.shutdown;
        if stops {
            context.say(format!("Shutting down instance {name}")).await;
            power::stopped(context, &instance, self.shutdown_timeout.0).await?;
        }
        let exported = match was_alive && !stops {
            true => exported_alive(context, &instance, &to).await?,
            false => exported(context, &instance, &to, None).await?,
        };
        // It runs again whether or not there is an export now.
        if stops && !(self.remove_instance && exported.is_ok()) {
            context.say(format!("Starting instance {name}")).await;
            failover::started(context, uuid, instance.primary_node.clone()).await?;
        }
        let disks = exported?;
        if self.remove_instance {
            context.say(format!("Removing instance {name}")).await;
            InstanceRemove {
                instance_name: name.to_string(),
                instance_uuid: None,
                shutdown_timeout: self.shutdown_timeout,
                ignore_failures: self.ignore_remove_failures,
            }
            .exec(uuid, context)
            .await?;
        }
        Ok((true, vec![true; disks]))
    }
}

/// Makes the export of an instance that runs: a copy of its disks on its own node, as of one moment, is carried.
async fn exported_alive(
    context: &mut Context,
    instance: &Instance,
    to: &NodeName,
) -> Result<Result<usize, Exception>, Failure> {
    let (from, name) = (instance.primary_node.clone(), instance.name.clone());
    context.say(format!("Copying the disks of {name} on {from}, as they are now")).await;
    if let Err(not) = agent::call(context, &from, ExportBegin { name: name.clone() }).await? {
        return Ok(Err(not.exception(&format!("Could not begin an export on {from}"))));
    }
    let disks = instance.disks.iter().enumerate();
    let snapshot = ExportSnapshot {
        name: name.clone(),
        uuid: instance.uuid,
        run: instance.runs,
        disks: disks.map(|(place, disk)| (*disk, description::dump(place))).collect(),
    };
    let exported = match agent::call(context, &from, snapshot).await? {
        Ok(()) => exported(context, instance, to, Some(&from)).await?,
        Err(not) => Err(not.exception(&format!("Could not copy the disks of {name}"))),
    };
    if *to != from || exported.is_err() {
        abandoned(context, &from, &name).await?;
    }
    Ok(exported)
}

/// Removes what was begun of an export on a node.
async fn abandoned(
    context: &mut Context,
    node: &NodeName,
    name: &InstanceName,
) -> Result<(), Failure> {
    if let Err(not) = agent::call(context, node, ExportAbandon { name: name.clone() }).await? {
        let text = format!("What was begun of the export stays on {node}: {}", not.why);
        context.say(warning(&text)).await;
    }
    Ok(())
}

/// Makes an export of disks that do not change, or of their copies on a node; gives how many there are.
async fn exported(
    context: &mut Context,
    instance: &Instance,
    to: &NodeName,
    copied: Option<&NodeName>,
) -> Result<Result<usize, Exception>, Failure> {
    let name = instance.name.clone();
    let is_begun = copied == Some(to);
    if !is_begun
        && let Err(not) = agent::call(context, to, ExportBegin { name: name.clone() }).await?
    {
        return Ok(Err(not.exception(&format!("Could not begin an export on {to}"))));
    }
    let filled = filled(context, instance, to, copied).await?;
    if filled.is_err() && !is_begun {
        abandoned(context, to, &name).await?;
    }
    Ok(filled)
}

/// Fills an export that was begun, and makes it whole.
async fn filled(
    context: &mut Context,
    instance: &Instance,
    to: &NodeName,
    copied: Option<&NodeName>,
) -> Result<Result<usize, Exception>, Failure> {
    let (config, name) = (context.config(), instance.name.clone());
    let settings = config.settings_of(instance);
    let disks: Vec<Disk> = config.disks_of(instance).map(|disk| disk.as_ref().clone()).collect();
    let from = instance.primary_node.clone();
    for (place, disk) in disks.iter().enumerate().filter(|_| copied != Some(to)) {
        context.say(format!("Exporting disk/{place} from {from} to {to}")).await;
        let export = |node: &NodeName| {
            let file = description::dump(place);
            let volume = Volume::Export { name: name.clone(), file, whole: false };
            Place { node: node.clone(), volume }
        };
        let source = match copied {
            Some(node) => export(node),
            None => {
                let volume = Volume::Disk(launch::disk(disk, &settings));
                Place { node: from.clone(), volume }
            }
        };
        let export = export(to);
        if let Err(not) = carried(context, source, export, &format!("disk/{place}")).await? {
            let failed = not.exception(&format!("Could not export disk/{place}"));
            return Ok(Err(failed));
        }
    }
    context.say(format!("Finalizing export on {to}")).await;
    let text = description::written(instance, &disks, &settings, &from, context.now());
    let finish = ExportFinish { name, description: text };
    if let Err(not) = agent::call(context, to, finish).await? {
        return Ok(Err(not.exception(&format!("Could not finalize the export on {to}"))));
    }
    told_anew(context, to).await?;
    Ok(Ok(disks.len()))
}

/// Has a node tell anew which exports it has, so that the next list is right.
async fn told_anew(context: &mut Context, node: &NodeName) -> Result<(), Failure> {
    if let Ok(facts) = agent::call(context, node, Facts {}).await? {
        context.contacts().set_facts(node, facts);
    }
    Ok(())
}

impl LogicalUnit for BackupRemove {
    type Plan = InstanceName;

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(match level {
            Level::Instance => {
                let name = self.instance_name.to_ascii_lowercase();
                vec![(LockName::member(level, name), Mode::Exclusive)]
            }
            _ => Vec::new(),
        })
    }

    async fn check(&self, context: &mut Context) -> Result<InstanceName, Failure> {
        let config = context.config();
        let living = config.instance_with(&self.instance_name, self.instance_uuid.as_deref());
        if let Ok(instance) = living {
            return Ok(instance.name.clone());
        }
        let name = self.instance_name.to_ascii_lowercase();
        Ok(name.parse().map_err(|error| wrong(format!("{error}")))?)
    }

    async fn exec(self, name: InstanceName, context: &mut Context) -> Result<(), Failure> {
        let nodes = import::nodes_with(context, &name);
        if nodes.is_empty() {
            let text = "Export not found. If trying to remove a backup for a deleted instance please use \
                        its Fully Qualified Domain Name.";
            context.say(warning(text)).await;
            return Ok(());
        }
        context.point_of_no_return().await?;
        let mut failed = None;
        for node in nodes {
            match agent::call(context, &node, ExportRemove { name: name.clone() }).await? {
                Ok(_was_there) => context.say(info(&format!("Removed the export on {node}"))).await,
                Err(not) => {
                    let what = format!("Could not remove the export on {node}");
                    failed = Some(not.exception(&what));
                }
            }
            told_anew(context, &node).await?;
        }
        failed.map_or(Ok(()), |failed| Err(failed.into()))
    }
}
