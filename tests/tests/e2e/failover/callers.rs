//! Permission to call agents: lists that are told late, and a master that an agent does not know.

use model::cluster_status::CandidateState;
use tests::candidates::{LONG, status};
use tests::cluster::{Cluster, Host, MASTER};
use tests::run::wait_for;

use super::{call_all, member, put_aside, three};

/// Whether a machine's agent lets a node call.
fn lets_call(host: &Host, name: &str) -> bool {
    let list = std::fs::read_to_string(host.layout().membership()).unwrap_or_default();
    list.contains(name)
}

/// A regular node beside three candidates.
fn fourth(cluster: &Cluster) -> Host {
    let _full = cluster.gnt("cluster modify -C 3").ok();
    let n4 = cluster.host("n4");
    cluster.enrol(&n4);
    n4
}

/// Makes the fourth node a candidate that could be the master.
fn promote(cluster: &Cluster, n4: &Host) -> String {
    let _room = cluster.gnt("cluster modify -C 4").ok();
    let told = cluster.gnt(&format!("node modify -C yes {}", n4.name));
    cluster.start_masterd(n4);
    cluster.wait_for_standby(n4, MASTER);
    wait_for_vote(cluster, n4);
    told.ok().to_owned()
}

/// Waits until a candidate's word counts.
fn wait_for_vote(cluster: &Cluster, host: &Host) {
    wait_for("its vote", LONG, || {
        let candidates = status(&cluster.master)?.candidates;
        let it = candidates.into_iter().find(|one| one.node == host.name)?;
        (it.state == CandidateState::Voter).then_some(())
    });
}

#[test]
fn an_agent_that_was_away_learns_of_new_candidates_by_itself() {
    let (mut cluster, _n2, n3) = three();
    let n4 = fourth(&cluster);
    cluster.kill_agent(&n3);
    let told = promote(&cluster, &n4);
    for wanted in ["n3.example was not told who may call it", "as soon as it is reached"] {
        assert!(told.contains(wanted), "{told}");
    }
    assert!(lets_call(&cluster.master, &n4.name) && !lets_call(&n3, &n4.name));
    let resent = cluster.gnt("cluster redist-conf");
    assert!(resent.failed(1).contains("should hold: n3.example;"), "{resent:#?}");

    cluster.start_agent(&n3);
    wait_for("n3 to know n4", LONG, || lets_call(&n3, &n4.name).then_some(()));
    let _resent = cluster.gnt("cluster redist-conf").ok();
    cluster.fail_over(&n4);
    let _called = cluster.gnt(&call_all(&[&n3, &n4])).ok();
    // A node that is no candidate any more is forgotten as well.
    cluster.kill_agent(&n3);
    let _demoted = cluster.gnt("cluster modify -C 3").ok();
    let _demoted = cluster.gnt(&format!("node modify -C no {MASTER}")).ok();
    assert!(lets_call(&n3, MASTER));
    cluster.start_agent(&n3);
    wait_for("n3 to forget n1", LONG, || (!lets_call(&n3, MASTER)).then_some(()));
}

#[test]
fn an_agent_that_does_not_know_the_master_is_told_by_an_older_one() {
    let (mut cluster, n2, n3) = three();
    let n4 = fourth(&cluster);
    cluster.kill_agent(&n3);
    let _told = promote(&cluster, &n4);
    // The master ends before it can tell n3.
    cluster.kill_master();
    cluster.start_agent(&n3);
    let why = "its list of callers lacks it";
    wait_for("the check to name it", LONG, || {
        let dry = cluster.gnt_on(&n4, "cluster master-failover --dry-run");
        dry.stdout.contains(why).then_some(())
    });
    wait_for("n4 to be master", LONG, || {
        let taken = cluster.gnt_on(&n4, "cluster master-failover");
        (taken.code() == 0).then_some(())
    });
    cluster.master = n4.clone();
    wait_for("n3 to refuse the master", LONG, || {
        let resent = cluster.gnt("cluster redist-conf");
        let told = format!("{}{}", resent.stdout, resent.stderr);
        (resent.code() == 1 && told.contains(why)).then_some(())
    });
    assert!(!lets_call(&n3, &n4.name));

    cluster.fail_over(&n2);
    wait_for("n3 to know n4", LONG, || lets_call(&n3, &n4.name).then_some(()));
    cluster.fail_over(&n4);
    let _called = cluster.gnt(&call_all(&[&n3, &n4])).ok();
}

#[test]
fn what_a_history_told_that_is_cut_is_taken_back() {
    let (mut cluster, mut hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts.remove(0));
    cluster.wait_for_same_files(&[&n1, &n2]);
    cluster.kill_host(&n2);
    // Of this candidate, the other history knows nothing.
    let n3 = cluster.host("n3");
    cluster.enrol(&n3);
    assert!(lets_call(&n1, &n3.name));
    cluster.kill_masterd(&n1);
    cluster.start_agent(&n2);
    cluster.start_masterd(&n2);
    let taken = cluster.gnt_on(&n2, "cluster master-failover --no-voting --yes-do-it");
    assert!(taken.ok().contains("n2.example is the master, in epoch"), "{taken:#?}");
    cluster.master = n2.clone();
    for host in [&n1, &n2] {
        wait_for("only n1 and n2 to call", LONG, || {
            (lets_call(host, MASTER) && !lets_call(host, &n3.name)).then_some(())
        });
    }
    let _called = cluster.gnt(&call_all(&[&n1, &n2])).ok();
}

#[test]
fn who_missed_that_a_node_became_another_member_follows_it_as_master() {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(5);
    let [n2, n3, n4, n5] = hosts.try_into().unwrap();
    let n1 = cluster.master.clone();
    let before = member(&cluster, &n2.name).expect("it is a member");
    cluster.kill_masterd(&n5);
    // n2 loses its disk, and becomes another member by itself.
    cluster.kill_masterd(&n2);
    put_aside(&n2);
    cluster.start_masterd(&n2);
    wait_for("n2 to be another member", LONG, || {
        let now = member(&cluster, &n2.name)?;
        (now != before).then_some(())
    });
    wait_for_vote(&cluster, &n2);
    cluster.fail_over(&n2);
    let done = cluster.submit("debug delay 0");
    cluster.wait_for_status(done, "success");
    cluster.start_masterd(&n5);
    cluster.wait_for_standby(&n5, &n2.name);
    cluster.wait_for_same_files(&[&n2, &n3, &n4, &n5]);
    // It is one of three that go on.
    for host in [&n1, &n4] {
        cluster.kill_masterd(host);
    }
    let done = cluster.submit("debug delay 0");
    cluster.wait_for_status(done, "success");
}

#[test]
fn who_was_offline_meanwhile_is_brought_back_by_an_older_candidate() {
    let (mut cluster, _n2, n3) = three();
    let n1 = cluster.master.clone();
    let n4 = fourth(&cluster);
    let _offline = cluster.gnt(&format!("node modify --offline yes {} --force", n3.name)).ok();
    let _told = promote(&cluster, &n4);
    cluster.fail_over(&n4);
    let back = format!("node modify --offline no {}", n3.name);
    let refused = cluster.gnt(&back).failed(1).to_owned();
    for told in ["its list of callers lacks it", "have it done by a candidate of before"] {
        assert!(refused.contains(told), "{refused}");
    }
    cluster.fail_over(&n1);
    let _back = cluster.gnt(&back).ok();
    wait_for("n3 to know n4", LONG, || lets_call(&n3, &n4.name).then_some(()));
    cluster.fail_over(&n4);
    let _called = cluster.gnt(&call_all(&[&n3, &n4])).ok();
}
