//! The allocators, which choose the nodes of instances: the built-in one, and programs that speak version 2
//! of Ganeti's protocol (iallocator(7)).
//!
//! `question` is what a program is told, `program` runs it, and `answer` reads what it says. `built_in`
//! needs none of these. [`mod@test`] is the opcode that shows an operator what would be asked and answered.

mod answer;
pub(crate) mod built_in;
#[cfg(test)]
mod differential;
mod program;
mod question;
pub mod test;

use std::sync::Arc;

use model::group::Group;
use model::instance::Instance;
use model::opcode::OpInput;
use model::opcode::instance::moves::EvacuationMode;
use model::{Exception, NodeName};

use crate::config::Config;
use crate::units::{Context, Failure};
pub(crate) use answer::Placed;
pub(crate) use program::find as program_file;
pub(crate) use question::Newcomer;
use question::Request;

/// Who chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allocator {
    BuiltIn,
    /// A program, by the name of its file.
    Program(String),
}

impl Allocator {
    /// The one that an opcode names, or else the cluster's.
    pub(crate) fn of(named: Option<&str>, config: &Config) -> Self {
        let usual = &config.instance_settings().default_iallocator;
        match named.filter(|name| *name != ".").unwrap_or(usual) {
            "" => Self::BuiltIn,
            name => Self::Program(name.to_owned()),
        }
    }

    /// The program that an opcode names, or else the cluster's, if one of them does.
    pub(crate) fn program(named: Option<&str>, config: &Config) -> Option<String> {
        match Self::of(named, config) {
            Self::BuiltIn => None,
            Self::Program(name) => Some(name),
        }
    }
}

/// Asks a program for the node of a new instance.
///
/// # Errors
/// It gives none that there is, in Ganeti's words.
pub(crate) async fn node_for(
    context: &Context,
    program: &str,
    newcomer: &Newcomer,
    group: Option<&Group>,
) -> Result<NodeName, Failure> {
    one_node(context, program, Request::Allocate(newcomer, group)).await
}

/// Asks a program for another node of an instance.
///
/// # Errors
/// It gives none that there is, in Ganeti's words.
pub(crate) async fn other_node(
    context: &Context,
    program: &str,
    instance: &Instance,
) -> Result<NodeName, Failure> {
    one_node(context, program, Request::Relocate(instance)).await
}

async fn one_node(
    context: &Context,
    program: &str,
    request: Request<'_>,
) -> Result<NodeName, Failure> {
    let config = context.config();
    let result = asked(context, &config, program, request).await?;
    Ok(answer::node(program, &result, &config)?)
}

/// Asks a program for the nodes of several new instances.
///
/// # Errors
/// Its answer is none.
pub(crate) async fn nodes_for(
    context: &Context,
    program: &str,
    newcomers: &[Newcomer],
) -> Result<Placed, Failure> {
    let config = context.config();
    let result = asked(context, &config, program, Request::MultiAllocate(newcomers)).await?;
    Ok(answer::placed(program, &result, &config)?)
}

/// Asks a program for the jobs that take instances from their node.
///
/// # Errors
/// It does not say how all of them go.
pub(crate) async fn evacuation(
    context: &Context,
    program: &str,
    instances: &[Arc<Instance>],
    mode: EvacuationMode,
) -> Result<Vec<Vec<OpInput>>, Failure> {
    let config = context.config();
    let result = asked(context, &config, program, Request::Evacuate(instances, mode)).await?;
    Ok(answer::jobs(program, &result, instances)?)
}

/// Asks a program for the jobs that take instances to other groups.
///
/// # Errors
/// It does not say how all of them go.
pub(crate) async fn change_of_group(
    context: &Context,
    program: &str,
    instances: &[Arc<Instance>],
    groups: &[&Arc<Group>],
) -> Result<Vec<Vec<OpInput>>, Failure> {
    let config = context.config();
    let result = asked(context, &config, program, Request::ChangeGroup(instances, groups)).await?;
    Ok(answer::jobs(program, &result, instances)?)
}

async fn asked(
    context: &Context,
    config: &Config,
    program: &str,
    request: Request<'_>,
) -> Result<serde_json::Value, Failure> {
    let question = question::question(config, &context.contacts().facts(), request);
    let parameters = &config.instance_settings().default_iallocator_params;
    let said = program::ask(context.layout(), program, parameters, &question).await?;
    let result = answer::read(program, &said)?;
    Ok(result)
}

/// The refusal of what an allocator did wrong itself.
fn fault(text: String) -> Exception {
    Exception::exec(text)
}
