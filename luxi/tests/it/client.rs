//! The blocking client against the server.

use luxi::client::Observer;
use luxi::method::{ArchiveJob, SubmitJob, WaitForJobChange};
use luxi::{Client, ClientError, Limits};
use model::error::ExceptionKind;
use model::job::LogEntry;
use model::opcode::ClusterQuery;
use model::{JobId, JobStatus, OpCode, OpInput};

use crate::toy::{HANGS, LOST, start};

fn a_job() -> SubmitJob {
    SubmitJob { ops: vec![OpInput::new(OpCode::ClusterQuery(ClusterQuery {}))] }
}

#[derive(Default)]
struct Seen(Vec<String>);

impl Observer for Seen {
    fn log(&mut self, entry: &LogEntry) {
        self.0.push(entry.3.as_str().unwrap().to_owned());
    }
    fn status(&mut self, status: JobStatus) {
        self.0.push(status.to_string());
    }
}

#[test]
fn submits_and_follows() {
    let server = start(Limits::default());
    let mut client = Client::connect(&server.path).unwrap();
    let id = client.call(&a_job()).unwrap();
    assert_eq!(id, JobId(1));
    let mut seen = Seen::default();
    let outcome = client.wait_for_job(id, &mut seen).unwrap();
    assert_eq!(seen.0, ["begins", "running", "ends", "success"]);
    assert_eq!(outcome.status, JobStatus::Success);
    assert_eq!(outcome.into_result().unwrap(), [true]);
}

#[test]
fn exceptions_are_errors_and_the_connection_lives() {
    let server = start(Limits::default());
    let mut client = Client::connect(&server.path).unwrap();
    let error = client.wait_for_job(LOST, &mut ()).unwrap_err();
    assert_eq!(error.exception().unwrap().kind, ExceptionKind::JobLost);
    let error = client.call(&SubmitJob { ops: Vec::new() }).unwrap_err();
    assert_eq!(error.to_string(), "A job needs an opcode");
    assert!(client.call(&ArchiveJob { job_id: JobId(1) }).unwrap());
}

#[test]
fn a_missing_socket_a_dead_one_and_one_that_is_not_ours() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("luxi.sock");
    assert!(matches!(Client::connect(&path), Err(ClientError::NoSocket { .. })));
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(matches!(Client::connect(&path), Err(ClientError::Refused { .. })));
    let long = directory.path().join("x".repeat(200));
    assert!(matches!(Client::connect(&long), Err(ClientError::Connect { .. })));
}

#[test]
fn a_master_that_goes_away_is_told() {
    let mut server = start(Limits { stop_time: std::time::Duration::ZERO, ..Limits::default() });
    let path = server.path.clone();
    let waiting = std::thread::spawn(move || {
        let mut client = Client::connect(&path).unwrap();
        let call = WaitForJobChange {
            job_id: HANGS,
            fields: ["status"].into(),
            previous: None,
            previous_log: None,
            timeout: 60.0,
        };
        client.call(&call).unwrap_err()
    });
    assert_eq!(server.hanging.blocking_recv(), Some("hangs"));
    server.stop.send(true).unwrap();
    let error = waiting.join().unwrap();
    assert!(matches!(error, ClientError::Closed { method: "WaitForJobChange" }), "{error}");
}
