//! A master that was stopped for a while, and does not know that another one has come.

use luxi::method::SubmitJob;
use nix::sys::signal::Signal;
use serde_json::json;
use tests::candidates::{LONG, refusal};
use tests::run::wait_for;

use super::{call_all, submit_ops, three};

/// Calls to agents that one opcode makes, one after the other: more than it can end before the pause.
const CALLS: u32 = 400;

#[test]
fn a_master_that_slept_is_none_when_it_wakes() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    let call = json!({
        "OP_ID": "OP_TEST_DELAY", "duration": 0.02, "on_master": false, "on_nodes": [n3.name],
        "no_locks": true, "repeat": CALLS,
    });
    let chain = submit_ops(&cluster, &json!([call]));
    cluster.wait_for_status(chain, "running");
    let long = cluster.submit(&format!("debug delay 1000 --no-master -n {}", n3.name));
    cluster.wait_for_status(long, "running");
    // They have asked before it sleeps, and are answered after.
    let mut late = cluster.client();
    let watching = cluster.gnt_start(&format!("job wait {long}"));
    watching.wait_until_following();

    cluster.signal_masterd(&n1, Signal::SIGSTOP);
    let asked = cluster.gnt_start_on(&n1, "cluster status");
    cluster.fail_over(&n2);
    let running = |id| cluster.job(id, "status,opstatus");
    let (chain_failed, long_failed) = (running(chain), running(long));
    assert_eq!([&chain_failed["status"], &long_failed["status"]], ["error", "error"]);
    let probe = cluster.submit("debug delay 0 --no-locks");
    let asleep = std::thread::spawn(move || {
        let ops = json!([{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}]);
        late.call(&SubmitJob { ops: serde_json::from_str(&ops.to_string()).unwrap() })
    });

    let silent = asked.end().failed(3).to_owned();
    for word in
        ["takes connections and has said nothing for 10s", n2.name.as_str(), n3.name.as_str()]
    {
        assert!(silent.contains(word), "{word}: {silent}");
    }
    cluster.signal_masterd(&n1, Signal::SIGCONT);
    let answered = asleep.join().unwrap();
    assert!(answered.is_err(), "a job of a master that is none was acknowledged: {answered:?}");
    wait_for("the old master to stop", LONG, || refusal(&n1));
    cluster.wait_for_standby(&n1, &n2.name);
    // Jobs that it began and went on with are as the new master said.
    assert_eq!(running(chain), chain_failed);
    assert_eq!(running(long), long_failed);
    let next = cluster.submit(&call_all(&[&n1, &n3]));
    cluster.wait_for_status(next, "success");
    assert_eq!(next, probe + 1, "nobody else gave a number");
    let _told = watching.end().failed(1).to_owned();
    cluster.wait_for_votes(&n1, 3);
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}
