//! Locks as an operator meets them: who has one, who waits, who is next.

use serde_json::{Value, json};
use tests::cluster::{Cluster, MASTER};

/// A job that holds the master's node until it is canceled.
const HOLD: &str = "debug delay 1000";

fn locks(cluster: &Cluster) -> Vec<Value> {
    let rows = cluster.gnt("debug locks --json -o name,mode,owner,pending").json();
    rows.as_array().unwrap().clone()
}

fn lock(cluster: &Cluster, name: &str) -> Value {
    let rows = locks(cluster);
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{rows:?}")).clone()
}

/// A job that runs, and one that waits for it.
fn two(cluster: &Cluster) -> [u64; 2] {
    let first = cluster.submit(HOLD);
    cluster.wait_for_status(first, "running");
    let second = cluster.submit(HOLD);
    cluster.wait_for_status(second, "waiting");
    [first, second]
}

#[test]
fn the_list_of_locks_names_owner_and_waiter() {
    let cluster = Cluster::begin();
    let [first, second] = two(&cluster);
    let (owner, waiter) = (format!("job/{first}"), format!("job/{second}"));
    let node = lock(&cluster, &format!("node/{MASTER}"));
    assert_eq!((&node["mode"], &node["owner"]), (&json!("exclusive"), &json!([owner])));
    assert_eq!(node["pending"], json!([["exclusive", [waiter]]]));
    let big = lock(&cluster, "cluster/BGL");
    assert_eq!((&big["mode"], &big["owner"]), (&json!("shared"), &json!([owner, waiter])));
    let table = cluster.gnt("debug locks");
    let told = table.ok().lines().find(|line| line.starts_with("node/")).unwrap().to_owned();
    assert!(told.contains(&owner) && told.contains(&format!("exclusive:{waiter}")), "{table:?}");
}

#[test]
fn a_waiting_job_that_is_canceled_leaves_at_once() {
    let cluster = Cluster::begin();
    let [first, second] = two(&cluster);
    let told = cluster.gnt(&format!("job cancel {second}"));
    assert!(told.ok().contains(&second.to_string()), "{told:?}");
    cluster.wait_for_status(second, "canceled");
    assert_eq!(lock(&cluster, &format!("node/{MASTER}"))["pending"], json!([]));
    assert_eq!(cluster.status(first), "running");

    let _told = cluster.gnt(&format!("job cancel {first}")).ok();
    cluster.wait_for_status(first, "canceled");
    assert!(locks(&cluster).iter().all(|row| row["owner"].is_null()), "{:?}", locks(&cluster));
}

#[test]
fn one_waits_for_the_other_and_runs_after_it() {
    let cluster = Cluster::begin();
    let first = cluster.submit("debug delay 0.5");
    let second = cluster.submit("debug delay 0");
    for id in [first, second] {
        cluster.wait_for_status(id, "success");
    }
    let time = |id: u64, field: &str| cluster.job(id, field)[field][0].as_f64().unwrap();
    assert!(time(second, "opexec") >= time(first, "opend"), "both ran at the same time");
}

#[test]
fn the_most_urgent_waiter_is_next() {
    let cluster = Cluster::begin();
    let [first, normal] = two(&cluster);
    let submit = |priority: &str| {
        let id = cluster.submit(&format!("{HOLD} --priority {priority}"));
        cluster.wait_for_status(id, "waiting");
        id
    };
    let (low, high, raised) = (submit("low"), submit("high"), submit("low"));
    let _raised = cluster.gnt(&format!("job change-priority --priority -20 {raised}")).ok();
    let mut holder = first;
    for next in [raised, high, normal, low] {
        let _canceled = cluster.gnt(&format!("job cancel {holder}")).ok();
        cluster.wait_for_status(next, "running");
        holder = next;
    }
}

#[test]
fn jobs_without_locks_wait_for_nobody() {
    let cluster = Cluster::begin();
    let [first, second] = two(&cluster);
    let _free = cluster.gnt("debug delay 0 --no-locks").ok();
    let _nothing_locked = cluster.gnt("debug delay 0 --no-master").ok();
    let _master_only = cluster.gnt("cluster modify -C 9 --dry-run").ok();
    assert_eq!(
        (cluster.status(first), cluster.status(second)),
        ("running".into(), "waiting".into())
    );
}
