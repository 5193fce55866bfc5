//! Machines become nodes by tokens, go away, and are called only while they can answer.

use std::process::Command;

use serde_json::json;
use tests::cluster::{Cluster, Host, PATIENCE};
use tests::run::{Ended, wait_for};

/// `noded enroll` on a machine, as a daemon; gives the token that it shows.
fn enroll(cluster: &Cluster, host: &Host) -> String {
    let mut command: Command = cluster.noded(host);
    command.args(["enroll", "--name", &host.name, "--address", &host.address.to_string()]);
    cluster.start(&host.name, command);
    wait_for("a token", PATIENCE, || {
        let printed = cluster.printed(&host.name);
        printed.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
    })
}

fn add(cluster: &Cluster, host: &Host, token: &str) -> Ended {
    cluster.gnt(&format!("node add {} --secret {token}", host.name))
}

/// A cluster of three with their agents.
fn three() -> (Cluster, [Host; 2]) {
    let cluster = Cluster::begin_with_agent();
    let hosts = ["n2", "n3"].map(|short| cluster.host(short));
    for host in &hosts {
        let token = enroll(&cluster, host);
        let _added = add(&cluster, host, &token).ok();
        cluster.wait_for_facts(&host.name);
    }
    (cluster, hosts)
}

#[test]
fn three_nodes_work_together() {
    let (cluster, hosts) = three();
    let rows = cluster.gnt("node list --json -o name,role").json();
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["n1.example", "n2.example", "n3.example"]);
    let _done = cluster.gnt("debug delay 0 --no-master -n n1.example -n n2.example -n n3").ok();
    for id in 1..=3 {
        let ops = cluster.job(id, "ops,oplog").to_string();
        assert!(!ops.to_lowercase().contains("secret"), "{ops}");
    }
    // An agent that was started again is the same node.
    cluster.kill_agent(&hosts[0]);
    cluster.start_agent(&hosts[0]);
    wait_for("a call that succeeds", PATIENCE, || {
        (cluster.gnt("debug delay 0 --no-master -n n2.example").code() == 0).then_some(())
    });
}

#[test]
fn a_delay_takes_those_locks_that_are_free() {
    let (cluster, [second, third]) = three();
    let on_both = format!("debug delay 0 --no-master -n {} -n {}", second.name, third.name);
    let holds = cluster.submit(&format!("debug delay 1000 --no-master -n {}", second.name));
    cluster.wait_for_status(holds, "running");
    let all = cluster.submit(&on_both);
    cluster.wait_for_status(all, "waiting");
    let some = cluster.submit(&format!("{on_both} --opportunistic-locking"));
    cluster.wait_for_status(some, "success");
    let log = cluster.job(some, "oplog").to_string();
    assert!(log.contains(&format!("Locks that were free: {}\"", third.name)), "{log}");
    assert_eq!(cluster.status(all), "waiting");
}

#[test]
fn tokens_are_for_one_node_and_once() {
    let cluster = Cluster::begin_with_agent();
    let [first, second] = ["n2", "n3"].map(|short| cluster.host(short));
    let typo = add(&cluster, &first, "127.0.0.1:1811/NOT-A-TOKEN");
    assert!(!typo.failed(1).is_empty());
    let token = enroll(&cluster, &first);
    let other = enroll(&cluster, &second);
    // The address of one and the code of the other: right in form, wrong in content.
    let mixed =
        format!("{}/{}", token.split('/').next().unwrap(), other.split('/').nth(1).unwrap());
    let wrong = add(&cluster, &first, &mixed);
    assert!(!wrong.failed(1).is_empty(), "{wrong:?}");
    let rows = cluster.gnt("node list --json -o name").json();
    assert_eq!(rows, json!([{"name": "n1.example"}]));
    let _added = add(&cluster, &first, &token).ok();
    let used = add(&cluster, &cluster.host("n4"), &token);
    assert!(!used.failed(1).is_empty(), "a token works once: {used:?}");
    let _added = add(&cluster, &second, &other).ok();
    let again = add(&cluster, &second, &other);
    assert!(again.failed(1).contains("n3.example"), "{again:?}");
}

#[test]
fn a_token_of_an_earlier_enrolment_is_named_as_such() {
    let cluster = Cluster::begin_with_agent();
    let host = cluster.host("n2");
    let earlier = enroll(&cluster, &host);
    cluster.kill_agent(&host);
    let token = enroll(&cluster, &host);
    let told = add(&cluster, &host, &earlier);
    assert!(told.failed(1).contains("of an earlier `noded enroll`"), "{told:?}");
    let _added = add(&cluster, &host, &token).ok();
}

