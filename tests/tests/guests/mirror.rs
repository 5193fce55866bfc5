//! Disks with two copies: real guests of QEMU and its real storage daemon, by the instances of two agents.

#![expect(clippy::print_stdout, reason = "times are looked at, and depend on the machine")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::Uuid;
use model::instance::disk::{DiskMode, DiskPlace};
use model::instance::launch::{CopyState, DiskLaunch, Launch, Replica, ReplicaKey, Sight};
use model::instance::parameters::{BACKEND, KVM, Parameters};
use model::instance::state::Seen;
use serde_json::Value;
use stdx::Clock;
use stdx::process::Process;
use virt::{Change, Copies, Instances, Join, Order, Paths, Storage, VirtError};
use xtask::guest::GuestError;
use xtask::guest::parts::Parts;
use xtask::needs;

const GUEST: Uuid = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
const DISK: Uuid = Uuid::from_u128(0x2234_5678_9abc_4def_8123_4567_89ab_cdef);
const SECOND: Uuid = Uuid::from_u128(0x3234_5678_9abc_4def_8123_4567_89ab_cdef);
/// MiB of a disk.
const SIZE: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(90);
/// Where the guest writes its numbers: so many, at this distance.
const PLACES: u64 = 2048;
const DISTANCE: u64 = 8 * 512;

/// The directories of two nodes.
struct Pair {
    dir: tempfile::TempDir,
    parts: Parts,
    qemu: PathBuf,
    daemon: PathBuf,
}

fn text(error: VirtError) -> String {
    stdx::daemon::chain(&error)
}

fn key(number: u8) -> ReplicaKey {
    ReplicaKey::new(&[number; 32])
}

fn kill(process: Process) {
    process.kill().unwrap();
}

impl Pair {
    fn begin() -> Option<Self> {
        let daemon = needs::provide("qemu-storage-daemon").map_err(GuestError::Impossible);
        let provided = Parts::provide().and_then(|parts| Ok((parts, daemon?)));
        let (parts, daemon) = match provided {
            Ok(provided) => provided,
            Err(GuestError::Impossible(why)) => {
                tests::skip("disks with two copies", &why);
                return None;
            }
            Err(error) => panic!("{}", stdx::daemon::chain(&error)),
        };
        let qemu = needs::find("qemu-system-x86_64").unwrap();
        let dir = tempfile::tempdir().unwrap();
        for node in ["a", "b"] {
            std::fs::create_dir_all(dir.path().join(node).join("disks")).unwrap();
        }
        Some(Self { dir, parts, qemu, daemon })
    }

    fn at(&self, node: &str, path: &str) -> PathBuf {
        self.dir.path().join(node).join(path)
    }

    /// The agent of a node begins.
    fn agent(&self, node: &str) -> Instances {
        let noded = tests::place::programs().command("noded");
        let paths = Paths {
            agent: noded.get_program().into(),
            keys: self.at(node, "keys"),
            storage_daemon: self.daemon.clone(),
            ..Paths::of(self.at(node, "runs"))
        };
        let storage = Storage::new(self.at(node, "list"), self.at(node, "disks"));
        Instances::open(paths, "boot".to_owned(), storage, Clock::system()).unwrap()
    }

    fn disk(&self, node: &str, uuid: Uuid, replica: Option<u16>) -> DiskLaunch {
        let path = self.at(node, "disks").join(uuid.to_string());
        let replica = replica.map(|port| self.replica(port));
        DiskLaunch {
            uuid,
            place: DiskPlace::Mirror { path: path.display().to_string() },
            size: SIZE,
            mode: DiskMode::ReadWrite,
            params: Parameters::new(),
            replica,
        }
    }

    fn replica(&self, port: u16) -> Replica {
        Replica { node: "b".parse().unwrap(), address: ([127, 0, 0, 1], port).into() }
    }

