//! `gnt node`.

mod add;
mod empty;
mod info;
mod network;
pub(crate) mod storage;

use std::net::IpAddr;

use clap::{Args, Subcommand, ValueEnum};
use luxi::method::{Query, What};
use model::OpCode;
use model::opcode::{NodePowercycle, NodeRemove, NodeSetParams};
use serde_json::Value;

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::{say, warn};
use crate::python;
use crate::selection::Selection;
use crate::session::{Session, confirm};
use crate::submit::{JobArguments, nothing_given};
use crate::tags::{self, Tagged, TagsArguments};

/// The fields that `list` shows by default: where nodes are and how they fare.
const USUAL: [&str; 9] =
    ["name", "role", "rack", "pip", "mtotal", "mfree", "dtotal", "dfree", "agent"];
/// What Ganeti's shows.
const GANETIS: [&str; 8] =
    ["name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"];
/// The number that takes a node's rack away, in the opcode.
const NO_RACK: i64 = -1;

/// The verbs of `gnt node`.
#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// Make a machine that runs `noded enroll` a node of the cluster.
    Add(add::AddArguments),
    /// List nodes.
    ///
    /// Fields that only a node's agent knows are `?` where the agent is not reached; `-o +agent_since`
    /// shows since when. Called as gnt-node, it has the columns of Ganeti's.
    List {
        /// Only these; a name may be given without its domain.
        names: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about nodes.
    #[command(visible_alias = "show")]
    Info {
        /// Only these.
        names: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Change the role or the rack of a node; what is not given stays as it is.
    Modify(ModifyArguments),
    /// List the tags of a node.
    ListTags {
        /// Its name.
        name: String,
    },
    /// Add tags to a node.
    AddTags(TagsArguments),
    /// Remove tags of a node.
    RemoveTags(TagsArguments),
    /// Restart a node's machine, hard: nothing is flushed, stopped or asked.
    ///
    /// Its agent must have been started with `--allow-powercycle`.
    Powercycle {
        /// Its name.
        name: String,
        /// Do it even if it is the master.
        #[arg(short, long)]
        force: bool,
        /// Do not ask for confirmation.
        #[arg(long, alias = "confirm")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// The network of a node's host.
    #[command(subcommand)]
    Network(network::Network),
    /// Mark a node drained: nothing new is put there.
    Drain {
        /// Its name.
        name: String,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Mark a node as no longer drained.
    Undrain {
        /// Its name.
        name: String,
        #[command(flatten)]
        job: JobArguments,
    },
    #[command(flatten)]
    Empty(empty::Empty),
    #[command(flatten)]
    Storage(storage::Storage),
    /// Remove a node from the cluster.
    ///
    /// A candidate first gives its place to another node, and its copy of the store is wiped. A node
    /// that does not answer is removed all the same. The command then tells what stays on its disk: that
    /// opens nothing any more.
    Remove {
        /// Its name.
        name: String,
        /// Do not ask, also where the node votes on who is master.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
}

pub(crate) fn truth(answer: Option<YesNo>) -> Option<bool> {
    answer.map(|answer| answer == YesNo::Yes)
}

/// Arguments of `modify`.
#[derive(Debug, Args)]
pub(crate) struct ModifyArguments {
    /// The node.
    name: String,
    /// Make it a master candidate, or no longer.
    #[arg(short = 'C', long, value_name = "yes|no", hide_possible_values = true)]
    master_candidate: Option<YesNo>,
    /// Mark it drained, or no longer.
    #[arg(short = 'D', long, value_name = "yes|no", hide_possible_values = true)]
    drained: Option<YesNo>,
    /// Mark it offline, or online.
    #[arg(short = 'O', long, value_name = "yes|no", hide_possible_values = true)]
    offline: Option<YesNo>,
    /// Allow it to become the master, or no longer.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    master_capable: Option<YesNo>,
    /// Have it vote without ever being the master, or no longer; a candidate becomes a regular node.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    witness: Option<YesNo>,
    /// Allow it to run instances, or no longer.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    vm_capable: Option<YesNo>,
    /// Its address for replication traffic.
    #[arg(short, long, value_name = "IP")]
    secondary_ip: Option<IpAddr>,
    /// Port where its masterd is asked by those of other candidates (`masterd --peers`).
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    peer_port: Option<u16>,
    /// Record that it is powered, or not.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    node_powered: Option<YesNo>,
    /// The rack that its agent serves, or none.
    #[arg(long, value_name = "NUMBER|none", value_parser = rack)]
    rack: Option<i64>,
    /// Promote another node where this one leaves a gap.
    #[arg(long)]
    auto_promote: bool,
    /// Go on where a check only warns.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    job: JobArguments,
}

fn rack(text: &str) -> Result<i64, String> {
    match text {
        "none" => Ok(NO_RACK),
        number => number
            .parse::<u32>()
            .map(i64::from)
            .map_err(|_no_number| "a rack is a number from 0, or `none`".to_owned()),
    }
}

/// Carries out one verb.
pub(crate) fn run(verb: Node, session: &Session) -> Result<(), CliError> {
    match verb {
        Node::Add(arguments) => add::run(arguments, session),
        Node::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            let usual: &[&str] = if session.is_as_ganeti() { &GANETIS } else { &USUAL };
            list.print(What::Node, list.fields(usual), &chosen, session)
        }
        Node::ListFields(arguments) => arguments.print(What::Node, session),
        Node::Info { names, json } => info::run(&names, json, session),
        Node::ListTags { name } => tags::list(Tagged::Node, &name, session),
        Node::AddTags(arguments) => tags::add(Tagged::Node, arguments, session),
        Node::RemoveTags(arguments) => tags::remove(Tagged::Node, arguments, session),
        Node::Modify(arguments) => modify(arguments, session),
        Node::Network(verb) => network::run(verb, session),
        Node::Powercycle { name, force, yes, job } => {
            let question = format!("Are you sure you want to hard powercycle node {name}?");
            confirm(&question, yes || job.dry_run)?;
            let op = NodePowercycle { node_name: name, node_uuid: None, force };
            if let Some(Value::String(told)) = job.run(OpCode::NodePowercycle(op), session)? {
                say(told)?;
            }
            Ok(())
        }
        Node::Empty(verb) => verb.run(session),
        Node::Storage(verb) => verb.run(session),
        Node::Drain { name, job } => set_drained(name, true, &job, session),
        Node::Undrain { name, job } => set_drained(name, false, &job, session),
        Node::Remove { name, yes, job } => {
            let asks = !(yes || job.dry_run || session.is_as_ganeti());
            if asks && let Some(part) = vote_of(&name, session)? {
                confirm(&format!("Remove {name}, {part}?"), false)?;
            }
            let op = NodeRemove { node_name: name, node_uuid: None };
            job.run(OpCode::NodeRemove(op), session).map(drop)
        }
    }
}

/// The loss that comes with a node that votes on who is master; none if it does not vote.
fn vote_of(name: &str, session: &Session) -> Result<Option<&'static str>, CliError> {
    let fields = ["master_candidate", "witness"].into_iter().collect();
    let filter = Selection::named("name", &[name.to_owned()]).filter();
    let table = session.ask(&Query { what: What::Node, fields, filter })?;
    let is_true = |at: usize| {
        let cell = table.data.first().and_then(|row| row.get(at)?.value());
        cell.and_then(Value::as_bool) == Some(true)
    };
    Ok(match (is_true(0), is_true(1)) {
        (true, _) => {
            Some("a master candidate, and wipe its copy of the configuration and the queue")
        }
        (_, true) => Some("a witness, whose vote is lost"),
        (false, false) => None,
    })
}

fn set_drained(
    name: String,
    drained: bool,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    set_params(
        NodeSetParams { drained: Some(drained), ..NodeSetParams::unchanged(name) },
        job,
        session,
    )
}

fn modify(arguments: ModifyArguments, session: &Session) -> Result<(), CliError> {
    let params = NodeSetParams {
        force: arguments.force,
        master_candidate: truth(arguments.master_candidate),
        offline: truth(arguments.offline),
        drained: truth(arguments.drained),
        auto_promote: arguments.auto_promote,
        master_capable: truth(arguments.master_capable),
        witness: truth(arguments.witness),
        vm_capable: truth(arguments.vm_capable),
        secondary_ip: arguments.secondary_ip.map(|address| address.to_string()),
        peer_port: arguments.peer_port,
        rack: arguments.rack,
        powered: truth(arguments.node_powered),
        ..NodeSetParams::unchanged(arguments.name)
    };
    let flags = [
        params.master_candidate,
        params.offline,
        params.drained,
        params.master_capable,
        params.witness,
        params.vm_capable,
        params.powered,
    ];
    let places = params.secondary_ip.is_some() || params.peer_port.is_some();
    if flags.iter().all(Option::is_none) && params.rack.is_none() && !places {
        return Err(nothing_given::<ModifyArguments>(session)?);
    }
    set_params(params, &arguments.job, session)
}

fn set_params(
    params: NodeSetParams,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let name = params.node_name.clone();
    if let Some(Value::Array(changes)) = job.run(OpCode::NodeSetParams(params), session)? {
        if changes.is_empty() {
            return warn(format_args!("Node {name} is so already: nothing was changed"));
        }
        say(format_args!("Modified node {name}"))?;
        for change in &changes {
            let part = |at| change.get(at).map(python::text).unwrap_or_default();
            say(format_args!(" - {:<5} -> {}", part(0), part(1)))?;
        }
    }
    Ok(())
}
