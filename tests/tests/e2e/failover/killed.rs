//! Masters that are killed: what was acknowledged is there, exactly once, on the next master.

use std::sync::mpsc;
use std::time::Duration;

use luxi::method::SubmitJob;
use tests::candidates::{LONG, is_master, refusal, role_check};
use tests::cluster::MASTER;
use tests::load::{Acknowledged, check, killed_under_load, wait_for_all_jobs};
use tests::run::{pass, wait_for};
use tests::seed::Seed;

use super::three;

/// Load before a master is killed: there is something to lose.
pub(super) const LEAST: Duration = Duration::from_millis(200);

#[test]
fn nothing_that_was_acknowledged_is_lost_by_a_failover() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let mut seed = Seed::new();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let waiting = cluster.submit("debug delay 0.01");
    cluster.wait_for_status(waiting, "waiting");
    let mut known = Acknowledged::default();
    let mut highest = waiting;
    // Each node is master once, and killed once.
    for (dead, next) in [(&n1, &n2), (&n2, &n3), (&n3, &n1)] {
        let seen = killed_under_load(&cluster, LEAST, &mut seed);
        assert!(seen.submitted.first().is_none_or(|first| *first > highest), "a number came twice");
        assert!(!seen.submitted.is_empty(), "there was no load");
        known.add(seen);
        cluster.fail_over(next);
        highest = check(&cluster, &known);
        let probe = cluster.submit("debug delay 0 --no-locks");
        assert!(probe > highest, "{probe} was given before");
        highest = probe;
        let failed = cluster.job(running, "status,opresult");
        assert_eq!(failed["status"], "error");
        let reason = failed["opresult"][0].to_string();
        assert!(reason.contains("OpExecError") && reason.contains("master"), "{reason}");
        cluster.wait_for_status(waiting, "success");
        // A former master becomes a standby by itself.
        cluster.start_masterd(dead);
        cluster.wait_for_standby(dead, &next.name);
        cluster.wait_for_votes(dead, 3);
    }
    wait_for_all_jobs(&cluster, LONG);
    check(&cluster, &known);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn a_killed_master_is_master_again_by_itself() {
    let (cluster, n2, n3) = three();
    let done = cluster.submit("debug delay 0");
    cluster.wait_for_status(done, "success");
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let waiting = cluster.submit("debug delay 0.01");
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(cluster.status(running), "error");
    cluster.wait_for_status(waiting, "success");
    for host in [&n2, &n3] {
        cluster.wait_for_standby(host, MASTER);
    }
    // Asked to end, it does the same.
    cluster.stop_master();
    cluster.start_master();
    assert_eq!(cluster.submit("debug delay 0"), waiting + 1);
    // A majority is enough.
    cluster.kill_host(&n3);
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(cluster.submit("debug delay 0"), waiting + 2);
}

#[test]
fn one_of_three_is_no_master() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    for host in [&n1, &n2] {
        cluster.kill_host(host);
    }
    let refused = cluster.gnt_on(&n3, "cluster master-failover");
    assert_eq!(refused.code(), 1, "{refused:?}");
    let lines: Vec<&str> = refused.stdout.lines().collect();
    for (node, answer) in [(MASTER, "no"), ("n2.example", "no"), ("n3.example", "yes")] {
        let row = lines.iter().find(|line| line.starts_with(node));
        let row: Vec<&str> = row.expect("a row for each node").split_whitespace().collect();
        assert_eq!(row[2], answer, "{refused:#?}");
    }
    assert!(refused.stdout.contains("1 of 3 voters"), "{refused:?}");
    assert!(refused.stdout.contains("what to do: start more"), "{refused:?}");
    assert!(refused.stderr.contains("n3.example cannot be the master now"), "{refused:?}");
    let told = refusal(&n3).unwrap();
    assert!(told.contains("a standby"), "{told}");

    // The former master comes back alone: it says what it waits for, and takes no jobs.
    cluster.kill_host(&n3);
    cluster.start_agent(&n1);
    cluster.start_masterd(&n1);
    let told = wait_for("its word", LONG, || refusal(&n1).filter(|told| told.contains("not conf")));
    assert!(told.contains("was the master last"), "{told}");
    let check = role_check(&n1).unwrap();
    assert_eq!(check.voters, "1 of 3");
    assert!(!is_master(&n1));

    // A second one is enough; nobody has to say anything.
    cluster.start_agent(&n2);
    cluster.start_masterd(&n2);
    cluster.wait_for_master(&n1);
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
}

#[test]
fn a_master_without_a_majority_acknowledges_nothing() {
    let (cluster, n2, n3) = three();
    let before = cluster.submit("debug delay 0");
    cluster.wait_for_status(before, "success");
    for host in [&n2, &n3] {
        cluster.kill_masterd(host);
    }
    let mut client = cluster.client();
    let (begin, asks) = mpsc::sync_channel(1);
    let asked = std::thread::spawn(move || {
        begin.send(()).unwrap();
        let op = r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}"#;
        client.call(&SubmitJob { ops: vec![serde_json::from_str(op).unwrap()] })
    });
    asks.recv().unwrap();
    // A hundred times what a majority takes to acknowledge it.
    pass(Duration::from_millis(300));
    assert!(!asked.is_finished(), "acknowledged without a majority");
    cluster.start_masterd(&n2);
    // By itself, without losing its role or its earlier answers.
    let after = asked.join().unwrap().unwrap().0;
    assert_eq!(after, before + 1);
    cluster.wait_for_status(after, "success");
}
