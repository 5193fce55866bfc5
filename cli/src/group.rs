//! `gnt group`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum};
use luxi::method::{QueryGroups, What};
use model::group::AllocPolicy;
use model::instance::settings::Told;
use model::opcode::{
    GroupAdd, GroupAssignNodes, GroupEvacuate, GroupRemove, GroupRename, GroupSetParams,
};
use model::{OpCode, Word};
use serde_json::Value;

use crate::details::{self, Entry};
use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::{say, say_json, say_lines};
use crate::parameters::{self, PolicyArguments, by_name, keys, named};
use crate::session::Session;
use crate::several::spread;
use crate::submit::JobArguments;
use crate::tags::{self, Tagged, TagsArguments};
use crate::{params, python};

/// Settings of a group that differ from the cluster's.
#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// Parameters of its nodes, as `ssh_port=22`; `-NAME` gives one the cluster's value again.
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = keys)]
    node_parameters: Option<Told>,
    /// Parameters of disks, as `drbd:resync-rate=61440`.
    #[arg(short = 'D', long, value_name = "TEMPLATE:NAME=VALUE,...", value_parser = named)]
    disk_parameters: Vec<parameters::Named>,
    #[command(flatten)]
    policy: PolicyArguments,
}

/// The fields that `list` shows by default.
const USUAL: [&str; 3] = ["name", "node_cnt", "alloc_policy"];
/// What Ganeti's shows.
const GANETIS: [&str; 5] = ["name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams"];
/// What `info` shows.
const DETAILS: [&str; 7] = [
    "name",
    "ndparams",
    "custom_ndparams",
    "diskparams",
    "custom_diskparams",
    "ipolicy",
    "custom_ipolicy",
];

