//! `auto_failover`: the role moves without anybody who says so.

use nix::sys::signal::Signal;
use tests::candidates::{LONG, is_master, refusal, role_check};
use tests::cluster::{Cluster, Host, MASTER};
use tests::load::{check, killed_under_load};
use tests::run::wait_for;
use tests::seed::Seed;

use super::killed::LEAST;
use super::three;

pub(super) fn automatic() -> (Cluster, Host, Host) {
    let (cluster, n2, n3) = three();
    let _set = cluster.gnt("cluster modify --auto-failover yes").ok();
    let status = cluster.gnt("cluster status");
    assert!(status.stdout.contains("Failover     by itself"), "{status:?}");
    // They know it, too.
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
    (cluster, n2, n3)
}

/// Waits until one of the others is master.
fn successor(hosts: &[&Host]) -> Host {
    let is_one = || hosts.iter().find(|host| is_master(host)).map(|host| (*host).clone());
    wait_for("another master", LONG, is_one)
}

#[test]
fn a_killed_master_is_followed_by_another() {
    let (mut cluster, n2, n3) = automatic();
    let n1 = cluster.master.clone();
    let seen = killed_under_load(&cluster, LEAST, &mut Seed::new());
    let last = *seen.submitted.last().expect("there was load");
    cluster.master = successor(&[&n2, &n3]);
    assert!(check(&cluster, &seen) >= last);
    assert!(cluster.submit("debug delay 0 --no-locks") > last);
    cluster.start_masterd(&n1);
    cluster.wait_for_standby(&n1, &cluster.master.name);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn a_master_that_is_stopped_for_a_while_comes_back_as_a_standby() {
    let (mut cluster, n2, n3) = automatic();
    let n1 = cluster.master.clone();
    cluster.signal_masterd(&n1, Signal::SIGSTOP);
    cluster.master = successor(&[&n2, &n3]);
    let id = cluster.submit("debug delay 0 --no-locks");
    cluster.signal_masterd(&n1, Signal::SIGCONT);
    cluster.wait_for_standby(&n1, &cluster.master.name);
    cluster.wait_for_status(id, "success");
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn one_that_is_left_takes_nothing_and_says_why() {
    let (cluster, n2, n3) = automatic();
    let n1 = cluster.master.clone();
    for host in [&n1, &n2] {
        cluster.kill_host(host);
    }
    let told = wait_for("its attempt", LONG, || {
        let status = cluster.gnt_on(&n3, "cluster status");
        status.stdout.contains("automatic failover of n3.example: refused").then_some(status)
    });
    assert!(told.stdout.contains("1 of 3 voters"), "{told:?}");
    assert!(!is_master(&n3) && refusal(&n3).is_some());
    // A second one is enough.
    cluster.start_agent(&n2);
    cluster.start_masterd(&n2);
    let next = successor(&[&n2, &n3]);
    assert!(next.name != MASTER);
    let check = wait_for("a check", LONG, || role_check(&n3).or_else(|| role_check(&n2)));
    assert_eq!(check.voters, "2 of 3");
}
