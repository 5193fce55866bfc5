//! `gnt instance`.

pub(crate) mod add;
mod batch;
mod chosen;
mod console;
mod further;
mod info;
pub(crate) mod modify;

use clap::{Args, Subcommand, ValueEnum};
use luxi::method::What;
use model::opcode::instance::moves::MigrationMode;
use model::opcode::instance::{RebootType, Timeout, Told};
use model::opcode::{
    InstanceFailover, InstanceMigrate, InstanceMove, InstanceReboot, InstanceRemove,
    InstanceShutdown, InstanceStartup, OpCode,
};

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::parameters::keys;
use crate::session::{Session, confirm};
use crate::submit::JobArguments;
use crate::tags::{self, Tagged, TagsArguments};

/// The fields that `list` shows by default.
const USUAL: [&str; 6] = ["name", "hypervisor", "os", "pnode", "status", "oper_ram"];
/// Most seconds that a guest has to shut down.
const TIMEOUT_MAX: i64 = 3_300;

/// Arguments of `startup`.
#[derive(Debug, Args)]
pub(crate) struct StartupArguments {
    #[command(flatten)]
    chosen: chosen::ChosenArguments,
    /// Start also with disks that are not whole.
    #[arg(short, long)]
    force: bool,
    /// Mark them as running though their node is offline.
    #[arg(long, visible_alias = "ignore-offline-nodes")]
    ignore_offline: bool,
    /// Parameters of the hypervisor for this run alone.
    #[arg(short = 'H', long, value_name = "NAME=VALUE,...", value_parser = keys)]
    hypervisor_parameters: Option<Told>,
    /// Backend parameters for this run alone.
    #[arg(short = 'B', long, value_name = "NAME=VALUE,...", value_parser = keys)]
    backend_parameters: Option<Told>,
    /// Leave the wish as it is.
    #[arg(long)]
    no_remember: bool,
    /// Let them stand still at first.
    #[arg(long, visible_alias = "startup-paused")]
    paused: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// The verbs of `gnt instance`.
#[derive(Debug, Subcommand)]
pub(crate) enum Instance {
    /// Make an instance: reserve what it takes, make its disks, and start it.
    Add(Box<add::AddArguments>),
    /// Add several instances, each by a job.
    BatchCreate(batch::BatchArguments),
    /// List instances.
    List {
        /// Only these.
        names: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about instances.
    #[command(visible_alias = "show")]
    Info(info::InfoArguments),
    /// Start instances.
    #[command(visible_alias = "start")]
    Startup(StartupArguments),
    /// Shut instances down; a process is killed where its guest does not end in time.
    #[command(visible_alias = "stop")]
    Shutdown {
        #[command(flatten)]
        chosen: chosen::ChosenArguments,
        /// Stop also those that are marked offline.
        #[arg(short, long)]
        force: bool,
        /// Mark them as stopped though their node is offline.
        #[arg(long, visible_alias = "ignore-offline-nodes")]
        ignore_offline: bool,
        #[command(flatten)]
        within: Within,
        /// Leave the wish as it is.
        #[arg(long)]
        no_remember: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Restart instances; one that does not run is started.
    Reboot {
        #[command(flatten)]
        chosen: chosen::ChosenArguments,
        /// `soft` within its process, `hard` with a new one, `full` with its disks attached anew.
        #[arg(short = 't', long = "type", default_value = "hard")]
        kind: Reboot,
        /// Restart though disks of other nodes are not whole.
        #[arg(long)]
        ignore_secondaries: bool,
        #[command(flatten)]
        within: Within,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Change parameters, network interfaces and disks of an instance, and its marks.
    Modify(Box<modify::ModifyArguments>),
    /// Make a disk of an instance larger.
    GrowDisk(modify::GrowArguments),
    /// Make disks of an instance anew, without their content.
    RecreateDisks(modify::RecreateArguments),
    #[command(flatten)]
    Further(further::Further),
    /// List the tags of an instance.
    ListTags {
        /// Its name.
        name: String,
    },
    /// Add tags to an instance.
    AddTags(TagsArguments),
    /// Take tags away from an instance.
    RemoveTags(TagsArguments),
    /// Take a running instance to another node.
    Migrate(MigrateArguments),
    /// Stop an instance, and start it on another node.
    Failover(FailoverArguments),
    /// Take an instance whose disks are on its node to another node, with what is on them.
    #[command(
        after_help = "It stands still while its disks are copied, and runs again afterwards."
    )]
    Move(MoveArguments),
    /// Shut an instance down, and remove it with its disks.
    Remove {
        /// Its name.
        name: String,
        /// Do not ask.
        #[arg(short, long, visible_alias = "yes")]
        force: bool,
        #[command(flatten)]
        within: Within,
        /// Forget it though its node cannot remove what is there.
        #[arg(long)]
        ignore_failures: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// The time of a guest.
#[derive(Debug, Args)]
pub(crate) struct Within {
    /// Seconds that a guest has to shut down.
    #[arg(
        long = "timeout",
        visible_alias = "shutdown-timeout",
        value_name = "SECONDS",
        default_value_t = 120,
        value_parser = clap::value_parser!(u32).range(0..=TIMEOUT_MAX)
    )]
    timeout: u32,
}

/// The types of `reboot`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Reboot {
    Soft,
    Hard,
    Full,
}

impl Reboot {
    fn told(self) -> RebootType {
        match self {
            Self::Soft => RebootType::Soft,
            Self::Hard => RebootType::Hard,
            Self::Full => RebootType::Full,
        }
    }
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    /// The instance.
    name: String,
    /// Do not ask.
    #[arg(short, long, visible_alias = "yes")]
    force: bool,
    #[command(flatten)]
    target: Target,
    /// Let it stand still while it moves.
    #[arg(long)]
    non_live: bool,
    /// Whether it runs while it moves.
    #[arg(long, value_name = "live|non-live", hide_possible_values = true)]
    migration_mode: Option<Mode>,
    /// Bring a migration to its end that was left halfway, or take it back.
    #[arg(long)]
    cleanup: bool,
    /// Fail it over if it does not run.
    #[arg(long)]
    allow_failover: bool,
    /// Let it move between versions of a hypervisor.
    #[arg(long)]
    ignore_hvversions: bool,
    /// Keep its memory as it is, also where that has no room.
    #[arg(long)]
    no_runtime_changes: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// The modes of a migration.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Live,
    NonLive,
}

/// Arguments of `failover`.
#[derive(Debug, Args)]
pub(crate) struct FailoverArguments {
    /// The instance.
    name: String,
    /// Do not ask.
    #[arg(short, long, visible_alias = "yes")]
    force: bool,
    #[command(flatten)]
    target: Target,
    /// Go on with disks that are not whole.
    #[arg(long)]
    ignore_consistency: bool,
    /// A failover leaves nothing halfway; repeat it instead.
    #[arg(long, hide = true)]
    cleanup: bool,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    job: JobArguments,
}

/// Arguments of `move`.
#[derive(Debug, Args)]
pub(crate) struct MoveArguments {
    /// The instance.
    name: String,
    /// The node that it goes to.
    #[arg(short = 'n', long, visible_alias = "node", value_name = "NODE")]
    target_node: String,
    /// Do not ask.
    #[arg(short, long, visible_alias = "yes")]
    force: bool,
    /// Go on with disks that are not whole.
    #[arg(long, hide = true)]
    ignore_consistency: bool,
    /// Let it break the limits of its new group.
    #[arg(long)]
    ignore_ipolicy: bool,
    /// How its content is compressed on the way; it is not.
    #[arg(long, value_name = "TOOL", hide = true)]
    compress: Option<String>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    job: JobArguments,
}

/// The place where an instance goes.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The node; the allocator chooses one without it.
    #[arg(short = 'n', long, visible_alias = "node", value_name = "NODE")]
    target_node: Option<String>,
    /// The allocator; `.` is the cluster's.
    #[arg(short = 'I', long, value_name = "NAME")]
    iallocator: Option<String>,
    /// Let it break the limits of its new group.
    #[arg(long)]
    ignore_ipolicy: bool,
}

