//! Verbs of `gnt node` on the storage of nodes.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cells::{self, Units};
use crate::error::CliError;
use crate::list::Format;
use crate::output::{print, say, say_json};
use crate::python;
use crate::session::Session;
use crate::submit::{JobArguments, opcode};
use crate::table::{Column, lines};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Storage {
    /// Tell how much storage nodes have for disks of instances.
    #[command(name = "list-storage")]
    List {
        /// Only these.
        nodes: Vec<String>,
        /// The kind: file, sharedfile, lvm-pv, lvm-vg; the cluster's own without it.
        #[arg(short = 't', long, value_name = "KIND")]
        storage_type: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// List volumes of nodes; there are none, as disks are files.
    Volumes {
        /// Only these.
        nodes: Vec<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Change a unit of storage of a node; files have none that could be changed.
    #[command(name = "modify-storage")]
    Modify {
        #[command(flatten)]
        unit: Unit,
        /// Whether new disks may lie there.
        #[arg(long, value_name = "yes|no")]
        allocatable: Option<String>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Repair a unit of storage of a node; files have none that could be repaired.
    #[command(name = "repair-storage")]
    Repair {
        #[command(flatten)]
        unit: Unit,
        /// Do it also where instances have disks there.
        #[arg(long)]
        ignore_consistency: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// A unit of storage.
#[derive(Debug, Args)]
pub(crate) struct Unit {
    /// The node.
    node: String,
    /// The kind of storage.
    storage_type: String,
    /// The unit's name.
    name: String,
}

/// How a list is shown.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// The fields to show, with commas.
    #[arg(short, long, value_name = "FIELDS")]
    output: Option<String>,
    #[command(flatten)]
    format: Format,
    /// The unit of sizes: h (what fits), m, g or t; without it, h, or m with --separator.
    #[arg(long, value_name = "UNIT", ignore_case = true)]
    units: Option<Units>,
    /// Print a JSON list with an object for each row; sizes are in MiB.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Fields of storage with their titles, in their usual order.
const STORAGE: [(&str, &str); 7] = [
    ("node", "Node"),
    ("type", "Type"),
    ("name", "Name"),
    ("size", "Size"),
    ("used", "Used"),
    ("free", "Free"),
    ("allocatable", "Allocatable"),
];
/// Fields of volumes with their titles, in their usual order.
const VOLUMES: [(&str, &str); 6] = [
    ("node", "Node"),
    ("phys", "PhysDev"),
    ("vg", "VG"),
    ("name", "Name"),
    ("size", "Size"),
    ("instance", "Instance"),
];
/// The fields of both that are sizes.
const SIZES: [&str; 3] = ["size", "used", "free"];

impl Storage {
    /// Carries out one verb.
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        match self {
            Self::List { nodes, storage_type, shown } => {
                let parameters = json!({"nodes": nodes, "storage_type": storage_type});
                shown.list("OP_NODE_QUERY_STORAGE", parameters, &STORAGE, session)
            }
            Self::Volumes { nodes, shown } => {
                shown.list("OP_NODE_QUERYVOLS", json!({"nodes": nodes}), &VOLUMES, session)
            }
            Self::Modify { unit, allocatable, job } => {
                let changes = match allocatable {
                    Some(word) => json!({"allocatable": word == "yes"}),
                    None => json!({}),
                };
                let Unit { node, storage_type, name } = unit;
                let parameters = json!({"node_name": node, "storage_type": storage_type,
                    "name": name, "changes": changes});
                job.run_raw(opcode("OP_NODE_MODIFY_STORAGE", parameters), session).map(drop)
            }
            Self::Repair { unit, ignore_consistency, job } => {
                let Unit { node, storage_type, name } = unit;
                let parameters = json!({"node_name": node, "storage_type": storage_type,
                    "name": name, "ignore_consistency": ignore_consistency});
                job.run_raw(opcode("OP_REPAIR_NODE_STORAGE", parameters), session).map(drop)
            }
        }
    }
}

impl Shown {
    /// Has a job list something, and prints that.
    fn list(
        &self,
        id: &str,
        mut parameters: Value,
        known: &[(&str, &str)],
        session: &Session,
    ) -> Result<(), CliError> {
        let fields: Vec<&str> = match &self.output {
            Some(fields) => fields.split(',').collect(),
            None => known.iter().map(|(name, _)| *name).collect(),
        };
        parameters["output_fields"] = json!(fields);
        let Some(told) = self.job.run_raw(opcode(id, parameters), session)? else { return Ok(()) };
        let rows = told.as_array().cloned().unwrap_or_default();
        if self.json {
            let object = |row: &Value| -> Value {
                fields
                    .iter()
                    .zip(0..)
                    .map(|(name, at)| ((*name).to_owned(), row[at].clone()))
                    .collect()
            };
            return say_json(&rows.iter().map(object).collect::<Vec<Value>>());
        }
        let usual = if self.format.separator.is_some() { Units::M } else { Units::H };
        let units = self.units.unwrap_or(usual);
        let cell = |name: &str, value: &Value| match (name, value) {
            (name, Value::Number(mib)) if SIZES.contains(&name) => {
                cells::size(mib.as_f64().unwrap_or_default(), units)
            }
            (_, Value::Bool(is_so)) => if *is_so { "Y" } else { "N" }.to_owned(),
            (_, value) => python::text(value),
        };
        let row =
            |row: &Value| fields.iter().zip(0..).map(|(name, at)| cell(name, &row[at])).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        let column = |name: &&str| {
            let title =
                known.iter().find(|(known, _)| known == name).map_or(*name, |(_, title)| title);
            Column { title: title.to_owned(), right: SIZES.contains(name) }
        };
        let columns: Vec<Column> = fields.iter().map(column).collect();
        let lines =
            lines(&columns, &rows, !self.format.no_headers, self.format.separator.as_deref());
        if lines.is_empty() { Ok(()) } else { print(&lines.join("\n")) }
    }
}

/// Gives records of disks the sizes that the disks have.
pub(crate) fn repair_sizes(
    instances: &[String],
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let op = opcode("OP_CLUSTER_REPAIR_DISK_SIZES", json!({"instances": instances}));
    let Some(told) = job.run_raw(op, session)? else { return Ok(()) };
    let repaired = told.as_array().cloned().unwrap_or_default();
    if repaired.is_empty() {
        return say("All records of disks have the right size.");
    }
    repaired.iter().try_for_each(|row| {
        let part = |at: usize| python::text(&row[at]);
        say(format_args!("{} disk {} has {} MiB", part(0), part(1), part(3)))
    })
}
