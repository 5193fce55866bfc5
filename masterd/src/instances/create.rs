//! Makes an instance. Its first effect is one commit that reserves all that it takes, so that nothing of it
//! is ever without a record.

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::launch::DiskLaunch;
use model::instance::state::AdminState;
use model::instance::{Disk, Instance, Phase};
use model::node::Node;
use model::opcode::InstanceCreate;
use model::opcode::instance::CreateMode;
use model::{Exception, JobId, NodeName, Uuid};
use rpc::calls::Volume;

use super::allocator::built_in::{Wish, choose};
use super::allocator::{self, Allocator, Newcomer};
use super::backup::import::{Source, imported, named as named_export};
use super::blueprint::{Blueprint, Making, Nodes, asked, installs};
use super::capacity::AllFacts;
use super::transfer::{Place, carried};
use super::{agent, copies, find, info, launch, name, os, remove, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// How often another node is looked for where somebody else got the last room of one.
const TRIES_MAX: u32 = 8;

/// The node that the client names; none has the allocator choose.
fn named<'c>(op: &InstanceCreate, config: &'c Config) -> Result<Option<&'c Node>, Exception> {
    let uuid = op.pnode_uuid.as_deref();
    let node = op.pnode.as_deref().map(|name| config.node_with(name, uuid)).transpose()?;
    if node.is_some() && op.iallocator.as_ref().is_some_and(|name| !name.is_empty()) {
        return Err(wrong("Do not specify both, iallocator and node"));
    }
    Ok(node.map(AsRef::as_ref))
}

/// The outcome of the check.
#[derive(Debug)]
pub(crate) struct CreatePlan {
    /// A record that an earlier try left unfinished, and that goes first.
    left: Option<Uuid>,
    /// The node that a program chose.
    chosen: Option<NodeName>,
    /// The creation that an import is, and the place of its content.
    import: Option<(InstanceCreate, Source)>,
}

