//! Shows an operator what an allocator is asked, or what it answers.

use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::group::Group;
use model::instance::Instance;
use model::opcode::instance::Told;
use model::opcode::instance::create::{AllocatorDirection, AllocatorMode, CreateParameters};
use model::opcode::instance::moves::EvacuationMode;
use model::opcode::{InstanceCreate, TestAllocator};
use model::{Exception, NodeName, Uuid};
use serde_json::{Value, json};

use super::built_in::{Wish, choose};
use super::question::{Request, question};
use super::{Allocator, program};
use crate::config::Config;
use crate::instances::batch::{self, Placements, Planned};
use crate::instances::blueprint::{Making, new_name};
use crate::instances::capacity::AllFacts;
use crate::instances::evacuate::{self, INSTANCES_MAX};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// A question, with all that it names.
#[derive(Debug)]
enum AllocatorQuestion {
    Allocate(Box<Planned>, Option<Arc<Group>>),
    MultiAllocate(Vec<Planned>),
    Relocate(Arc<Instance>),
    Evacuate(Vec<Arc<Instance>>, EvacuationMode),
    ChangeGroup(Vec<Arc<Instance>>, Vec<Arc<Group>>),
}

fn read(
    op: &TestAllocator,
    config: &Config,
    making: Making<'_>,
) -> Result<AllocatorQuestion, Exception> {
    let instances = || -> Result<Vec<Arc<Instance>>, Exception> {
        let Some(names) = op.instances.as_ref().filter(|names| !names.is_empty()) else {
            return Err(wrong("Missing instances"));
        };
        names.iter().map(|name| config.instance_with(name, None).cloned()).collect()
    };
    Ok(match op.mode {
        AllocatorMode::Allocate => {
            let group = op.group_name.as_deref().map(|name| config.group(name)).transpose()?;
            let planned = Planned::new(created(op, op.name.clone())?, config, making, 0)?;
            new_name(config, &planned.blueprint.instance.name)?;
            AllocatorQuestion::Allocate(Box::new(planned), group.cloned())
        }
        AllocatorMode::MultiAllocate => {
            let count = usize::try_from(op.count).unwrap_or(usize::MAX);
            if !(1..=INSTANCES_MAX).contains(&count) {
                return Err(wrong(format!("count: {count} is not from 1 to {INSTANCES_MAX}")));
            }
            let one = |turn| {
                Planned::new(created(op, format!("{}{turn}", op.name))?, config, making, turn)
            };
            AllocatorQuestion::MultiAllocate((0..count).map(one).collect::<Result<_, _>>()?)
        }
        AllocatorMode::Relocate => {
            AllocatorQuestion::Relocate(config.instance_with(&op.name, None)?.clone())
        }
        AllocatorMode::NodeEvacuate => {
            let mode = op.evac_mode.ok_or_else(|| wrong("Missing evacuation mode"))?;
            AllocatorQuestion::Evacuate(instances()?, mode)
        }
        AllocatorMode::ChangeGroup => {
            let names = op.target_groups.as_deref().unwrap_or_default();
            let groups = names.iter().map(|name| config.group(name).cloned());
            AllocatorQuestion::ChangeGroup(instances()?, groups.collect::<Result<_, _>>()?)
        }
        AllocatorMode::AllocateSecondary => {
            return Err(wrong(
                "mode allocate-secondary: no disks of this version have second copies",
            ));
        }
    })
}

/// The opcode that would make such an instance.
fn created(op: &TestAllocator, name: String) -> Result<InstanceCreate, Exception> {
    let missing = |what: &str| wrong(format!("Missing attribute '{what}' on opcode input"));
    let mut create = CreateParameters::named(name);
    let template = op.disk_template.clone().ok_or_else(|| missing("disk_template"))?;
    // Ganeti's command always sends disks, and one Ethernet address for all.
    if template != "diskless" {
        create.disks = op.disks.clone().ok_or_else(|| missing("disks"))?;
    }
    create.nics = op.nics.clone().unwrap_or_default();
    if op.mode == AllocatorMode::MultiAllocate {
        create.nics.iter_mut().for_each(|nic| drop(nic.remove("mac")));
    }
    create.disk_template = Some(template);
    create.hypervisor.clone_from(&op.hypervisor);
    create.os_type.clone_from(&op.os);
    create.no_install = Some(true);
    create.tags.clone_from(&op.tags);
    let memory = op.memory.ok_or_else(|| missing("memory"))?;
    let vcpus = op.vcpus.ok_or_else(|| missing("vcpus"))?;
    create.beparams = Told::from_iter([
        ("memory".to_owned(), memory.into()),
        ("vcpus".to_owned(), vcpus.into()),
        ("spindle_use".to_owned(), op.spindle_use.into()),
    ]);
    Ok(Box::new(create))
}

