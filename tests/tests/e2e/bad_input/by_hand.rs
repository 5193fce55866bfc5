//! Files of the queue that were edited, copied, removed or locked up by hand, while the master was
//! stopped and while it ran.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use luxi::method::SubmitJob;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::run::{run, wait_for};

use super::disk::unprivileged_master;

/// A job that waits for a long time.
const HOLD: &str = "debug delay 1000 --no-locks";

fn queue(cluster: &Cluster) -> PathBuf {
    cluster.master.layout().data().join("queue")
}

fn write(path: &Path, content: &[u8]) {
    stdx::atomic::write(path, content, 0o640).unwrap();
}

/// A job's file, changed as JSON.
fn edited(path: &Path, change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut job = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut job);
    job.to_string().into_bytes()
}

/// A stopped cluster with a job of two opcodes that failed, one that succeeded, and one archived.
fn with_jobs() -> Cluster {
    let cluster = Cluster::begin();
    let ops = r#"[{"OP_ID": "OP_TEST_JQUEUE", "fail": true}, {"OP_ID": "OP_TEST_DELAY",
        "duration": 0}]"#;
    let file = cluster.write("fails.json", ops);
    let _failed = cluster.gnt(&format!("debug submit-job {}", file.display())).failed(1);
    let _done = cluster.gnt("debug delay 0").ok();
    let _done = cluster.gnt("debug delay 0").ok();
    let _moved = cluster.gnt("job archive 3").ok();
    cluster.stop_master();
    cluster
}

fn all(cluster: &Cluster) -> Value {
    cluster.gnt("job list --archived --json -o id,status,opstatus,opresult").json()
}

#[test]
fn a_job_that_cannot_be_stops_the_start_with_its_name_and_the_reason() {
    let cluster = with_jobs();
    let path = queue(&cluster).join("job-1");
    let whole = std::fs::read(&path).unwrap();
    let with = |pointer: &'static str, value: Value| {
        edited(&path, move |job| *job.pointer_mut(pointer).unwrap() = value.clone())
    };
    for (content, why) in [
        (whole[..whole.len() / 2].to_vec(), "line 1"),
        (b"".to_vec(), "line 1"),
        (b"\xff\xfe".to_vec(), "line 1"),
        (b"[]".to_vec(), "job-1"),
        (with("/ops/0/status", json!("sucess")), "`sucess`"),
        (with("/ops/1/status", json!("queued")), "opcode 2 is `queued`"),
        (with("/ops/0/status", json!("running")), "opcode 1 is `running`"),
        (with("/id", json!(2)), "it holds job 2"),
        (with("/ops/0/priority", json!("high")), "invalid type"),
    ] {
        write(&path, &content);
        let told = run(cluster.masterd());
        let text = told.failed(2);
        assert!(text.contains("queue/job-1") && text.contains(why), "{why}: {told:?}");
        assert!(text.contains("restore it from a copy, or move it away"), "{told:?}");
        assert_eq!(std::fs::read(&path).unwrap(), content, "nothing is repaired by guessing");
    }
    write(&path, &whole);
    cluster.start_master();
    let statuses = all(&cluster);
    let statuses: Vec<_> = statuses.as_array().unwrap().iter().map(|job| &job["status"]).collect();
    assert_eq!(statuses, ["error", "success", "success"]);
}

#[test]
fn what_is_no_jobs_file_is_left_alone() {
    let cluster = with_jobs();
    let queue = queue(&cluster);
    cluster.start_master();
    let before = all(&cluster);
    cluster.stop_master();
    // Should one of these be taken for a job, it would be run again or be there twice.
    let again = edited(&queue.join("job-2"), |job| job["ops"][0]["status"] = json!("queued"));
    std::fs::create_dir(queue.join("job-99")).unwrap();
    let foreign = [
        "job-2.bak",
        "job-2~",
        "job-02",
        "job-2-old",
        ".job-2.swp",
        "README",
        "job-99/job-99",
        "archive/0/job-3.bak",
        "archive/job-3",
        "archive/0/job-10003",
    ]
    .map(|name| queue.join(name));
    for path in &foreign {
        write(path, &again);
    }
    cluster.start_master();
    assert_eq!(all(&cluster), before);
    let log = cluster.master.masterd_log();
    assert!(log.contains("left alone") && log.contains("queue/job-2.bak"), "{log}");
    assert_eq!(cluster.submit("debug delay 0"), 4);
    cluster.stop_master();
    for path in &foreign {
        assert_eq!(std::fs::read(path).unwrap(), again, "{}", path.display());
    }
}

