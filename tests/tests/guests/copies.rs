//! Disks with a copy on a second node, by a whole cluster: a guest writes and counts while nodes are cut off
//! and processes die.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use stdx::process::Process;
use tests::cluster::{Host, MASTER, PATIENCE};
use tests::run::{run, wait_for};
use tests::wire::Wire;

use crate::instances::{BARE, Node, with};

const NAME: &str = "web1.example";
/// The guest writes its numbers to so many places, at this distance (`gantry.counts`).
const PLACES: u64 = 2_048;
const DISTANCE: u64 = 8 * 512;

/// A cluster of two nodes in a network of its own.
struct Pair {
    node: Node,
    second: Host,
    wire: Wire,
}

impl Pair {
    /// `None` where no guest runs.
    fn begin() -> Option<Self> {
        if let Some(why) = Wire::missing() {
            tests::skip("copies of disks", why);
            return None;
        }
        let wire = Wire::new();
        let node = Node::begin(Some(&wire))?;
        // Both listen at the same port, so neither may take all addresses.
        let (cluster, address) = (&node.cluster, node.cluster.master.address.to_string());
        cluster.kill_agent(&cluster.master);
        let mut noded = cluster.noded(&cluster.master);
        noded.args(["--rpc-address", &address, "--boot-address", &address]);
        noded.args(["--boot-alias-port", "0", "--dhcp-address", &address]);
        cluster.start(MASTER, noded);
        let second = node.cluster.host("n2");
        let pair = Self { node, second, wire };
        std::fs::create_dir_all(pair.disks()).unwrap();
        let list = pair.second.layout().file_storage_paths();
        let text = format!("{}\n", pair.node.cluster.dir().join("disks").display());
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        stdx::atomic::write(&list, text.as_bytes(), 0o644).unwrap();
        pair.join();
        Some(pair)
    }

    /// The disks of the second node, which sees them where the first one has its own.
    fn disks(&self) -> PathBuf {
        self.node.cluster.dir().join("n2-disks")
    }

    /// Adds the second node to the cluster.
    fn join(&self) {
        let (cluster, name) = (&self.node.cluster, &self.second.name);
        let mut noded = self.noded();
        noded.args(["enroll", "--name", name, "--address", &self.second.address.to_string()]);
        cluster.start(name, noded);
        let token = wait_for("a token", PATIENCE, || {
            let printed = cluster.printed(name);
            printed.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
        });
        cluster.gnt(&format!("node add {name} --secret {token}")).ok();
        cluster.wait_for_facts(name);
    }

    /// The agent of the second node.
    fn noded(&self) -> Command {
        let noded = self.node.cluster.noded(&self.second);
        let address = self.second.address.to_string();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\""]);
        command.arg(self.disks()).arg(self.node.cluster.dir().join("disks"));
        command.arg(noded.get_program()).args(noded.get_args());
        command.args(["--rpc-address", &address, "--boot-address", &address]);
        command.args(["--boot-alias-port", "0", "--dhcp-address", &address, "--dhcp-port", "6767"]);
        command
    }

    /// Runs `nft` where both nodes are.
    fn nft(&self, line: &str) {
        let mut nft = Command::new("nft");
        nft.args(line.split(' '));
        run(Wire::within(&self.wire.rack, &nft)).ok();
    }

    /// Cuts the second node off, or lets it in again.
    fn cut(&self, off: bool) {
        if !off {
            return self.nft("delete table inet cut");
        }
        self.nft("add table inet cut");
        self.nft("add chain inet cut ways { type filter hook output priority 0 ; }");
        for way in ["daddr", "saddr"] {
            self.nft(&format!("add rule inet cut ways ip {way} {} drop", self.second.address));
        }
    }

    /// The last number of which the guest was told that it is written.
    fn wrote(&self) -> u64 {
        let console = self.node.console(NAME);
        let last =
            console.rsplit("GUEST wrote ").next().filter(|_| console.contains("GUEST wrote "));
        last.and_then(|last| last.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    }

    /// Waits until the guest has written so much more.
    fn goes_on(&self, by: u64) {
        let from = self.wrote();
        wait_for("a guest that writes", PATIENCE, || (self.wrote() >= from + by).then_some(()));
    }

    /// The file of its disk on each of the two nodes.
    fn files(&self) -> [PathBuf; 2] {
        let uuid = self.node.fields(NAME, "disk.uuid/0");
        let below = format!("file/{NAME}/{uuid}");
        [self.node.cluster.dir().join("disks").join(&below), self.disks().join(below)]
    }

    /// The processes that serve copies on the second node.
    fn serving(&self) -> Vec<Process> {
        let served = self.second.layout().instances().join("served");
        let records = std::fs::read_dir(served).into_iter().flatten().flatten();
        let process = |record: &Path| {
            let record: Value = serde_json::from_slice(&std::fs::read(record).ok()?).ok()?;
            let pid = record.pointer("/serving/by/process/pid")?.as_u64()?;
            Process::of(u32::try_from(pid).ok()?)
        };
        records.filter_map(|entry| process(&entry.path())).collect()
    }

    fn wait_for_stale(&self, wanted: &str) {
        self.node.wait_for(NAME, "stale_copies", wanted);
    }
}

