//! Wrong messages at the master's socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tests::cluster::Cluster;

use super::GoodClient;

/// The end of a message.
pub(super) const ETX: u8 = 3;
/// Longer than any request may be.
pub(super) const OVERSIZED: usize = 16 << 20;
/// The answer to a wrong message comes at once; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The next answer; none where the connection was closed.
pub(super) fn answer(stream: &mut UnixStream) -> Option<Value> {
    let mut message = Vec::new();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return None,
            Ok(_) if byte[0] == ETX => return Some(serde_json::from_slice(&message).unwrap()),
            Ok(_) => message.push(byte[0]),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
                return None;
            }
        }
    }
}

/// Sends a message on a connection of its own and gives the answer.
fn send(socket: &Path, message: &[u8]) -> Value {
    let mut stream = connect(socket);
    stream.write_all(message).unwrap();
    stream.write_all(&[ETX]).unwrap();
    let text = String::from_utf8_lossy(message);
    answer(&mut stream).unwrap_or_else(|| panic!("no answer to {text:.200}"))
}

fn refused(socket: &Path, message: &[u8]) -> String {
    let answer = send(socket, message);
    let text = String::from_utf8_lossy(message);
    assert_eq!(answer["success"], false, "{text:.200}: {answer}");
    answer["result"].to_string()
}

pub(super) fn call(method: &str, args: &Value) -> Vec<u8> {
    json!({"method": method, "args": args}).to_string().into_bytes()
}

#[test]
fn what_is_no_request_is_refused() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let good = GoodClient::start(socket.clone());
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested_args = format!(r#"{{"method": "SubmitJob", "args": {nested}}}"#);
    let wrong: [&[u8]; 12] = [
        b"",
        b"hello",
        b"\xff\xfe\x00\x80",
        b"{\"method\": \"QueryClusterInfo\xff\", \"args\": []}",
        b"{\"method\": \"QueryClusterInfo\", \"args\": [",
        b"[]",
        b"null",
        b"{}",
        br#"{"method": "QueryClusterInfo", "args": {}}"#,
        br#"{"method": 5, "args": []}"#,
        nested.as_bytes(),
        nested_args.as_bytes(),
    ];
    for message in wrong {
        let why = refused(&socket, message);
        assert!(why.contains("Failed to parse request"), "{why}");
    }
    good.end();
}

