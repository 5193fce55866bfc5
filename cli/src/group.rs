//! `gnt group`.

use std::collections::BTreeMap;

use clap::Subcommand;
use luxi::method::{QueryGroups, What};
use serde_json::Value;

use crate::details::{self, Entry};
use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::{say, say_json, say_lines};
use crate::session::Session;
use crate::tags::{self, Tagged, TagsArguments};
use crate::{params, python};

/// What `list` shows unless told otherwise.
const USUAL: [&str; 5] = ["name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams"];
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

/// What can be done with node groups.
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
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

/// Carries out one verb.
pub(crate) fn run(verb: Group, session: &Session) -> Result<(), CliError> {
    match verb {
        Group::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            list.print(What::Group, list.fields(&USUAL), &chosen, session)
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
