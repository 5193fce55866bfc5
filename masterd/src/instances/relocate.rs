//! Takes an instance whose disks are on its node to another node, with what is on them.
//!
//! The record names both nodes as long as the disks are on both. The instance is that of its primary node,
//! and the disks of the other node are copies that anybody may remove.

use std::convert::Infallible;

use jobs::locks::Level;
use model::error::ErrorCode;
use model::instance::state::{AdminState, NodeState};
use model::instance::{Disk, Instance, Phase};
use model::opcode::{InstanceMove, InstanceReplaceDisks};
use model::{Exception, NodeName, Uuid};
use rpc::calls::{DiskSizes, Volume};

use super::agent::{self, NotDone};
use super::capacity::{Share, fits, local_disk, may_host};
use super::copies::rules::MIRROR;
use super::standing::node_state;
use super::target::within_policy;
use super::transfer::{Place, carried};
use super::{copies, failover, find, launch, power, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// The way to go.
#[derive(Debug)]
pub(crate) enum Plan {
    /// It goes to this node.
    Move(Uuid, NodeName),
    /// It is there already, and an earlier job has left copies elsewhere.
    Finish(Uuid),
}

impl LogicalUnit for InstanceMove {
    type Plan = Plan;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        let (name, uuid) = (&self.instance_name, self.instance_uuid.as_deref());
        find::locks(level, config, name, uuid, &[Some(&self.target_node)])
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        // This job holds its lock: whoever began to copy has ended.
        let goes_on = matches!(instance.phase, Phase::Copying { .. });
        if !goes_on {
            power::is_whole(instance)?;
        }
        let own = &instance.primary_node;
        let node = config.node_with(&self.target_node, self.target_node_uuid.as_deref())?;
        if node.name == *own && goes_on {
            return Ok(Plan::Finish(instance.uuid));
        }
        if node.name == *own {
            let text = format!("Instance {} is already on the node {own}", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        if config.disks_of(instance).any(|disk| disk.nodes.is_empty()) || instance.disks.is_empty()
        {
            let text = format!(
                "Instance disk layout {} is not suitable for copying: every node reaches it, so that \
                 `gnt instance failover` takes it there",
                instance.disk_template
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        if instance.disk_template == MIRROR {
            let text = format!(
                "Instance {} has copies of its disks on two nodes, and this version moves it to the other one \
                 alone: `gnt instance failover`",
                instance.name
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        may_host(node, "target")?;
        if node_state(&config, own, context.contacts(), context.now()) != NodeState::Up {
            let text = format!("Node {own} does not answer, and the disks are there alone");
            return Err(Exception::prereq(text, ErrorCode::EnvironmentError).into());
        }
        let settings = config.settings_on(node);
        let facts = context.contacts().facts();
        let facts = facts.get(&node.name).map(AsRef::as_ref);
        let share = Share::of(instance, &settings, local_disk(&config, instance));
        fits(&config, node, facts, share, Some(instance))?;
        within_policy(&config, node, instance, self.ignore_ipolicy)?;
        agent::check_hypervisor(context, &node.name, instance).await?;
        power::is_alive(context, instance)?;
        nothing_there(context, &node.name, instance).await?;
        Ok(Plan::Move(instance.uuid, node.name.clone()))
    }

    async fn exec(self, plan: Plan, context: &mut Context) -> Result<(), Failure> {
        let (uuid, to) = match plan {
            Plan::Move(uuid, to) => (uuid, to),
            Plan::Finish(uuid) => return finished(context, uuid).await,
        };
        let before = find::present(&context.config(), uuid)?.clone();
        let was_alive = power::is_alive(context, &before)?;
        context.point_of_no_return().await?;
        if before.phase != Phase::Ready {
            let dropped = copies_dropped(context, uuid).await?;
            dropped
                .map_err(|not| not.exception("Could not remove the disks of an earlier move"))?;
        }
        begun(context, uuid, to.clone()).await?;
        let copied = copied(context, &before, &to, self.shutdown_timeout.0).await?;
        let at = match &copied {
            Ok(()) => to,
            Err(_failed) => before.primary_node.clone(),
        };
        if copied.is_ok() {
            handed_over(context, uuid, at.clone()).await?;
        }
        // It runs again whether or not it moved.
        if was_alive {
            context.say(format!("Starting instance {} on node {at}", before.name)).await;
            failover::started(context, uuid, at).await?;
        }
        if copied.is_ok() {
            context
                .say(format!("Removing the disks on the original node {}", before.primary_node))
                .await;
        }
        if let Err(not) = copies_dropped(context, uuid).await? {
            let text = format!("disks of it that are copies now are removed later: {}", not.why);
            context.say(warning(&text)).await;
        }
        Ok(copied?)
    }
}

/// Refuses a node that has files of these disks already: where nodes share a directory, its "copy" would be
/// the disk itself, and would be removed as one. Copies of which the record knows may be there.
async fn nothing_there(
    context: &mut Context,
    node: &NodeName,
    instance: &Instance,
) -> Result<(), Failure> {
    let config = context.config();
    if copies::on_others(&config, instance).contains_key(node) {
        return Ok(());
    }
    let disks = launch::disks(&config, instance);
    let sizes = agent::call(context, node, DiskSizes { disks }).await?;
    let sizes =
        sizes.map_err(|not| not.exception(&format!("Could not look for disks on {node}")))?;
    let Some(place) = sizes.iter().position(Option::is_some) else { return Ok(()) };
    let text = format!(
        "Node {node} has a file of disk/{place} of instance {} already: either the directory of files is one \
         that nodes share, or the file was left there; remove it if it is of no use",
        instance.name
    );
    Err(Exception::prereq(text, ErrorCode::AlreadyExists).into())
}

/// Brings a move to its end that a job left when the instance was that of its new node.
async fn finished(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    let dropped = copies_dropped(context, uuid).await?;
    dropped.map_err(|not| not.exception("Could not remove copies of disks"))?;
    let instance = find::present(&context.config(), uuid)?.clone();
    if instance.admin_state == AdminState::Up && !power::is_alive(context, &instance)? {
        failover::started(context, uuid, instance.primary_node).await?;
    }
    Ok(())
}

/// Commits that the disks of an instance are to be on a second node, which reserves their room there.
async fn begun(context: &mut Context, uuid: Uuid, to: NodeName) -> Result<(), Failure> {
    let (job, facts) = (context.job(), context.contacts().facts());
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let node = config.node(to.as_str())?;
            let share =
                Share::of(instance, &config.settings_on(node), local_disk(config, instance));
            fits(config, node, facts.get(&to).map(AsRef::as_ref), share, Some(instance))?;
            let nodes = vec![instance.primary_node.clone(), to];
            let after = Instance { phase: Phase::Copying { job }, ..instance.clone() };
            Ok((with_disks_on(config, after, &nodes), ()))
        })
        .await
}

/// Commits that an instance is that of the node that has copies of its disks.
async fn handed_over(context: &mut Context, uuid: Uuid, to: NodeName) -> Result<(), Failure> {
    let now = context.now();
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let nodes = vec![to.clone(), instance.primary_node.clone()];
            let after = Instance { primary_node: to, run: None, ..instance.changed(now) };
            Ok((with_disks_on(config, after, &nodes), ()))
        })
        .await
}

/// The changes by which an instance is as told, and its disks are on these nodes.
fn with_disks_on(config: &Config, instance: Instance, nodes: &[NodeName]) -> Vec<ConfigChange> {
    let there = |disk: &Disk| Disk { nodes: nodes.to_vec(), ..disk.clone() };
    let disks = config.disks_of(&instance).map(|disk| ConfigChange::Disk(there(disk)));
    let mut changes: Vec<ConfigChange> = disks.collect();
    changes.push(ConfigChange::Instance(instance));
    changes
}

/// Makes the disks of an instance on another node, and gives them what is on those of its own. The guest
/// runs until there is something to copy to.
async fn copied(
    context: &mut Context,
    instance: &Instance,
    to: &NodeName,
    timeout_s: u32,
) -> Result<Result<(), Exception>, Failure> {
    let (name, from) = (&instance.name, &instance.primary_node);
    let disks = launch::disks(&context.config(), instance);
    context.say(format!("Creating the disks of instance {name} on node {to}")).await;
    if let Err(not) = agent::make_disks(context, to, disks.clone(), false).await? {
        return Ok(Err(not.exception(&format!("Could not make the disks on {to}"))));
    }
    context.say(format!("Shutting down instance {name} on source node {from}")).await;
    if let Err(not) = copies::stop(context, from, instance, (timeout_s, true)).await? {
        let what = format!("Could not shutdown instance {name} on node {from}");
        return Ok(Err(not.exception(&what)));
    }
    for (place, disk) in disks.into_iter().enumerate() {
        let what = format!("disk/{place}");
        context.say(format!("Copying {what} from {from} to {to}")).await;
        let on = |node: &NodeName| Place { node: node.clone(), volume: Volume::Disk(disk.clone()) };
        if let Err(not) = carried(context, on(from), on(to), &what).await? {
            return Ok(Err(not.exception(&format!("Could not copy {what}"))));
        }
    }
    Ok(Ok(()))
}

/// Removes the disks of an instance that are not on its own node; then it is whole.
pub(super) async fn copies_dropped(
    context: &mut Context,
    uuid: Uuid,
) -> Result<Result<(), NotDone>, Failure> {
    let config = context.config();
    for (node, disks) in copies::on_others(&config, find::present(&config, uuid)?) {
        if let Err(not) = agent::remove_disks(context, &node, disks).await? {
            return Ok(Err(not));
        }
    }
    let whole = move |config: &Config| {
        let instance = find::present(config, uuid)?;
        let after = Instance { phase: Phase::Ready, ..instance.clone() };
        let nodes = vec![after.primary_node.clone()];
        Ok((with_disks_on(config, after, &nodes), ()))
    };
    context.transact(whole).await.map(Ok)
}

impl LogicalUnit for InstanceReplaceDisks {
    type Plan = Infallible;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Infallible, Failure> {
        context.config().instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        // No template of this version has copies.
        Err(wrong("Can only run replace disks for DRBD8-based instances").into())
    }

    async fn exec(self, never: Infallible, _context: &mut Context) -> Result<(), Failure> {
        match never {}
    }
}
