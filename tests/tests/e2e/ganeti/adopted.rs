//! A queue directory that Ganeti's own code made, in the place of this master's.

use std::path::{Path, PathBuf};
use std::process::Command;

use luxi::method::QueryJobs;
use model::JobId;
use serde_json::{Value, json};
use tests::cluster::{Cluster, MASTER};
use tests::ganeti::Ganeti;
use tests::run::run;

/// Makes the directory by the installed modules.
const MAKE_QUEUE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/ganeti/job_queue.py");
/// The job that was given out last in it.
const LAST: u64 = 10_004;

/// A queue of Ganeti below the cluster's directory, and what Ganeti says of its jobs; `None` where
/// it cannot be made.
fn queue_of_ganeti(cluster: &Cluster) -> Option<(PathBuf, String)> {
    let ganeti = Ganeti::find("a queue of Ganeti")?;
    if !tests::is_root() {
        tests::skip("a queue of Ganeti", "only root can give its files to Ganeti's users");
        return None;
    }
    let root = cluster.dir().join("ganeti").join(MASTER);
    let mut make = ganeti.python();
    make.arg(MAKE_QUEUE).env("GANETI_ROOTDIR", &root).env("GANETI_HOSTNAME", MASTER);
    let told = run(make).ok().to_owned();
    Some((root.join("var/lib/ganeti/queue"), told))
}

fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(from.join(".")).arg(to);
    let _copied = run(copy).ok();
}

/// A cluster whose master has not started yet, on Ganeti's queue.
fn adopted() -> Option<(Cluster, String)> {
    let cluster = Cluster::init();
    let (queue, told) = queue_of_ganeti(&cluster)?;
    copy(&queue, &cluster.master.layout().data().join("queue"));
    Some((cluster, told))
}

/// The jobs as Ganeti's code tells them: number, status, and whether each is archived.
fn jobs(told: &str) -> Vec<(u64, &str, bool)> {
    let words = told.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    words.map(|words| (words[0].parse().unwrap(), words[1], words[2] == "archived")).collect()
}

fn ended(cluster: &Cluster, id: u64) -> String {
    let _ended = cluster.gnt(&format!("job wait {id}"));
    cluster.status(id)
}

#[test]
fn jobs_of_ganeti_are_taken_over() {
    let Some((cluster, told)) = adopted() else { return };
    let queue = cluster.master.layout().data().join("queue");
    let before: Value =
        serde_json::from_slice(&std::fs::read(queue.join("job-2")).unwrap()).unwrap();
    cluster.start_master();
    let theirs = jobs(&told);
    assert_eq!(theirs.len(), 13, "{told}");
    for (id, status, archived) in &theirs {
        let job = cluster.job(*id, "status,archived");
        assert_eq!(job["archived"], *archived, "job {id}");
        // An unfinished job goes on as it does when one of our masters is followed by the next.
        let expected = match (id, *status) {
            (8 | 9, "running" | "canceling") | (6 | 11, "queued") => "error",
            (5 | 7 | 10 | 12, "queued" | "waiting") => "success",
            (_, over) => over,
        };
        assert_eq!(ended(&cluster, *id), expected, "job {id} was {status}");
    }
    let fields = ["opresult", "oplog", "ops", "received_ts", "start_ts", "end_ts"];
    let question = QueryJobs { job_ids: Some(vec![JobId(2)]), fields: fields.into() };
    let ask = || cluster.client().call(&question).unwrap().swap_remove(0).unwrap();
    let row = ask();
    let was = |name: &str| -> Value {
        before["ops"].as_array().unwrap().iter().map(|op| op[name].clone()).collect()
    };
    assert_eq!(row[0], json!([null, [["web", true], {"of": 2.5}]]));
    assert_eq!(row[1], was("log"));
    assert_eq!(row[1][0][0][3], "begins, ä€");
    assert_eq!(row[2][1], was("input")[1], "an opcode that is not known stays as it is");
    assert_eq!(row[2][0]["reason"], was("input")[0]["reason"]);
    for (value, key) in row[3..].iter().zip(["received", "start", "end"]) {
        assert_eq!(*value, before[format!("{key}_timestamp")], "{key}");
    }
    let why = |id: u64| cluster.job(id, "opresult")["opresult"][0].to_string();
    assert!(why(6).contains("OpCodeUnknown"), "{}", why(6));
    assert!(why(8).contains("master ended"), "{}", why(8));
    assert!(why(11).contains("Dependency job 6 finished with status error"), "{}", why(11));
    // It was drained; and no number is given out twice.
    let refused = cluster.gnt("debug delay 0");
    assert!(refused.failed(1).contains("drain"), "{refused:?}");
    let _open = cluster.gnt("cluster queue undrain").ok();
    assert_eq!(cluster.submit("debug delay 0"), LAST + 1);
    let _archived = cluster.gnt("job archive 2").ok();
    assert_eq!(ask(), row);
}

#[test]
fn a_queue_of_another_format_is_refused_and_stays_as_it_is() {
    let Some((cluster, _told)) = adopted() else { return };
    let queue = cluster.master.layout().data().join("queue");
    let job = std::fs::read(queue.join("job-7")).unwrap();
    let refused = |file: &str, content: &str, words: &[&str]| {
        let path = queue.join(file);
        let whole = std::fs::read(&path).unwrap();
        stdx::atomic::write(&path, content.as_bytes(), 0o640).unwrap();
        let told = run(cluster.masterd());
        for word in words {
            assert!(told.failed(2).contains(word), "no {word}: {told:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), content.as_bytes());
        assert_eq!(std::fs::read(queue.join("job-7")).unwrap(), job, "not begun");
        stdx::atomic::write(&path, &whole, 0o640).unwrap();
    };
    for version in ["2\n", "", "3010000\n", "x"] {
        refused("version", version, &["queue/version", "another format"]);
    }
    refused("serial", "9\n", &["queue/serial", "highest job id"]);
    refused("serial", "many\n", &["queue/serial", "whole number"]);
    cluster.start_master();
    assert_eq!(ended(&cluster, 7), "success");
}

#[test]
fn a_data_directory_of_ganeti_is_no_cluster() {
    let cluster = Cluster::init();
    let Some((queue, _told)) = queue_of_ganeti(&cluster) else { return };
    let host = cluster.host("ganetis");
    std::fs::create_dir_all(host.layout().log()).unwrap();
    let data = host.layout().data();
    std::fs::create_dir_all(data.join("queue")).unwrap();
    copy(&queue, &data.join("queue"));
    stdx::atomic::write(&data.join("config.data"), b"{}", 0o640).unwrap();
    let job = std::fs::read(data.join("queue/job-7")).unwrap();
    let mut masterd = Command::new(cluster.masterd().get_program());
    masterd.arg("--root").arg(&host.root);
    let told = run(masterd);
    assert!(told.failed(5).contains("gnt cluster init"), "{told:?}");
    assert_eq!(std::fs::read(data.join("queue/job-7")).unwrap(), job);
    assert!(!data.join("store.json").exists() && !data.join("journal").exists());
}
