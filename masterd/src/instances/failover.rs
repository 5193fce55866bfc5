//! Stops an instance, and starts it on another node.
//!
//! Silence of its old node is no proof that nothing of it lives there. Its agent says that it stopped, or an
//! operator has said that the node is offline.

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::Instance;
use model::instance::state::{AdminState, NodeState, Seen};
use model::opcode::InstanceFailover;
use model::{Code, Exception, NodeName, Uuid};

use super::copies::rules::MIRROR;
use super::standing::node_state;
use super::target::{FAILOVER, TargetAsked, found};
use super::{agent, copies, find, info, launch, power, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// The locks of what takes an instance to another node: all nodes, where the allocator chooses.
pub(super) fn locks(
    level: Level,
    config: &Config,
    (name, uuid): (&str, Option<&str>),
    target: Option<&str>,
) -> Result<Wanted, Exception> {
    match (level, target) {
        (Level::Node, None) => Ok(vec![(LockName::set(level), Mode::Shared)]),
        (level, target) => find::locks(level, config, name, uuid, &[target]),
    }
}

impl LogicalUnit for InstanceFailover {
    type Plan = (Uuid, NodeName);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        locks(
            level,
            config,
            (&self.instance_name, self.instance_uuid.as_deref()),
            self.target_node.as_deref(),
        )
    }

    async fn check(&self, context: &mut Context) -> Result<(Uuid, NodeName), Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        if self.cleanup {
            let text = "a failover leaves nothing halfway: repeat it without --cleanup";
            return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        }
        power::is_whole(instance)?;
        let asked = TargetAsked {
            target_node: self.target_node.as_deref(),
            target_node_uuid: self.target_node_uuid.as_deref(),
            iallocator: self.iallocator.as_deref(),
            ignore_ipolicy: self.ignore_ipolicy,
            verb: FAILOVER,
        };
        let node = found(context, &config, instance, asked).await?;
        agent::check_hypervisor(context, &node, instance).await?;
        Ok((instance.uuid, node))
    }

    async fn exec(
        self,
        (uuid, to): (Uuid, NodeName),
        context: &mut Context,
    ) -> Result<(), Failure> {
        context.say(format!("Failover instance {}", self.instance_name)).await;
        carried(context, uuid, to, self.shutdown_timeout.0).await
    }
}

/// Stops an instance where it is, and starts it on `to` if it is to run.
pub(super) async fn carried(
    context: &mut Context,
    uuid: Uuid,
    to: NodeName,
    timeout_s: u32,
) -> Result<(), Failure> {
    let config = context.config();
    let instance = find::present(&config, uuid)?.clone();
    let source = instance.primary_node.clone();
    context.point_of_no_return().await?;
    let ended_well = match node_state(&config, &source, context.contacts(), context.now()) {
        NodeState::Offline => {
            let text = format!(
                "Node {source} is offline: what lived there is taken for dead, as its operator says"
            );
            context.say(info(&text)).await;
            false
        }
        NodeState::Up | NodeState::Down => {
            context.say("* shutting down instance on source node").await;
            match copies::stop(context, &source, &instance, (timeout_s, true)).await? {
                Ok(sight) => sight.seen != Seen::Crashed,
                Err(not) => return Err(not_proven(&instance, &source, &not.why).into()),
            }
        }
    };
    let wish = instance.admin_state;
    if wish != AdminState::Up || instance.disk_template == MIRROR {
        let (now, target) = (context.now(), to.clone());
        context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                let mut changes =
                    copies::handed_over(config, instance, (&target, ended_well), now)?;
                let after = Instance { primary_node: target, run: None, ..instance.changed(now) };
                changes.push(ConfigChange::Instance(after));
                Ok((changes, ()))
            })
            .await?;
    }
    if wish != AdminState::Up {
        return Ok(());
    }
    context.say(format!("* starting the instance on the target node {to}")).await;
    started(context, uuid, to).await
}

/// The refusal where nobody says that the old run has ended.
fn not_proven(instance: &Instance, source: &NodeName, why: &str) -> Exception {
    let text = format!(
        "Could not shutdown instance {} on node {source}: {why}; as long as it may live there it starts \
         nowhere else. If the node is off, say so by `gnt node modify --offline yes --force {source}`, and \
         repeat this",
        instance.name
    );
    Exception::exec(text).coded(Code::Agent)
}

/// Commits the next run on a node, and starts it there.
pub(super) async fn started(
    context: &mut Context,
    uuid: Uuid,
    to: NodeName,
) -> Result<(), Failure> {
    let now = context.now();
    let launch = context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let mut after = Instance { primary_node: to.clone(), ..instance.changed(now) };
            after.disks_active = true;
            let after = after.with_next_run(to, now);
            let launch = launch::launch(config, &after);
            Ok((vec![ConfigChange::Instance(after)], launch))
        })
        .await?;
    if let Err(failure) = copies::start(context, launch).await {
        context.say(warning("it did not start there; its record says that it is to run")).await;
        return Err(failure);
    }
    Ok(())
}
