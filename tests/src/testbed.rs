//! Three nodes that meet real trouble. Each has a network namespace and a file system of its own. Its
//! link, its disk and its power can fail while the others go on.
//!
//! The network is [`lan`], the processes on it are [`daemons`]. Busy [`clients`] note all answers, and
//! [`reckoning`] compares them with the state of the cluster. Faults of nodes are [`trouble`]; [`scene`]
//! has all of it together. A testbed stands in a [`crate::sealed`] process only.

pub mod clients;
pub mod daemons;
pub mod lan;
pub mod reckoning;
pub mod scene;
pub mod trouble;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use luxi::Client;
use model::cluster_status::{CandidateState, ClusterStatus, ProcessState};
use model::layout::PEER_PORT;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::candidates::{self, status};
use crate::cluster::{Host, PATIENCE};
use crate::inspect::documents;
use crate::loop_fs::{Kind, LoopFs};
use crate::place;
use crate::run::{Ended, pass, run, wait_for};
use crate::sealed;
use daemons::Daemons;
use lan::Lan;

/// Nodes of a yard: the least of which any can be lost.
pub const NODES: usize = 3;
/// Longest that a healed cluster takes until all is well: the watcher looks every half minute, and
/// tells what it saw for a minute.
pub const SETTLED_WITHIN: Duration = Duration::from_secs(240);
/// How often a cluster that is to settle is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// MiB of a journal segment: small ones are soon used again.
const SEGMENT_MIB: &str = "4";
/// How long a file system may be busy that nobody works on.
const UMOUNT_WITHIN: Duration = Duration::from_secs(20);
/// The file that takes all room of a disk.
const BALLAST: &str = "ballast";

/// How often a disk is filled: what a full one gives back once is not given back again.
const FILL_PASSES: usize = 3;
/// The log filter of an agent, with every call that is for a job.
const AGENT_LOG: &str = "info,noded::agent=debug";

/// A node: its directories lie on its disk.
#[derive(Debug)]
pub struct Site {
    /// Name, address and root.
    pub host: Host,
    disk: LoopFs,
}

/// Three nodes.
#[derive(Debug)]
pub struct Testbed {
    /// The daemons; they end before their disks do.
    pub daemons: Daemons,
    /// The network.
    pub lan: Lan,
    /// The nodes, in the order of their numbers.
    pub sites: Vec<Site>,
    dir: TempDir,
}

impl Testbed {
    /// A cluster of three candidates that vote; the first one is master.
    ///
    /// # Panics
    /// If it does not come to be.
    pub fn begin() -> Self {
        let testbed = Self::new();
        testbed.init();
        for node in 1..NODES {
            testbed.enrol(node);
            testbed.start_masterd(node);
        }
        let settled = testbed.settle(SETTLED_WITHIN);
        assert_eq!(settled, Ok(0));
        testbed
    }

    /// A cluster whose master is the only candidate; node 1 is a regular node that could be another.
    ///
    /// # Panics
    /// If it does not come to be.
    pub fn begin_alone() -> Self {
        let testbed = Self::new();
        testbed.init();
        let _set = testbed.gnt(0, "cluster modify --candidate-pool-size 1").ok();
        testbed.enrol(1);
        testbed.start_masterd(1);
        testbed
    }

    fn new() -> Self {
        let dir = tempfile::tempdir_in(sealed::MEMORY).unwrap();
        let lan = Lan::new(NODES);
        let sites = (0..NODES).map(site).collect();
        Self { daemons: Daemons::new(dir.path()), lan, sites, dir }
    }

    fn init(&self) {
        let site = &self.sites[0];
        let name = &site.host.name;
        let address = site.host.address;
        let line = format!(
            "cluster init demo.example --node-name {name} --primary-ip {address} \
             --journal-segment {SEGMENT_MIB}"
        );
        let _begun = self.gnt(0, &line).ok();
        self.start_masterd(0);
        self.start_noded(0);
        self.wait_for_facts(0);
        let (address, prefix) = (lan::MASTER_ADDRESS, lan::PREFIX);
        let line = format!(
            "cluster modify --master-ip {address} --master-netdev {} --master-netmask {prefix}",
            lan::INTERFACE
        );
        let _set = self.gnt(0, &line).ok();
    }