/// Carries out one verb.
pub(crate) fn run(verb: Instance, session: &Session) -> Result<(), CliError> {
    match verb {
        Instance::Add(arguments) => arguments.run(session),
        Instance::BatchCreate(arguments) => arguments.run(session),
        Instance::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            list.print(What::Instance, list.fields(&USUAL), &chosen, session)
        }
        Instance::ListFields(arguments) => arguments.print(What::Instance, session),
        Instance::Info(arguments) => arguments.run(session),
        Instance::Startup(arguments) => startup(&arguments, session),
        Instance::Shutdown {
            chosen,
            force,
            ignore_offline: ignore_offline_nodes,
            within,
            no_remember,
            job,
        } => {
            let op = |instance_name| {
                OpCode::InstanceShutdown(InstanceShutdown {
                    instance_name,
                    instance_uuid: None,
                    force,
                    ignore_offline_nodes,
                    timeout: Timeout(within.timeout),
                    no_remember,
                    admin_state_source: None,
                })
            };
            chosen.run("shutdown", op, &job, session)
        }
        Instance::Reboot { chosen, kind, ignore_secondaries, within, job } => {
            let op = |instance_name| {
                OpCode::InstanceReboot(InstanceReboot {
                    instance_name,
                    instance_uuid: None,
                    reboot_type: kind.told(),
                    ignore_secondaries,
                    shutdown_timeout: Timeout(within.timeout),
                })
            };
            chosen.run("reboot", op, &job, session)
        }
        Instance::Modify(arguments) => arguments.run(session),
        Instance::GrowDisk(arguments) => arguments.run(session),
        Instance::RecreateDisks(arguments) => arguments.run(session),
        Instance::ListTags { name } => tags::list(Tagged::Instance, &name, session),
        Instance::AddTags(arguments) => tags::add(Tagged::Instance, arguments, session),
        Instance::RemoveTags(arguments) => tags::remove(Tagged::Instance, arguments, session),
        Instance::Migrate(arguments) => migrate(arguments, session),
        Instance::Failover(arguments) => failover(arguments, session),
        Instance::Move(arguments) => moved(arguments, session),
        Instance::Remove { name, force, within, ignore_failures, job } => {
            let question = format!(
                "This will remove the volumes of the instance {name} (including mirrors), thus removing all \
                 the data of the instance. Continue?"
            );
            confirm(&question, force || job.dry_run)?;
            let op = InstanceRemove {
                instance_name: name,
                instance_uuid: None,
                shutdown_timeout: Timeout(within.timeout),
                ignore_failures,
            };
            job.run(OpCode::InstanceRemove(op), session).map(drop)
        }
        Instance::Further(verb) => verb.run(session),
    }
}

