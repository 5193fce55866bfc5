//! Submissions that are sent again, as Ganeti's clients do when their connection is lost.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use serde_json::{Value, json};
use tests::cluster::{Cluster, PATIENCE};
use tests::run::wait_for;

/// A submission of `jobs` jobs, as a client that stamps its requests sends it.
fn stamped(method: &str, stamp: i64, jobs: usize) -> Vec<u8> {
    let op = json!({"OP_ID": "OP_TEST_DELAY", "duration": 0,
        "reason": [["gnt:client:test", "", stamp]]});
    let args = match method {
        "SubmitManyJobs" => json!([vec![vec![op]; jobs]]),
        _ => json!([vec![op; jobs]]),
    };
    let mut message = json!({"method": method, "args": args}).to_string().into_bytes();
    message.push(3);
    message
}

/// Sends a message and leaves without an answer.
fn send_and_leave(socket: &Path, message: &[u8]) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(message).unwrap();
}

/// Sends a message and gives the result, which must be a success.
fn send(socket: &Path, message: &[u8]) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(message).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.pop(), Some(3));
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["success"], true, "{answer}");
    answer["result"].clone()
}

/// One message with its end.
fn message(stream: &UnixStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut message = Vec::new();
    let _bytes = BufReader::new(stream).read_until(3, &mut message).unwrap();
    message
}

fn jobs(cluster: &Cluster) -> usize {
    let list = cluster.gnt("job list --json -o id").json();
    list.as_array().unwrap().len()
}

#[test]
fn a_connection_that_is_lost_before_the_answer_makes_no_second_job() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    for (stamp, method) in (1..).zip(["SubmitJob", "SubmitJobToDrainedQueue"]) {
        let message = stamped(method, stamp, 2);
        send_and_leave(&socket, &message);
        let first = send(&socket, &message);
        send_and_leave(&socket, &message);
        assert_eq!(send(&socket, &message), first);
        assert_eq!(first, stamp, "its id");
    }
    let message = stamped("SubmitManyJobs", 9, 3);
    // All at once: whichever comes first makes the jobs, and all are answered alike.
    let answers = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16).map(|_| scope.spawn(|| send(&socket, &message))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let expected = json!([[true, 3], [true, 4], [true, 5]]);
    assert!(answers.iter().all(|answer| *answer == expected), "{answers:?}");
    assert_eq!(jobs(&cluster), 5);
    let unstamped = stamped("SubmitJob", 0, 1);
    assert_ne!(send(&socket, &unstamped), send(&socket, &unstamped), "two requests, two jobs");
    let me = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    assert_eq!(cluster.job(1, "owner")["owner"], me);
}

#[test]
fn a_master_that_was_killed_knows_what_it_had_taken() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let archived = stamped("SubmitJob", 1, 1);
    assert_eq!(send(&socket, &archived), 1);
    cluster.wait_for_status(1, "success");
    let _archived = cluster.gnt("job archive 1").ok();
    let live = stamped("SubmitManyJobs", 2, 3);
    // It is committed, and nobody was told.
    send_and_leave(&socket, &live);
    wait_for("the jobs", PATIENCE, || (jobs(&cluster) == 3).then_some(()));
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(send(&socket, &live), json!([[true, 2], [true, 3], [true, 4]]));
    assert_eq!(send(&socket, &archived), 1);
    let _drained = cluster.gnt("cluster queue drain").ok();
    assert_eq!(send(&socket, &archived), 1, "it was taken before");
    cluster.stop_master();
    cluster.start_master();
    assert_eq!(send(&socket, &live), json!([[true, 2], [true, 3], [true, 4]]));
    assert_eq!(jobs(&cluster), 3);
}

/// A socket between `gnt` and the master lets a request pass and keeps its answer. The master dies after
/// it has taken the jobs and before `gnt` knows of them.
#[test]
fn gnt_asks_again_for_what_a_master_that_died_had_taken() {
    let cluster = Cluster::begin();
    let to_master = cluster.master.layout().luxi_socket();
    let between = cluster.dir().join("between");
    let listener = UnixListener::bind(&between).unwrap();
    let file = cluster.write("job.json", r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0}]"#);
    let (between, file) = (between.display(), file.display());
    for (line, count) in [
        (format!("debug delay 0 --socket {between} --print-jobid"), 1),
        (format!("debug submit-job --job-repeat 3 --socket {between} -v {file}"), 4),
    ] {
        let gnt = cluster.gnt_start(&line);
        let (mut client, _) = listener.accept().unwrap();
        let request = message(&client);
        let answer = send(&to_master, &request);
        cluster.kill_master();
        client.shutdown(std::net::Shutdown::Both).unwrap();
        let (again, _) = listener.accept().unwrap();
        client = again;
        assert_eq!(message(&client), request, "byte for byte");
        cluster.start_master();
        assert_eq!(send(&to_master, &request), answer);
        relay(&client, &request, &to_master);
        let ended = gnt.end();
        assert!(ended.ok().contains(&count.to_string()), "{ended:?}");
        assert!(ended.stderr.contains("sending the same again"), "{ended:?}");
        assert_eq!(jobs(&cluster), count);
    }
}

/// Answers a client whose first question is known already by what the master says, until it leaves.
fn relay(mut client: &UnixStream, first: &[u8], to_master: &Path) {
    let mut master = UnixStream::connect(to_master).unwrap();
    let mut question = first.to_vec();
    while !question.is_empty() {
        master.write_all(&question).unwrap();
        client.write_all(&message(&master)).unwrap();
        question = message(client);
    }
}
