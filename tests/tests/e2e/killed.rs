//! Jobs that are killed.

use serde_json::json;
use tests::cluster::{Cluster, MASTER};

#[test]
fn a_running_job_is_killed_and_its_locks_are_free() {
    let cluster = Cluster::begin_with_agent();
    let on_agent = cluster.submit(&format!("debug delay 1000 --no-locks --no-master -n {MASTER}"));
    cluster.wait_for_status(on_agent, "running");
    let holder = cluster.submit("debug delay 1000");
    cluster.wait_for_status(holder, "running");
    let waiter = cluster.submit("debug delay 1000");
    cluster.wait_for_status(waiter, "waiting");
    let next = cluster.submit("debug delay 0");
    for (job, agents) in [(waiter, false), (holder, false), (on_agent, true)] {
        let killed = cluster.gnt(&format!("job cancel --kill --yes-do-it {job}"));
        let told = killed.ok();
        assert!(told.contains(&format!("Job {job} killed")), "{told}");
        let job = cluster.job(job, "status,opresult");
        assert_eq!(job["status"], "error");
        let result = &job["opresult"][0];
        assert_eq!(result[0], "OpExecError");
        let why = result[1][0].as_str().unwrap();
        assert!(why.starts_with("Job killed by request"), "{why}");
        assert_eq!(why.contains("agents"), agents, "{why}");
    }
    cluster.wait_for_status(next, "success");
    let again = cluster.gnt(&format!("job cancel --kill --yes-do-it {holder}"));
    assert!(again.code() != 0, "it has ended: {again:?}");
    assert_eq!(cluster.job(next, "opresult")["opresult"], json!([null]));
}