impl LogicalUnit for InstanceCreate {
    type Plan = CreatePlan;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        match level {
            Level::Instance => {
                let name = self.instance_name.to_ascii_lowercase();
                let mut wanted = vec![(LockName::member(level, name), Mode::Exclusive)];
                if self.mode == CreateMode::Import {
                    // Nobody replaces or removes the export meanwhile.
                    let export = LockName::member(level, named_export(self)?.as_str());
                    if export != wanted[0].0 {
                        wanted.push((export, Mode::Shared));
                        wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
                    }
                }
                Ok(wanted)
            }
            // The allocator may take any: all are to stay what they are.
            Level::Node => Ok(match named(self, config)? {
                Some(node) => vec![(LockName::member(level, node.name.as_str()), Mode::Shared)],
                None => vec![(LockName::set(level), Mode::Shared)],
            }),
            Level::Network => {
                let named = self.nics.iter().filter_map(|nic| nic.get("network")?.as_str());
                let mut networks = Vec::new();
                for name in named.filter(|name| !["", "none"].contains(name)) {
                    let uuid = config.network(name)?.uuid.to_string();
                    networks.push((LockName::member(level, uuid), Mode::Shared));
                }
                Ok(networks)
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let import = imported(self, context).await?;
        let op = import.as_ref().map_or(self, |(op, _)| op);
        let config = context.config();
        let left = left_behind(op, context, &config)?;
        let facts = context.contacts().facts();
        let (job, now) = (context.job(), context.now());
        let making = Making { facts: &facts, job, now, seed: Uuid::new_v4().as_u128() };
        let blueprint = blueprint(op, &config, making)?;
        if let Some((_, source)) = &import {
            source.fits(&blueprint.disks.iter().map(|disk| disk.size).collect::<Vec<u64>>())?;
        }
        let mut chosen = None;
        // The name may be that of a record which goes first.
        if left.is_none() {
            chosen = by_program(op, context, &config, &blueprint).await?;
            let nodes = placed(op, &config, &blueprint, making, chosen.as_ref())?;
            let (_, instance) = blueprint.on(nodes, op, &config, making)?;
            let name = &blueprint.instance.name;
            name::check(name, op.name_check, op.ip_check && op.start).await?;
            if let Some(first) = blueprint.disks.first().filter(|_| installs(op)) {
                let (size, force_variant) = (first.size, op.force_variant);
                let asked = os::SystemAsked { instance: &instance, size, force_variant };
                os::suits(context, asked).await?;
            }
            if !op.forthcoming {
                agent::check_hypervisor(context, &nodes.primary.name, &instance).await?;
            }
        }
        Ok(CreatePlan { left, chosen, import })
    }

    async fn exec(
        self,
        CreatePlan { left, chosen, import }: CreatePlan,
        context: &mut Context,
    ) -> Result<Vec<NodeName>, Failure> {
        let (op, source) = match import {
            Some((op, source)) => (op, Some(source)),
            None => (self, None),
        };
        if let Some(left) = left {
            clear(context, left).await?;
        }
        let name = op.instance_name.to_ascii_lowercase();
        context.say(format!("adding instance {name} to cluster config")).await;
        let instance = reserve(&op, context, chosen).await?;
        if op.pnode.is_none() {
            let config = context.config();
            let (name, node) = (&instance.name, copies::nodes(&config, &instance).join(", "));
            let program = Allocator::program(op.iallocator.as_deref(), &config);
            let by = program.map(|program| format!(" {program}")).unwrap_or_default();
            let text = format!("Selected nodes for instance {name} via iallocator{by}: {node}");
            context.say(info(&text)).await;
        }
        if instance.forthcoming {
            return Ok(copies::nodes(&context.config(), &instance));
        }
        if !instance.disks.is_empty() {
            context.say("* creating instance disks...").await;
        }
        let (node, uuid) = (instance.primary_node.clone(), instance.uuid);
        let config = context.config();
        let wipe = config.settings_of(&instance).prealloc_wipe_disks;
        let held: Vec<Disk> =
            config.disks_of(&instance).map(|disk| disk.as_ref().clone()).collect();
        let disks = launch::disks(&config, &instance);
        let made_disks = copies::make_disks(context, &instance, &held, wipe).await?;
        let mut whole = made_disks.map_err(|not| not.exception("Can't create the disks"));
        if whole.is_ok() && (installs(&op) || source.is_some()) {
            copies::written_alone(context, uuid).await?;
        }
        if whole.is_ok() && installs(&op) && !disks.is_empty() {
            whole = os::install(context, &instance, false).await?;
        }
        if let (Ok(()), Some(source)) = (&whole, source) {
            whole = filled(context, &node, disks, &source).await?;
        }
        if let Err(failed) = whole {
            undo(context, &instance).await?;
            return Err(failed.into());
        }
        let (start, now) = (op.start, context.now());
        let launch = context.transact(move |config| made(config, uuid, start, now)).await?;
        if let Some(launch) = launch {
            context.say("* starting instance...").await;
            copies::start(context, launch).await?;
        }
        Ok(copies::nodes(&context.config(), &instance))
    }
}

/// Gives disks the content that an export has of them.
async fn filled(
    context: &mut Context,
    node: &NodeName,
    disks: Vec<DiskLaunch>,
    source: &Source,
) -> Result<Result<(), Exception>, Failure> {
    for (place, disk) in disks.into_iter().enumerate() {
        let Some(from) = source.content(place) else { continue };
        let what = format!("disk/{place}");
        context.say(format!("* importing {what} from {}", from.node)).await;
        let to = Place { node: node.clone(), volume: Volume::Disk(disk) };
        if let Err(not) = carried(context, from, to, &what).await? {
            return Ok(Err(not.exception(&format!("Could not import {what}"))));
        }
    }
    Ok(Ok(()))
}

fn blueprint(
    op: &InstanceCreate,
    config: &Config,
    making: Making<'_>,
) -> Result<Blueprint, Exception> {
    let settings = match named(op, config)? {
        Some(node) => config.settings_on(node),
        None => config.instance_settings().as_ref().clone(),
    };
    asked(op, config, &settings, making)
}

/// The node that a program chooses, where one is to.
async fn by_program(
    op: &InstanceCreate,
    context: &Context,
    config: &Config,
    blueprint: &Blueprint,
) -> Result<Option<NodeName>, Failure> {
    let program = Allocator::program(op.iallocator.as_deref(), config);
    let Some(program) = program.filter(|_| op.pnode.is_none()) else { return Ok(None) };
    let newcomer = Newcomer::of(blueprint, &config.instance_settings(), &op.nics);
    let group = op.group_name.as_deref().map(|name| config.group(name)).transpose()?;
    allocator::node_for(context, &program, &newcomer, group.map(AsRef::as_ref)).await.map(Some)
}

/// The nodes of an instance: the second one is named, or that of the built-in allocator.
fn placed<'c>(
    op: &InstanceCreate,
    config: &'c Config,
    blueprint: &Blueprint,
    making: Making<'_>,
    chosen: Option<&NodeName>,
) -> Result<Nodes<'c>, Exception> {
    let primary = placed_first(op, config, blueprint, making, chosen)?;
    let secondary = second(op, config, blueprint, (primary, making.facts))?;
    Ok(Nodes { primary, secondary })
}

