//! Takes a running instance to another node. It runs on neither until a commit says on which.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::instance::launch::Launch;
use model::instance::state::AdminState;
use model::instance::{Instance, Phase, Run};
use model::opcode::InstanceMigrate;
use model::opcode::instance::moves::MigrationMode;
use model::{Exception, NodeName, Uuid};
use rpc::calls::{Finish, InstanceFinish, InstanceReceive, InstanceSend};

use super::target::{TargetAsked, found};
use super::{agent, failover, find, info, launch, power, relocate, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// The way to go.
#[derive(Debug)]
pub(crate) enum Plan {
    /// It moves, to this node.
    Move(Uuid, NodeName),
    /// It stands still, and goes to this node.
    Failover(Uuid, NodeName),
    /// A move that ended halfway is brought to its end.
    Cleanup(Uuid),
}

fn place(op: &InstanceMigrate) -> TargetAsked<'_> {
    TargetAsked {
        target_node: op.target_node.as_deref(),
        target_node_uuid: op.target_node_uuid.as_deref(),
        iallocator: op.iallocator.as_deref(),
        ignore_ipolicy: op.ignore_ipolicy,
        verb: "migrations",
    }
}

/// Whether the guest runs while it moves; the usual way where nobody says.
fn is_live(op: &InstanceMigrate) -> bool {
    match (op.mode, op.live) {
        (Some(mode), _) => mode == MigrationMode::Live,
        (None, live) => live.unwrap_or(true),
    }
}

impl LogicalUnit for InstanceMigrate {
    type Plan = Plan;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        failover::locks(
            level,
            config,
            (&self.instance_name, self.instance_uuid.as_deref()),
            self.target_node.as_deref(),
        )
    }

    async fn check(&self, context: &mut Context) -> Result<Plan, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        let uuid = instance.uuid;
        if self.cleanup {
            return match &instance.phase {
                Phase::Moving { .. } | Phase::Copying { .. } | Phase::Ready => {
                    Ok(Plan::Cleanup(uuid))
                }
                Phase::Creating { .. } | Phase::Removing { .. } => {
                    power::is_whole(instance)?;
                    Ok(Plan::Cleanup(uuid))
                }
            };
        }
        power::is_whole(instance)?;
        let node = found(context, &config, instance, place(self)).await?;
        if instance.admin_state == AdminState::Up && power::is_alive(context, instance)? {
            agent::check_hypervisor(context, &node, instance).await?;
            return Ok(Plan::Move(uuid, node));
        }
        if self.allow_failover {
            return Ok(Plan::Failover(uuid, node));
        }
        let text = format!(
            "Instance {} does not run, so that it cannot migrate; use failover, or --allow-failover",
            instance.name
        );
        Err(Exception::prereq(text, ErrorCode::WrongState).into())
    }

    async fn exec(self, plan: Plan, context: &mut Context) -> Result<(), Failure> {
        match plan {
            Plan::Move(uuid, to) => {
                let name = &self.instance_name;
                context.say(format!("Migrating instance {name}")).await;
                moved(context, uuid, to, is_live(&self)).await
            }
            Plan::Failover(uuid, to) => {
                context
                    .say(info("Instance is not running, fallback allowed, switching to failover"))
                    .await;
                failover::carried(context, uuid, to, model::opcode::instance::Timeout::default().0)
                    .await
            }
            Plan::Cleanup(uuid) => cleaned(context, uuid).await,
        }
    }
}

/// Moves a run: both sides made ready, the commit that says who runs, and the end of the old one.
async fn moved(context: &mut Context, uuid: Uuid, to: NodeName, live: bool) -> Result<(), Failure> {
    let (from, launch) = prepared(context, uuid, to.clone()).await?;
    let run = launch.run;
    context.say(format!("* preparing {to} to accept the instance")).await;
    let received = agent::call(context, &to, InstanceReceive { launch }).await?;
    let awaited = match received {
        Ok(awaited) => awaited,
        Err(not) => {
            let failed = not.exception(&format!("Could not pre-migrate instance to {to}"));
            taken_back(context, uuid).await?;
            return Err(failed.into());
        }
    };
    context.say(format!("* migrating instance to {to}")).await;
    context.say("* starting memory transfer").await;
    let send = InstanceSend { uuid, run: from.number, place: awaited.place, live };
    if let Err(not) = agent::seen(context, &from.node, send).await? {
        let failed = not.exception("Could not migrate instance");
        taken_back(context, uuid).await?;
        return Err(failed.into());
    }
    context.say("* memory transfer complete").await;
    let (now, target) = (context.now(), to.clone());
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let run = Run { number: run, node: target.clone(), since: now };
            let after = Instance { run: Some(run), primary_node: target, ..instance.changed(now) };
            Ok((vec![ConfigChange::Instance(after)], ()))
        })
        .await?;
    finished(context, uuid).await?;
    context.say("* done").await;
    Ok(())
}

