//! The jobs by which copies of disks become stale and fresh.

use std::collections::BTreeMap;

use jobs::locks::Level;
use model::instance::Instance;
use model::instance::launch::{Replica, Sight};
use model::opcode::{InstanceDetachCopies, InstanceResync};
use model::{Exception, NodeName, Timestamp, Uuid};
use rpc::calls::{Facts, ReplicaDetach, ReplicaJoin, ReplicaJoined};

use super::copies::rules::{Need, needs, other};
use super::copies::{key, lose, served};
use super::{agent, find, info, power, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// The word of its node on the present run of an instance.
fn sight(context: &Context, instance: &Instance) -> Option<Sight> {
    context.contacts().instances.of(&instance.primary_node, instance.uuid).flatten()
}

/// The disks with a need, by what their node says now.
fn with_need(context: &Context, instance: &Instance, wanted: Need) -> Vec<Uuid> {
    let Some(sight) = sight(context, instance) else { return Vec::new() };
    let needs = needs(&context.config(), instance, &sight).into_iter();
    needs.filter(|(_, need)| *need == wanted).map(|(disk, _)| disk).collect()
}

/// Seconds after which the loss of a node is recorded at the latest, and the master's clock has gone wrong at most.
const NOTICED: i64 = 300;

impl LogicalUnit for InstanceDetachCopies {
    type Plan = Uuid;

    /// None: a guest stands still until this is done, and whoever holds its lock may be waiting for the guest.
    /// The commit counts for one run alone, and takes nothing but a copy that its run does not write.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        let instance = find::present(&context.config(), uuid)?.clone();
        let disks = with_need(context, &instance, Need::Detach);
        if disks.is_empty() {
            context.say(info("No copy of its disks is lost")).await;
            return Ok(());
        }
        if !lose(context, &instance, disks.clone()).await? {
            context.say(info("It has another run by now, and this one is left as it is")).await;
            return Ok(());
        }
        let detach = ReplicaDetach { uuid, run: instance.runs, disks };
        let done = agent::seen(context, &instance.primary_node, detach).await?;
        let what = format!("Could not have instance {} go on with one copy", instance.name);
        done.map(drop).map_err(|not| not.exception(&what).into())
    }
}

impl LogicalUnit for InstanceResync {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        power::is_whole(instance)?;
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        let instance = find::present(&context.config(), uuid)?.clone();
        filled(context, &instance).await?;
        let joining = with_need(context, &instance, Need::Join);
        let mut replicas: BTreeMap<NodeName, Replica> = BTreeMap::new();
        for disk in joining {
            let config = context.config();
            let Some(held) = config.disks.get(&disk) else { continue };
            let Some(node) = other(held, &instance.primary_node) else { continue };
            let replica = match replicas.get(node) {
                Some(replica) => replica.clone(),
                None => {
                    let served = served(context, (&instance, instance.runs), node).await?;
                    let what = format!("Node {node} does not serve its copies");
                    let replica = served.map_err(|not| not.exception(&what))?;
                    replicas.insert(node.clone(), replica.clone());
                    replica
                }
            };
            let key = key(&config, uuid, instance.runs)?;
            let whole = may_have_lost(context, node, held.stale.get(node).copied()).await?;
            let join = ReplicaJoin { uuid, run: instance.runs, disk, replica, key, whole };
            // An agent tells once how an earlier try has failed, and begins another one when it is asked again.
            if let Some(why) = joined(context, &instance, join.clone()).await? {
                context.say(warning(&format!("the last try to fill it failed: {why}"))).await;
                joined(context, &instance, join).await?;
            }
            context.say(info(&format!("The copy on {node} is being filled"))).await;
        }
        Ok(())
    }
}

/// Has a run fill a copy; gives why the last try failed, where one has.
async fn joined(
    context: &mut Context,
    instance: &Instance,
    join: ReplicaJoin,
) -> Result<Option<String>, Failure> {
    let joined = agent::call(context, &instance.primary_node, join).await?;
    let what = format!("Could not have {} fill a copy", instance.name);
    let ReplicaJoined { seen, failed, .. } = joined.map_err(|not| not.exception(&what))?;
    context.contacts().instances.note(&instance.primary_node, seen.known, seen.sight);
    Ok(failed)
}

/// Whether a node may have lost writes that it had confirmed: it has booted since its copy became stale, so that
/// what was in its memory is gone, or does not say when.
async fn may_have_lost(
    context: &mut Context,
    node: &NodeName,
    since: Option<Timestamp>,
) -> Result<bool, Failure> {
    let facts = agent::call(context, node, Facts {}).await?;
    let (Ok(facts), Some(since)) = (facts, since) else { return Ok(true) };
    let uptime = i64::try_from(facts.uptime_seconds).unwrap_or(i64::MAX);
    let booted = context.now().seconds().saturating_sub(uptime);
    Ok(booted > since.seconds() - NOTICED)
}

/// Commits that copies are fresh, which the run says that it has filled. A copy that is lost meanwhile has
/// changed the disk by then, so that this changes nothing.
async fn filled(context: &mut Context, instance: &Instance) -> Result<(), Failure> {
    // The record is looked at first, and the word of the run behind it.
    let config = context.config();
    let fresh: Vec<(Uuid, u64)> = with_need(context, instance, Need::Fresh)
        .into_iter()
        .filter_map(|uuid| Some((uuid, config.disks.get(&uuid)?.serial_no)))
        .collect();
    if fresh.is_empty() {
        return Ok(());
    }
    let (uuid, run, now) = (instance.uuid, instance.run.clone(), context.now());
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            if instance.run != run {
                return Ok((Vec::new(), ()));
            }
            let as_fresh = |(disk, serial_no): &(Uuid, u64)| {
                let disk = config.disks.get(disk).filter(|disk| disk.serial_no == *serial_no)?;
                let mut after = disk.changed(now);
                after.stale.remove(other(disk, &instance.primary_node)?);
                Some(ConfigChange::Disk(after))
            };
            Ok((fresh.iter().filter_map(as_fresh).collect(), ()))
        })
        .await
}
