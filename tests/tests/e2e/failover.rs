//! Three nodes that can be master: how they come to be that, how the role moves, and what clients
//! and jobs see of it.
//!
//! Clients are in [`follow`], and those that read much in [`readers`]. Masters that end are in
//! [`killed`], failover by itself in [`automatic`]. A master that does not know that it ended is in
//! [`paused`], one that goes on without the others in [`overridden`]. Two nodes are in [`two`], a third
//! one that only votes in [`witness`]. Certificates are in [`renewed`], nodes that go in [`removed`].
//! The choice of candidates is in [`pool`], agents that know others in [`callers`]. Stores that cannot
//! be believed are in [`damaged`], those that somebody changed in [`edited`], lost ones in [`emptied`].
//! Two nodes that want the role at once are in [`rivals`], opcodes that end before in [`drain`].
//! Monitoring is in [`monitored`].

mod automatic;
mod callers;
mod damaged;
mod drain;
mod edited;
mod emptied;
mod follow;
mod killed;
mod monitored;
mod overridden;
mod paused;
mod pool;
mod readers;
mod removed;
mod renewed;
mod rivals;
mod two;
mod witness;

use serde_json::json;
use tests::candidates::{LONG, refusal, status};
use tests::cluster::{Cluster, Host, MASTER};
use tests::inspect::documents;
use tests::run::wait_for;

/// A cluster of three whose nodes all vote.
pub(crate) fn three() -> (Cluster, Host, Host) {
    let (cluster, hosts) = Cluster::begin_with_candidates(3);
    let mut hosts = hosts.into_iter();
    (cluster, hosts.next().unwrap(), hosts.next().unwrap())
}

/// The member of a node, as its document has it.
fn member(cluster: &Cluster, node: &str) -> Option<u64> {
    let path = cluster.master.layout().data().join("config/nodes").join(node);
    let node: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    node["member"]["id"].as_u64()
}

/// The alarm of a kind, as a machine's status has it: what is wrong, and what to do.
pub(crate) fn alarm(host: &Host, kind: &str) -> Option<String> {
    let alarms = status(host)?.alarms;
    let found = alarms.into_iter().find(|alarm| alarm.kind == kind)?;
    Some(format!("{}; {}", found.text, found.todo))
}

/// Waits until a master was asked for the role.
fn wait_for_attempt(master: &Host) {
    wait_for("an attempt", LONG, || {
        master.masterd_log().contains("asked for the role").then_some(())
    });
}

/// Moves all away that a machine holds as a candidate; what its agent keeps stays.
fn put_aside(host: &Host) {
    let data = host.layout().data();
    let aside = data.with_extension("aside");
    std::fs::create_dir(&aside).unwrap();
    for entry in std::fs::read_dir(&data).unwrap() {
        let name = entry.unwrap().file_name();
        if name != "node" {
            stdx::atomic::rename(&data.join(&name), &aside.join(&name)).unwrap();
        }
    }
}

/// A job of a file's text, without waiting for it.
fn submit_ops(cluster: &Cluster, ops: &serde_json::Value) -> u64 {
    let ops = serde_json::from_str(&ops.to_string()).unwrap();
    cluster.client().call(&luxi::method::SubmitJob { ops }).unwrap().0
}

/// The line of a job that calls the agents of these machines.
fn call_all(hosts: &[&Host]) -> String {
    let nodes: String = hosts.iter().map(|host| format!(" -n {}", host.name)).collect();
    format!("debug delay 0 --no-master{nodes}")
}