fn startup(arguments: &StartupArguments, session: &Session) -> Result<(), CliError> {
    let op = |instance_name| {
        OpCode::InstanceStartup(InstanceStartup {
            instance_name,
            instance_uuid: None,
            force: arguments.force,
            ignore_offline_nodes: arguments.ignore_offline,
            hvparams: arguments.hypervisor_parameters.clone().unwrap_or_default(),
            beparams: arguments.backend_parameters.clone().unwrap_or_default(),
            no_remember: arguments.no_remember,
            startup_paused: arguments.paused,
            shutdown_timeout: Timeout::default(),
        })
    };
    arguments.chosen.run("startup", op, &arguments.job, session)
}

fn migrate(arguments: MigrateArguments, session: &Session) -> Result<(), CliError> {
    let MigrateArguments { name, force, target, job, .. } = arguments;
    let question = format!(
        "Instance {name} will be migrated. Note that migration might impact the instance if anything goes wrong. \
         Continue?"
    );
    confirm(&question, force || job.dry_run || arguments.cleanup)?;
    let mode = match (arguments.non_live, arguments.migration_mode) {
        (true, _) | (false, Some(Mode::NonLive)) => Some(MigrationMode::NonLive),
        (false, Some(Mode::Live)) => Some(MigrationMode::Live),
        (false, None) => None,
    };
    let op = InstanceMigrate {
        instance_name: name,
        instance_uuid: None,
        mode,
        live: None,
        target_node: target.target_node,
        target_node_uuid: None,
        iallocator: target.iallocator,
        allow_runtime_changes: !arguments.no_runtime_changes,
        ignore_ipolicy: target.ignore_ipolicy,
        cleanup: arguments.cleanup,
        allow_failover: arguments.allow_failover,
        ignore_hvversions: arguments.ignore_hvversions,
    };
    job.run(OpCode::InstanceMigrate(op), session).map(drop)
}

fn failover(arguments: FailoverArguments, session: &Session) -> Result<(), CliError> {
    let FailoverArguments { name, force, target, within, job, .. } = arguments;
    let question = format!(
        "Failover will happen to image {name}. This requires a shutdown of the instance. Continue?"
    );
    confirm(&question, force || job.dry_run)?;
    let op = InstanceFailover {
        instance_name: name,
        instance_uuid: None,
        shutdown_timeout: Timeout(within.timeout),
        ignore_consistency: arguments.ignore_consistency,
        target_node: target.target_node,
        target_node_uuid: None,
        iallocator: target.iallocator,
        ignore_ipolicy: target.ignore_ipolicy,
        cleanup: arguments.cleanup,
    };
    job.run(OpCode::InstanceFailover(op), session).map(drop)
}

fn moved(arguments: MoveArguments, session: &Session) -> Result<(), CliError> {
    let MoveArguments { name, target_node, force, within, job, .. } = arguments;
    let question = format!(
        "Instance {name} will be moved. This requires a shutdown of the instance. Continue?"
    );
    confirm(&question, force || job.dry_run)?;
    let op = InstanceMove {
        instance_name: name,
        instance_uuid: None,
        target_node,
        target_node_uuid: None,
        shutdown_timeout: Timeout(within.timeout),
        ignore_ipolicy: arguments.ignore_ipolicy,
        compress: arguments.compress,
        ignore_consistency: arguments.ignore_consistency,
    };
    job.run(OpCode::InstanceMove(op), session).map(drop)
}
