//! Clients that wait for a job, and clients that clear up behind many.

use luxi::Client;
use luxi::method::{AutoArchiveJobs, JobChange, SubmitManyJobs, WaitForJobChange};
use model::error::ExceptionKind;
use model::{JobId, OpInput};
use serde_json::json;
use tests::cluster::Cluster;

/// Jobs that are archived in one commit at the most.
const AT_ONCE: u64 = 1_000;

fn wait(id: u64, previous: &str, previous_log: Option<u64>, timeout: f64) -> WaitForJobChange {
    let previous = Some(vec![json!(previous)]);
    WaitForJobChange {
        job_id: JobId(id),
        fields: ["status"].into(),
        previous,
        previous_log,
        timeout,
    }
}

fn status(client: &mut Client, call: &WaitForJobChange) -> (String, Vec<u64>) {
    match client.call(call).unwrap() {
        JobChange::Changed(values, log) => {
            let serials = log.iter().map(|entry| entry.0).collect();
            (values[0].as_str().unwrap().to_owned(), serials)
        }
        JobChange::Unchanged => ("nochange".to_owned(), Vec::new()),
    }
}

#[test]
fn waiting_for_a_job() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let running = cluster.submit("debug delay 1000 --repeat 2");
    cluster.wait_for_status(running, "running");
    let logged = status(&mut client, &wait(running, "running", None, 60.0));
    assert_eq!(logged, ("running".to_owned(), vec![1]), "its log has begun");
    for timeout in [0.0, -5.0, 0.01] {
        let nothing = status(&mut client, &wait(running, "running", Some(1), timeout));
        assert_eq!(nothing.0, "nochange");
    }
    let first = WaitForJobChange { previous: None, ..wait(running, "", Some(1), 60.0) };
    assert_eq!(status(&mut client, &first).0, "running", "who knows nothing is told at once");

    let ended = cluster.submit("debug delay 0 --no-locks");
    cluster.wait_for_status(ended, "success");
    assert_eq!(status(&mut client, &wait(ended, "success", None, 60.0)).0, "success");
    let _archived = cluster.gnt(&format!("job archive {ended}")).ok();
    assert_eq!(status(&mut client, &wait(ended, "success", None, 60.0)).0, "success");
    let lost = client.call(&wait(77, "running", None, 60.0)).unwrap_err();
    assert_eq!(lost.exception().unwrap().kind, ExceptionKind::JobLost);
}

#[test]
fn clearing_up_ends_when_its_time_is_over() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let op = OpInput::parse(r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0}"#).unwrap();
    let jobs = vec![vec![op]; 3_000];
    client.call(&SubmitManyJobs { jobs }).unwrap();
    cluster.wait_for_status(3_000, "success");
    let mut archive = |age, timeout| client.call(&AutoArchiveJobs { age, timeout }).unwrap();
    assert_eq!(archive(3_600, 60.0), (0, 0), "none is so old");
    assert_eq!(archive(-1, 0.0), (AT_ONCE, 2 * AT_ONCE), "one commit, whatever the time");
    assert_eq!(archive(-1, -3.0), (AT_ONCE, AT_ONCE));
    assert_eq!(archive(-1, 60.0), (AT_ONCE, 0));
}
