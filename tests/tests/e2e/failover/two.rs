//! Two nodes: one master, and one that only follows.

use tests::candidates::{LONG, is_master, refusal, role_check};
use tests::cluster::{Cluster, MASTER};
use tests::run::wait_for;

#[test]
fn the_master_goes_on_without_the_other_one() {
    let (cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), &hosts[0]);
    cluster.wait_for_same_files(&[&n1, n2]);
    cluster.kill_host(n2);
    for _ in 0..3 {
        let _done = cluster.gnt("debug delay 0").ok();
    }
    // It catches up.
    cluster.start_agent(n2);
    cluster.start_masterd(n2);
    cluster.wait_for_standby(n2, MASTER);
    cluster.wait_for_same_files(&[&n1, n2]);

    // Set offline, the other one is not counted: the master starts without it and without flags.
    cluster.kill_host(n2);
    let _offline = cluster.gnt(&format!("node modify --offline yes {} --force", n2.name)).ok();
    cluster.kill_master();
    cluster.start_master();
    let _done = cluster.gnt("debug delay 0").ok();
}

#[test]
fn the_other_one_cannot_take_the_role_from_a_dead_master() {
    let (cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), &hosts[0]);
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    cluster.kill_host(&n1);
    let refused = cluster.gnt_on(n2, "cluster master-failover");
    assert_eq!(refused.code(), 1, "{refused:?}");
    assert!(refused.stdout.contains("0 of 1 voters"), "{refused:?}");
    assert!(!is_master(n2) && refusal(n2).is_some());

    // Neither can the master by itself, as document 2 has it; both together go on.
    cluster.kill_host(n2);
    cluster.start_agent(&n1);
    cluster.start_masterd(&n1);
    let check = wait_for("a check", LONG, || role_check(&n1));
    assert_eq!(check.nodes, "1 of 2", "{check:?}");
    assert!(!check.goes_on());
    cluster.start_agent(n2);
    cluster.start_masterd(n2);
    cluster.wait_for_master(&n1);
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
}

#[test]
fn the_master_starts_again_where_the_lost_one_is_to_be_ignored() {
    let (cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), &hosts[0]);
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    cluster.kill_host(n2);
    cluster.kill_master();
    cluster.start_masterd(&n1);
    let check = wait_for("a check", LONG, || role_check(&n1));
    assert!(!check.goes_on(), "{check:?}");
    let started = cluster.gnt(&format!("cluster master-failover --ignore-node {}", n2.name));
    assert!(started.ok().contains("is the master, in epoch"), "{started:?}");
    assert!(is_master(&n1));
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
}

#[test]
fn the_role_goes_to_the_other_one_and_back_again() {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), &hosts[0]);
    let mut last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    for (from, to) in [(&n1, n2), (n2, &n1)] {
        cluster.fail_over(to);
        // The master votes alone again, so it goes on without the other one.
        cluster.wait_for_votes(from, 1);
        cluster.wait_for_standby(from, &to.name);
        cluster.kill_host(from);
        let next = cluster.submit("debug delay 0");
        assert_eq!(next, last + 1);
        cluster.wait_for_status(next, "success");
        last = next;
        cluster.start_agent(from);
        cluster.start_masterd(from);
        cluster.wait_for_standby(from, &to.name);
    }
    cluster.wait_for_same_files(&[&n1, n2]);
}
