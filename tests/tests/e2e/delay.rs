//! `OP_TEST_DELAY`, which scripts and tests of Ganeti rely on.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tests::cluster::{Cluster, MASTER, PATIENCE};
use tests::run::wait_for;

#[test]
fn a_delay_ends_when_a_client_connects_and_sends_or_leaves() {
    let cluster = Cluster::begin();
    for sends in [false, true] {
        let id = cluster.submit("debug delay 1000 --interruptible --repeat 2");
        let socket = wait_for("the socket of the test", PATIENCE, || {
            let log = cluster.job(id, "oplog").to_string();
            log.split('"').find(|part| part.ends_with(".sock")).map(str::to_owned)
        });
        let mut stream = UnixStream::connect(&socket).unwrap();
        wait_for("the connection to be seen", PATIENCE, || {
            let log = cluster.job(id, "oplog").to_string();
            log.contains("Received connection, time to go is 99").then_some(())
        });
        assert_eq!(cluster.status(id), "running", "who only connects has done nothing yet");
        match sends {
            true => stream.write_all(b"x").unwrap(),
            false => drop(stream),
        }
        cluster.wait_for_status(id, "success");
        let log = cluster.job(id, "oplog").to_string();
        for words in ["delay-test", " - INFO: Test delay iteration 0/1", "Interrupted, time spent"]
        {
            assert!(log.contains(words), "{words}: {log}");
        }
        assert!(!log.contains("iteration 1/1"), "the repetitions end too: {log}");
        assert!(!Path::new(&socket).exists());
    }
}

#[test]
fn a_delay_sleeps_where_it_is_told_and_locks_what_it_names() {
    let cluster = Cluster::begin_with_agent();
    let nowhere = cluster.submit("debug delay 1000 --no-master");
    cluster.wait_for_status(nowhere, "running");
    let both = cluster.submit(&format!("debug delay 1000 -n {MASTER}"));
    cluster.wait_for_status(both, "running");
    let waits = cluster.submit("debug delay 0");
    cluster.wait_for_status(waits, "waiting");
    let free = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(free, "success");
    let apart = cluster.submit("debug delay 0 --no-master");
    cluster.wait_for_status(apart, "success");
    let _canceled = cluster.gnt(&format!("job cancel {both}")).ok();
    cluster.wait_for_status(waits, "success");
    assert_eq!(cluster.status(nowhere), "running");
}
