//! `gnt cluster`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{QueryClusterInfo, QueryConfigValues, SetDrainFlag};
use model::opcode::ClusterSetParams;
use model::{NodeName, OpCode};
use serde_json::Value;

use crate::cells;
use crate::error::CliError;
use crate::outline::Outline;
use crate::session::{Session, say};
use crate::submit::JobArguments;

/// The value that tells whether the queue is drained.
const DRAIN_FLAG: &str = "drain_flag";
/// The variable that tells `masterd` under which name to speak of itself; its verb follows.
const CALLED_AS: &str = "GANTRY_CALLED_AS";

/// What can be done with the cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Begin a new cluster with this machine as its master.
    ///
    /// Runs `masterd init`, which must be installed here and takes all further options.
    #[command(disable_help_flag = true)]
    Init(InitArguments),
    /// Show the parameters of the cluster.
    #[command(visible_alias = "show")]
    Info {
        /// Print them all as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the name of the master node.
    Getmaster,
    /// Print the versions of software and formats.
    Version,
    /// Change parameters of the cluster; what is not given stays as it is.
    Modify(ModifyArguments),
    /// Stop taking new jobs, or take them again.
    #[command(subcommand)]
    Queue(Queue),
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Name of the cluster, then options: --node-name NAME, --primary-ip IP, --rpc-port PORT,
    /// --rack NUMBER; --help shows all.
    #[arg(
        value_name = "NAME [OPTIONS]",
        num_args = 1..,
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    passed_on: Vec<OsString>,
}

/// Arguments of `modify`.
#[derive(Debug, Args)]
pub(crate) struct ModifyArguments {
    /// Jobs that may call agents at the same time; 1 to 1000.
    #[arg(long, value_name = "NUMBER")]
    max_running_jobs: Option<u32>,
    /// Taken for Ganeti's scripts; has no effect.
    #[arg(long, value_name = "NUMBER")]
    max_tracked_jobs: Option<u32>,
    /// How many nodes hold copies of queue and configuration.
    #[arg(short = 'C', long, value_name = "NUMBER")]
    candidate_pool_size: Option<u32>,
    /// First three bytes of instances' Ethernet addresses, as aa:00:00.
    #[arg(short, long, value_name = "PREFIX")]
    mac_prefix: Option<String>,
    /// Interface that carries the master's address.
    #[arg(long, value_name = "NAME")]
    master_netdev: Option<String>,
    /// Prefix length of the master's address.
    #[arg(long, value_name = "BITS")]
    master_netmask: Option<u8>,
    /// Go on where a check only warns.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// What can be done with the queue as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// Take no new jobs; those that are queued still run.
    Drain,
    /// Take new jobs again.
    Undrain,
    /// Tell whether new jobs are taken.
    Info,
}

/// Carries out one verb.
pub(crate) fn run(verb: Cluster, session: &Session) -> Result<(), CliError> {
    match verb {
        Cluster::Init(arguments) => Err(init(arguments, session)),
        Cluster::Info { json } => info(json, session),
        Cluster::Getmaster => getmaster(session),
        Cluster::Version => version(session),
        Cluster::Modify(arguments) => modify(arguments, session),
        Cluster::Queue(verb) => queue(&verb, session),
    }
}

/// Becomes `masterd init`; comes back only if that fails.
fn init(arguments: InitArguments, session: &Session) -> CliError {
    let beside = std::env::current_exe().ok().map(|gnt| gnt.with_file_name("masterd"));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("masterd"));
    let mut command = std::process::Command::new(&program);
    command.env(CALLED_AS, "gnt cluster");
    command.arg("--root").arg(session.layout().root()).arg("init").args(arguments.passed_on);
    let error = command.exec();
    CliError::Start { program, error }
}

