//! Opcodes that take several instances elsewhere: each submits a job for each of them.

use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::group::Group;
use model::instance::Instance;
use model::instance::state::AdminState;
use model::node::Node;
use model::opcode::instance::Timeout;
use model::opcode::instance::moves::EvacuationMode;
use model::opcode::{
    GroupEvacuate, InstanceChangeGroup, InstanceFailover, InstanceMigrate, NodeEvacuate,
    NodeMigrate, OpCode, OpInput, SubmittedJobs,
};
use model::{Exception, NodeName};

use super::allocator::built_in::{Wish, choose};
use super::allocator::{self, Allocator};
use super::capacity::{AllFacts, Extent, Share, sizes};
use super::copies::rules::MIRROR;
use super::power;
use super::target::{goes_anywhere, with_copies};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Instances of one opcode: those of a large node or group, and one submission.
pub(super) const INSTANCES_MAX: usize = 1_000;

/// The jobs that take instances elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Moves(pub(super) Vec<Vec<OpInput>>);

/// Instances, each with its new node, one after the other: each placement counts for the next one.
///
/// # Errors
/// One of them cannot go; all those are named.
pub(super) fn placed(
    config: &Config,
    facts: &AllFacts,
    instances: &[Arc<Instance>],
    groups: &[&Arc<Group>],
) -> Result<Vec<(Arc<Instance>, NodeName)>, Exception> {
    if instances.len() > INSTANCES_MAX {
        let text = format!("{} instances; one opcode moves {INSTANCES_MAX}", instances.len());
        return Err(wrong(text));
    }
    let mut after = config.clone();
    let (mut moves, mut stuck) = (Vec::new(), Vec::new());
    for instance in instances {
        let found = elsewhere(&after, facts, instance, groups);
        match found {
            Ok(node) => {
                let moved = Instance { primary_node: node.clone(), ..instance.as_ref().clone() };
                after.apply([ConfigChange::Instance(moved)]);
                moves.push((Arc::clone(instance), node));
            }
            Err(error) => stuck.push(format!("{} ({})", instance.name, error.message())),
        }
    }
    match stuck.is_empty() {
        true => Ok(moves),
        false => {
            let text = format!("Unable to evacuate instances {}", stuck.join(", "));
            Err(Exception::prereq(text, ErrorCode::InsufficientResources))
        }
    }
}

/// Another node for one instance: within its own group where no groups are named.
fn elsewhere(
    config: &Config,
    facts: &AllFacts,
    instance: &Instance,
    groups: &[&Arc<Group>],
) -> Result<NodeName, Exception> {
    power::is_whole(instance)?;
    if instance.disk_template == MIRROR {
        return with_copies(config, instance).map(|node| node.name.clone());
    }
    goes_anywhere(instance, "evacuation")?;
    let own = config.node(instance.primary_node.as_str())?;
    let settings = config.settings_on(own);
    let share = Share::of(instance, &settings, 0);
    let extent = Extent::of(instance, &settings, &sizes(config, instance));
    let in_group = |group: &Group| {
        let wish = Wish { share, extent: Some(&extent), group: Some(group), not: Some(own) };
        choose(config, facts, wish).map(|node| node.name.clone())
    };
    if groups.is_empty() {
        return in_group(config.group_of(own));
    }
    let mut last = None;
    for group in groups {
        match in_group(group) {
            Ok(node) => return Ok(node),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| wrong("there is no other node group")))
}

/// The job that takes an instance to a node: live, if it runs.
pub(super) fn job(instance: &Instance, node: &NodeName, failover: bool) -> Vec<OpInput> {
    let (instance_name, target_node) = (instance.name.to_string(), Some(node.to_string()));
    let instance_uuid = Some(instance.uuid.to_string());
    let goes_still = instance.disk_template == MIRROR || instance.admin_state != AdminState::Up;
    let op = match failover || goes_still {
        true => OpCode::InstanceFailover(InstanceFailover {
            instance_name,
            instance_uuid,
            shutdown_timeout: Timeout::default(),
            ignore_consistency: false,
            target_node,
            target_node_uuid: None,
            iallocator: None,
            ignore_ipolicy: false,
            cleanup: false,
        }),
        false => OpCode::InstanceMigrate(InstanceMigrate {
            instance_name,
            instance_uuid,
            mode: None,
            live: None,
            target_node,
            target_node_uuid: None,
            iallocator: None,
            allow_runtime_changes: true,
            ignore_ipolicy: false,
            cleanup: false,
            allow_failover: true,
            ignore_hvversions: false,
        }),
    };
    vec![OpInput::new(op)]
}

fn groups<'c>(
    config: &'c Config,
    named: Option<&Vec<String>>,
    not: &Group,
) -> Result<Vec<&'c Arc<Group>>, Exception> {
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Ok(config.groups.values().filter(|group| group.uuid != not.uuid).collect());
    };
    let groups: Vec<_> = named.iter().map(|name| config.group(name)).collect::<Result<_, _>>()?;
    match groups.iter().any(|group| group.uuid == not.uuid) {
        true => {
            Err(wrong(format!("Can't use group {} as a target group: they are there", not.name)))
        }
        false => Ok(groups),
    }
}

pub(super) fn all_shared(level: Level) -> Wanted {
    match level {
        Level::Node => vec![(LockName::set(level), Mode::Shared)],
        _ => Vec::new(),
    }
}

