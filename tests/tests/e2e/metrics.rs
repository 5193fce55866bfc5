//! The counters of the daemons agree with the work that was done.

use std::net::SocketAddr;

use luxi::method::QueryTags;
use model::layout::{MASTER_METRICS_PORT, NODE_METRICS_PORT};
use tests::cluster::{Cluster, MASTER, PATIENCE};
use tests::page::Page;
use tests::run::wait_for;

/// Jobs that the test submits.
const JOBS: u32 = 7;

#[test]
fn numbers_follow_what_is_done() {
    let cluster = Cluster::init();
    let host = cluster.master.clone();
    let at = |port| SocketAddr::new(host.address.into(), port);
    let (master, node) = (at(MASTER_METRICS_PORT), at(NODE_METRICS_PORT));
    let mut masterd = cluster.masterd();
    masterd.arg("--metrics").arg(master.to_string());
    cluster.start("masterd", masterd);
    let mut noded = cluster.noded(&host);
    noded.arg("--metrics").arg(node.to_string());
    wait_for("the master", PATIENCE, || cluster.gnt("cluster info").status.success().then_some(()));
    cluster.start(MASTER, noded);
    cluster.wait_for_facts(MASTER);

    for _ in 0..JOBS {
        let _done = cluster.gnt("debug delay 0").ok();
    }
    let unknown = QueryTags { kind: "moon".to_owned(), name: None };
    assert!(cluster.client().call(&unknown).is_err());
    let page = wait_for("the counted exchange", PATIENCE, || {
        let page = Page::of(master);
        (page.get("gantry_agents{state=\"reached\"}") == 1.0).then_some(page)
    });
    for family in masterd::agents::metrics::FAMILIES {
        assert!(page.families.contains(family.name), "{}", family.name);
    }
    let jobs = f64::from(JOBS);
    assert_eq!(page.get("gantry_jobs_submitted_total"), jobs);
    assert_eq!(page.get("gantry_jobs{status=\"success\"}"), jobs);
    assert_eq!(page.get("gantry_jobs_ended_total{status=\"success\"}"), jobs);
    assert_eq!(page.get("gantry_jobs_ended_total{status=\"error\"}"), 0.0);
    assert_eq!(page.get("gantry_luxi_request_seconds_count{method=\"SubmitJob\"}"), jobs);
    assert_eq!(page.get("gantry_luxi_failures_total{method=\"SubmitJob\"}"), 0.0);
    assert_eq!(page.get("gantry_luxi_failures_total{method=\"QueryTags\"}"), 1.0);
    let batches = page.get("gantry_commit_seconds_count");
    assert!(batches >= jobs && page.get("gantry_store_position") >= batches, "{batches}");
    let (used, all) = (page.get("gantry_journal_used_bytes"), page.get("gantry_journal_bytes"));
    assert!(0.0 < used && used < all, "{used} of {all}");
    assert!(page.get("gantry_rpc_seconds_count{call=\"exchange\"}") >= 1.0);
    // The server sees the end of a connection a moment after its client.
    wait_for("the end of all connections", PATIENCE, || {
        (Page::of(master).get("gantry_luxi_connections") == 0.0).then_some(())
    });

    let page = Page::of(node);
    assert!(page.get("gantry_node_call_seconds_count{call=\"exchange\"}") >= 1.0);
    assert!(page.get("gantry_node_commit_seconds_count") >= 1.0);
    assert_eq!(page.get("gantry_boot_requests_total{answer=\"script\"}"), 0.0);
    for family in noded::metrics::FAMILIES {
        assert!(page.families.contains(family.name), "{}", family.name);
    }
}