/// The verbs of `gnt group`.
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// Add a node group.
    Add {
        /// Its name.
        name: Word,
        /// Whether new instances are put there [default: preferred]
        #[arg(long, value_name = "POLICY")]
        alloc_policy: Option<Policy>,
        #[command(flatten)]
        settings: Box<SettingsArguments>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Change a node group.
    Modify {
        /// Its name or UUID.
        group: String,
        /// Whether new instances are put there.
        #[arg(long, value_name = "POLICY")]
        alloc_policy: Option<Policy>,
        #[command(flatten)]
        settings: Box<SettingsArguments>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Remove a node group that has no nodes. The last one stays.
    Remove {
        /// Its name or UUID.
        group: String,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Give a node group another name.
    Rename {
        /// Its name or UUID.
        group: String,
        /// The name that it gets.
        new_name: Word,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Put nodes into a group.
    AssignNodes {
        /// The group that gets them.
        group: String,
        /// The nodes.
        #[arg(required = true)]
        nodes: Vec<String>,
        /// Taken for Ganeti's scripts: there are no instances that could be split.
        #[arg(short = 'f', long)]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Take the instances of a node group to others, each by a job.
    Evacuate(EvacuateArguments),
    /// List node groups.
    List {
        /// Only these.
        names: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about node groups.
    #[command(visible_alias = "show")]
    Info {
        /// Only these.
        names: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Print the commands that would make the limits of instances of node groups.
    ShowIspecsCmd {
        /// Also where they are the cluster's.
        #[arg(long)]
        include_defaults: bool,
        /// Only these.
        names: Vec<String>,
    },
    /// List the tags of a node group.
    ListTags {
        /// Its name.
        name: String,
    },
    /// Add tags to a node group.
    AddTags(TagsArguments),
    /// Remove tags of a node group.
    RemoveTags(TagsArguments),
}

/// Arguments of `evacuate`.
#[derive(Debug, Args)]
pub(crate) struct EvacuateArguments {
    /// Its name or UUID.
    group: String,
    /// A group that they may go to; may be given several times. Any other without it.
    #[arg(long = "to", value_name = "GROUP")]
    groups: Vec<String>,
    /// The allocator; `.` is the cluster's.
    #[arg(short = 'I', long, value_name = "NAME")]
    iallocator: Option<String>,
    /// Give up old copies early.
    #[arg(long, hide = true)]
    early_release: bool,
    /// One after the other, by one job.
    #[arg(long)]
    sequential: bool,
    /// Stop them first, also those that could move while they run.
    #[arg(long)]
    force_failover: bool,
    #[command(flatten)]
    job: JobArguments,
}

impl EvacuateArguments {
    fn run(self, session: &Session) -> Result<(), CliError> {
        let evacuate = GroupEvacuate {
            group_name: self.group,
            early_release: self.early_release,
            iallocator: self.iallocator,
            target_groups: Some(self.groups).filter(|groups| !groups.is_empty()),
            sequential: self.sequential,
            force_failover: self.force_failover,
        };
        spread(OpCode::GroupEvacuate(evacuate), &self.job, session)
    }
}

/// Whether new instances are put on the nodes of a group.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Policy {
    /// Yes.
    Preferred,
    /// Only where no other group has room.
    LastResort,
    /// No.
    Unallocable,
}

impl From<Policy> for AllocPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Preferred => Self::Preferred,
            Policy::LastResort => Self::LastResort,
            Policy::Unallocable => Self::Unallocable,
        }
    }
}

/// Carries out one verb.
pub(crate) fn run(verb: Group, session: &Session) -> Result<(), CliError> {
    match verb {
        Group::Add { name: group_name, alloc_policy, settings, job } => {
            let alloc_policy = alloc_policy.map(Into::into);
            let SettingsArguments { node_parameters: ndparams, disk_parameters, policy } =
                *settings;
            let (diskparams, ipolicy) = (by_name(disk_parameters), policy.told());
            let (hv_state, disk_state) = (None, None);
            let add = GroupAdd {
                group_name,
                alloc_policy,
                ndparams,
                diskparams,
                hv_state,
                disk_state,
                ipolicy,
            };
            job.run(OpCode::GroupAdd(add), session).map(drop)
        }
        Group::Modify { group: group_name, alloc_policy, settings, job } => {
            let alloc_policy = alloc_policy.map(Into::into);
            let SettingsArguments { node_parameters: ndparams, disk_parameters, policy } =
                *settings;
            let (diskparams, ipolicy) = (by_name(disk_parameters), policy.told());
            let set = GroupSetParams {
                group_name,
                alloc_policy,
                ndparams,
                diskparams,
                ipolicy,
                ..GroupSetParams::default()
            };
            job.run(OpCode::GroupSetParams(set), session).map(drop)
        }
        Group::Remove { group: group_name, job } => {
            job.run(OpCode::GroupRemove(GroupRemove { group_name }), session).map(drop)
        }
        Group::Rename { group: group_name, new_name, job } => {
            job.run(OpCode::GroupRename(GroupRename { group_name, new_name }), session).map(drop)
        }
        Group::AssignNodes { group: group_name, nodes, force, job } => {
            let assign = GroupAssignNodes { group_name, nodes, node_uuids: None, force };
            job.run(OpCode::GroupAssignNodes(assign), session).map(drop)
        }
        Group::Evacuate(arguments) => arguments.run(session),
        Group::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            let usual: &[&str] = if session.is_as_ganeti() { &GANETIS } else { &USUAL };
            list.print(What::Group, list.fields(usual), &chosen, session)
        }
        Group::ListFields(arguments) => arguments.print(What::Group, session),
        Group::Info { names, json } => info(names, json, session),
        Group::ShowIspecsCmd { include_defaults, names } => {
            let field = if include_defaults { "ipolicy" } else { "custom_ipolicy" };
            let fields = ["name", field].into();
            let rows = session.ask(&QueryGroups { names, fields, use_locking: false })?;
            rows.iter().try_for_each(|row| {
                let get = |at: usize| row.get(at).unwrap_or(&Value::Null);
                let options = params::specs_options(get(1), false);
                say(format_args!("gnt-group add{options} {}", python::text(get(0))))
            })
        }
        Group::ListTags { name } => tags::list(Tagged::Group, &name, session),
        Group::AddTags(arguments) => tags::add(Tagged::Group, arguments, session),
        Group::RemoveTags(arguments) => tags::remove(Tagged::Group, arguments, session),
    }
}

fn info(names: Vec<String>, json: bool, session: &Session) -> Result<(), CliError> {
    let call = QueryGroups { names, fields: DETAILS.into(), use_locking: false };
    let rows = session.ask(&call)?;
    if json {
        let object = |row: Vec<Value>| DETAILS.into_iter().zip(row).collect();
        return say_json(&rows.into_iter().map(object).collect::<Vec<BTreeMap<_, _>>>());
    }
    let groups = rows.iter().map(|row| {
        let get = |field: &str| {
            let at = DETAILS.iter().position(|name| *name == field);
            at.and_then(|at| row.get(at)).unwrap_or(&Value::Null)
        };
        vec![
            Entry::new("Node group", get("name")),
            Entry::new("Node parameters", params::merged(get("custom_ndparams"), get("ndparams"))),
            Entry::new(
                "Disk parameters",
                params::merged(get("custom_diskparams"), get("diskparams")),
            ),
            Entry::new("Instance policy", params::policy(get("custom_ipolicy"), get("ipolicy"))),
        ]
    });
    say_lines(&details::lines(groups.collect()))
}
