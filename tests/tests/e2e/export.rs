//! `gnt cluster export` of a master at work, and `import` on a machine that has nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use luxi::Client;
use luxi::method::QueryClusterInfo;
use tests::cluster::{Cluster, Host, MASTER, PATIENCE};
use tests::run::{Ended, run, wait_for};

/// `gnt` on another machine than the master.
fn gnt_on(cluster: &Cluster, host: &Host, line: &str) -> Ended {
    let master = cluster.gnt_command("");
    let mut command = Command::new(master.get_program());
    command.env_remove("GANTRY_ROOT");
    command.arg("--root").arg(&host.root).args(line.split_whitespace());
    run(command)
}

/// Starts a master on a machine, and waits until it answers.
fn start_on(cluster: &Cluster, host: &Host) {
    let master = cluster.masterd();
    let mut command = Command::new(master.get_program());
    command.env_remove("GANTRY_ROOT");
    command.arg("--root").arg(&host.root).args(["--journal-segment", "4"]);
    cluster.start("n3.example", command);
    wait_for("an answer of the master that was restored", PATIENCE, || {
        Client::connect(&host.layout().luxi_socket()).ok()?.call(&QueryClusterInfo {}).ok()
    });
}

#[test]
fn a_master_at_work_is_exported_and_restored_elsewhere() {
    let cluster = Cluster::begin();
    let done = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(done, "success");
    let long = cluster.submit("debug delay 600 --no-locks");
    cluster.wait_for_status(long, "running");
    let dir = cluster.dir();
    let phrase = cluster.write("phrase", "correct horse battery\n");
    let (phrase, file) = (phrase.display().to_string(), dir.join("c1.export"));
    let path = file.display().to_string();
    let seal = format!("--secrets seal --passphrase-file {phrase}");
    let made = cluster.gnt(&format!("cluster export {path} {seal}"));
    assert!(made.ok().contains("its secrets open with the passphrase alone"), "{made:?}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = cluster.gnt(&format!("cluster export {path}"));
    assert!(again.failed(1).contains("error[export-refused]: the export file"), "{again:?}");
    let plain = cluster.gnt(&format!("cluster export {path}.2 --passphrase-file {phrase}"));
    assert!(plain.failed(2).contains("--secrets seal"), "{plain:?}");
    let short = cluster.write("short", "horse\n");
    let short = format!("--secrets seal --passphrase-file {}", short.display());
    let refused = cluster.gnt(&format!("cluster export {path}.2 {short}"));
    assert!(refused.failed(1).contains("12 characters"), "{refused:?}");
    assert!(!dir.join("c1.export.2").exists());

    // Over a cluster nothing is imported.
    let over = cluster.gnt(&format!("cluster import {path} --node-name {MASTER}"));
    assert!(over.failed(2).contains("belongs to a cluster already"), "{over:?}");

    cluster.kill_master();
    let host = cluster.host("n3");
    let import = format!("cluster import {path} --node-name {MASTER} --journal-segment 4");
    let locked = gnt_on(&cluster, &host, &import);
    assert!(locked.failed(2).contains("--passphrase-file"), "{locked:?}");
    let imported = gnt_on(&cluster, &host, &format!("{import} --passphrase-file {phrase}"));
    assert!(imported.ok().contains("1 jobs had not ended and have failed"), "{imported:?}");
    start_on(&cluster, &host);
    let told = |id: u64| gnt_on(&cluster, &host, &format!("job list --no-headers -o status {id}"));
    assert_eq!((told(done).ok().trim(), told(long).ok().trim()), ("success", "error"));
    let why = gnt_on(&cluster, &host, &format!("job info {long}"));
    assert!(why.ok().contains("restored from an export"), "{why:?}");
    let next = gnt_on(&cluster, &host, "debug delay 0 --no-locks --print-jobid");
    let _works = next.ok();
}

#[test]
fn the_store_of_a_stopped_master_is_exported_too() {
    let cluster = Cluster::begin();
    let done = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(done, "success");
    cluster.kill_master();
    let path = cluster.dir().join("c1.export").display().to_string();
    let made = cluster.gnt(&format!("cluster export {path}"));
    assert!(made.ok().contains("The store of this machine at position"), "{made:?}");
    let host = cluster.host("n3");
    let imported = gnt_on(&cluster, &host, &format!("cluster import {path} --node-name {MASTER}"));
    assert!(imported.ok().contains("has a new authority"), "{imported:?}");
    start_on(&cluster, &host);
    let told = gnt_on(&cluster, &host, &format!("job list --no-headers -o status {done}"));
    assert_eq!(told.ok().trim(), "success");
    cluster.start_master();
    cluster.wait_for_status(done, "success");
}

#[test]
fn what_only_the_last_copy_knows_of_is_exported_too() {
    let (cluster, hosts) = Cluster::begin_with_candidates(3);
    let done = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(done, "success");
    for host in &hosts {
        cluster.kill_masterd(host);
    }
    // It is in the log, and nobody will ever say that it is committed.
    let op = r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}"#;
    let call = luxi::method::SubmitJob { ops: vec![serde_json::from_str(op).unwrap()] };
    let unknown = cluster.client().call(&call).unwrap_err();
    assert!(!unknown.to_string().contains("nothing was done"), "{unknown}");
    cluster.kill_master();
    let path = cluster.dir().join("c1.export").display().to_string();
    let _made = cluster.gnt(&format!("cluster export {path}")).ok();
    let host = cluster.host("n9");
    let _imported =
        gnt_on(&cluster, &host, &format!("cluster import {path} --node-name {MASTER}")).ok();
    start_on(&cluster, &host);
    let told = gnt_on(&cluster, &host, "job list --no-headers -o id");
    let last = told.ok().lines().next_back().and_then(|id| id.trim().parse().ok());
    assert_eq!(last, Some(done + 1), "{told:?}");
}