#[test]
fn a_job_that_was_removed_is_gone_and_its_number_is_not_used_again() {
    let cluster = Cluster::begin();
    // None of them begins, so that the master has nothing to wait for when it ends.
    let rule = r#"--predicates=[["jobid",["<","id",9]]]"#;
    let _paused = cluster.gnt(&format!("filter add --action PAUSE {rule}")).ok();
    assert_eq!(cluster.submit("debug delay 0"), 1);
    let ops = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "depends": [[1, []]]}]"#;
    let mut client = cluster.client();
    let second = client.call(&SubmitJob { ops: serde_json::from_str(ops).unwrap() }).unwrap();
    assert_eq!(cluster.submit("debug delay 0"), 3);
    cluster.stop_master();
    for id in [1, 3] {
        std::fs::remove_file(queue(&cluster).join(format!("job-{id}"))).unwrap();
    }
    cluster.start_master();
    let _ended = cluster.gnt(&format!("job wait {second}")).failed(1);
    let left = all(&cluster);
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    let why = left[0]["opresult"][0].to_string();
    assert!(left[0]["id"] == 2 && left[0]["status"] == "error", "{left}");
    assert!(why.contains("job 1"), "{left}");
    assert_eq!(cluster.submit("debug delay 0"), 4);
}

#[test]
fn a_file_that_may_not_be_read_stops_the_start_with_its_name() {
    let cluster = with_jobs();
    let command = || unprivileged_master(&cluster);
    let (queue, mut command) = (queue(&cluster), command());
    let path = queue.join("job-1");
    let mode = std::fs::metadata(&path).unwrap().permissions();
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let mut again = std::process::Command::new(command.get_program());
    again.args(command.get_args());
    let told = command.output().unwrap();
    let text = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(2), "{text}");
    assert!(text.contains("queue/job-1") && text.contains("ermission denied"), "{text}");
    std::fs::set_permissions(&path, mode).unwrap();
    cluster.start_master_by(again);
    assert_eq!(all(&cluster).as_array().unwrap().len(), 3);
}

#[test]
fn what_is_done_to_files_of_live_jobs_while_the_master_runs_changes_no_job() {
    let cluster = Cluster::begin();
    let queue = queue(&cluster);
    for id in 1..=4 {
        assert_eq!(cluster.submit(HOLD), id);
        cluster.wait_for_status(id, "running");
    }
    let file = |id: u64| queue.join(format!("job-{id}"));
    wait_for("the files", tests::cluster::PATIENCE, || {
        (1..=4).all(|id| file(id).exists()).then_some(())
    });
    write(&file(1), b"{");
    std::fs::remove_file(file(2)).unwrap();
    let success = edited(&file(3), |job| job["ops"][0]["status"] = json!("success"));
    write(&file(3), &success);
    std::fs::set_permissions(file(4), Permissions::from_mode(0o000)).unwrap();
    for id in 1..=4 {
        assert_eq!(cluster.status(id), "running");
        let _canceled = cluster.gnt(&format!("job cancel {id}")).ok();
        cluster.wait_for_status(id, "canceled");
    }
    let _archived = cluster.gnt("job archive 2").ok();
    let before = all(&cluster);
    cluster.stop_master();
    cluster.start_master();
    assert_eq!(all(&cluster), before);
}

#[test]
fn an_archived_job_that_cannot_be_used_hides_no_other() {
    let cluster = with_jobs();
    cluster.start_master();
    let _archived = cluster.gnt("job archive 2").ok();
    let archive = queue(&cluster).join("archive/0");
    wait_for("the file", tests::cluster::PATIENCE, || archive.join("job-2").exists().then_some(()));
    let whole = std::fs::read(archive.join("job-2")).unwrap();
    for (content, why) in
        [(b"{".to_vec(), "EOF"), (std::fs::read(archive.join("job-3")).unwrap(), "it holds job 3")]
    {
        write(&archive.join("job-2"), &content);
        let told = cluster.gnt("job info 2");
        assert!(told.failed(1).contains("queue/archive/0/job-2"), "{told:?}");
        assert!(told.stderr.contains(why), "{told:?}");
        let listed = all(&cluster);
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|job| &job["id"]).collect();
        assert_eq!(ids, [1, 3]);
        assert_eq!(cluster.status(3), "success");
    }
    write(&archive.join("job-2"), &whole);
    assert_eq!(cluster.status(2), "success");
}