/// Commits that a run is about to move.
async fn prepared(
    context: &mut Context,
    uuid: Uuid,
    to: NodeName,
) -> Result<(Run, Launch), Failure> {
    let job = context.job();
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let Some(from) = instance.run.clone() else {
                let text = format!("Instance {} has no run that could move", instance.name);
                return Err(Exception::prereq(text, ErrorCode::WrongState));
            };
            let phase = Phase::Moving { job, from: from.clone(), to };
            let after = Instance { phase, runs: instance.runs + 1, ..instance.clone() };
            let launch = launch::launch(config, &after);
            Ok((vec![ConfigChange::Instance(after)], (from, launch)))
        })
        .await
}

/// Commits that an instance is whole again.
async fn whole(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let after = Instance { phase: Phase::Ready, ..instance.clone() };
            Ok((vec![ConfigChange::Instance(after)], ()))
        })
        .await
}

/// Takes a move back that was not committed: the old run goes on.
async fn taken_back(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    let config = context.config();
    let instance = find::present(&config, uuid)?;
    let Phase::Moving { from, to, .. } = instance.phase.clone() else { return Ok(()) };
    let drop_there = InstanceFinish { uuid, run: instance.runs, finish: Finish::Drop };
    if let Err(not) = agent::seen(context, &to, drop_there).await? {
        // Its run is not owned, so that its agent is told to end it when it answers again.
        context
            .say(warning(&format!("what {to} had made ready stays there for now: {}", not.why)))
            .await;
    }
    let go_on = InstanceFinish { uuid, run: from.number, finish: Finish::Go };
    if let Err(not) = agent::seen(context, &from.node, go_on).await? {
        context
            .say(warning(&format!("the instance may stand still on {}: {}", from.node, not.why)))
            .await;
    }
    whole(context, uuid).await
}

/// Ends a move that was committed: the new run goes on, the old one ends.
async fn finished(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    let config = context.config();
    let instance = find::present(&config, uuid)?.clone();
    let Phase::Moving { from, to, .. } = instance.phase.clone() else { return Ok(()) };
    let go = InstanceFinish { uuid, run: instance.runs, finish: Finish::Go };
    if let Err(not) = agent::seen(context, &to, go).await? {
        let text = format!(
            "Instance {0} is to run on {to}, which does not let it; `gnt instance migrate --cleanup {0}` \
             tries again",
            instance.name
        );
        return Err(not.exception(&text).into());
    }
    let stop = rpc::calls::InstanceStop { uuid, run: from.number, timeout_s: 0, forget: true };
    if let Err(not) = agent::seen(context, &from.node, stop).await? {
        // It stands still there, and its agent ends it when it answers again.
        context
            .say(warning(&format!("what is left on {} ends later: {}", from.node, not.why)))
            .await;
    }
    whole(context, uuid).await
}

/// Brings a move to its end that a job left halfway.
async fn cleaned(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    let config = context.config();
    let instance = find::present(&config, uuid)?.clone();
    if matches!(instance.phase, Phase::Copying { .. }) {
        let (name, node) = (&instance.name, &instance.primary_node);
        context
            .say(format!("* instance {name} stays on {node}, removing the copies of its disks"))
            .await;
        let dropped = relocate::copies_dropped(context, uuid).await?;
        return Ok(dropped.map_err(|not| not.exception("Could not remove copies of disks"))?);
    }
    let Phase::Moving { from, to, .. } = &instance.phase else {
        context.say(info("Nothing to clean up: the instance is whole")).await;
        return Ok(());
    };
    let is_committed = instance.run.as_ref().is_some_and(|run| run.node == *to);
    if !is_committed {
        context.say(format!("* instance is on {}, taking the migration back", from.node)).await;
        return taken_back(context, uuid).await;
    }
    context.say(format!("* instance is to run on {to}, finishing the migration")).await;
    if power::is_alive(context, &instance)? {
        return finished(context, uuid).await;
    }
    // Its memory is lost with the node that had it: it begins anew there.
    let (from, to) = (from.clone(), to.clone());
    let stop = rpc::calls::InstanceStop { uuid, run: from.number, timeout_s: 0, forget: true };
    if let Err(not) = agent::seen(context, &from.node, stop).await? {
        context
            .say(warning(&format!("what is left on {} ends later: {}", from.node, not.why)))
            .await;
    }
    whole(context, uuid).await?;
    if instance.admin_state != AdminState::Up {
        return Ok(());
    }
    context.say(warning(&format!("nothing of it lives on {to}: it is started there"))).await;
    failover::started(context, uuid, to).await
}
