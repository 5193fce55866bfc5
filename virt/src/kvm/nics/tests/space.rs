//! A network namespace for each test, with guests that are no more than the ends of their cards.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Card;

/// Longer than any frame or program takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test in a network namespace of its own, in which nothing says anything by itself.
pub(super) fn in_namespace(test: impl AsyncFnOnce()) {
    use nix::sched::{CloneFlags, unshare};
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root makes network namespaces");
        return;
    }
    for program in ["ip", "nft"] {
        if Command::new(program).arg("-V").output().is_err() {
            println!("skipped: {program} is not installed");
            return;
        }
    }
    // The namespace is this thread's, and of what it starts.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let quiet = "echo 1 >/proc/sys/net/ipv6/conf/default/router_solicitations
        echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad";
    out("sh", &["-c", quiet]);
    ip("link set lo up");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test());
}

pub(super) fn out(program: &str, words: &[&str]) -> String {
    let out = Command::new(program).args(words).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {words:?}: {error}");
    String::from_utf8(out.stdout).unwrap()
}

pub(super) fn ip(words: &str) -> String {
    out("ip", &words.split_whitespace().collect::<Vec<_>>())
}

pub(super) fn nft(words: &str) -> String {
    out("nft", &words.split_whitespace().collect::<Vec<_>>())
}

/// Waits until a bridge takes the frames of its port: the kernel sees to that in its own time.
pub(super) fn forwards(port: &str) {
    let until = Instant::now() + PATIENCE;
    while !ip(&format!("-d link show {port}")).contains("state forwarding") {
        assert!(Instant::now() < until, "no frame of {port} is taken");
    }
}

/// The guest's end of a card.
pub(super) struct Guest(File);

impl Guest {
    pub(super) fn of(card: &mut Card) -> Self {
        Self(card.queue().unwrap().into())
    }

    pub(super) fn send(&self, frame: &[u8]) {
        let sent = (&self.0).write(frame).unwrap();
        assert_eq!(sent, frame.len());
    }

    /// The next frame for the guest.
    pub(super) fn next(&self) -> Vec<u8> {
        let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).unwrap();
        assert_ne!(poll(&mut waiting, patience).unwrap(), 0, "no frame arrives");
        let mut bytes = vec![0; 2_048];
        let read = (&self.0).read(&mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    }

    pub(super) fn find(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        loop {
            let frame = self.next();
            if wanted(&frame) {
                return frame;
            }
        }
    }
}

/// Kills the process of a guest, by the number that its record has.
pub(super) fn kill_qemu(records: &Path, uuid: model::Uuid) {
    let record = std::fs::read(records.join(format!("{uuid}.json"))).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let process: stdx::process::Process =
        serde_json::from_value(record["process"].clone()).unwrap();
    process.kill().unwrap();
}

/// An Open vSwitch in userspace, in the namespace of the test.
pub(super) struct Switch {
    directory: tempfile::TempDir,
    children: Vec<Child>,
}

impl Switch {
    /// One with the bridge `br0`; none where its programs are not there.
    pub(super) fn begin() -> Option<Self> {
        if Command::new("ovs-vswitchd").arg("--version").output().is_err() {
            println!("skipped: Open vSwitch is not installed");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut switch = Self { directory, children: Vec::new() };
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        switch.run("ovsdb-tool", &["create", "conf.db", schema]);
        let remote = format!("--remote=punix:{}/db.sock", switch.directory().display());
        switch.start("ovsdb-server", &["conf.db", &remote, "--unixctl=db.ctl"]);
        let socket = switch.directory().join("db.sock");
        let until = Instant::now() + PATIENCE;
        while !socket.exists() {
            assert!(Instant::now() < until, "the database does not begin");
            std::thread::yield_now();
        }
        switch.vsctl(&["--no-wait", "init"]);
        switch.start("ovs-vswitchd", &["--unixctl=switch.ctl"]);
        let userspace = ["--", "set", "bridge", "br0", "datapath_type=netdev"];
        switch.vsctl(&[&["add-br", "br0"][..], &userspace].concat());
        Some(switch)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.directory());
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.directory());
        }
        command
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let out = self.command(program, words).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{program} {words:?}: {error}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn start(&mut self, program: &str, words: &[&str]) {
        let mut command = self.command(program, words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().unwrap());
    }

    pub(super) fn vsctl(&self, words: &[&str]) -> String {
        self.run("ovs-vsctl", &[&["--timeout=20"], words].concat())
    }

    /// The VLANs of a port: its tag, its trunks and its mode.
    pub(super) fn port(&self, name: &str) -> String {
        let told = self.vsctl(&["get", "Port", name, "tag", "trunks", "vlan_mode"]);
        told.replace('\n', " ")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
