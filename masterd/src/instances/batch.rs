//! Places several new instances, and submits a job for each.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::instance::InstanceSettings;
use model::opcode::instance::MultiAllocated;
use model::opcode::{Common, InstanceCreate, InstanceMultiAlloc, OpCode, OpInput, SubmittedJobs};
use model::{Exception, NodeName, Uuid};

use super::allocator::built_in::{Wish, choose};
use super::allocator::{self, Allocator, Newcomer, Placed};
use super::blueprint::{Blueprint, Making, Nodes, asked};
use super::create::second;
use super::evacuate::{INSTANCES_MAX, Moves, all_shared, submitted};
use super::warning;
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// A new instance before it has a node.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) op: InstanceCreate,
    pub(super) blueprint: Blueprint,
    /// The number from which its identities follow.
    seed: u128,
}

impl Planned {
    /// The wish of a client, among others that have other numbers `turn`.
    ///
    /// # Errors
    /// It cannot be.
    pub(super) fn new(
        op: InstanceCreate,
        config: &Config,
        making: Making<'_>,
        turn: usize,
    ) -> Result<Self, Exception> {
        // Each makes less identities than this.
        let seed = making.seed.wrapping_add((turn as u128) << 64);
        let making = Making { seed, ..making };
        let blueprint = asked(&op, config, &config.instance_settings(), making)?;
        Ok(Self { op, blueprint, seed })
    }

    pub(super) fn newcomer(&self, settings: &InstanceSettings) -> Newcomer {
        Newcomer::of(&self.blueprint, settings, &self.op.nics)
    }
}

/// The places of new instances.
#[derive(Debug, Default)]
pub(super) struct Placements {
    /// Instances that have room, each with its node.
    pub(super) placed: Vec<(InstanceCreate, NodeName)>,
    /// Names of those that have none, each with the reason.
    pub(super) failed: Vec<(String, Exception)>,
}

/// Places new instances one after the other: each placement counts for the next one. A program has `chosen`
/// before, where it was asked.
pub(super) fn placed(
    config: &Config,
    making: Making<'_>,
    planned: Vec<Planned>,
    chosen: Option<&Placed>,
) -> Placements {
    let (mut after, mut outcome) = (config.clone(), Placements::default());
    for Planned { op, blueprint, seed } in planned {
        let name = blueprint.instance.name.as_str();
        let node = match (&op.pnode, chosen) {
            (Some(node), _) => after.node(node),
            (None, Some(chosen)) => match chosen.nodes.get(name) {
                Some(node) => after.node(node.as_str()),
                None => {
                    let text = "the allocator found no room";
                    Err(Exception::prereq(text, ErrorCode::InsufficientResources))
                }
            },
            (None, None) => {
                let (share, extent) = blueprint.wanted(&after.instance_settings(), &op);
                let wish = Wish { share, extent: extent.as_ref(), group: None, not: None };
                choose(&after, making.facts, wish)
            }
        };
        let made = node.cloned().and_then(|node| {
            let secondary = second(&op, &after, &blueprint, (&node, making.facts))?;
            let nodes = Nodes { primary: &node, secondary };
            let (changes, _) = blueprint.on(nodes, &op, &after, Making { seed, ..making })?;
            Ok((changes, node.name.clone()))
        });
        match made {
            Ok((changes, node)) => {
                after.apply(changes);
                outcome.placed.push((op, node));
            }
            Err(error) => outcome.failed.push((op.instance_name.clone(), error)),
        }
    }
    outcome
}

fn read(told: &serde_json::Value) -> Result<(InstanceCreate, Common), Exception> {
    let input = OpInput::parse(&told.to_string()).map_err(|error| wrong(error.to_string()))?;
    match input.op {
        OpCode::InstanceCreate(op) => Ok((op, input.common)),
        _ => Err(wrong("instances: each is an opcode OP_INSTANCE_CREATE")),
    }
}

impl LogicalUnit for InstanceMultiAlloc {
    /// The jobs, and the names of instances that have room and that have none.
    type Plan = (Moves, Vec<String>, Vec<String>);

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(all_shared(level))
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let config = context.config();
        if self.instances.is_empty() || self.instances.len() > INSTANCES_MAX {
            let text = format!(
                "{} instances; one opcode places 1 to {INSTANCES_MAX}",
                self.instances.len()
            );
            return Err(wrong(text).into());
        }
        let facts = context.contacts().facts();
        let seed = Uuid::new_v4().as_u128();
        let making = Making { facts: &facts, job: context.job(), now: context.now(), seed };
        let (mut planned, mut commons) = (Vec::new(), std::collections::BTreeMap::new());
        for (turn, told) in self.instances.iter().enumerate() {
            let (op, common) = read(told)?;
            commons.insert(op.instance_name.clone(), common);
            planned.push(Planned::new(op, &config, making, turn)?);
        }
        let chosen = match Allocator::of(self.iallocator.as_deref(), &config) {
            Allocator::BuiltIn => None,
            Allocator::Program(name) => {
                let settings = config.instance_settings();
                let asked = planned.iter().filter(|planned| planned.op.pnode.is_none());
                let newcomers: Vec<_> = asked.map(|planned| planned.newcomer(&settings)).collect();
                Some(allocator::nodes_for(context, &name, &newcomers).await?)
            }
        };
        let Placements { placed, failed } = placed(&config, making, planned, chosen.as_ref());
        for (name, error) in &failed {
            context.say(warning(&format!("{name}: {}", error.message()))).await;
        }
        let allocatable = placed.iter().map(|(op, _)| op.instance_name.clone()).collect();
        let job = |(mut op, node): (InstanceCreate, NodeName)| {
            let common = commons.remove(&op.instance_name).unwrap_or_default();
            (op.pnode, op.iallocator) = (Some(node.to_string()), None);
            vec![OpInput { op: OpCode::InstanceCreate(op), common }]
        };
        let jobs = placed.into_iter().map(job).collect();
        Ok((Moves(jobs), allocatable, failed.into_iter().map(|(name, _)| name).collect()))
    }

    async fn exec(
        self,
        (moves, allocatable, failed): Self::Plan,
        context: &mut Context,
    ) -> Result<MultiAllocated, Failure> {
        let SubmittedJobs { jobs } = submitted(context, moves).await?;
        Ok(MultiAllocated { jobs, allocatable, failed })
    }
}
