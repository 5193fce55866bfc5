//! Nodes that become candidates or are none any more, and two that want the role at once.

use tests::candidates::{LONG, is_master, refusal, status};
use tests::cluster::{Cluster, Host, MASTER};
use tests::inspect;
use tests::run::wait_for;

use super::{member, three};

/// Milliseconds after which a voter's word is not counted on any more.
const SILENT_MS: u64 = 1_000;

fn wait_until_wiped(host: &Host) {
    wait_for(&format!("the store of {} to be wiped", host.name), LONG, || {
        let told = refusal(host)?;
        (told.contains("no candidate") && inspect::documents(host).is_empty()).then_some(())
    });
}

#[test]
fn who_is_demoted_holds_nothing_and_comes_back_as_another_member() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    let before = member(&cluster, &n3.name).expect("it is a member");
    // The pool would be refilled.
    let _two = cluster.gnt("cluster modify -C 2").ok();
    let _demoted = cluster.gnt(&format!("node modify -C no {}", n3.name));
    wait_until_wiped(&n3);
    wait_for("the document to say so", LONG, || member(&cluster, &n3.name).is_none().then_some(()));
    // Two are a master and a learner.
    cluster.wait_for_votes(&n2, 1);
    let _done = cluster.gnt("debug delay 0").ok();

    let refused = cluster.gnt(&format!("cluster master-failover --to {}", n3.name));
    let told = refused.failed(1);
    assert!(told.contains("n3.example is no master candidate"), "{refused:?}");
    let refused = cluster.gnt_on(&n3, "cluster master-failover");
    assert!(refused.failed(1).contains("n3.example is no master candidate"), "{refused:?}");
    let unknown = cluster.gnt("cluster master-failover --to n9.example");
    assert!(unknown.failed(1).contains("n9.example is no master candidate"), "{unknown:?}");
    assert!(is_master(&n1));

    let _three = cluster.gnt("cluster modify -C 3").ok();
    let _promoted = cluster.gnt(&format!("node modify -C yes {}", n3.name));
    cluster.wait_for_standby(&n3, MASTER);
    cluster.wait_for_votes(&n3, 3);
    let after = wait_for("a member", LONG, || member(&cluster, &n3.name));
    assert_ne!(after, before, "ids of members are never used twice");
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}

#[test]
fn who_is_offline_for_a_while_is_the_same_member_again() {
    let (cluster, n2, n3) = three();
    let before = member(&cluster, &n3.name).expect("it is a member");
    // Of three voters with one that is away the other two are needed.
    cluster.kill_masterd(&n2);
    wait_for("its silence to be known", LONG, || {
        let seen = status(&cluster.master)?;
        let mut all = seen.candidates.iter();
        all.find(|one| one.node == n2.name && one.heard_ms > Some(SILENT_MS)).map(drop)
    });
    let offline = format!("node modify -O yes {}", n3.name);
    let refused = cluster.gnt(&offline);
    assert!(
        refused.failed(1).contains("cannot be taken offline now: 1 of 3 voters"),
        "{refused:?}"
    );
    cluster.start_masterd(&n2);
    cluster.wait_for_votes(&n2, 3);
    let taken = cluster.gnt(&offline);
    assert!(
        format!("{}{}", taken.ok(), taken.stderr).contains("Only the master votes"),
        "{taken:?}"
    );
    let done = cluster.submit("debug delay 0");
    cluster.wait_for_status(done, "success");
    wait_for("who is online to agree", LONG, || {
        (cluster.gnt(&format!("node modify -O no {}", n3.name)).code() == 0).then_some(())
    });
    cluster.wait_for_standby(&n3, MASTER);
    cluster.wait_for_votes(&n3, 3);
    assert_eq!(member(&cluster, &n3.name), Some(before));
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
}

#[test]
fn who_has_no_copy_goes_before_who_votes_and_came_later() {
    let cluster = Cluster::begin_with_agent();
    let [n2, n3, n4] = ["n2", "n3", "n4"].map(|short| cluster.host(short));
    for host in [&n2, &n3, &n4] {
        cluster.enrol(host);
    }
    // Nobody starts a `masterd` on n2.
    for host in [&n3, &n4] {
        cluster.start_masterd(host);
    }
    cluster.wait_for_votes(&n4, 3);
    let _three = cluster.gnt("cluster modify -C 3").ok();
    let roles = || {
        let rows = cluster.gnt("node list --json -o role").json();
        let roles = rows.as_array().unwrap().iter().map(|row| row["role"].as_str().unwrap());
        roles.collect::<String>()
    };
    wait_for("a pool of three", LONG, || (roles() != "MCCC").then_some(()));
    assert_eq!(roles(), "MRCC");
    cluster.wait_for_votes(&n4, 3);
}

#[test]
fn of_two_failovers_at_once_one_wins() {
    let (mut cluster, n2, n3) = three();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    let n1 = cluster.master.clone();
    cluster.kill_master();
    let both = [&n2, &n3].map(|host| cluster.gnt_start_on(host, "cluster master-failover"));
    let ended = both.map(tests::run::Running::end);
    let done: Vec<bool> = ended.iter().map(|one| one.code() == 0).collect();
    assert!(done.contains(&true), "{ended:#?}");
    for one in ended.iter().filter(|one| one.code() != 0) {
        assert!(one.stderr.starts_with("error["), "{one:#?}");
    }
    let master = wait_for("one master", LONG, || match [is_master(&n2), is_master(&n3)] {
        [true, false] => Some(&n2),
        [false, true] => Some(&n3),
        _ => None,
    });
    let other = if master.name == n2.name { &n3 } else { &n2 };
    cluster.wait_for_standby(other, &master.name);
    cluster.master = master.clone();
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
    cluster.start_masterd(&n1);
    cluster.wait_for_standby(&n1, &master.name);
}

#[test]
fn a_candidate_may_listen_on_another_port() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let port = 2817;
    cluster.stop_masterd(&n3);
    cluster.start(&n3.masterd(), cluster.masterd_at(&n3, port));
    let _told = cluster.gnt(&format!("node modify --peer-port {port} {}", n3.name)).ok();
    let info = cluster.gnt(&format!("node info {}", n3.name));
    assert!(info.ok().contains(&format!("{port}")), "{info:?}");
    cluster.wait_for_votes(&n3, 3);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
    // The others follow it there, and come to it with requests of clients.
    cluster.fail_over(&n3);
    for host in [&n1, &n2] {
        cluster.wait_for_standby(host, &n3.name);
        let _done = cluster.gnt_on(host, "debug delay 0").ok();
    }
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}
