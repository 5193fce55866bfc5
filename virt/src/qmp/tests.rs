use stdx::Tasks;
use tokio::net::UnixListener;

use super::*;

const GREETS: &str = "{\"QMP\":{\"version\":{},\"capabilities\":[]}}\n";

/// A monitor that says these lines after the greeting, and gives what it was asked.
async fn monitor(listener: &UnixListener, lines: &[&str]) -> Vec<String> {
    let (stream, _) = listener.accept().await.unwrap();
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from).lines();
    to.write_all(GREETS.as_bytes()).await.unwrap();
    let mut asked = vec![from.next_line().await.unwrap().unwrap()];
    to.write_all(b"{\"return\":{},\"id\":0}\n").await.unwrap();
    for line in lines {
        if line.contains("\"id\"") {
            asked.push(from.next_line().await.unwrap().unwrap());
        }
        to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    asked
}

fn here() -> Process {
    Process::of(std::process::id()).unwrap()
}

#[tokio::test]
async fn answers_find_who_asked_and_a_broken_connection_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("m");
    let listener = UnixListener::bind(&socket).unwrap();
    let (qmp, work) = Qmp::new(socket, here());
    let tasks = Tasks::new();
    tasks.spawn("monitor", work);
    let mut changes = qmp.changes();
    let first = async {
        let lines = [
            r#"{"event":"RTC_CHANGE","timestamp":{}}"#,
            r#"{"event":"STOP","timestamp":{}}"#,
            r#"{"error":{"class":"GenericError","desc":"no such thing"},"id":1}"#,
        ];
        let asked = monitor(&listener, &lines).await;
        assert!(asked[1].contains("\"execute\":\"frobnicate\""), "{asked:?}");
    };
    let refused = qmp.ask("frobnicate", json!({}));
    let (refused, ()) = tokio::join!(refused, first);
    assert!(matches!(refused, Err(QmpError::Refused { why, .. }) if why == "no such thing"));
    // The connection and the event that tells are two changes.
    while *changes.borrow_and_update() < 2 {
        changes.changed().await.unwrap();
    }
    let again = monitor(&listener, &[r#"{"return":{"status":"running"},"id":1}"#]);
    let (status, _) = tokio::join!(qmp.ask("query-status", json!({})), again);
    assert_eq!(status.unwrap()["status"], "running");
    tasks.shutdown().await;
}

#[tokio::test]
async fn a_monitor_that_is_silent_or_says_rubbish_is_an_error_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("m");
    let listener = UnixListener::bind(&socket).unwrap();
    let (qmp, work) = Qmp::new(socket, here());
    let tasks = Tasks::new();
    tasks.spawn("monitor", work);
    let rubbish = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"no JSON\n").await.unwrap();
        // The second one greets, and is silent.
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(GREETS.as_bytes()).await.unwrap();
        stream
    };
    let ask = qmp.ask_within("query-status", json!({}), Duration::from_millis(400));
    let (silent, _kept) = tokio::join!(ask, rubbish);
    assert!(matches!(silent, Err(QmpError::Silent { .. })), "{silent:?}");
    tasks.shutdown().await;
}

#[tokio::test]
async fn complaints_about_copies_are_kept_until_they_are_forgiven() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("m");
    let listener = UnixListener::bind(&socket).unwrap();
    let (qmp, work) = Qmp::new(socket, here());
    let tasks = Tasks::new();
    tasks.spawn("monitor", work);
    let lines = [
        r#"{"event":"QUORUM_REPORT_BAD","data":{"node-name":"r1","error":"it is full"}}"#,
        r#"{"event":"QUORUM_REPORT_BAD","data":{"node-name":"r2"}}"#,
        r#"{"event":"BLOCK_IO_ERROR","data":{"node-name":"top","error":"no copy's"}}"#,
        r#"{"return":{},"id":1}"#,
    ];
    let (answer, _) = tokio::join!(qmp.ask("x", json!({})), monitor(&listener, &lines));
    answer.unwrap();
    let names: Vec<String> = qmp.bad_nodes().into_keys().collect();
    assert_eq!(names, ["r1", "r2"]);
    assert_eq!(qmp.bad_nodes()["r1"], "it is full");
    qmp.forgive(|node| node == "r1");
    assert_eq!(qmp.bad_nodes().into_keys().collect::<Vec<_>>(), ["r2"]);
    tasks.shutdown().await;
}
