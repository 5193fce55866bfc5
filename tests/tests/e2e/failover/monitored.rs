//! Monitoring on any candidate, and by a check of the cluster.

use tests::candidates::LONG;
use tests::cluster::{Cluster, Host, PATIENCE};
use tests::run::{Ended, run, wait_for};

fn status(cluster: &Cluster, host: &Host) -> Ended {
    run(cluster.gnt_command_on(host, "cluster status"))
}

/// Waits until the status on a node has this exit status, and shows this.
fn wait_for_word(cluster: &Cluster, host: &Host, code: i32, word: &str) {
    wait_for(&format!("{code} with {word} on {}", host.name), LONG, || {
        let told = status(cluster, host);
        (told.code() == code && told.stdout.contains(word)).then_some(())
    });
}

#[test]
fn every_candidate_shows_the_alarms_of_the_cluster_and_says_how_bad_they_are() {
    let (cluster, hosts) = Cluster::begin_with_candidates(3);
    let [n2, n3] = hosts.try_into().unwrap();
    wait_for_word(&cluster, &n2, 0, "all is well");
    let _clean = cluster.gnt("cluster verify").ok();

    // The master alone sees that one is dead.
    cluster.kill_masterd(&n3);
    wait_for_word(&cluster, &n2, 1, "candidate-unreachable");
    wait_for_word(&cluster, &cluster.master, 1, "candidate-unreachable");
    let found = cluster.gnt("cluster verify");
    let wanted = "ERROR: node n3.example: its masterd does not answer";
    assert!(found.code() == 1 && found.stdout.contains(wanted), "{found:?}");
    let json = run(cluster.gnt_command_on(&n2, "cluster status --json")).stdout;
    assert!(json.contains(r#""severity": "warning""#), "{json}");

    cluster.kill_master();
    wait_for_word(&cluster, &n2, 2, "leader-silent");
    cluster.kill_masterd(&n2);
    let told = status(&cluster, &n2);
    assert!(told.code() == 3 && !told.stderr.is_empty(), "{told:?}");
}

#[test]
fn a_check_finds_a_candidate_without_its_copy() {
    let cluster = Cluster::begin_with_agent();
    let host = cluster.host("n2");
    cluster.enrol(&host);
    let found = wait_for("what is found", PATIENCE, || {
        let found = cluster.gnt("cluster verify");
        found.stdout.contains("node n2.example").then_some(found)
    });
    assert_eq!(found.code(), 1, "{found:?}");
    assert!(found.stdout.contains("it has no copy of queue and configuration"), "{found:?}");
}
