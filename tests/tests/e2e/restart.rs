//! The fate of jobs when the master ends, in a hurry or in peace.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::cluster::{Cluster, MASTER, PATIENCE};
use tests::inspect::{self, QueueFiles};
use tests::run::{run, wait_for};

/// Two opcodes: one that ends at once, and one that does not end by itself.
const TWO_STEPS: &str = r#"[
  {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_master": false, "on_nodes": ["n1.example"]},
  {"OP_ID": "OP_TEST_DELAY", "duration": 1000.0, "on_master": true, "on_nodes": [],
   "no_locks": false}
]"#;

/// Submits the job of a file without waiting for it.
fn submit_file(cluster: &Cluster, text: &str) -> u64 {
    let ops = serde_json::from_str(text).unwrap();
    cluster.client().call(&luxi::method::SubmitJob { ops }).unwrap().0
}

fn all(cluster: &Cluster) -> Value {
    cluster.gnt("job list --json -o id,status,opstatus,opresult,oplog,ops").json()
}

/// One job that runs, one that waits for its lock, and three that are queued behind the limit.
fn busy() -> (Cluster, u64, u64, Vec<u64>) {
    let cluster = Cluster::begin_with_agent();
    let _set = cluster.gnt("cluster modify --max-running-jobs 2").ok();
    let running = submit_file(&cluster, TWO_STEPS);
    wait_for("the second opcode", PATIENCE, || {
        let status = &cluster.job(running, "opstatus")["opstatus"];
        (*status == json!(["success", "running"])).then_some(())
    });
    let line = format!("debug delay 0.01 --no-master -n {MASTER}");
    let waiting = cluster.submit(&line);
    cluster.wait_for_status(waiting, "waiting");
    let queued: Vec<u64> = (0..3).map(|_| cluster.submit(&line)).collect();
    (cluster, running, waiting, queued)
}

#[test]
fn a_killed_master_fails_what_ran_and_runs_what_had_not_begun() {
    let (cluster, running, waiting, queued) = busy();
    for &id in &queued {
        assert_ne!(cluster.status(id), "running");
    }
    cluster.kill_master();
    cluster.start_master();

    let failed = cluster.job(running, "status,opstatus,opresult");
    assert_eq!(failed["status"], "error");
    assert_eq!(failed["opstatus"], json!(["success", "error"]));
    assert_eq!(failed["opresult"][0], Value::Null, "{failed}");
    let reason = failed["opresult"][1].to_string();
    assert!(reason.contains("OpExecError") && reason.contains("master ended"), "{reason}");
    for id in queued.iter().copied().chain([waiting]) {
        cluster.wait_for_status(id, "success");
    }
    let next = cluster.submit("debug delay 0");
    assert_eq!(next, queued.iter().max().unwrap() + 1);
}

#[test]
fn max_running_jobs_limits_jobs_that_call_agents() {
    let cluster = Cluster::begin_with_agent();
    let _set = cluster.gnt("cluster modify --max-running-jobs 2").ok();
    let line = format!("debug delay 1000 --no-locks --no-master -n {MASTER}");
    let running = [cluster.submit(&line), cluster.submit(&line)];
    for id in running {
        cluster.wait_for_status(id, "running");
    }
    let queued = cluster.submit(&line);
    let master_only = cluster.gnt("debug delay 0 --no-locks");
    assert_eq!(master_only.code(), 0, "the limit is for agents: {master_only:?}");
    assert_eq!(cluster.status(queued), "queued");
    let _canceled = cluster.gnt(&format!("job cancel {}", running[0])).ok();
    cluster.wait_for_status(queued, "running");
    cluster.wait_for_status(running[0], "canceled");
}

