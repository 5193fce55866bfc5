//! Starts, stops and restarts instances.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::instance::launch::{Launch, Sight};
use model::instance::parameters::{BACKEND, hypervisor, read};
use model::instance::settings::with_memory;
use model::instance::state::{AdminState, AdminStateSource, NodeState, Seen};
use model::instance::{Instance, Phase};
use model::opcode::instance::RebootType;
use model::opcode::{InstanceReboot, InstanceShutdown, InstanceStartup};
use model::{Code, Exception, Timestamp, Uuid};
use rpc::calls::{Control, InstanceControl};

use super::capacity::{Share, fits};
use super::copies::rules::all_stale;
use super::standing::{Stands, node_state};
use super::{agent, copies, find, launch, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Refuses to touch an instance that is not whole.
///
/// # Errors
/// It is on its way; the text says what goes on.
pub(super) fn is_whole(instance: &Instance) -> Result<(), Exception> {
    let name = &instance.name;
    let text = match &instance.phase {
        Phase::Ready if let Some(new) = &instance.renaming => format!(
            "Instance {name} was left half renamed; `gnt instance rename {name} {new}` brings it to an end"
        ),
        Phase::Ready if !instance.forthcoming => return Ok(()),
        Phase::Ready => format!("Instance {name} is only planned"),
        Phase::Creating { job } => {
            format!("Instance {name} was left half made by job {job}; make it again, or remove it")
        }
        Phase::Moving { job, .. } => format!(
            "Instance {name} was left halfway between two nodes by job {job}; `gnt instance migrate \
             --cleanup {name}` brings it to an end"
        ),
        Phase::Copying { job } => format!(
            "Disks of instance {name} were left on two nodes by job {job}; `gnt instance migrate --cleanup \
             {name}` leaves it where it is"
        ),
        Phase::Removing { job, .. } => {
            format!("Instance {name} was left half removed by job {job}; remove it again")
        }
    };
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

/// Whether an instance's node is offline, so that there is nobody to be told.
fn is_offline(context: &Context, instance: &Instance) -> bool {
    let (config, now) = (context.config(), context.now());
    node_state(&config, &instance.primary_node, context.contacts(), now) == NodeState::Offline
}

fn offline_node(instance: &Instance) -> Exception {
    let text = format!("Primary node {} is offline", instance.primary_node);
    Exception::prereq(text, ErrorCode::WrongState)
}

/// Whether an instance lives on its node.
///
/// Silence is no answer: whoever takes it for a "no" commits a second run, and its node ends the first.
///
/// # Errors
/// It may live, and its node has not told.
pub(super) fn is_alive(context: &Context, instance: &Instance) -> Result<bool, Exception> {
    let stands = Stands::of(&context.config(), instance, context.contacts(), context.now());
    match stands.is_alive() {
        Some(is_alive) => Ok(is_alive),
        None if stands.node == NodeState::Offline || instance.run.is_none() => Ok(false),
        None => {
            let text = format!(
                "Node {} does not tell whether instance {} lives there; repeat this when it answers, or \
                 say that the node is off by `gnt node modify --offline yes --force {0}`",
                instance.primary_node, instance.name
            );
            Err(Exception::prereq(text, ErrorCode::EnvironmentError).coded(Code::Agent))
        }
    }
}

/// Refuses what is done with an instance that neither is to run nor does; `refusal` says what that is.
///
/// # Errors
/// It is to run, it does, or its node does not tell.
pub(super) fn stands_still(
    context: &Context,
    instance: &Instance,
    refusal: &str,
) -> Result<(), Exception> {
    let name = &instance.name;
    let text = match instance.admin_state {
        AdminState::Up => format!("Instance {name} is marked to be up, {refusal}"),
        _ if is_alive(context, instance)? => format!("Instance {name} is running, {refusal}"),
        AdminState::Down | AdminState::Offline => return Ok(()),
    };
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

impl LogicalUnit for InstanceStartup {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        is_whole(instance)?;
        if instance.admin_state == AdminState::Offline {
            let text = format!(
                "Instance {0} is marked offline; `gnt instance modify --online {0}` changes that",
                instance.name
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        for_this_run(self, &config, instance)?;
        let is_offline = is_offline(context, instance);
        if is_offline && !self.ignore_offline_nodes {
            return Err(offline_node(instance).into());
        }
        if !is_offline && !is_alive(context, instance)? {
            let node = config.node(instance.primary_node.as_str())?;
            let facts = context.contacts().facts();
            let share = Share::of(instance, &config.settings_on(node), 0);
            fits(&config, node, facts.get(&node.name).map(AsRef::as_ref), share, Some(instance))?;
        }
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let instance = find::present(&config, uuid)?.clone();
        let is_offline = is_offline(context, &instance);
        let lives = !is_offline && is_alive(context, &instance)?;
        let (now, op) = (context.now(), self.clone());
        let launch = context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                let mut after = match self.no_remember {
                    true => instance.clone(),
                    false => wished(instance, AdminState::Up, AdminStateSource::Admin, now),
                };
                after.disks_active = true;
                if lives || is_offline {
                    return Ok((vec![ConfigChange::Instance(after)], None));
                }
                let node = after.primary_node.clone();
                // A run that is not over did not end well.
                let mut changes = match after.run {
                    Some(_) => all_stale(config, &after, now),
                    None => Vec::new(),
                };
                let after = after.with_next_run(node, now);
                let launch = for_this_run(&op, config, &after)?;
                changes.push(ConfigChange::Instance(after));
                Ok((changes, Some(launch)))
            })
            .await?;
        match launch {
            Some(launch) => copies::start(context, launch).await,
            None if is_offline => {
                context.say(warning("Primary node offline, marked instance as started")).await;
                Ok(())
            }
            None => goes_on(context, &instance, self.startup_paused).await,
        }
    }
}

/// Has an instance that lives go on if it stands still: somebody began it paused, or a disk had no room.
async fn goes_on(context: &mut Context, instance: &Instance, stays: bool) -> Result<(), Failure> {
    let stands = Stands::of(&context.config(), instance, context.contacts(), context.now());
    let seen = stands.sight.map(|sight| sight.seen);
    if stays || !matches!(seen, Some(Seen::Paused | Seen::IoError)) {
        context.say(super::info("The instance runs already")).await;
        return Ok(());
    }
    context.say(super::info("The instance stands still, and is told to go on")).await;
    let resume =
        InstanceControl { uuid: instance.uuid, run: instance.runs, control: Control::Resume };
    let done = agent::seen(context, &instance.primary_node, resume).await?;
    let what = format!("Could not have instance {} go on", instance.name);
    done.map(drop).map_err(|not| not.exception(&what).into())
}

/// The launch for a node, with the parameters of this run alone.
fn for_this_run(
    op: &InstanceStartup,
    config: &Config,
    instance: &Instance,
) -> Result<Launch, Exception> {
    let table = hypervisor(&instance.hypervisor).unwrap_or_default();
    let hvparams = read(table, &op.hvparams, false).map_err(|e| wrong(e.to_string()))?;
    let beparams =
        read(BACKEND, &with_memory(&op.beparams), false).map_err(|e| wrong(e.to_string()))?;
    let run = Instance {
        hvparams: hvparams.over(&instance.hvparams),
        beparams: beparams.over(&instance.beparams),
        ..instance.clone()
    };
    Ok(Launch { paused: op.startup_paused, ..launch::launch(config, &run) })
}

/// An instance with another wish; the same where the wish is the same.
fn wished(
    instance: &Instance,
    wish: AdminState,
    source: AdminStateSource,
    now: Timestamp,
) -> Instance {
    if instance.admin_state == wish && instance.admin_state_source == source {
        return instance.clone();
    }
    Instance { admin_state: wish, admin_state_source: source, ..instance.changed(now) }
}

impl LogicalUnit for InstanceShutdown {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        is_whole(instance)?;
        if instance.admin_state == AdminState::Offline && !self.force {
            let text = format!("Instance {} is marked offline", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        if is_offline(context, instance) && !self.ignore_offline_nodes {
            return Err(offline_node(instance).into());
        }
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        let source = self.admin_state_source.unwrap_or_default();
        let keeps = self.no_remember;
        let instance = context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                let after = match keeps || instance.admin_state == AdminState::Offline {
                    true => instance.clone(),
                    false => wished(instance, AdminState::Down, source, now),
                };
                Ok((vec![ConfigChange::Instance(after.clone())], after))
            })
            .await?;
        let ended_well = if is_offline(context, &instance) {
            context.say(warning("Primary node offline, marked instance as stopped")).await;
            false
        } else {
            stopped(context, &instance, self.timeout.0).await?.seen != Seen::Crashed
        };
        over(context, uuid, ended_well).await
    }
}

/// Commits that the run of an instance is over: its node has said so, or an operator that the node is off.
/// Without that it may live, and nothing begins another run.
async fn over(context: &mut Context, uuid: Uuid, ended_well: bool) -> Result<(), Failure> {
    let now = context.now();
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            let mut changes = match instance.run {
                Some(_) if !ended_well => all_stale(config, instance, now),
                _ => Vec::new(),
            };
            let after = Instance { run: None, disks_active: false, ..instance.clone() };
            changes.push(ConfigChange::Instance(after));
            Ok((changes, ()))
        })
        .await
}