fn info(json: bool, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let mut info = client.call(&QueryClusterInfo {})?;
    let values = client.call(&QueryConfigValues { names: [DRAIN_FLAG].into() })?;
    let drain_flag = values.first().cloned().unwrap_or_default();
    if json {
        if let Value::Object(map) = &mut info {
            map.insert(DRAIN_FLAG.to_owned(), drain_flag);
        }
        return say(format_args!("{info:#}"));
    }
    let get = |key: &str| info.get(key).unwrap_or(&Value::Null);
    let mut outline = Outline::default();
    for (title, key) in [("Cluster name", "name"), ("Cluster UUID", "uuid")] {
        outline.value(title, get(key));
    }
    outline.entry("Creation time", cells::time(get("ctime")));
    outline.entry("Modification time", cells::time(get("mtime")));
    outline.value("Master node", get("master"));
    let queue = match drain_flag.as_bool() {
        Some(true) => "drained, takes no new jobs",
        Some(false) => "takes new jobs",
        None => "unknown",
    };
    outline.entry("Job queue", queue);
    outline.value("Architecture (this node)", get("architecture"));
    outline.value("Tags", get("tags"));
    outline.section("Cluster parameters");
    for (title, key) in [
        ("candidate pool size", "candidate_pool_size"),
        ("maximal number of jobs that call agents at the same time", "max_running_jobs"),
        ("maximal number of jobs simultaneously tracked by the scheduler", "max_tracked_jobs"),
        ("mac prefix", "mac_prefix"),
        ("master netdev", "master_netdev"),
        ("master netmask", "master_netmask"),
    ] {
        outline.value(title, get(key));
    }
    say(outline.into_text())
}

fn getmaster(session: &Session) -> Result<(), CliError> {
    let asked = session.ask(&QueryConfigValues { names: ["master_node"].into() });
    match asked {
        Ok(values) => say(values.first().and_then(Value::as_str).unwrap_or_default()),
        // A stopped master is no reason not to say its name, where this machine has a copy.
        Err(error) => match session.role() {
            Ok(Some(role)) => say(role.master),
            _ => Err(error),
        },
    }
}

fn version(session: &Session) -> Result<(), CliError> {
    let info = session.ask(&QueryClusterInfo {})?;
    for (title, key) in [
        ("Software version", "software_version"),
        ("Internode protocol", "protocol_version"),
        ("Configuration format", "config_version"),
        ("OS api version", "os_api_version"),
        ("Export interface", "export_version"),
        ("VCS version", "vcs_version"),
    ] {
        say(format_args!("{title}: {}", cells::plain(info.get(key).unwrap_or(&Value::Null))))?;
    }
    Ok(())
}

fn modify(arguments: ModifyArguments, session: &Session) -> Result<(), CliError> {
    let params = ClusterSetParams {
        force: arguments.force,
        max_running_jobs: arguments.max_running_jobs,
        max_tracked_jobs: arguments.max_tracked_jobs,
        candidate_pool_size: arguments.candidate_pool_size,
        mac_prefix: arguments.mac_prefix,
        master_netdev: arguments.master_netdev,
        master_netmask: arguments.master_netmask,
        ..ClusterSetParams::default()
    };
    if params == (ClusterSetParams { force: arguments.force, ..ClusterSetParams::default() }) {
        return Err(CliError::Usage("Please give at least one of the parameters.".to_owned()));
    }
    arguments.job.run(OpCode::ClusterSetParams(params), session).map(drop)
}

fn queue(verb: &Queue, session: &Session) -> Result<(), CliError> {
    match verb {
        Queue::Drain => session.ask(&SetDrainFlag { drained: true }).map(drop),
        Queue::Undrain => session.ask(&SetDrainFlag { drained: false }).map(drop),
        Queue::Info => {
            let values = session.ask(&QueryConfigValues { names: [DRAIN_FLAG].into() })?;
            let drained = values.first().and_then(Value::as_bool).unwrap_or(false);
            say(format_args!("The drain flag is {}", if drained { "set" } else { "unset" }))
        }
    }
}

/// Checks a node's name where it enters.
pub(crate) fn node_name(text: &str) -> Result<NodeName, CliError> {
    text.parse().map_err(|error: model::name::NameError| CliError::Usage(error.to_string()))
}