/// The node that has copies of an instance's disks, where they have any: the named one, or that of the built-in
/// allocator.
///
/// # Errors
/// None may have them.
pub(super) fn second<'c>(
    op: &InstanceCreate,
    config: &'c Config,
    blueprint: &Blueprint,
    (primary, facts): (&Node, &AllFacts),
) -> Result<Option<&'c Node>, Exception> {
    let named = op.snode.as_deref().map(|name| config.node_with(name, op.snode_uuid.as_deref()));
    Ok(match named.transpose()? {
        Some(_) if !blueprint.has_copies() => {
            return Err(wrong("disks of this template have no secondary node"));
        }
        Some(named) if named.name == primary.name => {
            return Err(wrong("The secondary node cannot be the primary node"));
        }
        Some(named) => Some(named.as_ref()),
        None if blueprint.has_copies() => {
            let (share, group) = (blueprint.share_of_copies(), Some(config.group_of(primary)));
            let wish = Wish { share, extent: None, group, not: Some(primary) };
            Some(choose(config, facts, wish)?.as_ref())
        }
        None => None,
    })
}

/// The node that the client names, the one that a program chose, or that of the built-in allocator.
fn placed_first<'c>(
    op: &InstanceCreate,
    config: &'c Config,
    blueprint: &Blueprint,
    making: Making<'_>,
    chosen: Option<&NodeName>,
) -> Result<&'c Node, Exception> {
    if let Some(node) = named(op, config)? {
        return Ok(node);
    }
    if let Some(chosen) = chosen {
        return config.node(chosen.as_str()).map(AsRef::as_ref);
    }
    let group = op.group_name.as_deref().map(|name| config.group(name)).transpose()?;
    let (share, extent) = blueprint.wanted(&config.instance_settings(), op);
    let group = group.map(AsRef::as_ref);
    let wish = Wish { share, extent: extent.as_ref(), group, not: None };
    choose(config, making.facts, wish).map(AsRef::as_ref)
}

/// The record of this name that an earlier try left unfinished, if there is one.
fn left_behind(
    op: &InstanceCreate,
    context: &Context,
    config: &Config,
) -> Result<Option<Uuid>, Exception> {
    let name = op.instance_name.to_ascii_lowercase();
    let Some(instance) = config.instances.get(name.as_str()) else { return Ok(None) };
    match &instance.phase {
        Phase::Creating { job } | Phase::Removing { job, .. } if context.has_ended(*job) => {
            Ok(Some(instance.uuid))
        }
        Phase::Creating { .. }
        | Phase::Ready
        | Phase::Moving { .. }
        | Phase::Copying { .. }
        | Phase::Removing { .. } => {
            let text = format!("Instance '{name}' is already in the cluster");
            Err(Exception::prereq(text, ErrorCode::AlreadyExists))
        }
    }
}

