//! One node that goes on without the others, by an operator's will, and what becomes of them.

use std::fs;
use std::path::PathBuf;

use model::role_check::RoleCheck;
use nix::sys::signal::Signal;
use serde_json::Value;
use tests::candidates::{LONG, is_master, refusal, role_check};
use tests::cluster::{Cluster, Host, MASTER};
use tests::run::wait_for;

use super::three;

const OVERRIDE: &str = "cluster master-failover --no-voting --yes-do-it";

/// Distance of ids that are given after an override from those before.
const FAR: u64 = 1_000_000;

/// A job that has ended, with all that comes of it.
fn done(cluster: &Cluster) -> u64 {
    let id = cluster.submit("debug delay 0");
    cluster.wait_for_status(id, "success");
    id
}

/// Makes a node the master against all; what it says.
fn overridden(cluster: &mut Cluster, host: &Host) -> String {
    let taken = cluster.gnt_on(host, OVERRIDE);
    let told = taken.ok().to_owned();
    assert!(told.contains(&format!("{} is the master, in epoch", host.name)), "{taken:#?}");
    assert!(told.contains("it goes on whatever the others hold"), "{taken:#?}");
    cluster.master = host.clone();
    told
}

/// The stores that a machine keeps aside.
fn aside(host: &Host) -> Vec<PathBuf> {
    let entries = fs::read_dir(host.layout().data().join("aside")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn assert_aside(host: &Host, job: u64) {
    let kept = aside(host);
    assert_eq!(kept.len(), 1, "{kept:?}");
    let reason = fs::read_to_string(kept[0].join("REASON")).unwrap();
    assert!(reason.contains(&host.name) && reason.contains("since the override"), "{reason}");
    assert!(kept[0].join("store.json").exists());
    let key = format!("queue/job-{job}");
    // A node that is alone may not have been told that the job was committed.
    let holds = kept[0].join(&key).exists() || kept[0].join("tail").join(&key).exists();
    assert!(holds, "what was cut is there");
}

/// The alarms of the master's kind, if any.
fn alarm(cluster: &Cluster) -> Option<Value> {
    let status: Value = serde_json::from_str(&cluster.gnt("cluster status --json").stdout).unwrap();
    let alarms = status["alarms"].as_array().unwrap();
    alarms.iter().find(|alarm| alarm["kind"] == "override-cut").cloned()
}

fn restart(cluster: &Cluster, host: &Host) {
    cluster.start_agent(host);
    cluster.start_masterd(host);
}

#[test]
fn a_master_that_is_left_alone_goes_on_at_an_operators_word() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let known = done(&cluster);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    // While it is well, it shows who would say what, and is not to be overridden.
    let look = cluster.gnt("cluster master-failover --dry-run");
    assert!(look.stdout.contains(&n3.name) && look.code() == 1, "{look:?}");
    assert!(look.stdout.contains("against it: n1.example is the master already"), "{look:?}");
    let refused = cluster.gnt(OVERRIDE);
    assert!(refused.failed(1).contains("is the master already"), "{refused:?}");
    for host in [&n2, &n3] {
        cluster.kill_host(host);
    }
    let refused = wait_for("its silence to be known", LONG, || {
        let refused = cluster.gnt("cluster master-failover");
        refused.stderr.contains("hears no majority").then_some(refused)
    });
    assert!(refused.failed(1).contains("--no-voting --yes-do-it"), "{refused:?}");
    let look = cluster.gnt("cluster master-failover --dry-run --no-voting --yes-do-it");
    assert!(look.ok().contains("nothing was done"), "{look:?}");
    assert!(is_master(&n1));
    overridden(&mut cluster, &n1);
    assert_eq!(cluster.status(known), "success");
    assert!(done(&cluster) > known + FAR / 2);
    // The others begin anew.
    for host in [&n2, &n3] {
        restart(&cluster, host);
    }
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn a_lone_survivor_goes_on_and_the_others_begin_anew() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let known = done(&cluster);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    // The others go on without it, and are lost.
    cluster.kill_host(&n3);
    let lost = done(&cluster);
    cluster.wait_for_same_files(&[&n1, &n2]);
    for host in [&n1, &n2] {
        cluster.kill_host(host);
    }
    restart(&cluster, &n3);
    let refused = cluster.gnt_on(&n3, "cluster master-failover");
    assert!(refused.stdout.contains("--no-voting --yes-do-it"), "{refused:#?}");
    let refused = cluster.gnt_on(&n3, "cluster master-failover --no-voting");
    assert!(refused.failed(13).contains("acknowledged jobs among it"), "{refused:#?}");
    let dry = cluster.gnt_on(&n3, "cluster master-failover --no-voting --dry-run");
    assert!(dry.ok().contains("may be lost: n1.example gave no answer"), "{dry:#?}");
    assert!(refusal(&n3).is_some(), "nothing was done");

    let told = overridden(&mut cluster, &n3);
    for wanted in ["overridden: 1 of 3 voters", "may be lost: n2.example gave no answer"] {
        assert!(told.contains(wanted), "{told}");
    }
    assert_eq!(cluster.status(known), "success");
    let next = done(&cluster);
    assert!(next > lost + FAR - 10, "{next} might have been given");
    let raised = alarm(&cluster).expect("an alarm");
    assert!(raised["text"].as_str().unwrap().contains("n2.example"), "{raised}");

    // Back, they take part again with what it has.
    for host in [&n1, &n2] {
        restart(&cluster, host);
    }
    for host in [&n1, &n2] {
        cluster.wait_for_standby(host, &n3.name);
    }
    cluster.wait_for_votes(&n1, 3);
    for host in [&n1, &n2] {
        assert_aside(host, lost);
        assert!(!host.layout().data().join(format!("queue/job-{lost}")).exists());
    }
    assert!(aside(&n3).is_empty());
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    let _clean = cluster.gnt("cluster verify").ok();
    assert!(alarm(&cluster).is_some(), "until somebody looks");
    let _seen = cluster.gnt("cluster modify --override-seen").ok();
    assert_eq!(alarm(&cluster), None);

    // All is as before.
    cluster.fail_over(&n1);
    assert!(done(&cluster) > next);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn of_two_nodes_the_other_one_goes_on() {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts[0].clone());
    let known = done(&cluster);
    cluster.wait_for_same_files(&[&n1, &n2]);
    cluster.kill_host(&n1);
    overridden(&mut cluster, &n2);
    assert_eq!(cluster.status(known), "success");
    let next = done(&cluster);
    assert!(next > known + FAR - 10, "{next}");
    // From the dark, both together go on; the old one knows nothing of it until it is told.
    cluster.kill_host(&n2);
    restart(&cluster, &n1);
    wait_for("its word", LONG, || refusal(&n1));
    restart(&cluster, &n2);
    cluster.wait_for_master(&n2);
    cluster.wait_for_standby(&n1, &n2.name);
    cluster.wait_for_same_files(&[&n1, &n2]);
    assert_aside(&n1, known);
    assert_eq!(done(&cluster), next + 1);
}

#[test]
fn who_was_overridden_and_is_master_apart_is_not_put_aside_by_a_mere_start() {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts[0].clone());
    cluster.wait_for_same_files(&[&n1, &n2]);
    cluster.kill_host(&n1);
    overridden(&mut cluster, &n2);
    let seen = cluster.gnt("cluster modify --override-seen");
    assert!(seen.failed(1).contains("n1.example did not follow since the override"), "{seen:?}");
    let cut = done(&cluster);
    cluster.kill_host(&n2);
    // The operator has the other one go on.
    restart(&cluster, &n1);
    let taken = cluster.gnt_on(&n1, "cluster master-failover --candidates-only");
    assert!(taken.ok().contains("n1.example is the master, in epoch"), "{taken:#?}");
    cluster.master = n1.clone();
    let acknowledged = done(&cluster);
    restart(&cluster, &n2);
    wait_for("its word", LONG, || {
        let tried = cluster.gnt_on(&n2, "cluster status");
        tried.stdout.contains("n1.example is master apart").then_some(())
    });
    assert!(is_master(&n1) && !is_master(&n2));
    assert_eq!(done(&cluster), acknowledged + 1);
    // The operator chooses n2 after all.
    let taken = cluster.gnt_on(&n2, "cluster master-failover");
    assert!(taken.ok().contains("n2.example is the master, in epoch"), "{taken:#?}");
    cluster.master = n2.clone();
    cluster.wait_for_standby(&n1, &n2.name);
    cluster.wait_for_same_files(&[&n1, &n2]);
    assert_aside(&n1, acknowledged);
    assert!(alarm(&cluster).is_some());
    assert_eq!(done(&cluster), cut + 1);
    let _seen = cluster.gnt("cluster modify --override-seen").ok();
    assert_eq!(alarm(&cluster), None);
}

