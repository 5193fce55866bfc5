//! The command line.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use model::NodeName;
use model::cluster::CANDIDATE_POOL_SIZE;
use model::layout::{Layout, PEER_PORT, RPC_PORT};
use model::range::{CANDIDATE_POOL_MAX, PREFIX_MAX, RACK_MAX};
use queue_format::Durability;
use stdx::daemon::LogFormat;
use stdx::metrics::Endpoint;

/// The master daemon of Gantry: takes jobs over its LUXI socket and runs them.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 success, 1 failure or not the moment for an upgrade, 2 wrong \
                  options, or configuration or state that cannot be used, 5 no cluster here, \
                  11 not the master."
)]
pub struct Command {
    /// Directory below which all paths lie; the variable GANTRY_ROOT sets it too.
    #[arg(long, value_name = "DIR", default_value_os_t = Layout::default_root(), global = true)]
    pub root: PathBuf,
    /// Size of a journal segment in MiB, for segments that are yet to be made; there are four
    /// [default: 64]
    #[arg(long, value_name = "MIB", global = true, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub journal_segment: Option<u32>,
    /// Command to run instead of serving.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Options for serving alone.
    #[command(flatten)]
    pub serve: Serve,
}

/// Options of the daemon.
#[derive(Debug, Args)]
pub struct Serve {
    /// Log format: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Log filter, as `info`, `debug` or `info,masterd::jobs=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_filter: String,
    /// Log to standard error instead of the log file.
    #[arg(long)]
    pub log_stderr: bool,
    /// Durability of an answer: `journal` (fast), or `file` (each file durable, slow).
    #[arg(long, value_name = "KIND", default_value = "journal")]
    pub durability: Durability,
    /// Listen on `DIR/ganeti-query` as well, which is where Ganeti's tools look for the socket:
    /// /run/ganeti/socket as a rule.
    #[arg(long, value_name = "DIR")]
    pub ganeti_socket: Option<PathBuf>,
    /// Keep Ganeti's `ssconf_*` files in DIR, where its tools look for the master and the nodes:
    /// /var/lib/ganeti as a rule. Without them they do not wait for a master that restarts.
    #[arg(long, value_name = "DIR")]
    pub ganeti_ssconf: Option<PathBuf>,
    /// Address and port where metrics are served by HTTP, or `none` [default: 127.0.0.1:1815 if the
    /// root is `/`, else none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Endpoint>,
    /// Address and port for masterd of other candidates, or `none`: then this node is no candidate
    /// [default: port 1817 of every address if the root is `/`, else none]
    #[arg(long, value_name = "ADDRESS")]
    pub peers: Option<Endpoint>,
}

/// Command to run instead of serving.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Begin a new cluster with this machine as its master.
    Init(InitArguments),
    /// Write the store of a stopped master or standby to a file; a running one is asked by
    /// `gnt cluster export`.
    Export(ExportArguments),
    /// Make the store of this machine, which has none, of an export.
    Import(ImportArguments),
    /// Say whether this moment is a good one to replace the programs, and what to do next. The queue is
    /// to be drained and no job left, also in the store of a stopped master.
    CheckUpgrade,
}

/// Options of `masterd init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// Name of the cluster.
    pub name: NodeName,
    /// Name of this node; the host name where it is not given.
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<NodeName>,
    /// Address of this node's agent.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub primary_ip: IpAddr,
    /// Port of this node's agent.
    #[arg(long, value_name = "PORT", default_value_t = RPC_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub rpc_port: u16,
    /// Port where masterd of this node is asked by those of other candidates.
    #[arg(long, value_name = "PORT", default_value_t = PEER_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub peer_port: u16,
    /// Rack that this node's agent serves; 0 to 65,535.
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(..=i64::from(RACK_MAX)))]
    pub rack: Option<u32>,
    /// The master's address, which moves with the role.
    #[arg(long, value_name = "IP", requires = "master_netdev")]
    pub master_ip: Option<IpAddr>,
    /// Interface that carries the master's address.
    #[arg(long, value_name = "NAME")]
    pub master_netdev: Option<String>,
    /// Prefix length of the master's address; all of its bits where it is not given.
    #[arg(long, value_name = "BITS", requires = "master_ip",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(PREFIX_MAX)))]
    pub master_netmask: Option<u8>,
    /// How many master candidates the cluster tries to have, 1 to 64; `gnt cluster modify -C` changes
    /// it.
    #[arg(short = 'C', long, value_name = "NUMBER", default_value_t = CANDIDATE_POOL_SIZE,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(CANDIDATE_POOL_MAX)))]
    pub candidate_pool_size: u32,
}

/// Treatment of the secrets of a store in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecretsWanted {
    /// They are left out.
    Purge,
    /// They are sealed with a passphrase.
    Seal,
}

/// Options of `masterd export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// The file; it must not be there.
    pub file: PathBuf,
    /// Leave secrets out, or seal them with a passphrase.
    #[arg(long, value_name = "purge|seal", default_value = "purge", hide_possible_values = true)]
    pub secrets: SecretsWanted,
    /// The passphrase is the first line of this file, `-` for standard input; it is asked for where
    /// no file is given.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// Options of `masterd import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// File that `gnt cluster export` wrote.
    pub file: PathBuf,
    /// Which node of the cluster this machine is; the host name where it is not given.
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<NodeName>,
    /// The passphrase is the first line of this file, `-` for standard input; it is asked for where
    /// no file is given and secrets are sealed.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Command::command().debug_assert();
        let line = "masterd init c1.example.com --root /tmp/x --rack 3";
        let read = Command::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(read.root, PathBuf::from("/tmp/x"));
        assert!(matches!(read.action, Some(Action::Init(InitArguments { rack: Some(3), .. }))));
        for wrong in [
            "--rack 65536",
            "--rpc-port 0",
            "--peer-port 0",
            "-C 0",
            "-C 65",
            "--master-ip 10.0.0.9 --master-netdev eth0 --master-netmask 0",
            "--master-ip fd00::9 --master-netdev eth0 --master-netmask 129",
            "--master-netmask 24",
        ] {
            let line = format!("masterd init c1.example.com {wrong}");
            assert!(Command::try_parse_from(line.split(' ')).is_err(), "{wrong}");
        }
    }
}