impl Drop for Pair {
    /// A process that serves copies outlives its agent, and is not to outlive the test.
    fn drop(&mut self) {
        self.node.cluster.kill_agent(&self.second);
        self.serving().iter().for_each(|process| drop(process.kill()));
    }
}

/// Whether a file has the number that the guest wrote.
fn has(file: &PathBuf, count: u64) -> bool {
    let mut sector = [0; 512];
    File::open(file).unwrap().read_exact_at(&mut sector, count % PLACES * DISTANCE).unwrap();
    String::from_utf8_lossy(&sector).trim_end_matches(['\n', ' ', '\0']) == format!("COUNT {count}")
}

#[test]
fn a_guest_keeps_every_write_on_two_nodes() {
    let Some(pair) = Pair::begin() else { return };
    let (node, cluster) = (&pair.node, &pair.node.cluster);
    let counts = "-H kvm:kernel_args=gantry.counts";
    let line = format!(
        "instance add -t mirror --disk 0:size=64M --ignore-ipolicy -B memory=256M --no-name-check \
         --no-ip-check -n {MASTER}:{} {BARE} {counts} {NAME}",
        pair.second.name
    );
    cluster.gnt(&line).ok();
    pair.goes_on(5);
    assert_eq!(node.fields(NAME, "snodes"), format!("['{}']", pair.second.name));
    assert_eq!(node.fields(NAME, "stale_copies"), "[]");
    let [own, other] = pair.files();
    let count = pair.wrote();
    assert!(has(&own, count) && has(&other, count), "{count}");
    // Its node is cut off: the guest stands still for a moment, and goes on.
    pair.cut(true);
    let begun = Instant::now();
    pair.wait_for_stale(&format!("['disk/0@{}']", pair.second.name));
    pair.goes_on(5);
    println!("a copy that hangs is let go within {:.1?}", begun.elapsed());
    let info = cluster.gnt(&format!("instance info {NAME}"));
    assert!(info.ok().contains(&format!("copy on {}: stale since", pair.second.name)), "{info:?}");
    assert!(!has(&other, pair.wrote()));
    pair.cut(false);
    pair.wait_for_stale("[]");
    pair.goes_on(5);
    let count = pair.wrote();
    assert!(has(&other, count), "{count}");
    // Its process is killed: the other copy has all that was told to the guest.
    cluster.gnt("cluster watcher pause 1h").ok();
    Process::of(node.process(NAME)).unwrap().kill().unwrap();
    node.wait_for(NAME, "status", "ERROR_down");
    let count = pair.wrote();
    assert!(has(&own, count) && has(&other, count), "{count}");
    cluster.gnt("cluster watcher continue").ok();
    node.wait_for(NAME, "status", "running");
    pair.wait_for_stale("[]");
    cluster.gnt(&format!("instance shutdown --timeout 0 {NAME}")).ok();
    assert_eq!(std::fs::read(&own).unwrap(), std::fs::read(&other).unwrap());
    cluster.gnt(&format!("instance startup {NAME}")).ok();
    assert_eq!(node.fields(NAME, "stale_copies"), "[]", "it ended well");
    cluster.gnt(&format!("instance remove -f --shutdown-timeout 0 {NAME}")).ok();
    assert!(!own.exists() && !other.exists());
}

#[test]
fn a_copy_whose_process_dies_is_let_go_at_once() {
    let Some(pair) = Pair::begin() else { return };
    let line = format!(
        "instance add -t mirror --disk 0:size=64M --ignore-ipolicy -B memory=256M --no-name-check \
         --no-ip-check -n {MASTER}:{} {BARE} {NAME}",
        pair.second.name
    );
    let add = pair.node.cluster.gnt_command(&line);
    run(with(add, &["-H", "kvm:kernel_args=gantry.counts"])).ok();
    pair.goes_on(5);
    for _ in 0..tests::tries(1, 20) {
        let serving = pair.serving();
        assert_eq!(serving.len(), 1);
        serving.iter().for_each(|process| process.kill().unwrap());
        pair.goes_on(5);
        pair.wait_for_stale("[]");
    }
    let [own, other] = pair.files();
    pair.node.cluster.gnt(&format!("instance shutdown --timeout 0 {NAME}")).ok();
    assert_eq!(std::fs::read(&own).unwrap(), std::fs::read(&other).unwrap());
}
