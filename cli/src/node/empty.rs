//! Verbs of `gnt node` that take instances away from a node.

use clap::{Args, Subcommand};
use luxi::method::{Query, What};
use model::opcode::instance::Timeout;
use model::opcode::instance::moves::{EvacuationMode, MigrationMode};
use model::opcode::{InstanceFailover, NodeEvacuate, NodeMigrate, OpCode};

use crate::error::CliError;
use crate::output::say;
use crate::selection::Selection;
use crate::session::{Session, confirm};
use crate::several::{each, spread};
use crate::submit::JobArguments;

/// Arguments of `evacuate`.
#[derive(Debug, Args)]
pub(crate) struct EvacuateArguments {
    /// Its name.
    name: String,
    /// Do not ask.
    #[arg(short, long, visible_alias = "yes")]
    force: bool,
    /// Only instances that run there.
    #[arg(short, long, group = "which")]
    primary_only: bool,
    /// Only copies of disks.
    #[arg(short, long, group = "which")]
    secondary_only: bool,
    /// The allocator; `.` is the cluster's.
    #[arg(short = 'I', long, value_name = "NAME")]
    iallocator: Option<String>,
    /// The node to which copies of disks go.
    #[arg(short, long, value_name = "NODE")]
    new_secondary: Option<String>,
    /// Give up old copies early.
    #[arg(long, hide = true)]
    early_release: bool,
    /// Go on where a soft rule of the allocator is broken.
    #[arg(long, hide = true)]
    ignore_soft_errors: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Empty {
    /// Take the instances of a node to others, each by a job.
    Evacuate(EvacuateArguments),
    /// Migrate the instances of a node, each by a job.
    Migrate {
        /// Its name.
        name: String,
        /// Do not ask.
        #[arg(short, long, visible_alias = "yes")]
        force: bool,
        /// Let them stand still while they move.
        #[arg(long)]
        non_live: bool,
        /// The node; the allocator chooses one for each without it.
        #[arg(short = 'n', long, value_name = "NODE")]
        target_node: Option<String>,
        /// The allocator; `.` is the cluster's.
        #[arg(short = 'I', long, value_name = "NAME")]
        iallocator: Option<String>,
        /// Let them break the limits of their new group.
        #[arg(long)]
        ignore_ipolicy: bool,
        /// Keep their memory as it is, also where that has no room.
        #[arg(long)]
        no_runtime_changes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Stop the instances of a node, and start them on others, each by a job.
    Failover {
        /// Its name.
        name: String,
        /// Do not ask.
        #[arg(short, long, visible_alias = "yes")]
        force: bool,
        /// Go on with disks that are not whole.
        #[arg(long)]
        ignore_consistency: bool,
        /// The allocator; `.` is the cluster's.
        #[arg(short = 'I', long, value_name = "NAME")]
        iallocator: Option<String>,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// The instances that run on a node.
fn primaries(name: &str, session: &Session) -> Result<Vec<String>, CliError> {
    let fields = ["pinst_list"].into_iter().collect();
    let filter = Selection::named("name", &[name.to_owned()]).filter();
    let table = session.ask(&Query { what: What::Node, fields, filter })?;
    let list = table.data.first().and_then(|row| row.first()?.value()?.as_array().cloned());
    let names = list.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned));
    Ok(names.collect())
}

impl EvacuateArguments {
    fn run(self, session: &Session) -> Result<(), CliError> {
        let mode = match (self.primary_only, self.secondary_only) {
            (true, _) => EvacuationMode::PrimaryOnly,
            (_, true) => EvacuationMode::SecondaryOnly,
            (false, false) => EvacuationMode::All,
        };
        let yes = self.force || self.job.dry_run;
        let Some(node_name) = meant("Relocate", self.name, yes, session)? else { return Ok(()) };
        let op = NodeEvacuate {
            node_name,
            node_uuid: None,
            mode,
            early_release: self.early_release,
            remote_node: self.new_secondary,
            remote_node_uuid: None,
            iallocator: self.iallocator,
            ignore_soft_errors: Some(self.ignore_soft_errors),
        };
        spread(OpCode::NodeEvacuate(op), &self.job, session)
    }
}

impl Empty {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        match self {
            Self::Evacuate(arguments) => arguments.run(session),
            Self::Migrate {
                name,
                force,
                non_live,
                target_node,
                iallocator,
                ignore_ipolicy,
                no_runtime_changes,
                job,
            } => {
                let Some(node_name) = meant("Migrate", name, force || job.dry_run, session)? else {
                    return Ok(());
                };
                let op = NodeMigrate {
                    node_name,
                    node_uuid: None,
                    mode: non_live.then_some(MigrationMode::NonLive),
                    live: None,
                    target_node,
                    target_node_uuid: None,
                    allow_runtime_changes: !no_runtime_changes,
                    ignore_ipolicy,
                    iallocator,
                };
                spread(OpCode::NodeMigrate(op), &job, session)
            }
            Self::Failover { name, force, ignore_consistency, iallocator, job } => {
                let names = primaries(&name, session)?;
                if meant("Fail over", name, force || job.dry_run, session)?.is_none() {
                    return Ok(());
                }
                let one = |name: &String| {
                    OpCode::InstanceFailover(InstanceFailover {
                        instance_name: name.clone(),
                        instance_uuid: None,
                        shutdown_timeout: Timeout::default(),
                        ignore_consistency,
                        target_node: None,
                        target_node_uuid: None,
                        iallocator: iallocator.clone(),
                        ignore_ipolicy: false,
                        cleanup: false,
                    })
                };
                each(&names, one, &job, session)
            }
        }
    }
}

/// The node, if it has instances and the operator confirms that they go.
fn meant(
    verb: &str,
    node: String,
    yes: bool,
    session: &Session,
) -> Result<Option<String>, CliError> {
    let names = primaries(&node, session)?;
    if names.is_empty() {
        say(format_args!("No instances on node {node}, nothing to do."))?;
        return Ok(None);
    }
    confirm(&format!("{verb} instance(s) {} of node {node}?", names.join(", ")), yes)?;
    Ok(Some(node))
}
