//! The command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};

use model::NodeName;
use model::layout::{
    BOOT_PORT, BOOT_PORT_ALIAS, DHCP_SERVER_PORT, KEYS_PORT, Layout, NODE_METRICS_PORT, RPC_PORT,
};
use rpc::wire::Versions;
use stdx::Clock;
use stdx::daemon::LogFormat;
use stdx::metrics::Endpoint;

use crate::daemon::Settings;
use crate::powercycle;
use netboot::leasing::Leasing;
use netboot::ledger::SEGMENT_BYTES;

/// Bytes of a GiB.
const GIB: u64 = 1 << 30;

/// The agent of a node: answers the master's calls, gives DHCP leases and serves boot scripts.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "noded",
    version,
    after_help = "Exit status: 0 success, 1 failure, 2 wrong options."
)]
pub struct Options {
    /// Options of the agent, however it is started.
    #[command(flatten)]
    pub agent: AgentOptions,
    /// An action instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// An action instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show a token for `gnt node add`, wait until the master has taken this machine into its
    /// cluster, then serve.
    Enroll(EnrollOptions),
}

/// Options of `noded enroll`.
#[derive(Debug, Clone, Args)]
pub struct EnrollOptions {
    /// Host name or address for the token, by which the master reaches this machine [default: the
    /// rpc address, or the first address of an interface]
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
    /// Port to wait on, and to serve on afterwards [default: the rpc port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Name of the node; `gnt node add` must give the same one [default: any]
    #[arg(long, value_name = "NAME")]
    pub name: Option<NodeName>,
    /// End after the enrolment instead of serving, where systemd starts the agent.
    #[arg(long)]
    pub exit: bool,
    /// Take this machine in once more though it is a node already, for `gnt node add --readd`: as the
    /// same node of the same cluster. Its certificates stay until the master comes.
    #[arg(long)]
    pub again: bool,
    /// File with the token that the machine's configuration told it: `{{ EnrolToken }}` of Ignition or
    /// cloud-init. The master comes by itself then, no token is shown, and the file is removed at the end.
    #[arg(long, value_name = "FILE", conflicts_with = "address")]
    pub token_file: Option<PathBuf>,
}

/// Options of the agent.
#[derive(Debug, Clone, Args)]
pub struct AgentOptions {
    /// Directory that all paths are below; the variable GANTRY_ROOT sets it too.
    #[arg(long, global = true, value_name = "DIR", default_value_os_t = Layout::default_root())]
    pub root: PathBuf,
    /// Port of the node protocol.
    #[arg(long, global = true, value_name = "PORT", default_value_t = RPC_PORT)]
    pub rpc_port: u16,
    /// Address of the node protocol.
    #[arg(long, global = true, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub rpc_address: IpAddr,
    /// Port of the boot side.
    #[arg(long, global = true, value_name = "PORT", default_value_t = BOOT_PORT)]
    pub boot_port: u16,
    /// Address of the boot side, which machines are told to boot from.
    #[arg(long, global = true, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub boot_address: IpAddr,
    /// Further port of the boot side; 0 for none [default: 8888 if the boot port is 10080]
    #[arg(long, global = true, value_name = "PORT")]
    pub boot_alias_port: Option<u16>,
    /// Port at which machines keep and fetch the keys of their disks by HTTPS. The master answers; 0 for
    /// none [default: 10443 if the boot port is 10080]
    #[arg(long, global = true, value_name = "PORT")]
    pub keys_port: Option<u16>,
    /// Port of DHCP. Clients ask on port 67 only; another port needs --dhcp-address.
    #[arg(long, global = true, value_name = "PORT", default_value_t = DHCP_SERVER_PORT)]
    pub dhcp_port: u16,
    /// Serve DHCP to relays that write to this address, not to the clients of the interfaces; may
    /// be repeated. Needs no privilege on ports above 1023.
    #[arg(long, global = true, value_name = "IP")]
    pub dhcp_address: Vec<Ipv4Addr>,
    /// Let `gnt node powercycle` restart this machine, hard and without a further question.
    #[arg(long, global = true)]
    pub allow_powercycle: bool,
    /// Address and port where metrics are served by HTTP, or `none` [default: 127.0.0.1:1816 if the
    /// root is `/`, else none]
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub metrics: Option<Endpoint>,
    /// Room for kernels, initrds and images, in GiB.
    #[arg(long, global = true, value_name = "GIB", default_value_t = 64)]
    pub blobs_max: u32,
    /// iPXE as an EFI program, which machines load whose Ethernet addresses are not known; Debian has
    /// it in its package ipxe.
    #[arg(long, global = true, value_name = "FILE", default_value = "/usr/lib/ipxe/snponly.efi")]
    pub ipxe: PathBuf,
    /// Look of the log: text or json.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Filter of the log, such as `debug` or `info,noded::dhcp=debug`.
    #[arg(long, global = true, value_name = "FILTER", default_value = "info")]
    pub log_filter: String,
    /// Log to standard error instead of the log file.
    #[arg(long, global = true)]
    pub log_stderr: bool,
}