    /// A run whose guest writes numbers to its disk.
    fn launch(&self, run: u64, replica: Option<u16>) -> Launch {
        let filled = |table: &[model::instance::parameters::Parameter]| -> Parameters {
            table.iter().map(|row| (row.name.to_owned(), row.usual.value())).collect()
        };
        let mut hvparams = filled(KVM);
        for (name, path) in [
            ("kvm_path", &self.qemu),
            ("kernel_path", &self.parts.kernel),
            ("initrd_path", &self.parts.initrd),
        ] {
            hvparams.insert(name.to_owned(), path.display().to_string().into());
        }
        hvparams.insert("root_path".to_owned(), "".into());
        hvparams.insert("kernel_args".to_owned(), "gantry.counts quiet".into());
        let mut beparams = filled(BACKEND);
        beparams.insert("maxmem".to_owned(), 256.into());
        Launch {
            uuid: GUEST,
            name: "web1.example.com".parse().unwrap(),
            run,
            hypervisor: "kvm".to_owned(),
            hvparams,
            beparams,
            nics: Vec::new(),
            disks: vec![self.disk("a", DISK, replica)],
            paused: false,
            seed: None,
            users: Vec::new(),
            network_port: None,
        }
    }

    fn copies(&self, run: u64, key: ReplicaKey) -> Copies {
        let disks = vec![self.disk("b", DISK, None)];
        Copies { uuid: GUEST, name: "web1.example.com".parse().unwrap(), run, disks, key }
    }

    /// Makes the disk on both nodes.
    fn make_disks(&self, a: &Instances, b: &Instances) {
        a.storage().create(&self.disk("a", DISK, None)).unwrap();
        b.storage().create(&self.disk("b", DISK, None)).unwrap();
    }

    /// The process that serves the copy.
    fn daemon(&self) -> Process {
        let record = self.at("b", &format!("runs/served/{GUEST}.json"));
        process(&record, &["serving", "by", "process"]).unwrap()
    }

    fn guest(&self) -> Process {
        process(&self.at("a", &format!("runs/{GUEST}.json")), &["process"]).unwrap()
    }

    /// The last number that the guest's disk has for certain.
    fn written(&self) -> u64 {
        let log = self.at("a", &format!("runs/{GUEST}.console.log"));
        let said = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
        // The last line may be half said.
        let said = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let last = said.lines().rev().find_map(|line| line.trim().strip_prefix("GUEST wrote "));
        last.map_or(0, |number| number.parse().unwrap())
    }