#[test]
fn a_master_that_lives_begins_anew_once_it_is_heard_again() {
    begins_anew(|_cluster, _n1| ());
}

#[test]
fn a_master_that_lives_begins_anew_without_its_agent_too() {
    begins_anew(Cluster::kill_agent);
}

fn begins_anew(befalls: impl FnOnce(&Cluster, &Host)) {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts[0].clone());
    cluster.wait_for_same_files(&[&n1, &n2]);
    // The other one follows no more, and the master goes on alone.
    cluster.kill_masterd(&n2);
    let lost = done(&cluster);
    befalls(&cluster, &n1);
    cluster.signal_masterd(&n1, Signal::SIGSTOP);
    cluster.start_masterd(&n2);
    cluster.wait_for_standby(&n2, MASTER);
    let taken = cluster.gnt_on(&n2, &format!("{OVERRIDE} --ignore-node {}", n1.name));
    assert!(taken.ok().contains("n2.example is the master, in epoch"), "{taken:#?}");
    cluster.master = n2.clone();
    let next = done(&cluster);
    cluster.signal_masterd(&n1, Signal::SIGCONT);
    cluster.wait_for_standby(&n1, &n2.name);
    assert!(!is_master(&n1));
    cluster.wait_for_same_files(&[&n1, &n2]);
    assert_aside(&n1, lost);
    assert_eq!(done(&cluster), next + 1);
}