/// Removes what an earlier try left.
async fn clear(context: &mut Context, left: Uuid) -> Result<(), Failure> {
    let config = context.config();
    let instance = find::present(&config, left)?.clone();
    context.say(info("Removing what an earlier job left of this instance")).await;
    context.point_of_no_return().await?;
    if let Err((what, not)) = remove::taken_away(context, &instance, 0).await? {
        return Err(not.exception(what).into());
    }
    remove::gone(context, left).await
}

/// Reserves all that an instance takes, by one commit.
async fn reserve(
    op: &InstanceCreate,
    context: &mut Context,
    mut chosen: Option<NodeName>,
) -> Result<Instance, Failure> {
    let mut tries = 0;
    loop {
        tries += 1;
        if chosen.is_none() {
            let (config, facts) = (context.config(), context.contacts().facts());
            let (job, now) = (context.job(), context.now());
            let making = Making { facts: &facts, job, now, seed: Uuid::new_v4().as_u128() };
            let blueprint = blueprint(op, &config, making)?;
            chosen = by_program(op, context, &config, &blueprint).await?;
        }
        let facts = context.contacts().facts();
        let (job, now, op) = (context.job(), context.now(), op.clone());
        let (seed, may_go_elsewhere) = (Uuid::new_v4().as_u128(), op.pnode.is_none());
        let of_program = chosen.take();
        let decide = move |config: &Config| {
            let making = Making { facts: &facts, job, now, seed };
            let blueprint = blueprint(&op, config, making)?;
            let nodes = placed(&op, config, &blueprint, making, of_program.as_ref())?;
            blueprint.on(nodes, &op, config, making)
        };
        match context.transact(decide).await {
            Err(Failure::Exception(error))
                if may_go_elsewhere && is_full(&error) && tries < TRIES_MAX => {}
            done => return done,
        }
    }
}

fn is_full(error: &Exception) -> bool {
    let code = error.args.get(1).and_then(serde_json::Value::as_str);
    code == Some(ErrorCode::InsufficientResources.as_str())
}

/// The change by which an instance is whole, with its first run if it is to start.
fn made(
    config: &Config,
    uuid: Uuid,
    start: bool,
    now: model::Timestamp,
) -> Result<(Vec<ConfigChange>, Option<model::instance::launch::Launch>), Exception> {
    let instance = find::present(config, uuid)?;
    let mut whole = Instance { phase: Phase::Ready, ..instance.clone() };
    let mut begins = None;
    if start {
        let node = whole.primary_node.clone();
        whole = whole.with_next_run(node, now);
        (whole.admin_state, whole.disks_active) = (AdminState::Up, true);
        begins = Some(launch::launch(config, &whole));
    }
    Ok((vec![ConfigChange::Instance(whole)], begins))
}

/// Takes a creation back that failed; what cannot be undone stays in the record, with the reason.
async fn undo(context: &mut Context, instance: &Instance) -> Result<(), Failure> {
    let uuid = instance.uuid;
    match remove::taken_away(context, instance, 0).await? {
        Ok(()) => remove::gone(context, uuid).await,
        Err((what, not)) => {
            let why = format!("{what}: {}", not.why);
            context.say(warning(&why)).await;
            let job = context.job();
            context.transact(move |config| removing(config, uuid, job, why)).await
        }
    }
}

fn removing(
    config: &Config,
    uuid: Uuid,
    job: JobId,
    why: String,
) -> Result<(Vec<ConfigChange>, ()), Exception> {
    let instance = find::present(config, uuid)?;
    let phase = Phase::Removing { job, why: Some(why) };
    Ok((vec![ConfigChange::Instance(Instance { phase, ..instance.clone() })], ()))
}