#[test]
fn candidates_become_voters_by_themselves_and_hold_the_same_files() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    for line in ["debug delay 0", "debug delay 0.01 --no-locks", "cluster modify -C 7"] {
        let _done = cluster.gnt(line).ok();
    }
    let _failed = cluster.gnt("debug delay -n no-such-node 0").failed(1).to_owned();
    let _archived = cluster.gnt("job archive 1").ok();
    let _called = cluster.gnt(&call_all(&[&n1, &n2, &n3])).ok();

    let count = cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    assert!(count > 10, "{count} files");
    for host in [&n1, &n3, &n2] {
        cluster.stop_masterd(host);
    }
    let all = [&n1, &n2, &n3].map(documents);
    let keys: Vec<&String> = all[0].keys().collect();
    for wanted in ["config/cluster", "config/authority", "queue/serial", "queue/archive/0/job-1"] {
        assert!(keys.iter().any(|key| *key == wanted), "no {wanted} in {keys:?}");
    }
    for other in &all[1..] {
        assert_eq!(other.keys().collect::<Vec<_>>(), keys);
        let differs = keys.iter().find(|key| other[**key] != all[0][**key]);
        assert_eq!(differs, None);
    }
    // In the dark, everyone waits for the others; then all is as it was.
    for host in [&n3, &n2, &n1] {
        cluster.start_masterd(host);
    }
    cluster.wait_for_master(&n1);
    cluster.wait_for_standby(&n3, MASTER);
    let _again = cluster.gnt("debug delay 0").ok();
}

#[test]
fn a_planned_failover_takes_the_queue_along_and_back() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let two_steps = json!([
        {"OP_ID": "OP_TEST_DELAY", "duration": 1.5, "no_locks": false},
        {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "no_locks": false},
    ]);
    let running = submit_ops(&cluster, &two_steps);
    cluster.wait_for_status(running, "running");
    let behind: Vec<u64> = (0..3).map(|_| cluster.submit("debug delay 0.01")).collect();
    let depends = json!({
        "OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true, "depends": [[running, ["success"]]],
    });
    let later = submit_ops(&cluster, &json!([depends]));

    cluster.fail_over(&n2);
    for id in behind.iter().chain([&running, &later]) {
        cluster.wait_for_status(*id, "success");
    }
    let statuses = cluster.job(running, "opstatus");
    assert_eq!(statuses["opstatus"], json!(["success", "success"]), "the first one ended in time");
    let next = cluster.submit("debug delay 0");
    assert_eq!(next, later + 1);
    for host in [&n1, &n3] {
        cluster.wait_for_standby(host, &n2.name);
        let listed = cluster.gnt_on(host, "job list --no-headers -o id");
        assert_eq!(listed.ok(), cluster.gnt("job list --no-headers -o id").ok(), "{host:?}");
    }
    let epoch = cluster.gnt("cluster info").ok().to_owned();
    assert!(epoch.contains(&n2.name), "{epoch}");
    // Agents obey the new master.
    let on_all = call_all(&[&n1, &n2, &n3]);
    let _called = cluster.gnt(&on_all).ok();

    // Back, asked for on a third node.
    let told = cluster.gnt_on(&n3, &format!("cluster master-failover --to {MASTER}"));
    assert!(told.ok().contains("n1.example is the master, in epoch"), "{told:?}");
    cluster.master = n1.clone();
    cluster.wait_for_standby(&n2, MASTER);
    assert_eq!(cluster.submit("debug delay 0"), next + 2, "the call to the agents was one, too");
    let _called = cluster.gnt(&on_all).ok();
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn who_is_asked_for_the_role_tells_what_it_would_do() {
    let (cluster, n2, _n3) = three();
    let dry = cluster.gnt_on(&n2, "cluster master-failover --dry-run");
    let told = dry.ok();
    assert!(told.contains("answers that count: 3 of 3 nodes, 3 of 3 voters"), "{told}");
    assert!(refusal(&n2).is_some(), "nothing was done");
    let self_made = cluster.gnt("cluster master-failover");
    assert!(self_made.failed(1).contains("is the master already"), "{self_made:?}");
    wait_for("the master to go on", LONG, || {
        (cluster.gnt("debug delay 0").code() == 0).then_some(())
    });
}