#[test]
fn a_master_that_ends_in_peace_leaves_files_that_are_the_whole_store() {
    let cluster = Cluster::begin();
    for line in ["debug delay 0", "debug delay 0.01 --no-locks", "cluster modify -C 7"] {
        let _done = cluster.gnt(line).ok();
    }
    let failing = cluster.gnt("debug delay -n no-such-node 0");
    let _told = failing.failed(1);
    let _archived = cluster.gnt("job archive 1").ok();
    let _drained = cluster.gnt("cluster queue drain").ok();
    let before = all(&cluster);
    cluster.stop_master();
    assert!(!cluster.master.layout().luxi_socket().exists());
    let store = inspect::store(&cluster.master);
    assert_eq!(store["clean"], true, "{store}");
    let files = QueueFiles::read(&cluster.master);
    assert_eq!(files.live.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(files.archived.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(files.serial, 4);

    let data = cluster.master.layout().data();
    let documents = inspect::documents(&cluster.master);
    std::fs::remove_dir_all(data.join("journal")).unwrap();
    cluster.start_master();
    assert_eq!(all(&cluster), before);
    assert_eq!(cluster.gnt("cluster queue info").ok().trim(), "The drain flag is set");
    let _undrained = cluster.gnt("cluster queue undrain").ok();
    assert_eq!(cluster.submit("debug delay 0"), 5);
    cluster.wait_for_status(5, "success");
    cluster.stop_master();
    let mut later = inspect::documents(&cluster.master);
    for (key, content) in &documents {
        let changed = ["queue/serial", "queue/drain", "config/role"].contains(&key.as_str());
        assert!(changed || later.remove(key).as_ref() == Some(content), "{key} changed");
    }
}

#[test]
fn a_master_that_is_asked_to_end_takes_its_running_jobs_along() {
    let cluster = Cluster::begin();
    let short = cluster.submit("debug delay 1");
    cluster.wait_for_status(short, "running");
    let queued = cluster.submit("debug delay 0");
    cluster.stop_master();
    assert_eq!(inspect::store(&cluster.master)["clean"], true);
    let files = QueueFiles::read(&cluster.master);
    assert_eq!(files.live[&short]["ops"][0]["status"], "success");
    cluster.start_master();
    cluster.wait_for_status(queued, "success");
}

#[test]
fn a_job_that_runs_too_long_is_failed_by_the_next_start() {
    let cluster = Cluster::begin();
    let long = cluster.submit("debug delay 1000");
    cluster.wait_for_status(long, "running");
    let waiting = cluster.gnt_start(&format!("job wait {long}"));
    waiting.wait_until_following();
    let pid = i32::try_from(cluster.master_pid().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    wait_for("the end of the master", PATIENCE, || {
        (inspect::store(&cluster.master)["clean"] == true).then_some(())
    });
    cluster.kill_master();
    cluster.start_master();
    let told = waiting.end();
    let lost = format!("The connection to the master is lost while waiting for job {long}");
    assert!(told.failed(1).contains(&lost), "{told:?}");
    let job = cluster.job(long, "status,opresult");
    assert_eq!(job["status"], "error");
    assert!(job["opresult"][0].to_string().contains("master ended"), "{job}");
}

#[test]
fn dependencies_and_priorities_outlive_the_master() {
    let cluster = Cluster::begin();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let after = |id: u64, statuses: Value| {
        let op = json!({"OP_ID": "OP_TEST_DELAY", "duration": 0, "depends": [[id, statuses]]});
        submit_file(&cluster, &json!([op]).to_string())
    };
    let any = after(running, json!([]));
    let never = after(running, json!(["success"]));
    let chain = after(any, json!(["success"]));
    let low = cluster.submit("debug delay 0 --priority low");
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(cluster.status(running), "error");
    for id in [any, chain, low] {
        cluster.wait_for_status(id, "success");
    }
    cluster.wait_for_status(never, "error");
    assert_eq!(cluster.job(low, "oppriority")["oppriority"], json!([10]));
}

#[test]
fn the_slow_and_simple_store_keeps_its_word_too() {
    let cluster = Cluster::init();
    let slow = || {
        let mut masterd = cluster.masterd();
        masterd.args(["--durability", "file"]);
        cluster.start("masterd", masterd);
        wait_for("a master", PATIENCE, || (cluster.gnt("cluster info").code() == 0).then_some(()));
    };
    slow();
    let _done = cluster.gnt("debug delay 0").ok();
    let running = cluster.submit("debug delay 1000");
    let last = cluster.submit("debug delay 0.01");
    assert!(cluster.master.layout().data().join(format!("queue/job-{last}")).exists());
    cluster.kill_master();
    slow();
    cluster.wait_for_status(running, "error");
    cluster.wait_for_status(last, "success");
    // Both kinds read each other's directories.
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(cluster.status(last), "success");
}

/// Copies what belongs to the master out of its data directory, or back into it.
pub(crate) fn copy_store(from: &Path, to: &Path) {
    let script = "find \"$1\" -mindepth 1 -maxdepth 1 ! -name node -exec cp -a {} \"$2\" ';'";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).args([from, to]);
    let _copied = run(shell).ok();
}

/// Puts a copy of the store in the place of what is there.
pub(crate) fn restore(backup: &Path, data: &Path) {
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        // The agent's, which is no part of the copy.
        if path.ends_with("node") {
            continue;
        }
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    copy_store(backup, data);
}

#[test]
fn a_restored_backup_is_not_obeyed_before_its_epoch_has_caught_up() {
    let cluster = Cluster::begin_with_agent();
    let (data, backup) = (cluster.master.layout().data(), cluster.dir().join("backup"));
    let call = format!("debug delay 0 --no-master -n {MASTER}");
    cluster.stop_master();
    std::fs::create_dir(&backup).unwrap();
    copy_store(&data, &backup);
    for _ in 0..2 {
        cluster.start_master();
        let _obeyed = cluster.gnt(&call).ok();
        cluster.stop_master();
    }
    restore(&backup, &data);
    cluster.start_master();
    let refused = cluster.gnt(&call);
    assert!(refused.failed(1).contains("epoch"), "{refused:?}");
    assert!(refused.stderr.contains("3.1") && refused.stderr.contains("4.1"), "{refused:?}");
    cluster.stop_master();
    cluster.start_master();
    let _obeyed = cluster.gnt(&call).ok();
}
