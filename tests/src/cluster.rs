//! A master and agents on loopback addresses, or on a wire, below one temporary root.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use luxi::Client;
use luxi::method::QueryClusterInfo;
use model::layout::{Layout, PEER_PORT};
use serde_json::Value;
use xtask::stage::Stage;

use crate::place;
use crate::run::{Ended, Running, run, start, wait_for};
use crate::wire::Wire;

/// For anything that should happen at once; only a failing test waits for it. A disk that others write to
/// takes half a minute for some thousand files.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The name of the first node, the master.
pub const MASTER: &str = "n1.example";
/// A port for DHCP that needs no privilege.
pub const DHCP_PORT: u16 = 10_067;
/// MiB of a journal segment: small ones keep a test's start short, and are soon used again.
const SEGMENT_MIB: &str = "4";
/// How much of each log is shown when a test fails.
const TAIL_BYTES: usize = 4_000;

/// The rules of addresses that the specification has as its example.
pub const IPAM: &str = r#"{
  "max-nodes-in-rack": 28,
  "node-ipv4-pool": "10.69.0.0/16",
  "node-ipv4-range-size": 6,
  "node-ipv4-range-mask": 26,
  "node-ip-per-node": 3,
  "node-index-offset": 3,
  "bmc-ipv4-pool": "10.72.16.0/20",
  "bmc-ipv4-offset": "0.0.1.0",
  "bmc-ipv4-range-size": 5,
  "bmc-ipv4-range-mask": 20
}"#;

/// A machine of the cluster: its root and address.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name as a node, as `n1.example`.
    pub name: String,
    /// The address of its agent.
    pub address: Ipv4Addr,
    /// All its paths are below it.
    pub root: PathBuf,
}

