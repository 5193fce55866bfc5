//! A cluster of several nodes on loopback addresses of their own, all of which can be master.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use luxi::client::Client;
use luxi::method::GantryMasterFailover;
use model::layout::PEER_PORT;
use model::role_check::{RoleCheck, RoleRequest, RoleTaken};

use super::{Cluster, ClusterError, SOON};
use crate::bench::Setting;
use crate::programs::{self, Profile, Programs};
use crate::stage::Stage;

/// First numbers of their addresses: those of the tests begin below.
const NETWORK: u8 = 240;
/// The port on which the daemons serve metrics.
const METRICS_PORT: u16 = 1_815;
/// A port for DHCP that needs no privilege.
const DHCP_PORT: u16 = 10_067;

/// Nodes that can be master, the first of which is it; each with an agent.
#[derive(Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    name: String,
    address: Ipv4Addr,
    cluster: Cluster,
}

/// Which of two clusters that may be there at the same time: each has addresses of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first, or the only one.
    One,
    /// The one beside it.
    Other,
}

/// An address that no other run of the bench has.
fn address(which: Which, number: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let high = if which == Which::One { high } else { high ^ 0x80 };
    Ipv4Addr::new(127, NETWORK + number, high, low)
}

impl Nodes {
    /// Builds the programs, begins a cluster, and waits until all of its `count` nodes vote; at most
    /// ten, which have addresses.
    ///
    /// # Errors
    /// Any of it failed.
    pub fn start(setting: &Setting, which: Which, count: u8) -> Result<Self, ClusterError> {
        let programs =
            Programs::build(Profile::Release, programs::NODE)?.with_disk(setting.own_disk.clone());
        let stage = Stage::new(&setting.dir)?;
        let node = |number: u8| {
            let (name, address) = (format!("n{number}.example"), address(which, number));
            let at = |port| SocketAddr::from((address, port)).to_string();
            let options = ["--peers", &at(PEER_PORT), "--metrics", &at(METRICS_PORT)];
            let cluster = Cluster {
                stage: stage.clone(),
                programs: programs.clone(),
                daemon: format!("masterd-{name}"),
                root: stage.root().join(format!("n{number}")),
                options: options.map(str::to_owned).to_vec(),
            };
            Node { name, address, cluster }
        };
        let nodes = Self { nodes: (1..=count).map(node).collect() };
        nodes.begin()?;
        Ok(nodes)
    }

    fn begin(&self) -> Result<(), ClusterError> {
        let [first, others @ ..] = self.nodes.as_slice() else { return Ok(()) };
        std::fs::create_dir(&first.cluster.root)?;
        let mut init = first.command("masterd");
        init.args(["init", "bench.example", "--node-name", &first.name]);
        init.args(["--primary-ip", &first.address.to_string()]);
        let init = init.output()?;
        if !init.status.success() {
            return Err(ClusterError::Init(String::from_utf8_lossy(&init.stderr).into_owned()));
        }
        first.cluster.serve()?;
        first.start_agent(&[])?;
        for node in others {
            std::fs::create_dir(&node.cluster.root)?;
            node.join(first)?;
        }
        for node in others {
            let follows = || node.cluster.follows(&first.name);
            first.cluster.stage.wait_until("a standby", SOON, follows)?;
        }
        if others.is_empty() { Ok(()) } else { self.wait_for_voters(1) }
    }

    /// Ends all of them; their files stay until they are dropped.
    pub fn end(&self) {
        self.node(0).stage.end_daemons();
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// One of them, counted from zero.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn node(&self, at: usize) -> &Cluster {
        &self.nodes[at].cluster
    }

    /// Those behind the first one.
    pub fn standbys(&self) -> Vec<&Cluster> {
        self.nodes.iter().skip(1).map(|node| &node.cluster).collect()
    }

    /// Processor time that all their `masterd`s have used.
    ///
    /// # Errors
    /// One of them does not run.
    pub fn cpu_seconds(&self) -> std::io::Result<f64> {
        self.nodes.iter().map(|node| node.cluster.cpu_seconds()).sum()
    }

    /// Asks a node to take the role; it answers when it has.
    ///
    /// # Errors
    /// It does not take it, and says why.
    pub fn fail_over_to(&self, at: usize) -> Result<(), ClusterError> {
        let taken = self.ask(at, RoleRequest::default())?;
        let told = || taken.check.iter().flat_map(RoleCheck::lines).collect::<Vec<_>>().join("\n");
        match taken.done {
            true => Ok(()),
            false => Err(ClusterError::Failover(format!("{}\n{}", taken.message, told()))),
        }
    }

    /// Asks everyone in the name of a standby.
    ///
    /// # Errors
    /// It does not answer.
    pub fn check(&self, at: usize) -> Result<RoleCheck, ClusterError> {
        let taken = self.ask(at, RoleRequest { dry_run: true, ..RoleRequest::default() })?;
        taken.check.ok_or(ClusterError::Failover(taken.message))
    }

