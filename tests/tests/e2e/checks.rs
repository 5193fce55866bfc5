//! `gnt cluster verify` and `redist-conf`: what is found, and what is set right.

use tests::cluster::{Cluster, MASTER};

#[test]
fn a_check_finds_an_agent_that_is_gone() {
    let cluster = Cluster::begin_with_agent();
    let well = cluster.gnt("cluster verify --verbose");
    for line in [
        "Submitted jobs 2, 3",
        "* Verifying cluster config",
        "* Verifying group 'default'",
        "* Gathering data (1 nodes)",
        "nothing to compare",
        &format!("* Verifying node {MASTER} (master)"),
    ] {
        assert!(well.ok().contains(line), "{line}: {well:?}");
    }
    assert!(!well.ok().contains("ERROR"), "{well:?}");

    cluster.kill_agent(&cluster.host("n1"));
    let ill = cluster.gnt("cluster verify");
    let found = format!("  - ERROR: node {MASTER}: while contacting node: cannot reach the agent");
    assert_eq!(ill.code(), 1, "{ill:?}");
    assert!(ill.stdout.contains(&found), "{ill:?}");
    let coded = cluster.gnt("cluster verify --error-codes");
    assert!(coded.stdout.contains(&format!("ERROR:ENODERPC:node:{MASTER}:while")), "{coded:?}");
    let warned = cluster.gnt("cluster verify --ignore-errors ENODERPC");
    assert!(warned.ok().contains(&format!("WARNING: node {MASTER}: while")), "{warned:?}");
    let none = cluster.gnt("cluster verify --node-group nothing");
    assert!(none.failed(1).contains("nothing"), "{none:?}");
}

#[test]
fn configuration_is_sent_to_every_agent_that_is_there() {
    let cluster = Cluster::begin_with_agent();
    let _done = cluster.gnt("cluster redist-conf").ok();
    cluster.kill_agent(&cluster.host("n1"));
    let id = cluster.submit("cluster redist-conf");
    cluster.wait_for_status(id, "error");
    let log = cluster.job(id, "oplog").to_string();
    assert!(log.contains("was not told who may call it"), "{log}");
    let why = cluster.job(id, "opresult").to_string();
    assert!(why.contains("did not take all that they should hold: n1.example"), "{why}");
    // Nobody expects anything of a node that is offline, and every one that is there has it all.
    cluster.start_agent(&cluster.master);
    cluster.wait_for_facts(MASTER);
    let _done = cluster.gnt("cluster redist-conf").ok();
}