/// Ends what lives of an instance on its node.
pub(super) async fn stopped(
    context: &mut Context,
    instance: &Instance,
    timeout_s: u32,
) -> Result<Sight, Failure> {
    let node = instance.primary_node.clone();
    let done = copies::stop(context, &node, instance, (timeout_s, false)).await?;
    done.map_err(|not| {
        not.exception(&format!("Could not shutdown instance {}", instance.name)).into()
    })
}

impl LogicalUnit for InstanceReboot {
    type Plan = Uuid;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        find::locks(level, config, &self.instance_name, self.instance_uuid.as_deref(), &[])
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        is_whole(instance)?;
        if instance.admin_state == AdminState::Offline {
            let text = format!("Instance {} is marked offline", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        if is_offline(context, instance) {
            return Err(offline_node(instance).into());
        }
        is_alive(context, instance)?;
        Ok(instance.uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let instance = find::present(&config, uuid)?.clone();
        let lives = is_alive(context, &instance)?;
        if lives && self.reboot_type == RebootType::Soft {
            context.point_of_no_return().await?;
            let run = instance.runs;
            let reset = InstanceControl { uuid, run, control: Control::Reset };
            let done = agent::seen(context, &instance.primary_node, reset).await?;
            let what = format!("Could not reboot instance {}", instance.name);
            return done.map(drop).map_err(|not| not.exception(&what).into());
        }
        context.point_of_no_return().await?;
        let ended_well = match lives {
            true => {
                stopped(context, &instance, self.shutdown_timeout.0).await?.seen != Seen::Crashed
            }
            false => instance.run.is_none(),
        };
        let now = context.now();
        let launch = context
            .transact(move |config| {
                let instance = find::present(config, uuid)?;
                let after = wished(instance, AdminState::Up, AdminStateSource::Admin, now);
                let node = after.primary_node.clone();
                let mut changes = match ended_well {
                    true => Vec::new(),
                    false => all_stale(config, &after, now),
                };
                let after = Instance { disks_active: true, ..after }.with_next_run(node, now);
                let launch = launch::launch(config, &after);
                changes.push(ConfigChange::Instance(after));
                Ok((changes, launch))
            })
            .await?;
        copies::start(context, launch).await
    }
}