impl LogicalUnit for TestAllocator {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(match level {
            Level::Node => vec![(LockName::set(level), Mode::Shared)],
            _ => Vec::new(),
        })
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<String, Failure> {
        let (config, facts) = (context.config(), context.contacts().facts());
        let (job, now) = (context.job(), context.now());
        let making = Making { facts: &facts, job, now, seed: Uuid::new_v4().as_u128() };
        let asked = read(&self, &config, making)?;
        let program = Allocator::program(self.iallocator.as_deref(), &config);
        let answer = match (self.direction, program) {
            (AllocatorDirection::In, _) => ask(&config, &facts, &asked),
            (AllocatorDirection::Out, Some(name)) => {
                let parameters = &config.instance_settings().default_iallocator_params;
                let question = ask(&config, &facts, &asked);
                let said = program::ask(context.layout(), &name, parameters, &question).await?;
                return Ok(String::from_utf8_lossy(&said).into_owned());
            }
            (AllocatorDirection::Out, None) => match answered(&config, making, asked) {
                Ok(result) => {
                    json!({"success": true, "info": "Request successful", "result": result})
                }
                Err(error) => json!({"success": false, "info": error.message(), "result": []}),
            },
        };
        Ok(format!("{answer:#}"))
    }
}

fn ask(config: &Config, facts: &AllFacts, asked: &AllocatorQuestion) -> Value {
    let settings = config.instance_settings();
    match asked {
        AllocatorQuestion::Allocate(planned, group) => {
            let newcomer = planned.newcomer(&settings);
            question(config, facts, Request::Allocate(&newcomer, group.as_deref()))
        }
        AllocatorQuestion::MultiAllocate(planned) => {
            let newcomers: Vec<_> = planned.iter().map(|one| one.newcomer(&settings)).collect();
            question(config, facts, Request::MultiAllocate(&newcomers))
        }
        AllocatorQuestion::Relocate(instance) => {
            question(config, facts, Request::Relocate(instance))
        }
        AllocatorQuestion::Evacuate(instances, mode) => {
            question(config, facts, Request::Evacuate(instances, *mode))
        }
        AllocatorQuestion::ChangeGroup(instances, groups) => {
            let groups: Vec<&Arc<Group>> = groups.iter().collect();
            question(config, facts, Request::ChangeGroup(instances, &groups))
        }
    }
}

/// The answer of the built-in allocator.
fn answered(
    config: &Config,
    making: Making<'_>,
    asked: AllocatorQuestion,
) -> Result<Value, Exception> {
    let facts = making.facts;
    match asked {
        AllocatorQuestion::Allocate(planned, group) => {
            let settings = config.instance_settings();
            let (share, extent) = planned.blueprint.wanted(&settings, &planned.op);
            let (extent, group) = (extent.as_ref(), group.as_deref());
            let wish = Wish { share, extent, group, not: None };
            Ok(json!([choose(config, facts, wish)?.name]))
        }
        AllocatorQuestion::MultiAllocate(planned) => {
            let Placements { placed, failed } = batch::placed(config, making, planned, None);
            let one = |(op, node): (InstanceCreate, NodeName)| json!([op.instance_name, [node]]);
            let placed: Vec<Value> = placed.into_iter().map(one).collect();
            let failed: Vec<String> = failed.into_iter().map(|(name, _)| name).collect();
            Ok(json!([placed, failed]))
        }
        AllocatorQuestion::Relocate(instance) => {
            let moves = evacuate::placed(config, facts, &[instance], &[])?;
            Ok(json!(moves.into_iter().map(|(_, node)| node).collect::<Vec<_>>()))
        }
        AllocatorQuestion::Evacuate(_, EvacuationMode::SecondaryOnly) => Ok(json!([[], [], []])),
        AllocatorQuestion::Evacuate(instances, _) => moved(config, facts, &instances, &[]),
        AllocatorQuestion::ChangeGroup(instances, groups) => {
            let groups: Vec<&Arc<Group>> = match groups.is_empty() {
                true => config.groups.values().collect(),
                false => groups.iter().collect(),
            };
            moved(config, facts, &instances, &groups)
        }
    }
}

fn moved(
    config: &Config,
    facts: &AllFacts,
    instances: &[Arc<Instance>],
    groups: &[&Arc<Group>],
) -> Result<Value, Exception> {
    let moves = evacuate::placed(config, facts, instances, groups)?;
    let moved = moves.iter().map(|(instance, node)| {
        let group = config.nodes.get(node).map(|node| config.group_of(node).name.clone());
        json!([instance.name, group, [node]])
    });
    let jobs = moves.iter().map(|(instance, node)| evacuate::job(instance, node, false));
    Ok(json!([moved.collect::<Vec<_>>(), [], jobs.collect::<Vec<_>>()]))
}
