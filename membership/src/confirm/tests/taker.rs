//! Faults of the node that wants the role.

use super::super::*;
use super::{decide, failover, kill_all, lead, name, says, silence};

#[test]
fn the_taker_must_be_able_to() {
    let on_taker = |change: fn(&mut Asked)| failover(|q| change(&mut q.nodes[1]));
    assert!(on_taker(|n| n.role = NodeRole::Offline).starts_with("refuse: n2 is marked offline"));
    assert!(on_taker(lead).starts_with("refuse: n2 is the master already"));
    assert!(on_taker(|n| says(n).disk_full = true).starts_with("refuse: n2 has no room"));
    assert!(on_taker(|n| says(n).found = Found::Nothing).starts_with("refuse: n2 has no store"));
    assert!(on_taker(|n| n.store = None).starts_with("refuse: n2 is no master candidate"));
    assert!(decide(Attempt::Failover, 4, |_| ()).starts_with("refuse: n4 is no master candidate"));
    assert!(decide(Attempt::Failover, 9, |_| ()).starts_with("refuse: n9 is not a node"));
    for role in [NodeRole::Regular, NodeRole::Drained] {
        let demoted = |q: &mut Question| q.nodes[1].role = role;
        assert_eq!(
            failover(demoted),
            "refuse: n2 is no master candidate any more: agents refuse it"
        );
        // The role entry decides who merely starts; and who is the last one is not held up.
        assert_eq!(decide(Attempt::Start, 1, |q| q.nodes[0].role = role), "go");
        let last = |q: &mut Question| {
            demoted(q);
            kill_all(q, &[0, 2]);
            (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
        };
        assert!(failover(last).starts_with("override [n2 is no master candidate any more"));
    }
    let told = on_taker(|n| n.member.as_mut().unwrap().seat = Voting::Learner);
    assert_eq!(told, "refuse: n2 does not vote: it became a candidate a moment ago");
    // Its own agent need not run.
    assert_eq!(on_taker(|n| n.agent = Err(silence())), "go");
}

#[test]
fn whose_files_lack_a_job_id_is_not_the_master() {
    let reads = |node: &mut Asked, id, upto| {
        says(node).last_job = Some(LastJob { id, from: 9, upto });
    };
    let with = |others: u64, upto: u64| {
        move |q: &mut Question| {
            reads(&mut q.nodes[1], 5, 9);
            reads(&mut q.nodes[2], others, upto);
        }
    };
    let forgotten = "n2 cannot be the master with the queue that it has: the last job id is 5 by the files \
                     here and 7 by those of n3";
    for attempt in [Attempt::Failover, Attempt::Automatic] {
        assert_eq!(decide(attempt, 2, with(5, 9)), "go");
        assert_eq!(decide(attempt, 2, with(7, 12)), "go", "n3 has a later entry, or may have it");
        let told = decide(attempt, 2, with(7, 9));
        assert!(told.starts_with(&format!("refuse: {forgotten}")), "{told}");
    }
    // Entries that others tell of came since its own files were read, so these are read again.
    let mut late = super::question(Attempt::Failover, 2);
    with(7, 12)(&mut late);
    let told_of = |from| {
        super::told(&confirm(&late.clone().with_own_jobs(Some(LastJob {
            id: 5,
            from,
            upto: from,
        }))))
    };
    assert_eq!(told_of(11), "go");
    assert!(told_of(12).starts_with(&format!("refuse: {forgotten}")));
    // An override goes on where nobody else may be the master, though a majority answers.
    let only = |q: &mut Question| {
        with(7, 9)(q);
        (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
    };
    let told = failover(only);
    assert!(told.starts_with(&format!("override [{forgotten}")), "{told}");
    let led = failover(|q| {
        only(q);
        lead(&mut q.nodes[0]);
    });
    assert!(led.starts_with("refuse: ") && led.contains("nothing to override"), "{led}");
    // It is not the other one that lacks something.
    assert_eq!(decide(Attempt::Failover, 3, with(7, 9)), "go");
    // A store that counts for nothing tells nothing.
    let other_history = |q: &mut Question| {
        with(7, 9)(q);
        q.nodes[2].member.as_mut().unwrap().expected.incarnation = uuid::Uuid::from_u128(99);
    };
    assert_eq!(failover(other_history), "go");
    // The last one goes on with what there is.
    let last = |q: &mut Question| {
        with(7, 9)(q);
        kill_all(q, &[0, 3, 4]);
        says(&mut q.nodes[2]).disk_full = true;
        (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
    };
    let told = failover(last);
    assert!(told.starts_with("override [") && told.contains(forgotten), "{told}");
}

/// The node that wants the role, as the log has it.
fn candidate() -> Node {
    let fingerprint = model::enrol::Fingerprint::from_bytes([2; 32]);
    serde_json::from_value(serde_json::json!({
        "name": "n2", "uuid": "uuid-2", "id": 2, "role": "candidate", "primary_ip": "10.0.0.2",
        "rpc_port": 1811, "peer_port": 1817, "secondary_ip": "10.0.0.2", "fingerprint": fingerprint,
        "rack": null, "master_capable": true, "vm_capable": true, "powered": true, "serial_no": 1,
        "ctime": [1, 0], "mtime": [1, 0],
    }))
    .unwrap()
}

#[test]
fn what_the_log_says_of_the_taker_counts() {
    let able = |attempt, change: fn(&mut Node), by_itself| {
        let mut node = candidate();
        change(&mut node);
        let able = still_able(attempt, &name(2), Some(&node), by_itself);
        able.err().map_or_else(String::new, |reason| reason.to_string())
    };
    let offline: fn(&mut Node) = |node| node.role = NodeRole::Offline;
    let regular: fn(&mut Node) = |node| node.role = NodeRole::Regular;
    let witness: fn(&mut Node) = |node| node.witness = true;
    for attempt in [Attempt::Start, Attempt::Failover, Attempt::Automatic] {
        assert_eq!(able(attempt, |_| (), true), "");
        assert_eq!(able(attempt, offline, true), "n2 is marked offline");
        assert!(able(attempt, witness, true).contains("is a witness"));
        let demoted = able(attempt, regular, true);
        assert_eq!(demoted.contains("no master candidate any more"), attempt != Attempt::Start);
        let by_itself = able(attempt, |_| (), false);
        assert_eq!(by_itself.contains("not to move by itself"), attempt == Attempt::Automatic);
    }
    assert!(still_able(Attempt::Failover, &name(2), None, true).is_err());
}
