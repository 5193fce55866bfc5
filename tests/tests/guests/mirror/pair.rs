//! Two nodes with a disk on each, and a guest that writes numbers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::Uuid;
use model::instance::disk::{DiskMode, DiskPlace};
use model::instance::launch::{CopyState, DiskLaunch, Launch, Replica, ReplicaKey, Sight};
use model::instance::parameters::{BACKEND, KVM, Parameters};
use serde_json::Value;
use stdx::Clock;
use stdx::process::Process;
use virt::{Copies, Instances, Join, Paths, Storage, VirtError};
use xtask::guest::GuestError;
use xtask::guest::parts::Parts;
use xtask::needs;

pub(super) const GUEST: Uuid = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
pub(super) const DISK: Uuid = Uuid::from_u128(0x2234_5678_9abc_4def_8123_4567_89ab_cdef);
pub(super) const SECOND: Uuid = Uuid::from_u128(0x3234_5678_9abc_4def_8123_4567_89ab_cdef);
/// MiB of a disk.
pub(super) const SIZE: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(90);
/// The places of numbers on the disk: so many, at this distance.
pub(super) const PLACES: u64 = 2048;
pub(super) const DISTANCE: u64 = 8 * 512;

/// The directories of two nodes.
pub(super) struct Pair {
    dir: tempfile::TempDir,
    parts: Parts,
    qemu: PathBuf,
    daemon: PathBuf,
}

pub(super) fn text(error: VirtError) -> String {
    stdx::daemon::chain(&error)
}

pub(super) fn key(number: u8) -> ReplicaKey {
    ReplicaKey::new(&[number; 32])
}

pub(super) fn kill(process: Process) {
    process.kill().unwrap();
}

impl Pair {
    pub(super) fn begin() -> Option<Self> {
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

    pub(super) fn at(&self, node: &str, path: &str) -> PathBuf {
        self.dir.path().join(node).join(path)
    }

    /// The agent of a node begins.
    pub(super) fn agent(&self, node: &str) -> Instances {
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

    pub(super) fn disk(&self, node: &str, uuid: Uuid, replica: Option<u16>) -> DiskLaunch {
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

    pub(super) fn replica(&self, port: u16) -> Replica {
        Replica { node: "b".parse().unwrap(), address: ([127, 0, 0, 1], port).into() }
    }

    /// A run whose guest writes numbers to its disk.
    pub(super) fn launch(&self, run: u64, replica: Option<u16>) -> Launch {
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

    pub(super) fn copies(&self, run: u64, key: ReplicaKey) -> Copies {
        let disks = vec![self.disk("b", DISK, None)];
        Copies { uuid: GUEST, name: "web1.example.com".parse().unwrap(), run, disks, key }
    }

    /// Makes the disk on both nodes.
    pub(super) fn make_disks(&self, a: &Instances, b: &Instances) {
        a.storage().create(&self.disk("a", DISK, None)).unwrap();
        b.storage().create(&self.disk("b", DISK, None)).unwrap();
    }

    /// The process that serves the copy.
    pub(super) fn daemon(&self) -> Process {
        let record = self.at("b", &format!("runs/served/{GUEST}.json"));
        process(&record, &["serving", "by", "process"]).unwrap()
    }

    pub(super) fn guest(&self) -> Process {
        process(&self.at("a", &format!("runs/{GUEST}.json")), &["process"]).unwrap()
    }

    /// The last number that the guest's disk has for certain.
    pub(super) fn written(&self) -> u64 {
        let log = self.at("a", &format!("runs/{GUEST}.console.log"));
        let said = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
        // The last line may be half said.
        let said = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let last = said.lines().rev().find_map(|line| line.trim().strip_prefix("GUEST wrote "));
        last.map_or(0, |number| number.parse().unwrap())
    }

    /// Waits until the guest writes no more numbers.
    pub(super) async fn stands_still(&self) {
        let mut last = self.written();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if std::mem::replace(&mut last, self.written()) == self.written() {
                return;
            }
        }
    }

    /// Waits until the guest has written so many more numbers.
    pub(super) async fn writes(&self, more: u64) {
        let wanted = self.written() + more;
        until("numbers on the disk", || self.written() >= wanted).await;
    }

    pub(super) fn is_equal(&self) -> bool {
        let [a, b] =
            ["a", "b"].map(|node| std::fs::read(self.at(node, "disks").join(DISK.to_string())));
        a.unwrap() == b.unwrap()
    }

    /// Has the copy filled, until it is in step.
    pub(super) async fn join(&self, a: &Instances, run: u64, port: u16) {
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

    pub(super) fn order(&self, port: u16, key: ReplicaKey) -> Join {
        Join { disk: DISK, replica: self.replica(port), key, is_new: false }
    }

    /// Has the copy filled; gives why that fails.
    pub(super) async fn join_fails(&self, a: &Instances, run: u64, order: Join) -> String {
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
pub(super) fn process(record: &Path, place: &[&str]) -> Option<Process> {
    let record: Value = serde_json::from_slice(&std::fs::read(record).ok()?).ok()?;
    let process = place.iter().fold(&record, |value, name| &value[*name]);
    serde_json::from_value(process.clone()).ok()
}

pub(super) fn sight(instances: &Instances) -> Sight {
    instances.since(None).instances.remove(0)
}

pub(super) fn state(sight: &Sight) -> CopyState {
    assert_eq!(sight.copies.len(), 1, "{sight:?}");
    sight.copies[0].state.clone()
}

pub(super) fn is_lost(instances: &Instances) -> bool {
    matches!(state(&sight(instances)), CopyState::Lost(_))
}

pub(super) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Does something in a runtime with several threads, as agents have.
pub(super) fn run(test: impl AsyncFnOnce(&Pair)) {
    let Some(pair) = Pair::begin() else { return };
    tokio::runtime::Runtime::new().unwrap().block_on(test(&pair));
}