impl Host {
    /// Where things live.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.root)
    }

    /// The name of its `masterd` among the daemons of the cluster.
    pub fn masterd(&self) -> String {
        masterd_of(&self.name)
    }

    /// The log of its `masterd`.
    pub fn masterd_log(&self) -> String {
        let path = self.layout().log().join("master-daemon.log");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

/// A cluster whose daemons end with it.
#[derive(Debug)]
pub struct Cluster {
    stage: Stage,
    /// The namespace that everything runs in, if not the test's.
    namespace: Option<String>,
    /// The master's machine, as far as the operator knows: who moves the role says so here.
    pub master: Host,
}

impl Cluster {
    /// A new cluster, of which nothing runs yet.
    pub fn init() -> Self {
        Self::init_at(&std::env::temp_dir(), None)
    }

    /// A new cluster whose daemons will run in the namespace of the rack.
    pub fn init_on(wire: &Wire) -> Self {
        Self::init_at(&std::env::temp_dir(), Some(wire.rack.clone()))
    }

    /// A new cluster below a directory, in a namespace.
    pub fn init_at(dir: &Path, namespace: Option<String>) -> Self {
        let stage = Stage::new(dir).unwrap();
        let address = match namespace {
            Some(_) => Ipv4Addr::LOCALHOST,
            None => place::address(),
        };
        let master = Host { name: MASTER.to_owned(), address, root: stage.root().join("n1") };
        std::fs::create_dir(&master.root).unwrap();
        let cluster = Self { stage, namespace, master };
        let node = format!("--node-name {MASTER} --primary-ip {address}");
        let journal = format!("--journal-segment {SEGMENT_MIB}");
        let _begun = cluster.gnt(&format!("cluster init demo.example {node} {journal}")).ok();
        cluster
    }

    /// A new cluster with its master.
    pub fn begin() -> Self {
        let cluster = Self::init();
        cluster.start_master();
        cluster
    }

    /// A new cluster with its master and the master's agent.
    pub fn begin_with_agent() -> Self {
        let cluster = Self::begin();
        cluster.start_agent(&cluster.master);
        cluster.wait_for_facts(MASTER);
        cluster
    }

    /// The directory that holds everything of this cluster.
    pub fn dir(&self) -> PathBuf {
        self.stage.root()
    }

    /// Writes a file into the cluster's directory.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir().join(name);
        stdx::atomic::write(&path, text.as_bytes(), 0o644).unwrap();
        path
    }

    /// A machine that is not in the cluster yet, as `n2`.
    pub fn host(&self, short: &str) -> Host {
        let root = self.dir().join(short);
        std::fs::create_dir_all(&root).unwrap();
        Host { name: format!("{short}.example"), address: place::address(), root }
    }

    /// A program of the cluster, where its machines are.
    pub fn program(&self, program: &str) -> Command {
        self.command(program)
    }

    fn command(&self, program: &str) -> Command {
        let command = place::programs().command(program);
        let mut command = match &self.namespace {
            Some(namespace) => Wire::within(namespace, &command),
            None => command,
        };
        command.env_remove("GANTRY_ROOT");
        command
    }

    /// The master's `masterd`, with its options.
    pub fn masterd(&self) -> Command {
        self.masterd_of(&self.master)
    }

    /// The `masterd` of a machine, with its options.
    pub fn masterd_of(&self, host: &Host) -> Command {
        self.masterd_at(host, PEER_PORT)
    }

    /// The same, where other candidates ask it on a port of its own.
    pub fn masterd_at(&self, host: &Host, port: u16) -> Command {
        let mut command = self.command("masterd");
        command.arg("--root").arg(&host.root);
        command.args(["--journal-segment", SEGMENT_MIB]);
        if self.namespace.is_none() {
            command.arg("--peers").arg(SocketAddr::from((host.address, port)).to_string());
        }
        command
    }

    /// Starts the master and waits until it answers.
    pub fn start_master(&self) {
        self.start_master_by(self.masterd());
    }

    /// As [`Cluster::start_master`]; the master may open no more than so many files.
    pub fn start_master_with_files(&self, files: &str) {
        let master = self.masterd();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", files]);
        command.arg(master.get_program()).args(master.get_args());
        command.env_remove("GANTRY_ROOT");
        self.start_master_by(command);
    }

    /// Starts the master by a command of one's own and waits until it answers.
    pub fn start_master_by(&self, command: Command) {
        self.stage.start(&self.master.masterd(), command).unwrap();
        wait_for("an answer of the master", PATIENCE, || {
            let mut client = Client::connect(&self.master.layout().luxi_socket()).ok()?;
            client.call(&QueryClusterInfo {}).ok()
        });
    }

    /// Asks the master to end, and waits.
    pub fn stop_master(&self) {
        self.stage.stop(&self.master.masterd());
    }

    /// Ends the master as a crash would.
    pub fn kill_master(&self) {
        self.stage.kill(&self.master.masterd());
    }

    /// The process of the master.
    pub fn master_pid(&self) -> Option<u32> {
        self.stage.pid(&self.master.masterd())
    }

    /// The agent of a machine, with its options.
    pub fn noded(&self, host: &Host) -> Command {
        let mut command = self.command("noded");
        command.arg("--root").arg(&host.root);
        if self.namespace.is_none() {
            let (address, port) = (host.address.to_string(), DHCP_PORT.to_string());
            command.args(["--rpc-address", &address, "--boot-address", &address]);
            command.args(["--boot-alias-port", "0", "--dhcp-address", &address]);
            command.args(["--dhcp-port", &port]);
        }
        command
    }

    /// Starts the agent of a machine.
    pub fn start_agent(&self, host: &Host) {
        self.stage.start(&host.name, self.noded(host)).unwrap();
    }

    /// Ends an agent as a crash would.
    pub fn kill_agent(&self, host: &Host) {
        self.stage.kill(&host.name);
    }

    /// Starts another daemon of this cluster; it ends by `end`, or with the cluster.
    pub fn start(&self, name: &str, command: Command) {
        self.stage.start(name, command).unwrap();
    }

    /// Ends a daemon by its name, as a crash would.
    pub fn kill(&self, name: &str) {
        self.stage.kill(name);
    }

    /// Ends a daemon by its name, as its service manager would.
    pub fn stop(&self, name: &str) {
        self.stage.stop(name);
    }

    /// The process of a daemon.
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.stage.pid(name)
    }

    /// The output of a daemon.
    pub fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir().join(format!("{name}.out"))).unwrap_or_default()
    }

    /// `gnt` with the words of a line.
    pub fn gnt_command(&self, line: &str) -> Command {
        self.gnt_command_on(&self.master, line)
    }

    /// `gnt` with the words of a line, on any machine.
    pub fn gnt_command_on(&self, host: &Host, line: &str) -> Command {
        let mut command = self.command("gnt");
        command.arg("--root").arg(&host.root).args(line.split_whitespace());
        command
    }

    /// Runs `gnt` with the words of a line.
    pub fn gnt(&self, line: &str) -> Ended {
        run(self.gnt_command(line))
    }

    /// Starts `gnt` with the words of a line.
    pub fn gnt_start(&self, line: &str) -> Running {
        start(self.gnt_command(line))
    }

    /// Submits a job by `gnt … --submit` and gives its number.
    pub fn submit(&self, line: &str) -> u64 {
        let ended = self.gnt(&format!("{line} --submit"));
        let _nothing_else = ended.ok();
        let told = ended.stderr.trim();
        let id = told.strip_prefix("JobID: ").and_then(|id| id.parse().ok());
        id.unwrap_or_else(|| panic!("no job number in {told:?}"))
    }

    /// A connection to the master.
    pub fn client(&self) -> Client {
        Client::connect(&self.master.layout().luxi_socket()).unwrap()
    }

    /// One job with these fields, as `gnt job list --json` gives it.
    pub fn job(&self, id: u64, fields: &str) -> Value {
        let rows = self.gnt(&format!("job list --archived --json -o {fields} {id}")).json();
        rows.get(0).unwrap_or_else(|| panic!("no job {id}: {rows}")).clone()
    }

    /// The status of a job.
    pub fn status(&self, id: u64) -> String {
        self.job(id, "status")["status"].as_str().unwrap().to_owned()
    }

    /// Waits until a job has a status.
    pub fn wait_for_status(&self, id: u64, status: &str) {
        wait_for(&format!("status {status} of job {id}"), PATIENCE, || {
            (self.status(id) == status).then_some(())
        });
    }

    /// Waits until the agent of a node has told its memory and disk.
    pub fn wait_for_facts(&self, node: &str) {
        wait_for(&format!("facts of {node}"), PATIENCE, || {
            let rows = self.gnt(&format!("node list --json -o name,mtotal {node}")).json();
            rows[0]["mtotal"].as_u64()
        });
    }

    /// The address at which the agent of a machine serves boot scripts.
    pub fn boot_address(&self, host: &Host) -> IpAddr {
        host.address.into()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stage.keep();
            eprintln!("what is left lies in `{}`", self.dir().display());
            let mut files = Vec::new();
            texts(&self.dir(), &mut files);
            for path in files {
                show_tail(&path);
            }
        }
        // Nothing here is worth the time of a clean end.
        for node in [MASTER, "n2.example", "n3.example"] {
            for daemon in [masterd_of(node), node.to_owned()] {
                self.stage.kill(&daemon);
            }
        }
    }
}

/// The name of a node's `masterd`.
fn masterd_of(node: &str) -> String {
    if node == MASTER { "masterd".to_owned() } else { format!("masterd-{node}") }
}

/// The logs and outputs below a directory.
fn texts(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            texts(&path, found);
        } else if path.extension().is_some_and(|end| end == "log" || end == "out") {
            found.push(path);
        }
    }
}

fn show_tail(path: &Path) {
    let text = std::fs::read(path).unwrap_or_default();
    let tail = text.get(text.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
    eprintln!("--- {}\n{}", path.display(), String::from_utf8_lossy(tail));
}