    /// Waits until the guest writes no more numbers.
    async fn stands_still(&self) {
        let mut last = self.written();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if std::mem::replace(&mut last, self.written()) == self.written() {
                return;
            }
        }
    }

    /// Waits until the guest has written so many more numbers.
    async fn writes(&self, more: u64) {
        let wanted = self.written() + more;
        until("numbers on the disk", || self.written() >= wanted).await;
    }

    fn is_equal(&self) -> bool {
        let [a, b] =
            ["a", "b"].map(|node| std::fs::read(self.at(node, "disks").join(DISK.to_string())));
        a.unwrap() == b.unwrap()
    }

    /// Has the copy filled, until it is in step.
    async fn join(&self, a: &Instances, run: u64, port: u16) {
        loop {
            let joined = a.join(GUEST, run, self.order(port, key(1))).await.unwrap();
            assert_eq!(joined.failed, None);
            if state(&joined.told.1) == CopyState::InStep {
                assert_eq!(joined.percent, 100);
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn order(&self, port: u16, key: ReplicaKey) -> Join {
        Join { disk: DISK, replica: self.replica(port), key, is_new: false }
    }

    /// Has the copy filled; gives why that fails.
    async fn join_fails(&self, a: &Instances, run: u64, order: Join) -> String {
        let began = Instant::now();
        loop {
            let joined = a.join(GUEST, run, order.clone()).await.unwrap();
            if let Some(why) = joined.failed {
                return why;
            }
            assert!(began.elapsed() < PATIENCE, "{joined:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Pair {
    /// Guests and what serves their copies outlive their agents, and are not to outlive the test.
    fn drop(&mut self) {
        let guests =
            ["a", "b"].map(|node| (self.at(node, &format!("runs/{GUEST}.json")), vec!["process"]));
        let served = self.at("b", &format!("runs/served/{GUEST}.json"));
        for (record, place) in
            guests.into_iter().chain([(served, vec!["serving", "by", "process"])])
        {
            if let Some(process) = process(&record, &place) {
                drop(process.kill());
            }
        }
    }
}

/// The process of which a record tells.
fn process(record: &Path, place: &[&str]) -> Option<Process> {
    let record: Value = serde_json::from_slice(&std::fs::read(record).ok()?).ok()?;
    let process = place.iter().fold(&record, |value, name| &value[*name]);
    serde_json::from_value(process.clone()).ok()
}

fn sight(instances: &Instances) -> Sight {
    instances.since(None).instances.remove(0)
}

fn state(sight: &Sight) -> CopyState {
    assert_eq!(sight.copies.len(), 1, "{sight:?}");
    sight.copies[0].state.clone()
}

fn is_lost(instances: &Instances) -> bool {
    matches!(state(&sight(instances)), CopyState::Lost(_))
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Does something in a runtime with several threads, as agents have.
fn run(test: impl AsyncFnOnce(&Pair)) {
    let Some(pair) = Pair::begin() else { return };
    tokio::runtime::Runtime::new().unwrap().block_on(test(&pair));
}

#[test]
fn a_guest_goes_on_with_one_copy_and_fills_the_other_one_again() {
    run(async |pair| {
        let (mut a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        assert_eq!(b.serve(pair.copies(1, key(1))).await.unwrap(), port, "the same call again");
        let began = Instant::now();
        let told = a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        println!("start with a copy: {:?}", began.elapsed());
        assert_eq!((told.1.seen, state(&told.1)), (Seen::Running, CopyState::InStep));
        pair.writes(20).await;
        // The process that serves the copy dies.
        kill(pair.daemon());
        let began = Instant::now();
        until("loss", || is_lost(&a)).await;
        println!("killed to told: {:?}", began.elapsed());
        until("stop", || sight(&a).seen == Seen::IoError).await;
        let (before, began) = (pair.written(), Instant::now());
        let told = a.detach(GUEST, 1, vec![DISK]).await.unwrap().1;
        println!("detach: {:?}", began.elapsed());
        assert_eq!(state(&told), CopyState::Alone);
        until("next number", || pair.written() > before).await;
        println!("detach to the next number: {:?}", began.elapsed());
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(10).await;
        // It comes back; a wrong key does not reach it.
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        let why = pair.join_fails(&a, 1, pair.order(port, key(2))).await;
        assert!(why.contains("TLS"), "{why}");
        let began = Instant::now();
        pair.join(&a, 1, port).await;
        println!("in step again: {:?}", began.elapsed());
        pair.writes(10).await;
        // The agent ends while both are in step, and while a copy is lost, and a copy is lost meanwhile.
        a.shutdown().await;
        a = pair.agent("a");
        until("knowledge", || state(&sight(&a)) == CopyState::InStep).await;
        pair.writes(5).await;
        kill(pair.daemon());
        until("loss", || is_lost(&a)).await;
        a.shutdown().await;
        a = pair.agent("a");
        until("loss", || is_lost(&a) && sight(&a).seen == Seen::IoError).await;
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        pair.join(&a, 1, port).await;
        a.shutdown().await;
        kill(pair.daemon());
        pair.stands_still().await;
        a = pair.agent("a");
        until("loss", || is_lost(&a) && sight(&a).seen == Seen::IoError).await;
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        // The agent that serves ends, and the next one knows what is served.
        b.shutdown().await;
        let b = pair.agent("b");
        assert_eq!(b.serve(pair.copies(1, key(1))).await.unwrap(), port);
        assert_eq!(state(&sight(&a)), CopyState::InStep);
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        let daemon = pair.daemon();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(!daemon.is_alive());
        assert!(pair.written() > 60 && pair.is_equal());
        assert!(
            std::fs::read_dir(pair.at("a", "keys")).unwrap().next().is_none(),
            "no key is left"
        );
        assert!(
            std::fs::read_dir(pair.at("b", "keys")).unwrap().next().is_none(),
            "no key is left"
        );
    });
}

#[test]
fn what_a_guest_was_told_is_on_the_other_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let mut run = 0;
        for round in 0..tests::tries(3, 40) {
            run += 1;
            let port = b.serve(pair.copies(run, key(1))).await.unwrap();
            // The copies may differ in writes that nobody was told of: the surviving one counts.
            let [from, to] = ["b", "a"].map(|node| pair.at(node, "disks").join(DISK.to_string()));
            std::fs::copy(from, to).unwrap();
            drop(std::fs::remove_file(pair.at("a", &format!("runs/{GUEST}.console.log"))));
            a.start_with(pair.launch(run, Some(port)), Some(key(1))).await.unwrap();
            pair.writes(20 + round).await;
            kill(pair.guest());
            until("end", || sight(&a).seen == Seen::Crashed).await;
            let told = pair.written();
            let copy = File::open(pair.at("b", "disks").join(DISK.to_string())).unwrap();
            for number in told.saturating_sub(PLACES - 2).max(1)..=told {
                let mut block = [0; 512];
                copy.read_exact_at(&mut block, number % PLACES * DISTANCE).unwrap();
                let has = String::from_utf8_lossy(&block).trim().to_owned();
                assert_eq!(has, format!("COUNT {number}"), "{told} were told");
            }
        }
        b.serve_no_more(GUEST, run).await.unwrap();
    });
}

#[test]
fn a_guest_that_began_alone_fills_its_other_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let random = Command::new("dd")
            .args(["if=/dev/urandom", "bs=1M", "count=32", "seek=16", "conv=notrunc"])
            .arg(format!("of={}", pair.at("a", "disks").join(DISK.to_string()).display()))
            .output();
        assert!(random.unwrap().status.success());
        a.start(pair.launch(1, None)).await.unwrap();
        assert_eq!(state(&sight(&a)), CopyState::Alone);
        pair.writes(5).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        let began = Instant::now();
        pair.join(&a, 1, port).await;
        println!("all of {SIZE} MiB, half of it data: {:?}", began.elapsed());
        pair.writes(5).await;
        // An operator has it stand still meanwhile.
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        a.order(GUEST, 1, Order::Pause).await.unwrap();
        pair.join(&a, 1, port).await;
        assert_eq!(sight(&a).seen, Seen::Paused);
        a.order(GUEST, 1, Order::Resume).await.unwrap();
        pair.writes(5).await;
        // The disk does not grow while the guest runs, and a second one comes and goes.
        let grown = DiskLaunch { size: SIZE * 2, ..pair.disk("a", DISK, Some(port)) };
        let change = Change { disks: vec![grown], ..Change::default() };
        let (_, not) = a.plug(GUEST, 1, change).await.unwrap();
        assert!(not[0].1.contains("next start"), "{not:?}");
        let second = pair.disk("a", SECOND, None);
        a.storage().create(&second).unwrap();
        let change = Change { disks: vec![second], ..Change::default() };
        let (told, not) = a.plug(GUEST, 1, change).await.unwrap();
        assert_eq!(not, []);
        assert_eq!(told.1.copies.len(), 2, "{told:?}");
        assert_eq!(told.1.copies[1].state, CopyState::Alone);
        let change = Change { without: vec![SECOND], ..Change::default() };
        let (told, not) = a.plug(GUEST, 1, change).await.unwrap();
        assert_eq!((not, told.1.copies.len()), (Vec::new(), 1));
        // Its disk is copied as it is now.
        let copy = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(pair.at("a", "copy"));
        a.snapshot(GUEST, 1, vec![(DISK, copy.unwrap())]).await.unwrap();
        assert_eq!(pair.at("a", "copy").metadata().unwrap().len(), SIZE << 20);
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

/// A file system with little room.
struct Mounted(PathBuf);

impl Mounted {
    fn at(place: &Path) -> Option<Self> {
        let words = ["-t", "tmpfs", "-o", "size=1m", "none"];
        let mounted = Command::new("mount").args(words).arg(place).output().unwrap();
        if !mounted.status.success() {
            tests::skip("disks without room", "nothing can be mounted here");
        }
        mounted.status.success().then(|| Self(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

#[test]
fn a_copy_without_room_is_lost() {
    run(async |pair| {
        let disks = pair.at("b", "disks");
        let Some(_mounted) = Mounted::at(&disks) else { return };
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        until("loss", || is_lost(&a)).await;
        let CopyState::Lost(why) = state(&sight(&a)) else { panic!() };
        assert!(why.contains("No space left"), "{why}");
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(20).await;
        let why = pair.join_fails(&a, 1, pair.order(port, key(1))).await;
        assert!(why.contains("No space left"), "{why}");
        pair.writes(5).await;
        assert_eq!((sight(&a).seen, state(&sight(&a))), (Seen::Running, CopyState::Alone));
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
    });
}

#[test]
fn copies_are_served_to_one_run_alone() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        let serve = |run, number| b.serve(pair.copies(run, key(number)));
        let why = text(serve(2, 1).await.unwrap_err());
        assert!(why.contains("there is no disk"), "{why}");
        pair.make_disks(&a, &b);
        let other = DiskLaunch { size: SIZE + 1, ..pair.disk("b", DISK, None) };
        let why = b.serve(Copies { disks: vec![other], ..pair.copies(2, key(1)) }).await;
        assert!(matches!(why, Err(VirtError::DiskSize { has: SIZE, .. })), "{why:?}");
        let port = serve(2, 1).await.unwrap();
        let first = pair.daemon();
        let old = serve(1, 1).await;
        assert!(matches!(old, Err(VirtError::Over { run: 1, highest: 2, .. })), "{old:?}");
        assert!(first.is_alive());
        // A run with a wrong key does not begin; neither does one whose copy is gone.
        let why = text(a.start_with(pair.launch(2, Some(port)), Some(key(9))).await.unwrap_err());
        assert!(
            why.contains("copy of disk 0 on node b cannot be joined") && why.contains("TLS"),
            "{why}"
        );
        assert_eq!(sight(&a).seen, Seen::Crashed);
        // A former primary is cut off by the next run, and by another key.
        a.start_with(pair.launch(3, Some(port)), Some(key(1))).await.unwrap();
        pair.writes(5).await;
        serve(4, 2).await.unwrap();
        assert!(!first.is_alive());
        until("loss", || is_lost(&a) && sight(&a).seen == Seen::IoError).await;
        a.stop(GUEST, 3, Duration::ZERO, false).await.unwrap();
        let second = pair.daemon();
        serve(4, 3).await.unwrap();
        assert!(!second.is_alive());
        let why = text(a.start_with(pair.launch(5, Some(port)), Some(key(3))).await.unwrap_err());
        assert!(why.contains("cannot reach it"), "{why}");
        // No run begins beside the copies that are served.
        let there =
            |run| Launch { disks: vec![pair.disk("b", DISK, None)], ..pair.launch(run, None) };
        let refused = b.start(there(4)).await;
        assert!(matches!(refused, Err(VirtError::Serves { served: 4, .. })), "{refused:?}");
        let third = pair.daemon();
        assert!(third.is_alive());
        b.start(there(5)).await.unwrap();
        assert!(!third.is_alive());
        let refused = serve(6, 1).await;
        assert!(matches!(refused, Err(VirtError::Lives { alive: 5, .. })), "{refused:?}");
        b.stop(GUEST, 5, Duration::ZERO, false).await.unwrap();
        serve(6, 1).await.unwrap();
        b.serve_no_more(GUEST, 5).await.unwrap();
        assert!(pair.daemon().is_alive(), "the order is older than what is served");
        b.serve_no_more(GUEST, 6).await.unwrap();
        let without =
            Paths { storage_daemon: "/none/daemon".into(), ..Paths::of(pair.at("b", "runs2")) };
        let storage = Storage::new(pair.at("b", "list"), pair.at("b", "disks"));
        let b = Instances::open(without, "boot".to_owned(), storage, Clock::system()).unwrap();
        let why = text(b.serve(pair.copies(7, key(1))).await.unwrap_err());
        assert!(why.contains("qemu-utils"), "{why}");
    });
}

/// Changes a record while no agent uses it.
fn change(record: &Path, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    change(&mut value);
    stdx::atomic::write(record, value.to_string().as_bytes(), 0o600).unwrap();
}

fn signal(process: Process, signal: &str) {
    let words = [format!("-{signal}"), process.pid.to_string()];
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

#[test]
fn an_agent_that_ends_amid_a_copy_leaves_a_guest_that_goes_on() {
    run(async |pair| {
        let (mut a, mut b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        a.start(pair.launch(1, None)).await.unwrap();
        pair.writes(5).await;
        // It held the guest, and ended before it let it go.
        a.order(GUEST, 1, Order::Pause).await.unwrap();
        a.shutdown().await;
        let record = pair.at("a", &format!("runs/{GUEST}.json"));
        change(&record, |record| record["held"] = true.into());
        a = pair.agent("a");
        until("guest that runs", || sight(&a).seen == Seen::Running).await;
        pair.writes(5).await;
        // A guest that an operator had stand still does so.
        a.order(GUEST, 1, Order::Pause).await.unwrap();
        a.shutdown().await;
        a = pair.agent("a");
        pair.stands_still().await;
        assert_eq!(sight(&a).seen, Seen::Paused);
        a.order(GUEST, 1, Order::Resume).await.unwrap();
        // It fills a copy, and ends.
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        let joined = a.join(GUEST, 1, pair.order(port, key(1))).await.unwrap();
        assert_eq!((state(&joined.told.1), joined.percent), (CopyState::Filling, 0));
        a.shutdown().await;
        a = pair.agent("a");
        until("end of the try", || state(&sight(&a)) == CopyState::Alone).await;
        pair.writes(5).await;
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        // The process that serves the copy hangs, and nobody closes its connection.
        let hangs = pair.daemon();
        signal(hangs, "STOP");
        pair.stands_still().await;
        let began = Instant::now();
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        println!("detach from what hangs: {:?}", began.elapsed());
        pair.writes(5).await;
        // The agent that serves ended before it noted the process.
        b.shutdown().await;
        let record = pair.at("b", &format!("runs/served/{GUEST}.json"));
        change(&record, |record| record["serving"] = "begins".into());
        b = pair.agent("b");
        until("end of what was not noted", || !hangs.is_alive()).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

#[test]
fn an_own_disk_that_fails_is_no_lost_copy() {
    run(async |pair| {
        let disks = pair.at("a", "disks");
        let Some(_mounted) = Mounted::at(&disks) else { return };
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        let says = |wanted: &str| sight(&a).exit.is_some_and(|why| why.contains(wanted));
        until("its reason", || says("No space left")).await;
        assert_eq!((sight(&a).seen, state(&sight(&a))), (Seen::IoError, CopyState::InStep));
        let more = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&disks).status();
        assert!(more.unwrap().success());
        a.order(GUEST, 1, Order::Resume).await.unwrap();
        pair.writes(5).await;
        until("a guest that runs", || sight(&a).exit.is_none()).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

/// A rule by which nothing reaches a port, nor comes from there.
struct Silence(String);

impl Silence {
    fn of(port: u16) -> Option<Self> {
        let table = format!("gantry_test_{}", std::process::id());
        let text = format!(
            "table inet {table} {{ chain all {{ type filter hook input priority 0; \
             tcp dport {port} drop; tcp sport {port} drop; }} }}"
        );
        let done = Command::new("nft").arg(text).output();
        done.is_ok_and(|done| done.status.success()).then_some(Self(table))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        drop(Command::new("nft").args(["delete", "table", "inet", &self.0]).status());
    }
}

#[test]
fn a_node_that_is_silent_is_a_lost_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        pair.writes(5).await;
        let Some(silence) = Silence::of(port) else {
            return tests::skip("a node that is silent", "nft sets no rule here");
        };
        let began = Instant::now();
        until("loss", || is_lost(&a)).await;
        println!("silence to loss: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(15));
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        let why = pair.join_fails(&a, 1, pair.order(port, key(1))).await;
        assert!(why.contains("cannot reach it"), "{why}");
        drop(silence);
        pair.join(&a, 1, port).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}
