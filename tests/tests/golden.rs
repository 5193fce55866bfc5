//! Stores that earlier versions left are read by this one (`docs/upgrade.md`).
//!
//! For each format that is promised to be read there is a directory below `tests/golden`: `clean`
//! is what a master left that was stopped, made by hand by what the test of it expects; `crashed` is
//! one whose journal holds what the files lack, made by the example `golden_store`.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

use std::fs;
use std::path::{Path, PathBuf};

use jobs::load::archived_job;
use masterd::role::load::load;
use model::{JobId, JobStatus};
use queue_format::store::{FORMAT, FORMAT_OLDEST};
use queue_format::{Key, Store, StoreOptions};
use tests::cluster::{Cluster, PATIENCE};
use tests::run::{run, wait_for};

fn golden(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/format-{format}"))
}

/// Copies a directory: opening a store changes it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

fn options() -> StoreOptions {
    StoreOptions { segments: 2, segment_bytes: SEGMENT_BYTES, ..StoreOptions::default() }
}

/// The smallest segment there is.
const SEGMENT_BYTES: u64 = 16 << 10;

/// Opens a copy of the store of a format that a master left in this way.
fn opened(format: u32, left: &str) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(format).join(left), dir.path());
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(store.recovered().upgraded_from, (format != FORMAT).then_some(format));
    let header = fs::read_to_string(dir.path().join("store.json")).unwrap();
    assert!(header.starts_with(&format!("{{\"format\":{FORMAT},")), "{header}");
    (dir, store)
}

#[test]
fn what_a_stopped_master_left_is_read() {
    for format in FORMAT_OLDEST..=FORMAT {
        let (_dir, store) = opened(format, "clean");
        assert_eq!(store.recovered().replayed_batches, 0);
        let found = load(&store.reader()).unwrap();
        let jobs: Vec<(u64, JobStatus)> =
            found.jobs.iter().map(|job| (job.id.0, job.status())).collect();
        let ended = [JobStatus::Success, JobStatus::Success, JobStatus::Error, JobStatus::Canceled];
        assert_eq!(jobs, (2..=5).zip(ended).collect::<Vec<_>>());
        assert_eq!((found.serial, found.drained), (5, true));
        let archived = archived_job(&store.reader(), JobId(1)).unwrap().unwrap();
        assert_eq!(archived.status(), JobStatus::Success);
        let config = &found.config;
        assert_eq!(config.cluster.cluster_name.as_str(), "c1.example.com");
        assert_eq!((config.nodes.len(), config.machines.len(), config.role.term), (1, 2, 2));
        assert_eq!(config.ipam.as_ref().unwrap().max_nodes_in_rack, 28);
    }
}

#[test]
fn what_a_crashed_master_left_is_recovered() {
    for format in FORMAT_OLDEST..=FORMAT {
        let (_dir, store) = opened(format, "crashed");
        assert!(store.recovered().replayed_batches > 0);
        for (key, content) in [
            ("queue/job-1", None),
            ("queue/archive/0/job-1", Some("{\"id\":1}")),
            ("queue/job-2", Some("{\"id\":2,\"state\":\"newest\"}")),
            ("queue/serial", Some("2\n")),
            ("queue/drain", None),
        ] {
            let read = store.read(&Key::parse(key).unwrap()).unwrap();
            assert_eq!(read.as_deref(), content.map(str::as_bytes), "{key}");
        }
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    let cluster = Cluster::begin();
    let _job = cluster.gnt("debug delay 0").ok();
    cluster.stop_master();
    let header = cluster.master.layout().data().join("store.json");
    let ours = fs::read_to_string(&header).unwrap();
    let newer = ours.replacen(&format!("\"format\":{FORMAT}"), "\"format\":99", 1);
    stdx::atomic::write(&header, newer.as_bytes(), 0o640).unwrap();
    let ended = run(cluster.masterd());
    let told = format!("{ended:?}");
    assert_eq!(ended.status.code(), Some(2), "{told}");
    assert!(told.contains("has format 99, but this program knows formats up to"), "{told}");
    assert_eq!(fs::read_to_string(&header).unwrap(), newer);
    stdx::atomic::write(&header, ours.as_bytes(), 0o640).unwrap();
    cluster.start_master();
    assert_eq!(cluster.status(1), "success");
}

#[test]
fn the_check_before_an_upgrade_wants_a_drained_and_empty_queue() {
    let cluster = Cluster::begin();
    let check = || {
        let mut masterd = cluster.masterd();
        masterd.arg("check-upgrade");
        run(masterd)
    };
    let refused = |words: &str| {
        let ended = check();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(format!("{ended:?}").contains(words), "{ended:?}");
    };
    refused("gnt cluster queue drain");
    let job = cluster.submit("debug delay 600");
    cluster.wait_for_status(job, "running");
    let _drained = cluster.gnt("cluster queue drain").ok();
    refused(&format!("the first of them job {job} (running)"));
    let _canceled = cluster.gnt(&format!("job cancel {job}")).ok();
    wait_for("an empty queue", PATIENCE, || check().status.success().then_some(()));
    cluster.stop_master();
    assert!(check().status.success(), "where no master runs, nothing is in the way");
}
