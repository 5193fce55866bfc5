//! `gnt cluster`.

mod export;
mod failover;
mod info;
mod instances;
mod status;
mod verify;
mod watcher;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use luxi::method::{QueryClusterInfo, QueryConfigValues, SetDrainFlag};
use model::OpCode;
use model::image::BootTarget;
use model::opcode::{ClusterRenewCrypto, ClusterSetParams};
use serde_json::{Value, json};

use crate::completion_words::Offered;
use crate::error::CliError;
use crate::known::Known;
use crate::node::{YesNo, storage, truth};
use crate::output::say;
use crate::session::{Session, confirm};
use crate::submit::{JobArguments, Priority, nothing_given, opcode};
use crate::tags::{self, ClusterTagsArguments, Tagged};
use crate::{params, python};

pub(crate) use status::{StatusArguments, run as status};

/// The variable that tells `masterd` under which name to speak of itself; its verb follows.
const CALLED_AS: &str = "GANTRY_CALLED_AS";

/// The question before the master's address is taken away.
const DEACTIVATE: &str = "This will disable the master IP. All the open connections to the master IP \
                          will be closed. To reach the master you will need to use its node IP. \
                          Continue?";

/// The verbs of `gnt cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Begin a new cluster with this machine as its master.
    ///
    /// Runs `masterd init`, which must be installed here and takes all further options.
    #[command(disable_help_flag = true)]
    Init(InitArguments),
    /// Say whether this moment is a good one to upgrade, and what to do next.
    ///
    /// Asks the master for its queue and agents, or reads the files of a stopped one, which root
    /// may. Exit status 1 if something is in the way.
    CheckUpgrade,
    /// Tell on one screen how the cluster stands, and what to do about what is wrong.
    ///
    /// Master, quorum, candidates with what they lack, queue, disk and journal, agents, certificates
    /// and alarms, as the masterd of this machine knows them. A standby knows its own part, and asks
    /// the master for its alarms. Exit status: 0 all is well, 1 warnings, 2 critical, 3 not known.
    Status(StatusArguments),
    /// Write queue, configuration and everything else to one file, as they are at one moment.
    ///
    /// The master goes on meanwhile. Root exports the store of this machine if masterd is stopped.
    Export(export::ExportArguments),
    /// Make this machine the master of a cluster whose stores are lost, from an export.
    ///
    /// Runs `masterd import`, which takes all further options.
    #[command(disable_help_flag = true)]
    Import(export::ImportArguments),
    /// Show what is set of the parameters of the cluster, and used.
    ///
    /// Called as gnt-cluster, it shows all of them, as Ganeti's.
    #[command(visible_alias = "show")]
    Info {
        /// Show all of them, also those that are kept for Ganeti's clients alone.
        #[arg(long)]
        all: bool,
        /// Print them all as JSON.
        #[arg(long, conflicts_with = "roman")]
        json: bool,
        /// Take roman numerals where Ganeti does.
        #[arg(long)]
        roman: bool,
    },
    /// Print the name of the master node.
    Getmaster,
    /// Print the versions of software and formats.
    Version,
    /// Change parameters of the cluster; what is not given stays as it is.
    Modify(ModifyArguments),
    /// Stop taking new jobs, or take them again: drain, undrain, info.
    Queue {
        /// drain takes no new jobs, while those that are queued still run; undrain takes them
        /// again; info tells whether they are taken.
        #[arg(
            value_name = "drain|undrain|info",
            value_parser = Offered(&["drain", "undrain", "info"]),
            hide_possible_values = true
        )]
        command: String,
    },
    /// Pause the watcher, or let it go on: pause SPAN, continue, info.
    Watcher(watcher::WatcherArguments),
    /// Check the configuration, and each node group.
    Verify(verify::VerifyArguments),
    /// Check the disks of instances.
    VerifyDisks(verify::VerifyDisksArguments),
    /// Give records of disks the sizes that the disks have.
    RepairDiskSizes {
        /// Only disks of these instances.
        instances: Vec<String>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Take the master's address on the master node, away from where it was left.
    ActivateMasterIp {
        #[command(flatten)]
        job: JobArguments,
    },
    /// Take the master's address away from the master node, until it is activated or the role moves.
    DeactivateMasterIp {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Send the configuration to all nodes again.
    RedistConf {
        /// Even if the queue is drained.
        #[arg(long)]
        yes_do_it: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Give nodes new keys and certificates, one after the other, while everything goes on.
    ///
    /// All nodes, or those that are given; the master comes last. A node that does not answer is
    /// left out and told of: the same command does the rest later. The cluster's authority stays as
    /// it is.
    RenewCrypto {
        /// Only this node; may be given several times.
        #[arg(long = "node", value_name = "NODE")]
        nodes: Vec<String>,
        /// Give the vault a new key, which seals all secrets anew, and leave the nodes alone.
        #[arg(long, conflicts_with = "nodes")]
        vault: bool,
        /// Taken for Ganeti's scripts: this is what is renewed anyway.
        #[arg(long, hide = true)]
        new_node_certificates: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Make a candidate the master: the node on which this is called, or another one.
    ///
    /// Every node is asked first, and the answers are shown. A master that still lives lets running
    /// opcodes end and hands over.
    #[command(visible_alias = "failover", alias = "masterfailover")]
    MasterFailover(failover::FailoverArguments),
    /// Tell by the exit status whether the master answers.
    MasterPing,
    /// Print the command that would make the limits of instances.
    ShowIspecsCmd,
    /// List the tags of the cluster.
    ListTags,
    /// Add tags to the cluster.
    AddTags(ClusterTagsArguments),
    /// Remove tags of the cluster.
    RemoveTags(ClusterTagsArguments),
    /// Search the tags of all objects.
    SearchTags {
        /// A regular expression.
        pattern: String,
        /// How urgent the job is; as usual without it.
        #[arg(long, value_name = "PRIORITY")]
        priority: Option<Priority>,
    },
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Name of the cluster.
    #[arg(allow_hyphen_values = true)]
    name: OsString,
    /// --node-name NAME, --primary-ip IP, --rack NUMBER, --master-ip IP; --help shows all.
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

/// Arguments of `modify`.
#[derive(Debug, Args)]
pub(crate) struct ModifyArguments {
    /// Jobs that may call agents at the same time; 1 to 1,000.
    #[arg(long, value_name = "NUMBER")]
    max_running_jobs: Option<u32>,
    /// Accepted for Ganeti's scripts, 1 to 100,000; has no effect.
    #[arg(long, value_name = "NUMBER")]
    max_tracked_jobs: Option<u32>,
    /// How many nodes are master candidates, 1 to 64, as far as there are so many: they hold copies of
    /// queue and configuration.
    #[arg(short = 'C', long, value_name = "NUMBER")]
    candidate_pool_size: Option<u32>,
    /// First three bytes of instances' Ethernet addresses, as aa:00:00.
    #[arg(short, long, value_name = "PREFIX")]
    mac_prefix: Option<String>,
    /// The master's address, which moves with the role; none for none.
    #[arg(long, value_name = "IP|none")]
    master_ip: Option<String>,
    /// Interface that carries the master's address.
    #[arg(long, value_name = "NAME")]
    master_netdev: Option<String>,
    /// Prefix length of the master's address; 1 to 32, or 128 for IPv6.
    #[arg(long, value_name = "BITS")]
    master_netmask: Option<u8>,
    /// Whether a candidate takes the master role by itself when the master falls silent.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    auto_failover: Option<YesNo>,
    /// Whether the master applies a host's network again where the host drifted from it.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    mend_network: Option<YesNo>,
    /// Seconds after which a machine in service that fell silent is unreachable: 60 to 86400, or 0 for
    /// never; 300 in a new cluster.
    #[arg(long, value_name = "SECONDS")]
    silence_deadline: Option<u32>,
    /// The image that machines boot to be inspected, cleaned or rescued; `local` for nothing.
    #[arg(long, value_name = "IMAGE")]
    ramdisk_image: Option<BootTarget>,
    /// Say that the losses of an override (`master-failover --no-voting`) were seen: its alarm ends.
    #[arg(long)]
    override_seen: bool,
    #[command(flatten)]
    instances: Box<instances::InstanceArguments>,
    /// Go on where a check only warns.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Carries out one verb.
pub(crate) fn run(verb: Cluster, session: &Session) -> Result<(), CliError> {
    match verb {
        Cluster::Init(InitArguments { name, mut options }) => {
            options.insert(0, name);
            Err(become_masterd("init", options, session))
        }
        Cluster::Export(arguments) => export::export(arguments, session),
        Cluster::Import(arguments) => Err(export::import(arguments, session)),
        Cluster::CheckUpgrade => Err(become_masterd("check-upgrade", Vec::new(), session)),
        Cluster::Status(arguments) => status(&arguments, session),
        Cluster::Info { json: true, .. } => info::print_json(session),
        Cluster::Info { all, roman, .. } => info::run(all, roman, session),
        Cluster::Getmaster => getmaster(session),
        Cluster::Version => version(session),
        Cluster::Modify(arguments) => modify(arguments, session),
        Cluster::Queue { command } => queue(&command, session),
        Cluster::Watcher(arguments) => watcher::run(&arguments, session),
        Cluster::Verify(arguments) => verify::run(arguments, session),
        Cluster::VerifyDisks(arguments) => verify::disks(arguments, session),
        Cluster::RepairDiskSizes { instances, job } => {
            storage::repair_sizes(&instances, &job, session)
        }
        Cluster::ActivateMasterIp { job } => {
            job.run_raw(opcode("OP_CLUSTER_ACTIVATE_MASTER_IP", json!({})), session).map(drop)
        }
        Cluster::DeactivateMasterIp { yes, job } => {
            confirm(DEACTIVATE, yes)?;
            job.run_raw(opcode("OP_CLUSTER_DEACTIVATE_MASTER_IP", json!({})), session).map(drop)
        }
        Cluster::RedistConf { yes_do_it, job } => {
            let op = opcode("OP_CLUSTER_REDIST_CONF", json!({}));
            let run =
                if yes_do_it { JobArguments::run_though_drained } else { JobArguments::run_raw };
            run(&job, op, session).map(drop)
        }
        Cluster::RenewCrypto { nodes, vault, new_node_certificates: _, job } => {
            let node_certificates = !vault;
            let op = ClusterRenewCrypto {
                nodes,
                vault,
                node_certificates,
                ..ClusterRenewCrypto::default()
            };
            job.run(OpCode::ClusterRenewCrypto(op), session).map(drop)
        }
        Cluster::MasterFailover(arguments) => failover::run(arguments, session),
        Cluster::MasterPing => {
            let asked = session.reach().and_then(|mut client| client.call(&QueryClusterInfo {}));
            asked.map(drop).map_err(|_away| CliError::Told)
        }
        Cluster::ShowIspecsCmd => {
            let info = session.ask(&QueryClusterInfo {})?;
            let get = |key: &str| info.get(key).unwrap_or(&Value::Null);
            let options = params::specs_options(get("ipolicy"), true);
            say(format_args!("gnt-cluster init{options} {}", python::text(get("name"))))
        }
        Cluster::ListTags => tags::list(Tagged::Cluster, "", session),
        Cluster::AddTags(arguments) => tags::add(Tagged::Cluster, arguments.into(), session),
        Cluster::RemoveTags(arguments) => tags::remove(Tagged::Cluster, arguments.into(), session),
        Cluster::SearchTags { pattern, priority } => search_tags(&pattern, priority, session),
    }
}

/// Becomes `masterd VERB`; comes back only if that fails.
fn become_masterd(verb: &str, arguments: Vec<OsString>, session: &Session) -> CliError {
    let gnt = std::env::current_exe().unwrap_or_default();
    let beside = gnt.with_file_name("masterd");
    // Packages put it there; operators need not have that directory in their PATH.
    let installed = gnt.parent().and_then(Path::parent).map(|usr| usr.join("sbin/masterd"));
    let program = [Some(beside), installed].into_iter().flatten().find(|path| path.is_file());
    let program = program.unwrap_or_else(|| PathBuf::from("masterd"));
    let mut command = std::process::Command::new(&program);
    command.env(CALLED_AS, "gnt cluster");
    command.arg("--root").arg(session.layout().root()).arg(verb).args(arguments);
    let error = command.exec();
    CliError::Start { program, error }
}

fn getmaster(session: &Session) -> Result<(), CliError> {
    let asked = session.ask(&QueryConfigValues { names: ["master_node"].into() });
    match asked {
        Ok(values) => say(values.first().and_then(Value::as_str).unwrap_or_default()),
        // A stopped master is no reason not to say its name, where this machine has a copy.
        Err(error) => match Known::on(session.layout()) {
            Ok(Some(known)) => say(known.master),
            _ => Err(error),
        },
    }
}

/// `gnt version`, which works without a master.
pub(crate) fn versions(session: &Session) -> Result<(), CliError> {
    say(format_args!("gnt: {}", env!("CARGO_PKG_VERSION")))?;
    match session.ask(&QueryClusterInfo {}) {
        Ok(info) => {
            let version = info.get("software_version").unwrap_or(&Value::Null);
            say(format_args!("master: {}", python::text(version)))
        }
        Err(_not_reached) => say("master: not reached; `gnt cluster status` tells why"),
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
        say(format_args!("{title}: {}", python::text(info.get(key).unwrap_or(&Value::Null))))?;
    }
    Ok(())
}

fn modify(arguments: ModifyArguments, session: &Session) -> Result<(), CliError> {
    let mut params = ClusterSetParams {
        force: arguments.force,
        max_running_jobs: arguments.max_running_jobs,
        max_tracked_jobs: arguments.max_tracked_jobs,
        candidate_pool_size: arguments.candidate_pool_size,
        mac_prefix: arguments.mac_prefix,
        master_ip: arguments.master_ip,
        master_netdev: arguments.master_netdev,
        master_netmask: arguments.master_netmask,
        auto_failover: truth(arguments.auto_failover),
        mend_network: truth(arguments.mend_network),
        silence_deadline: arguments.silence_deadline,
        ramdisk_image: arguments.ramdisk_image,
        override_seen: arguments.override_seen,
        ..ClusterSetParams::default()
    };
    arguments.instances.told(&mut params);
    if params == (ClusterSetParams { force: arguments.force, ..ClusterSetParams::default() }) {
        return Err(nothing_given::<ModifyArguments>(session)?);
    }
    arguments.job.run(OpCode::ClusterSetParams(params), session).map(drop)
}

fn queue(command: &str, session: &Session) -> Result<(), CliError> {
    match command {
        "drain" => session.ask(&SetDrainFlag { drained: true }).map(drop),
        "undrain" => session.ask(&SetDrainFlag { drained: false }).map(drop),
        "info" => {
            let values = session.ask(&QueryConfigValues { names: ["drain_flag"].into() })?;
            let drained = values.first().and_then(Value::as_bool).unwrap_or(false);
            say(format_args!("The drain flag is {}", if drained { "set" } else { "unset" }))
        }
        other => Err(CliError::wrong_input(format!("Command '{other}' is not valid."))),
    }
}

fn search_tags(
    pattern: &str,
    priority: Option<Priority>,
    session: &Session,
) -> Result<(), CliError> {
    let job = JobArguments { priority, ..JobArguments::default() };
    let op = opcode("OP_TAGS_SEARCH", json!({"pattern": pattern}));
    let found = job.run_raw(op, session)?.unwrap_or_default();
    let mut found: Vec<(String, String)> = found
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pair| {
            Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_str()?.to_owned()))
        })
        .collect();
    if found.is_empty() {
        return Err(CliError::Told);
    }
    found.sort();
    found.iter().try_for_each(|(path, tag)| say(format_args!("{path} {tag}")))
}
