//! Nodes that lost their store, or the word whose it is: they say so themselves, what they say to do
//! helps, and nothing that was acknowledged is lost.

use std::fs;

use tests::candidates::{LONG, refusal, status};
use tests::cluster::{Host, MASTER};
use tests::run::wait_for;

use super::{alarm, put_aside, three};

/// The alarm about a store that is missing, as a machine's status has it.
fn missing_store(host: &Host) -> Option<String> {
    alarm(host, "store-missing")
}

#[test]
fn a_master_that_lost_its_store_claims_no_other_one_and_is_a_candidate_again() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let job = cluster.submit("debug delay 0");
    cluster.wait_for_status(job, "success");
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    cluster.stop_masterd(&n1);
    put_aside(&n1);
    cluster.start_masterd(&n1);
    let told = wait_for("an alarm", LONG, || missing_store(&n1));
    for word in
        ["n1.example was the master, as its agent knows", "n2.example", "master-failover` there"]
    {
        assert!(told.contains(word), "{told}");
    }
    let shown = cluster.gnt("cluster status");
    assert_eq!(shown.code(), 2, "{shown:?}");
    assert!(shown.stdout.contains("[store-missing]"), "{shown:?}");
    let refused = refusal(&n1).expect("it is no master");
    assert!(refused.contains("`gnt cluster status` here says what to do"), "{refused}");

    // The test follows its advice.
    cluster.fail_over(&n2);
    cluster.wait_for_standby(&n1, &n2.name);
    assert_eq!(missing_store(&n1), None);
    assert_eq!(cluster.status(job), "success");
    assert_eq!(cluster.submit("debug delay 0"), job + 1);
    cluster.wait_for_votes(&n3, 3);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn a_store_of_which_nothing_says_whose_it_is_stays_and_is_told_of() {
    let (cluster, n2, n3) = three();
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
    cluster.stop_masterd(&n3);
    fs::remove_file(n3.layout().data().join("store.json")).unwrap();
    cluster.start_masterd(&n3);
    let told = wait_for("an alarm", LONG, || missing_store(&n3));
    for word in ["n3.example is a candidate", "`store.json`", "\"A candidate gets a new store\""] {
        assert!(told.contains(word), "{told}");
    }
    wait_for("the master's word", LONG, || {
        let alarms = status(&cluster.master)?.alarms;
        let mut about = alarms.iter().filter(|alarm| alarm.what.contains(&n3.name));
        // The second one once it was given up.
        let lacks = ["candidate-forgot", "candidate-missing"];
        about.any(|alarm| lacks.contains(&alarm.kind.as_str())).then_some(())
    });
    assert!(n3.layout().data().join("journal").exists(), "it may be the only copy");

    // As docs/runbook.md has it.
    cluster.stop_masterd(&n3);
    put_aside(&n3);
    cluster.start_masterd(&n3);
    cluster.wait_for_standby(&n3, MASTER);
    assert_eq!(missing_store(&n3), None);
    cluster.wait_for_votes(&n2, 3);
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
}
