//! A master whose opcodes come to their end before the role goes on, or its process.

use model::cluster_status::HEARD_WITHIN_MS;
use nix::sys::signal::Signal;
use tests::candidates::{LONG, is_master, status};
use tests::cluster::{Cluster, Host, MASTER};
use tests::run::{Running, wait_for};

use super::{three, wait_for_attempt};

/// A master that was asked for the role by n2, and waits for an opcode that runs.
struct Drain {
    cluster: Cluster,
    n2: Host,
    n3: Host,
    /// The epoch of its leadership.
    before: Option<String>,
    running: u64,
    attempt: Running,
}

impl Drain {
    fn begin() -> Self {
        let (cluster, n2, n3) = three();
        let before = epoch(&cluster);
        let running = cluster.submit("debug delay 1000");
        cluster.wait_for_status(running, "running");
        let attempt = cluster.gnt_start_on(&n2, "cluster master-failover --drain-timeout 60");
        wait_for_attempt(&cluster.master);
        Self { cluster, n2, n3, before, running, attempt }
    }
}

fn epoch(cluster: &Cluster) -> Option<String> {
    Some(status(&cluster.master)?.master?.epoch.to_string())
}

/// It works in the same leadership.
fn reigns_on(cluster: &Cluster, before: Option<&str>) {
    let next = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(next, "success");
    assert!(before.is_some());
    assert_eq!(epoch(cluster).as_deref(), before);
}

#[test]
fn what_waits_for_locks_runs_under_the_next_master() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    // Each of them would keep the lock for longer than opcodes are waited for.
    let behind: Vec<u64> = (0..3).map(|_| cluster.submit("debug delay 1000")).collect();
    let attempt = cluster.gnt_start_on(&n2, "cluster master-failover --drain-timeout 60");
    wait_for_attempt(&cluster.master);
    let late = cluster.submit("debug delay 1000 --no-locks");
    for id in behind.iter().chain([&late]) {
        cluster.wait_for_status(*id, "waiting");
    }
    // A waiting job is canceled at once, whatever it waits for.
    for id in [behind[0], late] {
        let _told = cluster.gnt(&format!("job cancel {id}")).ok();
        cluster.wait_for_status(id, "canceled");
    }
    assert_eq!(cluster.status(running), "running");
    // The leadership may end by it, before its answer.
    let _told = cluster.gnt(&format!("job cancel {running}"));
    let moved = attempt.end();
    assert!(moved.ok().contains("is the master, in epoch"), "{moved:#?}");

    cluster.master = n2.clone();
    cluster.wait_for_status(behind[1], "running");
    assert_eq!(cluster.status(behind[2]), "waiting");
    assert_eq!(cluster.status(running), "canceled");
    for id in behind {
        let _told = cluster.gnt(&format!("job cancel {id}"));
    }
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn a_failover_whose_time_is_up_changes_nothing() {
    let (cluster, n2, n3) = three();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let refused = cluster.gnt_on(&n2, "cluster master-failover --drain-timeout 1");
    let told = refused.failed(1);
    assert!(
        told.contains("opcodes still run") && told.contains("gnt job list --running"),
        "{told}"
    );
    // The master goes on, with what ran.
    assert!(is_master(&cluster.master));
    let next = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(next, "success");
    assert_eq!(cluster.status(running), "running");
    let _ended = cluster.gnt(&format!("job cancel --kill --yes-do-it {running}"));
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
}

#[test]
fn whoever_asked_for_the_role_and_left_meanwhile_costs_no_reign() {
    let Drain { cluster, n2, n3, before, running, attempt } = Drain::begin();
    // It goes before the last opcode has ended.
    cluster.kill_masterd(&n2);
    let _left = attempt.end();
    wait_for("its word", LONG, || {
        cluster.master.masterd_log().contains("who asked for it has left").then_some(())
    });
    // Its return in time does not make it the master.
    cluster.start_masterd(&n2);
    cluster.wait_for_standby(&n2, MASTER);
    assert_eq!(cluster.status(running), "running");
    let _ended = cluster.gnt(&format!("job cancel {running}")).ok();
    reigns_on(&cluster, before.as_deref());
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
}

#[test]
fn whoever_is_to_have_the_role_and_fell_silent_meanwhile_costs_no_reign() {
    let Drain { cluster, n2, n3, before, running, attempt } = Drain::begin();
    // Frozen, it has left nobody: its connections stay.
    cluster.signal_masterd(&n2, Signal::SIGSTOP);
    wait_for("its silence", LONG, || {
        let candidates = status(&cluster.master)?.candidates;
        let frozen = candidates.into_iter().find(|candidate| candidate.node == n2.name)?;
        frozen.heard_ms.is_none_or(|ms| ms > HEARD_WITHIN_MS).then_some(())
    });
    let _ended = cluster.gnt(&format!("job cancel {running}")).ok();
    wait_for("its word", LONG, || {
        let log = cluster.master.masterd_log();
        (log.contains("the role is not handed over") && log.contains("has not answered"))
            .then_some(())
    });
    reigns_on(&cluster, before.as_deref());
    cluster.signal_masterd(&n2, Signal::SIGCONT);
    let ended = attempt.end();
    let told = ended.failed(1);
    assert!(told.contains("did not hand over"), "{told}");
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
}

#[test]
fn a_master_that_ends_lets_opcodes_call_agents_to_their_end() {
    let (cluster, n2, _n3) = three();
    // The time in which the master is its own majority must be over: it has looked since there are
    // voters.
    let _looked = cluster.gnt("debug delay 0.3").ok();
    // Its second call begins when the master has been ending for longer than a cut-off one may change
    // anything.
    let calling = cluster.submit(&format!("debug delay 2 --repeat 2 --no-master -n {}", n2.name));
    cluster.wait_for_status(calling, "running");
    cluster.stop_master();
    cluster.start_master();
    cluster.wait_for_status(calling, "success");
}