    /// Makes a machine a node, by the master on node 0.
    fn enrol(&self, node: usize) {
        let _added = self.add(0, node, "");
        self.wait_for_facts(node);
    }

    /// Starts the agent of a machine that has no certificate, and has `gnt node add` on the master give
    /// it one.
    ///
    /// # Panics
    /// If it gets none.
    pub fn add(&self, master: usize, node: usize, how: &str) -> Ended {
        let host = &self.sites[node].host;
        let mut noded = self.noded(node);
        noded.args(["enroll", "--name", &host.name, "--address", &host.address.to_string()]);
        let said = || std::fs::read_to_string(self.daemons.said(&noded_of(node))).ok();
        // Output of an earlier life counts no more.
        let before = said().map_or(0, |said| said.len());
        self.daemons.start(&noded_of(node), self.lan.on(node, &noded));
        let token = wait_for("a token", PATIENCE, || {
            let said = said()?;
            let mut fresh = said.get(before..)?.lines();
            fresh.find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
        });
        let ended = self.gnt(master, &format!("node add {how} {} --secret {token}", host.name));
        let _said = ended.ok();
        ended
    }

    fn wait_for_facts(&self, node: usize) {
        let name = &self.sites[node].host.name;
        wait_for(&format!("facts of {name}"), PATIENCE, || {
            let rows = self.gnt(0, &format!("node list --json -o name,mtotal {name}")).json();
            rows[0]["mtotal"].as_u64()
        });
    }

    fn noded(&self, node: usize) -> Command {
        let mut noded = place::programs().command("noded");
        noded.arg("--root").arg(&self.sites[node].host.root);
        // Words that lie on the node's disk would be lost with it.
        noded.args(["--log-stderr", "--log-filter", AGENT_LOG]);
        noded
    }

    /// Starts the agent of a node.
    pub fn start_noded(&self, node: usize) {
        let noded = self.noded(node);
        self.daemons.start(&noded_of(node), self.lan.on(node, &noded));
    }

