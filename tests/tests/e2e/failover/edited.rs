//! Replicas that somebody edited by hand, or put back in part: each is named, and no acknowledged job
//! is lost by it.

use std::fs;

use serde_json::json;
use tests::candidates::{LONG, status};
use tests::cluster::{Host, MASTER};
use tests::run::wait_for;

use super::{alarm, three};

#[test]
fn what_an_edited_replica_says_of_another_member_holds_no_longer_than_it_leads() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    // It has its own vote's last word.
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    cluster.stop_masterd(&n3);
    let path = n3.layout().data().join("config/nodes").join(&n2.name);
    let mut node: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // It lacks a million entries, says this.
    node["member"]["acknowledged"] = json!({"term": 2, "node": 1, "index": 1_000_000});
    stdx::atomic::write(&path, node.to_string().as_bytes(), 0o640).unwrap();
    cluster.start_masterd(&n3);
    cluster.wait_for_standby(&n3, MASTER);
    cluster.fail_over(&n3);
    let says = |word| wait_for(word, LONG, || n2.masterd_log().contains(word).then_some(()));
    says("votes no more");
    cluster.fail_over(&n1);
    says("votes again");
    cluster.wait_for_votes(&n2, 3);
    let _done = cluster.gnt("debug delay 0 --no-locks").ok();
}

/// The alarm about copies that differ, as a machine's status has it.
fn differing_copies(host: &Host) -> Option<String> {
    alarm(host, "copies")
}

#[test]
fn a_replica_that_was_edited_by_hand_is_named_by_itself_when_it_has_the_role() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let known = cluster.submit("debug delay 0");
    cluster.wait_for_status(known, "success");
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    cluster.stop_masterd(&n2);
    let data = n2.layout().data();
    let path = data.join("config/nodes").join(&n3.name);
    let mut node: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    node["vm_capable"] = json!(false);
    stdx::atomic::write(&path, node.to_string().as_bytes(), 0o640).unwrap();
    fs::remove_file(data.join(format!("queue/job-{known}"))).unwrap();
    cluster.start_masterd(&n2);
    cluster.wait_for_standby(&n2, MASTER);
    cluster.fail_over(&n2);
    let told = wait_for("an alarm", LONG, || differing_copies(&n2));
    let job = format!("queue/job-{known} (missing there)");
    for word in ["n2.example: its copy differs", "n3.example (other content)", &job] {
        assert!(told.contains(word), "{told}");
    }

    // The test follows its advice.
    assert!(told.contains("`gnt cluster master-failover` there"), "{told}");
    cluster.fail_over(&n1);
    assert_eq!(cluster.status(known), "success");
    let told = wait_for("an alarm", LONG, || differing_copies(&n1));
    for line in ["node modify -C no --force n2.example", "node modify -C yes n2.example"] {
        assert!(told.contains(&format!("`gnt {line}`")), "{told}");
        let _done = cluster.gnt(line).ok();
    }
    cluster.wait_for_votes(&n2, 3);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    wait_for("a clean cluster", LONG, || (cluster.gnt("cluster verify").code() == 0).then_some(()));
    wait_for("the end of the alarm", LONG, || differing_copies(&n1).is_none().then_some(()));
}

#[test]
fn who_reads_a_lower_job_id_than_was_given_is_not_the_master() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let old = cluster.submit("debug delay 0");
    cluster.wait_for_status(old, "success");
    let known = cluster.submit("debug delay 0");
    cluster.wait_for_status(known, "success");
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    // The rest of the queue fits together.
    cluster.stop_masterd(&n2);
    let queue = n2.layout().data().join("queue");
    let serial = queue.join("serial");
    fs::remove_file(queue.join(format!("job-{known}"))).unwrap();
    stdx::atomic::write(&serial, format!("{old}\n").as_bytes(), 0o640).unwrap();
    cluster.start_masterd(&n2);
    cluster.wait_for_standby(&n2, MASTER);
    let refused = |words: &[&str]| {
        let refused = cluster.gnt_on(&n2, "cluster master-failover");
        assert_eq!(refused.code(), 1, "{refused:?}");
        for word in words {
            assert!(refused.stdout.contains(word), "{word}: {refused:#?}");
        }
    };
    let dry = cluster.gnt_on(&n2, "cluster master-failover --dry-run").stdout;
    assert!(dry.contains("cannot be the master with the queue that it has"), "{dry}");
    let last = format!("the last job id is {old} by the files here and {known} by those of n");
    let store = "\"A candidate gets a new store\" in the runbook";
    refused(&["n2.example cannot be the master with the queue that it has", &last, store]);
    cluster.kill_masterd(&n1);
    refused(&["n2.example cannot be the master with the queue that it has", &last, store]);
    cluster.fail_over(&n3);
    assert_eq!(cluster.status(known), "success");
    assert_eq!(cluster.submit("debug delay 0"), known + 1);
    // A queue that cannot be read at all does not cost the master its role.
    cluster.start_masterd(&n1);
    cluster.wait_for_standby(&n1, &n3.name);
    cluster.stop_masterd(&n2);
    fs::remove_file(&serial).unwrap();
    cluster.start_masterd(&n2);
    cluster.wait_for_standby(&n2, &n3.name);
    let epoch = || status(&n3).unwrap().master.unwrap().epoch;
    let before = epoch();
    let refused = cluster.gnt_on(&n2, "cluster master-failover");
    assert_eq!(refused.code(), 1, "{refused:?}");
    assert!(refused.stderr.contains("cannot be the master with what it has"), "{refused:#?}");
    assert!(refused.stderr.contains("`queue/serial`"), "{refused:#?}");
    assert_eq!(epoch(), before);
}