#[test]
fn a_master_of_before_waits_for_who_was_master_after_it() {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts[0].clone());
    cluster.wait_for_same_files(&[&n1, &n2]);
    // Each is taken for lost by the other one, one after the other.
    cluster.kill_host(&n2);
    let _offline = cluster.gnt(&format!("node modify --offline yes {} --force", n2.name)).ok();
    cluster.kill_host(&n1);
    restart(&cluster, &n2);
    overridden(&mut cluster, &n2);
    let acknowledged = done(&cluster);
    restart(&cluster, &n1);
    let memory = n1.layout().data().join("later.json");
    wait_for("its start to be refused", LONG, || memory.exists().then_some(()));
    cluster.kill_host(&n2);
    let missed = |check: &RoleCheck| {
        check.reasons.iter().any(|told| told.contains("was told by n2.example"))
    };
    wait_for("its word of who is gone", LONG, || role_check(&n1).filter(missed));
    cluster.kill_host(&n1);
    restart(&cluster, &n1);
    wait_for("its word after a start", LONG, || role_check(&n1).filter(missed));
    for words in ["", "--ignore-node n2.example"] {
        let refused = cluster.gnt_on(&n1, &format!("cluster master-failover {words}"));
        assert!(refused.stdout.contains("was told by n2.example"), "{refused:#?}");
        assert!(refused.stdout.contains("start n2.example"), "{refused:#?}");
        assert!(refused.code() == 1 && !is_master(&n1), "{refused:#?}");
    }
    let looked = cluster.gnt_on(&n1, "cluster master-failover --no-voting --yes-do-it --dry-run");
    assert!(looked.stdout.contains("it goes on whatever the others hold"), "{looked:#?}");
    // The other one has it all, and n1 does not let it in.
    restart(&cluster, &n2);
    let taken = cluster.gnt_on(&n2, "cluster master-failover --ignore-node n1.example");
    assert!(taken.ok().contains("n2.example is the master, in epoch"), "{taken:#?}");
    assert_eq!(cluster.status(acknowledged), "success");
    assert!(!is_master(&n1));
    // It is taken back as the node that it was, with a new store.
    cluster.kill_agent(&n1);
    let token = cluster.token(&n1, &["--again"]);
    let _added = cluster.gnt(&format!("node add --readd {} --secret {token}", n1.name)).ok();
    cluster.wait_for_standby(&n1, &n2.name);
    cluster.wait_for_same_files(&[&n1, &n2]);
    assert!(!memory.exists());
}

