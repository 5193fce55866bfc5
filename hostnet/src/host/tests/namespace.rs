//! A network namespace of its own for each test.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stdx::{Clock, Tasks};

use crate::from_yaml;
use crate::host::{Host, HostError};
use crate::model::HostNetwork;
use crate::plan::Plan;
use crate::plan::step::Step;

/// Longer than any test.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// Runs a test in a network namespace of its own with two cards, `card0` and `card1`, whose other ends
/// are up.
pub(super) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    use nix::sched::{CloneFlags, unshare};
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root makes network namespaces");
        return;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        println!("skipped: ip is not installed");
        return;
    }
    // The namespace is this thread's, and of what it starts.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    // Addresses are usable at once, and tell of nothing later.
    let quiet = "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad";
    assert!(Command::new("sh").args(["-c", quiet]).status().unwrap().success());
    ip("link set lo up");
    for number in [0, 1] {
        ip(&format!("link add card{number} type veth peer name far{number}"));
        ip(&format!("link set far{number} up"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test());
}

pub(super) fn ip(arguments: &str) -> String {
    let out = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "ip {arguments}: {error}");
    String::from_utf8(out.stdout).unwrap()
}

/// Operations on a host that read its network first.
impl Host {
    pub(super) async fn planned(&self, desired: &HostNetwork) -> Result<Plan, HostError> {
        self.plan(&self.read().await?, desired).await
    }

    pub(super) async fn change(
        &mut self,
        desired: &HostNetwork,
        time: Duration,
    ) -> Result<Plan, HostError> {
        let reading = self.read().await?;
        self.apply(reading, desired, time).await
    }

    /// A change that stops where `goes_on` says so.
    pub(super) async fn interrupted(
        &mut self,
        desired: &HostNetwork,
        goes_on: &mut (dyn FnMut(&Step) -> bool + Send),
    ) -> Result<Plan, HostError> {
        let reading = self.read().await?;
        self.attempt(reading, desired, LONG, goes_on).await
    }
}

/// A host with a directory and a clock of its own.
pub(super) struct Fixture {
    pub(super) directory: tempfile::TempDir,
    pub(super) clock: Clock,
    pub(super) tasks: Tasks,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let clock = Clock::manual(1_000_000);
        Self { directory: tempfile::tempdir().unwrap(), clock, tasks: Tasks::new() }
    }

    pub(super) fn open(&self) -> Host {
        open(&self.tasks, self.directory.path(), &self.clock)
    }
}

pub(super) fn own(text: &str) -> HostNetwork {
    from_yaml(text).unwrap()
}

/// Opens a host. A test beside this one that starts a program holds all locks for a moment.
pub(super) fn open(tasks: &Tasks, directory: &Path, clock: &Clock) -> Host {
    let started = Instant::now();
    loop {
        match Host::open(tasks, directory, clock.clone()) {
            Err(HostError::Held { .. }) if started.elapsed() < LONG => std::thread::yield_now(),
            host => return host.unwrap(),
        }
    }
}
