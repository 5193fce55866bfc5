//! Two nodes that can be master, and a third one that votes and cannot.

use model::cluster_status::CandidateState::{Voter, Witness};
use tests::candidates::{LONG, is_master, refusal, role_check, status};
use tests::cluster::{Cluster, Host, MASTER};
use tests::run::wait_for;

/// A master, another candidate, and a witness; all three vote.
fn with_witness() -> (Cluster, Host, Host) {
    let (cluster, mut hosts) = Cluster::begin_with_candidates(2);
    let (n2, n3) = (hosts.remove(0), cluster.host("n3"));
    cluster.enrol(&n3);
    let _witness = cluster.gnt("node modify --witness yes n3.example").ok();
    cluster.start_masterd(&n3);
    cluster.wait_for_votes(&n2, 3);
    (cluster, n2, n3)
}

fn listed(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.gnt("node list --no-headers --separator=: -o name,role,witness");
    listed.ok().lines().map(str::to_owned).collect()
}

#[test]
fn the_other_one_is_master_without_an_override() {
    let (mut cluster, n2, n3) = with_witness();
    let n1 = cluster.master.clone();
    let wanted = ["n1.example:M:N", "n2.example:C:N", "n3.example:R:Y"];
    assert_eq!(listed(&cluster), wanted);
    cluster.wait_for_standby(&n3, MASTER);
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    // It holds what candidates hold, and passes on what they pass on.
    let nodes = "node list --no-headers -o name,role";
    assert_eq!(cluster.gnt_on(&n3, nodes).ok(), cluster.gnt(nodes).ok());
    for host in [&n1, &n2, &n3] {
        let candidates = status(host).unwrap().candidates;
        let states: Vec<_> = candidates.iter().map(|one| one.state).collect();
        assert_eq!(states, [Voter, Voter, Witness], "{}", host.name);
    }
    cluster.kill_host(&n1);

    // Not the witness.
    for words in ["", " --no-voting --yes-do-it", " --to n3.example"] {
        let host = if words.contains("--to") { &n2 } else { &n3 };
        let refused = cluster.gnt_on(host, &format!("cluster master-failover{words}"));
        assert_eq!(refused.code(), 1, "{refused:?}");
        assert!(refused.stdout.contains("n3.example is a witness"), "{refused:#?}");
        assert!(refused.stdout.contains("--witness no -C yes"), "{refused:#?}");
    }
    assert!(!is_master(&n3) && refusal(&n3).is_some());

    cluster.fail_over(&n2);
    assert_eq!(cluster.status(last), "success");
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
    cluster.wait_for_standby(&n3, &n2.name);
    cluster.start_agent(&n1);
    cluster.start_masterd(&n1);
    cluster.wait_for_standby(&n1, &n2.name);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    let _clean = cluster.gnt("cluster verify").ok();
}

#[test]
fn the_other_one_takes_the_role_by_itself() {
    let (mut cluster, n2, n3) = with_witness();
    let n1 = cluster.master.clone();
    let _set = cluster.gnt("cluster modify --auto-failover yes").ok();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    cluster.kill_host(&n1);
    cluster.wait_for_master(&n2);
    cluster.master = n2.clone();
    assert_eq!(cluster.status(last), "success");
    assert_eq!(cluster.submit("debug delay 0 --no-locks"), last + 1);
    assert!(!is_master(&n3));
    cluster.start_agent(&n1);
    cluster.start_masterd(&n1);
    cluster.wait_for_standby(&n1, &n2.name);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn who_is_no_witness_any_more_votes_no_more_and_holds_nothing() {
    let (cluster, n2, n3) = with_witness();
    for (words, why) in [
        ("--witness yes n1.example", "The master cannot be a witness"),
        ("-C yes n3.example", "n3.example is a witness, cannot make it a master candidate"),
        ("--witness yes -C yes n2.example", "A witness is no master candidate"),
    ] {
        let refused = cluster.gnt(&format!("node modify {words}"));
        assert!(refused.failed(1).contains(why), "{refused:#?}");
    }
    let _drained = cluster.gnt("node modify -D yes n3.example").ok();
    // Still with its store, or without: the master is named, and nobody waits for it in vain.
    let told = cluster.gnt_on(&n3, "node list");
    let wanted = format!("This node is no candidate: run it on {MASTER}");
    assert!(told.failed(11).contains(&wanted), "{told:?}");
    assert!(!told.stderr.contains("may pass nothing on"), "{told:?}");
    cluster.wait_for_votes(&n2, 1);
    wait_for("the store of the witness to go", LONG, || {
        refusal(&n3).filter(|told| told.contains("no candidate"))
    });
    // Back, it is invited again; the pool has no room for it.
    let _two = cluster.gnt("cluster modify -C 2").ok();
    let _back = cluster.gnt("node modify -D no n3.example").ok();
    cluster.wait_for_votes(&n2, 3);
    // From a witness to a candidate in one step, and back.
    let _three = cluster.gnt("cluster modify -C 3").ok();
    let _candidate = cluster.gnt("node modify --witness no -C yes n3.example").ok();
    let _voters = wait_for("three", LONG, || role_check(&n3).filter(|all| all.voters == "3 of 3"));
    assert_eq!(listed(&cluster)[2], "n3.example:C:N");
    let _witness = cluster.gnt("node modify --witness yes --force n3.example").ok();
    assert_eq!(listed(&cluster)[2], "n3.example:R:Y");
    cluster.wait_for_votes(&n2, 3);
    let _clean = cluster.gnt("cluster verify").ok();
}

#[test]
fn a_witness_that_does_not_vote_is_no_master_either() {
    let (cluster, hosts) = Cluster::begin_with_candidates(3);
    let n4 = cluster.host("n4");
    cluster.enrol(&n4);
    let _witness = cluster.gnt("node modify --witness yes n4.example").ok();
    cluster.start_masterd(&n4);
    // Its vote would make them even.
    cluster.wait_for_standby(&n4, MASTER);
    cluster.wait_for_votes(&n4, 3);
    for host in &hosts {
        cluster.kill_agent(host);
    }
    for words in ["", " --candidates-only", " --no-voting --yes-do-it"] {
        let refused = cluster.gnt_on(&n4, &format!("cluster master-failover{words}"));
        assert_eq!(refused.code(), 1, "{refused:?}");
        assert!(refused.stdout.contains("n4.example is a witness"), "{refused:#?}");
    }
    assert!(is_master(&cluster.master) && !is_master(&n4));
}