impl AgentOptions {
    /// The directories of the agent.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.root)
    }

    /// The settings to start the agent with.
    pub fn settings(&self) -> Settings {
        let default_alias = (self.boot_port == BOOT_PORT).then_some(BOOT_PORT_ALIAS);
        let alias = self.boot_alias_port.or(default_alias).filter(|port| *port != 0);
        let default_keys = (self.boot_port == BOOT_PORT).then_some(KEYS_PORT);
        let keys = self.keys_port.or(default_keys).filter(|port| *port != 0);
        let boot = SocketAddr::new(self.boot_address, self.boot_port);
        let metrics = (Ipv4Addr::LOCALHOST, NODE_METRICS_PORT);
        let usual_metrics = Endpoint::of_installed(self.layout().is_installed(), metrics);
        Settings {
            layout: self.layout(),
            rpc: SocketAddr::new(self.rpc_address, self.rpc_port),
            boot,
            boot_alias: alias.map(|port| SocketAddr::new(self.boot_address, port)),
            keys: keys.map(|port| SocketAddr::new(self.boot_address, port)),
            leasing: Leasing {
                port: self.dhcp_port,
                relays_only: self.dhcp_address.clone(),
                boot,
                counters: Arc::default(),
            },
            metrics: self.metrics.unwrap_or(usual_metrics),
            versions: Versions::OURS,
            powercycle: powercycle::of_machine(self.allow_powercycle, &self.layout()),
            segment_bytes: SEGMENT_BYTES,
            blob_bytes_max: u64::from(self.blobs_max).saturating_mul(GIB),
            ipxe: self.ipxe.clone(),
            clock: Clock::system(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn settings(line: &str) -> Settings {
        Options::try_parse_from(line.split(' ')).unwrap().agent.settings()
    }

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        let enroll = "noded enroll --root /tmp/x --address n2.example.com --port 1 --exit";
        let options = Options::try_parse_from(enroll.split(' ')).unwrap();
        assert_eq!(options.agent.root, PathBuf::from("/tmp/x"));
        assert!(matches!(options.command, Some(Command::Enroll(EnrollOptions { exit: true, .. }))));
    }

    #[test]
    fn metrics_have_a_port_on_an_installed_machine() {
        let address = |line| settings(line).metrics.address().map(|address| address.to_string());
        assert_eq!(address("noded --root /"), Some("127.0.0.1:1816".to_owned()));
        assert_eq!(address("noded --root /tmp/x"), None);
        assert_eq!(address("noded --root / --metrics none"), None);
        assert_eq!(address("noded --metrics [::1]:9"), Some("[::1]:9".to_owned()));
    }

    #[test]
    fn keys_are_served_beside_the_default_boot_port() {
        let port = |line| settings(line).keys.map(|keys| keys.port());
        assert_eq!(port("noded"), Some(10_443));
        assert_eq!(port("noded --keys-port 0"), None);
        assert_eq!(port("noded --boot-port 9000"), None);
        assert_eq!(port("noded --boot-port 9000 --keys-port 9001"), Some(9_001));
    }

    #[test]
    fn the_alias_goes_with_the_default_port() {
        let port = |line| settings(line).boot_alias.map(|alias| alias.port());
        assert_eq!(port("noded"), Some(8_888));
        assert_eq!(port("noded --boot-alias-port 0"), None);
        assert_eq!(port("noded --boot-port 9000"), None);
        assert_eq!(port("noded --boot-port 9000 --boot-alias-port 9001"), Some(9_001));
    }
}