#[test]
fn a_wrong_request_does_not_end_the_connection() {
    let cluster = Cluster::begin();
    let mut stream = connect(&cluster.master.layout().luxi_socket());
    for (message, success) in [
        (br#"{"method": "NoSuchMethod", "args": []}"#.to_vec(), false),
        (call("QueryClusterInfo", &json!([])), true),
        (b"nonsense".to_vec(), false),
        (call("QueryConfigValues", &json!([["cluster_name"]])), true),
    ] {
        stream.write_all(&[message, vec![ETX]].concat()).unwrap();
        assert_eq!(answer(&mut stream).unwrap()["success"], success);
    }
}

#[test]
fn wrong_arguments_are_named() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let good = GoodClient::start(socket.clone());
    let delay = |more: Value| {
        let mut op = json!({"OP_ID": "OP_TEST_DELAY", "duration": 0});
        op.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([[op]])
    };
    let mut unclear = Vec::new();
    for (method, args, named) in [
        ("NoSuchMethod", json!([]), "NoSuchMethod"),
        ("SubmitJob", json!([]), "ops"),
        ("SubmitJob", json!([[{"OP_ID": "OP_NO_SUCH"}]]), "OP_NO_SUCH"),
        ("SubmitJob", json!([[{"duration": 0}]]), "OP_ID"),
        ("SubmitJob", delay(json!({"colour": "red"})), "colour"),
        (
            "SubmitJob",
            delay(json!({"duration": "long"})),
            "duration: expected a number, found a text",
        ),
        ("SubmitJob", delay(json!({"priority": 99})), "priority 99"),
        ("SubmitJob", delay(json!({"depends": [[4711, ["running"]]]})), "running"),
        ("CancelJob", json!([0]), "job id"),
        ("CancelJob", json!([-1]), "job id"),
        ("CancelJob", json!([1.5]), "job id"),
        ("CancelJob", json!(["abc"]), "job id"),
        ("CancelJob", json!([null]), "job id"),
        ("CancelJob", json!([1, false, "more"]), "too many"),
        ("ChangeJobPriority", json!([1, 99]), "99"),
        ("QueryClusterInfo", json!([1]), "too many"),
        ("Query", json!(["job", ["id"], ["~", "id", "x"]]), "~"),
        ("Query", json!(["weather", ["id"], null]), "weather"),
        ("QueryJobs", json!([null, vec!["id"; 10_000]]), "fields"),
    ] {
        let why = refused(&socket, &call(method, &args));
        if !why.contains(named) {
            unclear.push(format!("{method}: no {named} in {why}"));
        }
    }
    // Numbers that JSON has and Rust has not.
    for (method, args, named) in [
        ("CancelJob", "[18446744073709551616]", "job id"),
        ("SubmitJob", r#"[[{"OP_ID": "OP_TEST_DELAY", "duration": 1e999}]]"#, "number"),
        ("WaitForJobChange", r#"[4711, ["status"], null, null, 1e308]"#, "4711"),
        ("WaitForJobChange", r#"[4711, ["status"], null, null, -1]"#, "4711"),
        ("AutoArchiveJobs", "[9223372036854775808, 1]", "9223372036854775808"),
    ] {
        let why =
            refused(&socket, format!(r#"{{"method": "{method}", "args": {args}}}"#).as_bytes());
        if !why.contains(named) {
            unclear.push(format!("{method}: no {named} in {why}"));
        }
    }
    good.end();
    assert!(unclear.is_empty(), "{unclear:#?}");
}

#[test]
fn absurd_durations_are_refused_with_their_range() {
    let cluster = Cluster::begin();
    for duration in ["1e308", "-1", "86401", "-1e-300"] {
        let op = format!(r#"[{{"OP_ID": "OP_TEST_DELAY", "duration": {duration}}}]"#);
        let file = cluster.write("job.json", &op);
        let told = cluster.gnt(&format!("debug submit-job {}", file.display()));
        assert!(told.failed(1).contains("it must be 0 to 86,400"), "{told:?}");
    }
    assert_eq!(cluster.submit("debug delay 0 --no-locks"), 1);
    cluster.wait_for_status(1, "success");
    // Waiting for ever is waiting for as long as one may.
    let mut stream = connect(&cluster.master.layout().luxi_socket());
    let args = json!([1, ["status"], ["queued"], null, 1e308]);
    stream.write_all(&[call("WaitForJobChange", &args), vec![ETX]].concat()).unwrap();
    assert_eq!(answer(&mut stream).unwrap()["success"], true);
}

#[test]
fn a_reason_of_a_megabyte_is_taken_or_refused_like_any_job_of_its_size() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let good = GoodClient::start(socket.clone());
    let submit = |reason: Value| {
        let op = json!({"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": reason});
        send(&socket, &call("SubmitJob", &json!([[op]])))
    };
    let long = |bytes| json!([["gnt:user", "x".repeat(bytes), 1]]);
    let many = |count| Value::from(vec![json!(["gnt:user", "why", 1]); count]);
    for reason in [long(1 << 20), many(60_000)] {
        let told = submit(reason);
        let text = told["result"].to_string();
        assert!(told["success"] == false && text.contains("at most"), "{told:.300}");
    }
    for reason in [long(900_000), many(30_000)] {
        let taken = submit(reason);
        let job = taken["result"].as_u64().unwrap_or_else(|| panic!("{taken:.300}"));
        cluster.wait_for_status(job, "success");
    }
    good.end();
}

#[test]
fn oversized_messages_are_not_kept() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let good = GoodClient::start(socket.clone());
    for filling in [b' ', b'[', b'x'] {
        let mut stream = connect(&socket);
        // The master may turn away while there is still something to send.
        let sent = stream.write_all(&vec![filling; OVERSIZED]);
        if let Err(error) = sent {
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
        }
        if let Some(answer) = answer(&mut stream) {
            assert_eq!(answer["success"], false);
            assert!(answer["result"].to_string().contains("long"), "{answer}");
        }
    }
    good.end();
}