    fn ask(&self, at: usize, request: RoleRequest) -> Result<RoleTaken, ClusterError> {
        let mut client = Client::connect(&self.node(at).socket())?;
        Ok(client.call(&GantryMasterFailover { to: None, request })?)
    }

    /// Number of the last entry in each node's log, by what they tell a standby; none of one that
    /// does not answer.
    ///
    /// # Errors
    /// The standby does not answer.
    pub fn positions(&self, standby: usize) -> Result<Vec<Option<u64>>, ClusterError> {
        let check = self.check(standby)?;
        let position = |node: &Node| {
            let row = check.rows.iter().find(|row| row.node.as_str() == node.name)?;
            row.position.as_deref()?.rsplit('/').next()?.parse().ok()
        };
        Ok(self.nodes.iter().map(position).collect())
    }

    /// Waits until all vote and answer, by the word of a standby.
    ///
    /// # Errors
    /// That does not come to be.
    pub fn wait_for_voters(&self, standby: usize) -> Result<(), ClusterError> {
        let all = format!("{0} of {0}", self.count());
        let vote = || self.check(standby).is_ok_and(|check| check.voters == all);
        Ok(self.node(0).stage.wait_until("everybody's vote", SOON, vote)?)
    }

    /// Waits until every node's files are what is committed.
    ///
    /// # Errors
    /// That does not come to be.
    pub fn wait_for_files(&self) -> Result<(), ClusterError> {
        self.nodes.iter().try_for_each(|node| node.cluster.wait_for_files(0))
    }

    /// Sum, in seconds, and number of the commits that a node made as master.
    ///
    /// # Errors
    /// It does not serve its metrics.
    pub fn commits(&self, at: usize) -> Result<(f64, f64), ClusterError> {
        commits(self.nodes[at].address)
    }
}

/// Sum, in seconds, and number of the commits of the daemon that serves metrics at an address.
fn commits(address: Ipv4Addr) -> Result<(f64, f64), ClusterError> {
    let mut stream = TcpStream::connect((address, METRICS_PORT))?;
    let host = format!("Host: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("GET /metrics HTTP/1.1\r\n{host}").as_bytes())?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let number = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = line.and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| ClusterError::Client(format!("no {name} in its metrics")))
    };
    Ok((number("gantry_commit_seconds_sum")?, number("gantry_commit_seconds_count")?))
}

impl Cluster {
    /// As [`Cluster::start`], with metrics; gives where they are.
    ///
    /// # Errors
    /// Any of it failed.
    pub fn start_measured(setting: &Setting) -> Result<(Self, Alone), ClusterError> {
        let mut cluster = Self::start(setting)?;
        let address = address(Which::One, 0);
        let at = SocketAddr::from((address, METRICS_PORT)).to_string();
        cluster.options = vec!["--metrics".to_owned(), at];
        cluster.restart()?;
        Ok((cluster, Alone { address }))
    }
}

/// A master that is alone.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    address: Ipv4Addr,
}

impl Alone {
    /// As [`Nodes::commits`].
    ///
    /// # Errors
    /// It does not serve its metrics.
    pub fn commits(self) -> Result<(f64, f64), ClusterError> {
        commits(self.address)
    }
}

impl Node {
    fn command(&self, program: &str) -> Command {
        let mut command = self.cluster.programs.command(program);
        command.arg("--root").arg(&self.cluster.root);
        command
    }

    fn start_agent(&self, arguments: &[&str]) -> Result<(), ClusterError> {
        let mut noded = self.command("noded");
        let (address, port) = (self.address.to_string(), DHCP_PORT.to_string());
        noded.args(["--rpc-address", &address, "--boot-address", &address]);
        noded.args(["--boot-alias-port", "0", "--dhcp-address", &address, "--dhcp-port", &port]);
        noded.args(arguments);
        Ok(self.cluster.stage.start(&self.name, noded)?)
    }

    /// Becomes a node of the master's cluster, and a candidate.
    fn join(&self, master: &Self) -> Result<(), ClusterError> {
        let address = self.address.to_string();
        self.start_agent(&["enroll", "--name", &self.name, "--address", &address])?;
        let stage = &self.cluster.stage;
        let printed = stage.root().join(format!("{}.out", self.name));
        stage.wait_until("a token", SOON, || token(&printed).is_some())?;
        let token = token(&printed).unwrap_or_default();
        master.cluster.gnt(&["node", "add", &self.name, "--secret", &token])?;
        self.cluster.launch()
    }
}

fn token(printed: &Path) -> Option<String> {
    let text = std::fs::read_to_string(printed).ok()?;
    text.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
}
