//! `gnt backup`.

use clap::{Args, Subcommand};
use luxi::method::What;
use luxi::query::Filter;
use model::OpCode;
use model::opcode::instance::CreateMode;
use serde_json::json;

use crate::error::CliError;
use crate::instance::add::AddArguments;
use crate::list::{ListArguments, ListFieldsArguments};
use crate::selection::Selection;
use crate::session::{Session, confirm};
use crate::submit::{JobArguments, opcode};

/// The fields that `list` shows by default.
const USUAL: [&str; 2] = ["node", "export"];

/// The verbs of `gnt backup`.
#[derive(Debug, Subcommand)]
pub(crate) enum Backup {
    /// Export an instance to a node: the content of its disks, and a description.
    ///
    /// A running instance is shut down meanwhile, and starts again. An older export of its name on that node
    /// stays until the new one is whole.
    Export(Export),
    /// Make an instance of an export.
    ///
    /// The export's description fills whatever is not given. The instance is not started.
    Import(Box<Import>),
    /// List exports.
    List {
        /// Only those on these nodes.
        #[arg(long = "node", value_name = "NODE")]
        nodes: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Remove the exports of an instance from all nodes.
    Remove {
        /// The instance's name, which may be gone.
        name: String,
        /// Do not ask.
        #[arg(short, long, visible_alias = "yes")]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The instance.
    name: String,
    /// The node to which it is exported.
    #[arg(short = 'n', long, value_name = "NODE")]
    node: String,
    /// Do not shut the instance down; this version exports only what does not run.
    #[arg(long)]
    noshutdown: bool,
    /// Seconds that its guest has to shut down.
    #[arg(long, visible_alias = "timeout", value_name = "SECONDS", default_value_t = 120)]
    shutdown_timeout: u32,
    /// Remove the instance when its export is whole.
    #[arg(long)]
    remove_instance: bool,
    /// Go on with the removal where a step of it fails.
    #[arg(long)]
    ignore_remove_failures: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    add: AddArguments,
    /// The node that has the export; the one with the newest is found without it.
    #[arg(long, value_name = "NODE")]
    src_node: Option<String>,
    /// The export's name, if it is not that of the instance.
    #[arg(long, value_name = "NAME")]
    src_dir: Option<String>,
    /// Start it.
    #[arg(long, conflicts_with = "no_start")]
    start: bool,
    /// Keep no parameter that is the cluster's; they are never kept.
    #[arg(long, hide = true)]
    identify_defaults: bool,
}

/// The condition that an export is on one of these nodes, whose domain may be left out.
fn on_nodes(nodes: &[String]) -> Result<Vec<Filter>, CliError> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let is = |node: &String| {
        let pattern = format!(r"^{}(\..*)?$", node.replace('.', r"\."));
        Filter::matching("node", &pattern).map_err(|error| CliError::Usage(error.to_string()))
    };
    Ok(vec![Filter::Or(nodes.iter().map(is).collect::<Result<_, _>>()?)])
}

/// Carries out one verb.
pub(crate) fn run(verb: Backup, session: &Session) -> Result<(), CliError> {
    match verb {
        Backup::Export(asked) => {
            let parameters = json!({"instance_name": asked.name, "target_node": asked.node,
                "shutdown": !asked.noshutdown, "shutdown_timeout": asked.shutdown_timeout,
                "remove_instance": asked.remove_instance,
                "ignore_remove_failures": asked.ignore_remove_failures});
            asked.job.run_raw(opcode("OP_BACKUP_EXPORT", parameters), session).map(drop)
        }
        Backup::Import(import) => {
            let Import { add, src_node, src_dir, start, identify_defaults } = *import;
            let job = add.job().clone();
            let mut op = add.op(CreateMode::Import)?;
            op.start = start;
            (op.src_node, op.src_path, op.identify_defaults) =
                (src_node, src_dir, identify_defaults);
            job.run(OpCode::InstanceCreate(Box::new(op)), session).map(drop)
        }
        Backup::List { nodes, list } => {
            let chosen = Selection::all().limited(on_nodes(&nodes)?);
            list.print(What::Export, list.fields(&USUAL), &chosen, session)
        }
        Backup::ListFields(arguments) => arguments.print(What::Export, session),
        Backup::Remove { name, force, job } => {
            confirm(&format!("Remove all exports of {name}?"), force || job.dry_run)?;
            let op = opcode("OP_BACKUP_REMOVE", json!({"instance_name": name}));
            job.run_raw(op, session).map(drop)
        }
    }
}
