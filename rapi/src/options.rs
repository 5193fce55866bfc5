//! The command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Parser;
use model::layout::{Layout, RAPI_METRICS_PORT, RAPI_PORT};
use stdx::daemon::LogFormat;
use stdx::metrics::Endpoint;

use crate::certificate::Files;
use crate::state::Compatibility;

/// The HTTPS front door of the cluster: Ganeti's remote API, sabakan's REST API, and Ironic's for ramdisks.
///
/// It asks the master through the socket of this machine, which may be that of any candidate.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "rapi",
    version,
    after_help = "Exit status: 0 success, 1 failure, 2 wrong options."
)]
pub struct Options {
    /// Directory that all paths are below; the variable GANTRY_ROOT sets it too.
    #[arg(long, value_name = "DIR", default_value_os_t = Layout::default_root())]
    pub root: PathBuf,
    /// Address to serve on.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub address: IpAddr,
    /// Port to serve on; 0 takes a free one, which the log tells.
    #[arg(long, short, value_name = "PORT", default_value_t = RAPI_PORT)]
    pub port: u16,
    /// Serve HTTP without TLS here, too, for clients of this machine alone, such as 127.0.0.1:5081.
    #[arg(long, value_name = "ADDRESS", value_parser = on_loopback)]
    pub plain_http: Option<SocketAddr>,
    /// Certificate and the ones between it and a root, as PEM [default: /etc/gantry/rapi.pem if it is
    /// there, else the certificate of this node]
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM [default: the file of the certificate]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Take certificates of clients that the authority in this file signed. The file has one or more
    /// certificates as PEM. The common name of the subject is a user of the users' file.
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    /// Users with their passwords: Ganeti's `rapi/users`, or a file of `htpasswd` [default:
    /// /etc/gantry/rapi.users]
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Let everybody who reaches the port look at the cluster without a password, as Ganeti and sabakan do.
    #[arg(long)]
    pub open_reads: bool,
    /// Let every process of this machine operate the cluster without a password, as sabakan does.
    #[arg(long)]
    pub trust_loopback: bool,
    /// Let a machine of the inventory keep and fetch the keys of its own disks without a password: it is
    /// known by the address that it asks from.
    #[arg(long)]
    pub machines_by_address: bool,
    /// Refuse requests of agents in ramdisks, which have no password: lookup, heartbeat and the end of an
    /// inspection, as Ironic does with `enable_ramdisk_endpoints` off. The agents of racks answer them.
    #[arg(long)]
    pub no_ramdisk_endpoints: bool,
    /// Form in which machines are shown: that of today's sabakan, or of its specification of 2018.
    #[arg(long, value_name = "VERSION", default_value = "today")]
    pub compat: Compatibility,
    /// Address and port where metrics are served by HTTP, or `none` [default: 127.0.0.1:1819 if the
    /// root is `/`, else none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Endpoint>,
    /// Look of the log: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Filter of the log, such as `debug` or `info,rapi=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_filter: String,
    /// Log to standard error instead of the log file.
    #[arg(long)]
    pub log_stderr: bool,
}

impl Options {
    /// The layout of the directories.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.root)
    }

    /// The address to listen on.
    pub fn listen(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// The files of the certificate.
    pub fn certificate(&self) -> Files {
        let layout = self.layout();
        let own = Some(layout.rapi_certificate()).filter(|path| path.exists());
        match self.cert.clone().or(own) {
            Some(certificate) => {
                Files { key: self.key.clone().unwrap_or_else(|| certificate.clone()), certificate }
            }
            None => Files { certificate: layout.node_certificate(), key: layout.node_key() },
        }
    }

    /// The file of the users.
    pub fn users(&self) -> PathBuf {
        self.users.clone().unwrap_or_else(|| self.layout().rapi_users())
    }

    /// The endpoint of the metrics.
    pub fn metrics(&self) -> Endpoint {
        let usual = (Ipv4Addr::LOCALHOST, RAPI_METRICS_PORT);
        self.metrics.unwrap_or(Endpoint::of_installed(self.layout().is_installed(), usual))
    }
}

/// An address and port that only this machine reaches.
fn on_loopback(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().map_err(|error| error.to_string())?;
    let why = || "only loopback, such as 127.0.0.1:5081, is served without TLS".to_owned();
    address.ip().is_loopback().then_some(address).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn options(line: &str) -> Options {
        Options::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        assert!(Options::try_parse_from(["rapi", "--key", "k"]).is_err());
        let plain = |address| Options::try_parse_from(["rapi", "--plain-http", address]);
        assert!(plain("127.0.0.1:5081").is_ok() && plain("[::1]:0").is_ok());
        for elsewhere in ["0.0.0.0:5081", "192.0.2.1:5081", "127.0.0.1", "localhost:5081"] {
            assert!(plain(elsewhere).is_err(), "{elsewhere}");
        }
    }

    #[test]
    fn the_certificate_is_the_operators_or_the_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("rapi --root {}", dir.path().display());
        let layout = Layout::new(dir.path());
        let files = options(&line).certificate();
        assert_eq!((files.certificate, files.key), (layout.node_certificate(), layout.node_key()));
        std::fs::create_dir_all(layout.etc()).unwrap();
        stdx::atomic::write(&layout.rapi_certificate(), b"", 0o640).unwrap();
        let files = options(&line).certificate();
        assert_eq!(
            (&files.certificate, &files.key),
            (&layout.rapi_certificate(), &layout.rapi_certificate())
        );
        let files = options(&format!("{line} --cert c --key k")).certificate();
        assert_eq!((files.certificate, files.key), ("c".into(), "k".into()));
    }
}