#[test]
fn who_is_marked_offline_with_its_last_entry_does_not_override() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    // So that n2 has whatever is committed.
    cluster.kill_host(&n3);
    // It ends by this: nobody else acknowledges what comes next.
    let _job = cluster.submit(&format!("node modify --offline yes {} --force", n2.name));
    let offline = "is marked offline";
    wait_for("the last entry", LONG, || {
        let looked = cluster.gnt_on(&n2, "cluster master-failover --dry-run");
        looked.stdout.contains(offline).then_some(())
    });
    cluster.kill_host(&n1);
    let refused = cluster.gnt_on(&n2, OVERRIDE);
    assert!(refused.code() == 1 && refused.stdout.contains(offline), "{refused:#?}");
    assert!(refused.stdout.contains("take another candidate"), "{refused:#?}");
    assert!(!is_master(&n2));
}

#[test]
fn a_store_that_cannot_be_put_away_stays_until_it_can() {
    let (mut cluster, hosts) = Cluster::begin_with_candidates(2);
    let (n1, n2) = (cluster.master.clone(), hosts[0].clone());
    let known = done(&cluster);
    cluster.wait_for_same_files(&[&n1, &n2]);
    cluster.kill_host(&n1);
    // A file has the name of the directory of what is kept aside.
    let in_the_way = n1.layout().data().join("aside");
    drop(fs::File::create_new(&in_the_way).unwrap());
    overridden(&mut cluster, &n2);
    let next = done(&cluster);
    restart(&cluster, &n1);
    wait_for("its word", LONG, || {
        let stays = "the store of a member that is none any more stays";
        n1.masterd_log().contains(stays).then_some(())
    });
    let held = n1.layout().data().join(format!("queue/job-{known}"));
    assert!(held.exists() && n1.layout().data().join("store.json").exists());
    // It is still whole, and answers.
    wait_for("its word", LONG, || refusal(&n1));
    fs::remove_file(&in_the_way).unwrap();
    cluster.wait_for_same_files(&[&n1, &n2]);
    assert_aside(&n1, known);
    assert_eq!(done(&cluster), next + 1);
}

#[test]
fn a_majority_that_answers_is_not_overridden() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let known = done(&cluster);
    for host in [&n1, &n3] {
        cluster.kill_agent(host);
    }
    // Their agents do not answer, and they vote.
    let refused = cluster.gnt_on(&n2, OVERRIDE);
    assert_eq!(refused.code(), 1, "{refused:?}");
    for told in ["1 of 3 nodes", "there is nothing to override", "--candidates-only"] {
        assert!(refused.stdout.contains(told), "{told}: {refused:#?}");
    }
    assert!(is_master(&n1) && alarm(&cluster).is_none());
    let moved = cluster.gnt_on(&n2, "cluster master-failover --candidates-only");
    assert!(moved.ok().contains("n2.example is the master, in epoch"), "{moved:#?}");
    cluster.master = n2;
    assert_eq!(cluster.submit("debug delay 0"), known + 1);
}