    /// Starts the `masterd` of a node, and waits until it listens.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_masterd(&self, node: usize) {
        let host = &self.sites[node].host;
        let mut masterd = place::programs().command("masterd");
        masterd.arg("--root").arg(&host.root).arg("--log-stderr");
        masterd.args(["--journal-segment", SEGMENT_MIB]);
        masterd.arg("--peers").arg(format!("{}:{PEER_PORT}", host.address));
        self.daemons.start(&masterd_of(node), self.lan.on(node, &masterd));
        wait_for(&format!("masterd of {}", host.name), PATIENCE, || {
            Client::connect(&host.layout().luxi_socket()).ok()
        });
    }

    /// Whether the `masterd` of a node runs.
    pub fn runs_masterd(&self, node: usize) -> bool {
        self.daemons.is_running(&masterd_of(node))
    }

    /// Starts whatever of a node does not run.
    pub fn start(&self, node: usize) {
        if !self.daemons.is_running(&noded_of(node)) {
            let _how = self.daemons.take_ended(&noded_of(node));
            self.start_noded(node);
        }
        if !self.daemons.is_running(&masterd_of(node)) {
            let _how = self.daemons.take_ended(&masterd_of(node));
            self.start_masterd(node);
        }
    }

    /// Ends both daemons of a node as a crash would.
    pub fn kill(&self, node: usize) {
        self.daemons.kill(&masterd_of(node));
        self.daemons.kill(&noded_of(node));
    }

    /// Sends both daemons of a node a signal.
    pub fn signal(&self, node: usize, signal: Signal) {
        self.daemons.signal(&masterd_of(node), signal);
        self.daemons.signal(&noded_of(node), signal);
    }

    /// Runs `gnt` with the words of a line on a node.
    pub fn gnt(&self, node: usize, line: &str) -> Ended {
        let mut gnt = place::programs().command("gnt");
        gnt.env_remove("GANTRY_ROOT").arg("--root").arg(&self.sites[node].host.root);
        gnt.args(line.split_whitespace());
        run(gnt)
    }

    /// Takes all room of a node's disk.
    ///
    /// # Panics
    /// If it cannot be taken.
    pub fn fill(&self, node: usize) {
        let ballast = self.sites[node].disk.path().join(BALLAST);
        let file = File::options().write(true).create(true).truncate(false).open(ballast).unwrap();
        let mut taken = file.metadata().unwrap().len();
        // In smaller and smaller pieces; and again, since a file system that set room aside for files
        // that grow gives it back when it is full.
        for mut piece in [64 << 20_u64; FILL_PASSES] {
            while piece >= 4_096 {
                let mode = rustix::fs::FallocateFlags::empty();
                match rustix::fs::fallocate(&file, mode, taken, piece) {
                    Ok(()) => taken += piece,
                    Err(_full) => piece /= 2,
                }
            }
        }
    }

    /// The end of [`Testbed::fill`].
    pub fn make_room(&self, node: usize) {
        let place = self.sites[node].disk.path();
        // There is none after a power cut soon enough; and one soon behind must not bring it back.
        if std::fs::remove_file(place.join(BALLAST)).is_ok() {
            File::open(place).unwrap().sync_all().unwrap();
        }
    }

    /// Cuts a node's power: its daemons end, and its disk holds what was flushed.
    pub fn cut_power(&self, node: usize) {
        self.lose_what_is_not_written(node);
        self.kill(node);
    }

    /// Ends the file system of a node, whose daemons have yet to notice.
    pub fn lose_what_is_not_written(&self, node: usize) {
        self.sites[node].disk.switch().cut();
    }

    /// The mount point of a node's disk.
    pub fn mounted(&self, node: usize) -> PathBuf {
        self.sites[node].disk.path()
    }

    /// Mounts the disk of a node whose power was cut.
    ///
    /// # Panics
    /// If it stays busy.
    pub fn boot(&self, node: usize) {
        let disk = &self.sites[node].disk;
        wait_for("the end of the disk's last user", UMOUNT_WITHIN, || disk.try_come_back().ok());
    }

    /// The short name of a node.
    pub fn name(&self, node: usize) -> &str {
        self.sites[node].host.name.trim_end_matches(".example")
    }

    /// Whether a node answers as the master.
    pub fn is_master(&self, node: usize) -> bool {
        candidates::is_master(&self.sites[node].host)
    }

    /// Waits until all is well: one master, which everyone follows and which has the address, three
    /// votes, nobody behind, no alarm. Gives the master.
    ///
    /// # Errors
    /// The faults that remain at the end of `limit`.
    pub fn settle(&self, limit: Duration) -> Result<usize, String> {
        self.settle_as(limit, || self.is_well())
    }

    fn settle_as(
        &self,
        limit: Duration,
        look: impl Fn() -> Result<usize, String>,
    ) -> Result<usize, String> {
        let begun = Instant::now();
        loop {
            match look() {
                Ok(master) => return Ok(master),
                Err(why) if begun.elapsed() > limit => {
                    return Err(format!("not well after {} s: {why}", limit.as_secs()));
                }
                Err(_not_yet) => pass(LOOK_EVERY),
            }
        }
    }

    fn is_well(&self) -> Result<usize, String> {
        let told: Vec<Option<ClusterStatus>> =
            self.sites.iter().map(|site| status(&site.host)).collect();
        let master = told.iter().position(|told| is_state(told.as_ref(), ProcessState::Master));
        let master = master.ok_or("nobody is master")?;
        for (node, told) in told.iter().enumerate() {
            let name = &self.sites[node].host.name;
            let told = told.as_ref().ok_or_else(|| format!("{name} does not answer"))?;
            well_on(told, node == master, &self.sites[master].host.name)?;
            if self.lan.has_master_address(node) != (node == master) {
                return Err(format!("{name} has the master's address, or has it not"));
            }
        }
        Ok(master)
    }

    /// Waits until all is well and all nodes hold the same; gives the master. While clients are at
    /// work there is no such moment, once there are many documents.
    ///
    /// # Errors
    /// The faults, or the differences, after `limit`.
    pub fn settle_alike(&self, limit: Duration) -> Result<usize, String> {
        self.settle_as(limit, || self.is_well().and_then(|master| self.is_alike().map(|()| master)))
    }

    fn is_alike(&self) -> Result<(), String> {
        let first = documents(&self.sites[0].host);
        for site in &self.sites[1..] {
            let other = documents(&site.host);
            if other != first {
                let differs = |key: &&String| first.get(*key) != other.get(*key);
                let key = first.keys().chain(other.keys()).find(differs);
                return Err(format!("{} has another {key:?}", site.host.name));
            }
        }
        Ok(())
    }

    /// Keeps logs and stores for the search for the cause of a finding.
    pub fn keep(&self, place: &Path) {
        let copy = |from: &Path, to: PathBuf| {
            // A copy that fails is left out.
            drop(run(copy_command(from, &to)));
        };
        drop(std::fs::create_dir_all(place));
        copy(self.dir.path(), place.join("logs"));
        for site in &self.sites {
            copy(&site.host.layout().data(), place.join(&site.host.name));
        }
    }

    /// The directory of the logs.
    pub fn logs(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let place = std::env::temp_dir().join(format!("gantry-yard-{}", stamp()));
            self.keep(&place);
            eprintln!("what is left lies in `{}`", place.display());
        }
    }
}

