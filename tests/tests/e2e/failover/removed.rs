//! Candidates that are removed in one step, alive or dead, and what is left of them: nothing that
//! opens anything.

use tests::candidates::{LONG, is_master};
use tests::cluster::{Cluster, Host, PATIENCE};
use tests::inspect;
use tests::run::wait_for;

use super::renewed::{agent_answers, copied, member_answers};
use super::{call_all, three};

/// Asserts that a copy of a node's files opens nothing at these machines.
fn opens_nothing(files: &model::layout::Layout, hosts: &[&Host]) {
    for host in hosts {
        wait_for(&format!("refusals by {}", host.name), PATIENCE, || {
            let refused =
                agent_answers(files, host).is_err() && member_answers(files, host).is_err();
            refused.then_some(())
        });
    }
}

fn names(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.gnt("node list --no-headers -o name,role");
    listed.ok().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_candidate_that_lives_is_removed_and_holds_nothing() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let _three = cluster.gnt("cluster modify -C 3").ok();
    let n4 = cluster.host("n4");
    cluster.enrol(&n4);
    cluster.start_masterd(&n4);
    // Nobody is promoted who was not reached yet.
    wait_for("its agent to be reached", LONG, || {
        let told = cluster.gnt("node list --no-headers -o agent n4.example");
        (told.stdout.trim() == "reached").then_some(())
    });
    let files = copied(&cluster, &n3);
    // The store that an override once cut there, and somebody has seen.
    let kept = n3.layout().data().join("aside/20261122-111500-member-2");
    std::fs::create_dir_all(&kept).unwrap();
    let removed = cluster.gnt(&format!("node remove --yes {}", n3.name));
    let said = removed.ok();
    assert!(!kept.exists() && !said.contains("kept a store aside"), "{removed:?}");
    assert!(said.contains("Promoted nodes to master candidate role: n4.example"), "{removed:?}");
    assert!(!said.contains("on its disk"), "{removed:?}");
    assert_eq!(names(&cluster), ["n1.example M", "n2.example C", "n4.example C"]);
    assert!(inspect::documents(&n3).is_empty(), "its store");
    assert_eq!(std::fs::read_dir(n3.layout().pki()).unwrap().count(), 0, "keys and certificates");
    cluster.wait_for_votes(&n4, 3);
    opens_nothing(&files, &[&n1, &n2, &n4]);
    let _called = cluster.gnt(&call_all(&[&n1, &n2, &n4])).ok();
    let _verified = cluster.gnt("cluster verify").ok();
    cluster.wait_for_same_files(&[&n1, &n2, &n4]);
}

#[test]
fn a_candidate_that_is_dead_is_removed_and_who_is_needed_is_not() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let files = copied(&cluster, &n3);
    cluster.kill_host(&n3);
    // Two of three votes are left, and are needed.
    let refused = wait_for("a refusal", LONG, || {
        let told = cluster.gnt(&format!("node remove --dry-run {}", n2.name));
        (told.code() == 1).then_some(told)
    });
    assert!(refused.failed(1).contains("1 of 2 voters would answer"), "{refused:?}");
    let refused = cluster.gnt(&format!("node remove --yes {}", n2.name));
    assert!(refused.failed(1).contains("cannot be removed now"), "{refused:?}");
    assert_eq!(names(&cluster), ["n1.example M", "n2.example C", "n3.example C"]);

    let removed = cluster.gnt(&format!("node remove --yes {}", n3.name));
    let said = removed.ok();
    assert!(said.contains("keeps its copy of the store, its key and certificate"), "{removed:?}");
    assert_eq!(names(&cluster), ["n1.example M", "n2.example C"]);
    cluster.wait_for_votes(&n2, 1);
    opens_nothing(&files, &[&n1, &n2]);
    let _called = cluster.gnt(&call_all(&[&n1, &n2])).ok();
    // It comes back as if nothing had happened, and is nobody.
    cluster.start_masterd(&n3);
    cluster.start_agent(&n3);
    let _called = cluster.gnt(&call_all(&[&n1, &n2])).ok();
    assert!(!is_master(&n3));
    opens_nothing(&n3.layout(), &[&n1, &n2]);
    cluster.wait_for_same_files(&[&n1, &n2]);
}