#[test]
fn a_node_that_is_removed_forgets_the_cluster() {
    let (cluster, [gone, stays]) = three();
    let identity = gone.layout().node_key();
    assert!(identity.exists());
    let _removed = cluster.gnt(&format!("node remove {}", gone.name)).ok();
    wait_for("the node to forget", PATIENCE, || (!identity.exists()).then_some(()));
    assert!(!gone.layout().node_certificate().exists());
    let rows = cluster.gnt("node list --json -o name").json();
    assert_eq!(rows, json!([{"name": "n1.example"}, {"name": stays.name}]));
    let unknown = cluster.gnt(&format!("debug delay 0 -n {}", gone.name));
    assert!(unknown.failed(1).contains("not known"), "{unknown:?}");
    let master = cluster.gnt("node remove n1.example");
    assert!(!master.failed(1).is_empty(), "the master stays: {master:?}");
    // It may come back as a new node.
    cluster.kill_agent(&gone);
    let token = enroll(&cluster, &gone);
    let _added = add(&cluster, &gone, &token).ok();
    cluster.wait_for_facts(&gone.name);
}

#[test]
fn an_offline_node_is_not_called() {
    let (cluster, [host, _]) = three();
    cluster.kill_agent(&host);
    let _offline = cluster.gnt(&format!("node modify {} --offline yes", host.name)).ok();
    let failed = cluster.gnt(&format!("debug delay 0 --no-master -n {}", host.name));
    assert!(failed.failed(1).contains("offline"), "{failed:?}");
    let listed = cluster.gnt(&format!("node list --no-headers -o name,mtotal,role {}", host.name));
    let words: Vec<&str> = listed.ok().split_whitespace().collect();
    assert_eq!(words, [host.name.as_str(), "*", "O"]);

    cluster.start_agent(&host);
    let online = format!("node modify {} --offline no", host.name);
    wait_for("the agent's answer", PATIENCE, || (cluster.gnt(&online).code() == 0).then_some(()));
    cluster.wait_for_facts(&host.name);
    let _called = cluster.gnt(&format!("debug delay 0 --no-master -n {}", host.name)).ok();
}

#[test]
fn a_node_that_is_down_fails_its_calls_with_its_name() {
    let (cluster, [host, other]) = three();
    cluster.kill_agent(&host);
    let failed = cluster.gnt(&format!("debug delay 0 --no-master -n {}", host.name));
    assert!(failed.failed(1).contains(&host.name), "{failed:?}");
    assert!(failed.stderr.contains("Connection refused"), "its cause is told: {failed:?}");
    let _works = cluster.gnt(&format!("debug delay 0 --no-master -n {}", other.name)).ok();
    let rows = cluster.gnt("node list --json -o name,mtotal").json();
    assert!(rows[2]["mtotal"].is_u64(), "{rows}");
}

#[test]
fn a_call_under_way_ends_with_its_agent() {
    let (cluster, [host, _]) = three();
    let line = format!("debug delay 1000 --no-master -n {}", host.name);
    let calling = cluster.submit(&line);
    cluster.wait_for_status(calling, "running");
    cluster.kill_agent(&host);
    cluster.wait_for_status(calling, "error");
    let result = cluster.job(calling, "opresult")["opresult"].to_string();
    assert!(result.contains(&host.name), "{result}");
}

#[test]
fn who_waits_for_a_node_that_goes_away_is_told() {
    let (cluster, [host, _]) = three();
    let line = format!("debug delay 1000 --no-master -n {}", host.name);
    let holder = cluster.submit(&line);
    cluster.wait_for_status(holder, "running");
    let waiter = cluster.submit(&line);
    cluster.wait_for_status(waiter, "waiting");
    let removal = cluster.submit(&format!("node remove {} --priority high", host.name));
    cluster.wait_for_status(removal, "waiting");
    let _freed = cluster.gnt(&format!("job cancel {holder}")).ok();
    cluster.wait_for_status(removal, "success");
    cluster.wait_for_status(waiter, "error");
    let result = cluster.job(waiter, "opresult")["opresult"].to_string();
    assert!(result.contains(&host.name), "{result}");
}