/// A word that names this moment.
pub fn stamp() -> i64 {
    stdx::Clock::system().now_micros()
}

fn copy_command(from: &Path, to: &Path) -> Command {
    let mut command = Command::new("cp");
    command.arg("--recursive").arg("--no-target-directory").arg(from).arg(to);
    command
}

fn is_state(told: Option<&ClusterStatus>, state: ProcessState) -> bool {
    told.is_some_and(|told| told.state == state)
}

/// Whether one node tells that all is well.
fn well_on(told: &ClusterStatus, is_master: bool, master: &str) -> Result<(), String> {
    let name = &told.node;
    let state = if is_master { ProcessState::Master } else { ProcessState::Standby };
    if told.state != state {
        return Err(format!("{name} is {:?}", told.state));
    }
    let known = told.master.as_ref().map(|known| known.node.as_str());
    if known != Some(master) {
        return Err(format!("{name} takes {known:?} for the master"));
    }
    if let Some(alarm) = told.alarms.first() {
        return Err(format!("{name} has the alarm {alarm:?}"));
    }
    if !is_master {
        return Ok(());
    }
    let quorum = told.quorum.as_ref().ok_or("no word of the quorum")?;
    if quorum.voters.len() != NODES || quorum.heard != Some(NODES) {
        return Err(format!("{name} hears {:?} of {:?}", quorum.heard, quorum.voters));
    }
    let follows = |one: &&model::cluster_status::CandidateStatus| {
        one.state == CandidateState::Voter && !one.unreachable && one.behind == Some(0)
    };
    match told.candidates.iter().find(|one| !follows(one)) {
        Some(one) => Err(format!("{} does not follow: {one:?}", one.node)),
        None => Ok(()),
    }
}

fn site(node: usize) -> Site {
    let kind = if node + 1 == NODES { Kind::Xfs } else { Kind::Ext4 };
    let disk = LoopFs::make(kind).or_else(|_no_such| LoopFs::make(Kind::Ext4)).unwrap();
    let host = Host {
        name: format!("n{}.example", node + 1),
        address: lan::address(node),
        root: disk.path().join("root"),
    };
    std::fs::create_dir(&host.root).unwrap();
    Site { host, disk }
}

/// The name of a node's `masterd` among the daemons.
pub fn masterd_of(node: usize) -> String {
    format!("masterd-{}", node + 1)
}

/// The name of a node's agent.
pub fn noded_of(node: usize) -> String {
    format!("noded-{}", node + 1)
}
