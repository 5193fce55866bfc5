//! Two nodes: one master, and one that only follows.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use tests::candidates::{LONG, is_master, refusal, role_check};
use tests::cluster::{Cluster, MASTER};
use tests::run::wait_for;

use crate::restart::{copy_store, restore};

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

    // Neither can the master by itself, as Ganeti's 2.0 design has it; both together go on.
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

#[test]
fn what_a_put_back_master_lacks_the_other_one_keeps() {
    put_back(|cluster, backup| {
        cluster.stop_master();
        copy_store(&cluster.master.layout().data(), backup);
        cluster.start_master();
    });
}

#[test]
fn what_a_master_lacks_that_was_put_back_within_its_reign_the_other_one_keeps() {
    put_back(|cluster, backup| {
        cluster.signal_masterd(&cluster.master, Signal::SIGSTOP);
        copy_store(&cluster.master.layout().data(), backup);
        cluster.signal_masterd(&cluster.master, Signal::SIGCONT);
    });
}

/// The only voter's store is an older copy. Neither that voter nor a node that it would elect is master.
/// The other node goes on with all that was acknowledged.
fn put_back(copy: impl FnOnce(&mut Cluster, &Path)) {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts[0].clone());
    let backup = cluster.dir().join("backup");
    fs::create_dir(&backup).unwrap();
    copy(&mut cluster, &backup);
    let last = (0..5).fold(0, |_, _| cluster.submit("debug delay 0"));
    cluster.wait_for_status(last, "success");
    cluster.wait_for_same_files(&[&n1, &n2]);
    cluster.kill_master();
    restore(&backup, &n1.layout().data());
    cluster.start_masterd(&n1);
    let check = wait_for("a check", LONG, || role_check(&n1));
    assert!(!check.goes_on(), "{check:?}");
    for (host, words) in [
        (&n1, format!("--ignore-node {}", n2.name)),
        (&n2, String::new()),
        (&n2, format!("--ignore-node {}", n1.name)),
    ] {
        let refused = cluster.gnt_on(host, &format!("cluster master-failover {words}"));
        assert_eq!(refused.code(), 1, "{words}: {refused:?}");
        assert!(refused.stdout.contains("against it:"), "{refused:?}");
        assert!(!is_master(host), "{words}");
    }
    let taken = cluster.gnt_on(&n2, "cluster master-failover --no-voting --yes-do-it");
    let _told = taken.ok();
    cluster.wait_for_master(&n2);
    cluster.master = n2.clone();
    cluster.wait_for_status(last, "success");
    // The other one begins anew, and its earlier copy is kept.
    cluster.wait_for_standby(&n1, &n2.name);
    cluster.wait_for_same_files(&[&n1, &n2]);
    assert!(n1.layout().data().join("aside").read_dir().unwrap().next().is_some());
}