impl LogicalUnit for NodeEvacuate {
    type Plan = Moves;

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(all_shared(level))
    }

    async fn check(&self, context: &mut Context) -> Result<Moves, Failure> {
        let config = context.config();
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        if self.remote_node.is_some() {
            let text = "Node evacuation with a target node moves secondary copies alone, which there are none of";
            return Err(wrong(text).into());
        }
        if self.mode == EvacuationMode::SecondaryOnly {
            return Ok(Moves::default());
        }
        let instances: Vec<_> =
            config.instances.by.primary.of(node.name.clone()).cloned().collect();
        if let Some(program) = Allocator::program(self.iallocator.as_deref(), &config) {
            let jobs = allocator::evacuation(context, &program, &instances, self.mode).await?;
            return Ok(Moves(jobs));
        }
        let moves = placed(&config, &context.contacts().facts(), &instances, &[])?;
        let is_gone = node.role == model::node::NodeRole::Offline;
        Ok(Moves(moves.iter().map(|(instance, node)| job(instance, node, is_gone)).collect()))
    }

    async fn exec(self, moves: Moves, context: &mut Context) -> Result<SubmittedJobs, Failure> {
        submitted(context, moves).await
    }
}

pub(super) async fn submitted(
    context: &mut Context,
    moves: Moves,
) -> Result<SubmittedJobs, Failure> {
    match moves.0.is_empty() {
        true => Ok(SubmittedJobs::default()),
        false => context.submit(moves.0).await,
    }
}

impl LogicalUnit for NodeMigrate {
    type Plan = Moves;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Node {
            return Ok(Vec::new());
        }
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        Ok(vec![(LockName::member(level, node.name.as_str()), Mode::Shared)])
    }

    async fn check(&self, context: &mut Context) -> Result<Moves, Failure> {
        let config = context.config();
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        let instances = config.instances.by.primary.of(node.name.clone());
        let one = |instance: &Arc<Instance>| {
            vec![OpInput::new(OpCode::InstanceMigrate(InstanceMigrate {
                instance_name: instance.name.to_string(),
                instance_uuid: Some(instance.uuid.to_string()),
                mode: self.mode,
                live: self.live,
                target_node: self.target_node.clone(),
                target_node_uuid: self.target_node_uuid.clone(),
                iallocator: self.iallocator.clone(),
                allow_runtime_changes: self.allow_runtime_changes,
                ignore_ipolicy: self.ignore_ipolicy,
                cleanup: false,
                allow_failover: false,
                ignore_hvversions: false,
            }))]
        };
        Ok(Moves(instances.map(one).collect()))
    }

    async fn exec(self, moves: Moves, context: &mut Context) -> Result<SubmittedJobs, Failure> {
        submitted(context, moves).await
    }
}

impl LogicalUnit for InstanceChangeGroup {
    type Plan = Moves;

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(all_shared(level))
    }

    async fn check(&self, context: &mut Context) -> Result<Moves, Failure> {
        let config = context.config();
        let instance = config.instance_with(&self.instance_name, self.instance_uuid.as_deref())?;
        let own = config.group_of(config.node(instance.primary_node.as_str())?);
        let groups = groups(&config, self.target_groups.as_ref(), own)?;
        if groups.is_empty() {
            return Err(wrong("there is no other node group").into());
        }
        let instances = [Arc::clone(instance)];
        if let Some(program) = Allocator::program(self.iallocator.as_deref(), &config) {
            let jobs = allocator::change_of_group(context, &program, &instances, &groups).await?;
            return Ok(Moves(jobs));
        }
        let moves = placed(&config, &context.contacts().facts(), &instances, &groups)?;
        Ok(Moves(moves.iter().map(|(instance, node)| job(instance, node, false)).collect()))
    }

    async fn exec(self, moves: Moves, context: &mut Context) -> Result<SubmittedJobs, Failure> {
        submitted(context, moves).await
    }
}

impl LogicalUnit for GroupEvacuate {
    type Plan = Moves;

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(all_shared(level))
    }

    async fn check(&self, context: &mut Context) -> Result<Moves, Failure> {
        let config = context.config();
        let group = config.group(&self.group_name)?;
        let groups = groups(&config, self.target_groups.as_ref(), group)?;
        if groups.is_empty() {
            return Err(wrong("there is no other node group").into());
        }
        let on = |node: &Arc<Node>| config.instances.by.primary.of(node.name.clone()).cloned();
        let instances: Vec<_> = config.nodes_of(group).flat_map(on).collect();
        let program = Allocator::program(self.iallocator.as_deref(), &config);
        let jobs = match program {
            Some(program) => {
                allocator::change_of_group(context, &program, &instances, &groups).await?
            }
            None => placed(&config, &context.contacts().facts(), &instances, &groups)?
                .iter()
                .map(|(instance, node)| job(instance, node, self.force_failover))
                .collect(),
        };
        let jobs = match self.sequential && !jobs.is_empty() {
            true => vec![jobs.into_iter().flatten().collect()],
            false => jobs,
        };
        Ok(Moves(jobs))
    }

    async fn exec(self, moves: Moves, context: &mut Context) -> Result<SubmittedJobs, Failure> {
        submitted(context, moves).await
    }
}
