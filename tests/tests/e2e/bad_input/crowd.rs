//! Every kind of bad client at the same time, hundreds of each, among good ones.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Barrier;

use luxi::Client;
use luxi::method::{Query, SubmitManyJobs, What};
use model::OpInput;
use serde_json::json;
use tests::cluster::Cluster;

use super::messages::{ETX, OVERSIZED, answer, call, connect};
use super::{GoodClient, one_job};

/// Connections of each kind that costs its sender little.
const EACH: usize = 300;
/// Connections that send more than a request may have: together far more than [`COST_KIB_MAX`].
const GIANTS: usize = 50;
/// Connections that do not read a large answer.
const SLOW: usize = 50;
/// Good clients.
const GOOD: usize = 4;
/// Kinds of bad clients.
const KINDS: usize = 9;
/// Files that this test needs: its connections and what else it opens.
const FILES: u64 = 4_096;
/// Jobs that make an answer large: more than a megabyte with [`COMMENT_BYTES`] each, far more than
/// the buffers of a socket hold.
const JOBS: usize = 500;
/// Bytes of a comment.
const COMMENT_BYTES: usize = 2_000;
/// Depth of what is nested too deep.
const DEPTH: usize = 20_000;
/// The most memory that the crowd may cost the master, with some room. Eight requests of eight MiB are
/// read at the same time. Fifty answers of more than a megabyte wait for their readers. Buffers that
/// grow take as much again. Every giant kept would be twice as much.
const COST_KIB_MAX: usize = 400 << 10;

/// The most memory that a process ever had, in KiB.
fn peak_kib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Holds so many connections until all kinds have theirs, and again until all kinds are done.
struct Kind<'t> {
    socket: &'t Path,
    all_there: &'t Barrier,
    all_done: &'t Barrier,
}

impl Kind<'_> {
    fn run(&self, count: usize, act: impl FnOnce(&mut Vec<UnixStream>)) {
        let mut streams: Vec<UnixStream> = (0..count).map(|_| connect(self.socket)).collect();
        self.all_there.wait();
        act(&mut streams);
        self.all_done.wait();
        drop(streams);
    }

    /// Sends something and does nothing more.
    fn say(&self, bytes: &[u8]) {
        self.run(EACH, |streams| {
            streams.iter_mut().for_each(|stream| stream.write_all(bytes).unwrap());
        });
    }

    /// Sends a message that is refused, each time with these words.
    fn refused(&self, message: &[u8], words: &str) {
        self.run(EACH, |streams| {
            let message = [message, &[ETX]].concat();
            streams.iter_mut().for_each(|stream| stream.write_all(&message).unwrap());
            for stream in streams {
                let answer = answer(stream).expect("a refusal");
                let text = answer["result"].to_string();
                assert!(answer["success"] == false && text.contains(words), "{text:.300}");
            }
        });
    }

    /// Sends more than a request may have. The master may turn away before all is sent.
    fn giants(&self) {
        let giant = vec![b'x'; OVERSIZED];
        self.run(GIANTS, |streams| {
            for stream in streams {
                if let Err(error) = stream.write_all(&giant) {
                    let gone = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
                    assert!(gone.contains(&error.kind()), "{error}");
                }
                if let Some(answer) = answer(stream) {
                    assert_eq!(answer["success"], false);
                }
            }
        });
    }

    /// Asks for much and reads a byte of it: the answer is on its way then.
    fn slow_readers(&self) {
        let fields = json!([null, ["id", "ops", "oplog", "opresult"]]);
        let message = [call("QueryJobs", &fields), vec![ETX]].concat();
        self.run(SLOW, |streams| {
            streams.iter_mut().for_each(|stream| stream.write_all(&message).unwrap());
            for stream in streams {
                assert_eq!(stream.read(&mut [0]).unwrap(), 1);
            }
        });
    }

    /// Go away within a request, after one, and while it is worked on.
    fn vanishing(&self) {
        let wait = call("WaitForJobChange", &json!([1, ["status"], ["success"], 99, 80]));
        let parts = [b"{\"method".to_vec(), [&wait[..], &[ETX]].concat(), wait, Vec::new()];
        self.run(EACH, |streams| {
            for (stream, part) in streams.drain(..).zip(parts.iter().cycle()) {
                drop((&stream).write_all(part));
            }
        });
    }
}

/// Every kind, at once.
fn come_all(socket: &Path) {
    let (all_there, all_done) = (Barrier::new(KINDS), Barrier::new(KINDS));
    let kind = Kind { socket, all_there: &all_there, all_done: &all_done };
    let deep =
        format!(r#"{{"method": "SubmitJob", "args": {}{}}}"#, "[".repeat(DEPTH), "]".repeat(DEPTH));
    let unread = "Failed to parse request";
    let too_many = call("QueryClusterInfo", &json!([1, 2, 3]));
    std::thread::scope(|scope| {
        scope.spawn(|| kind.say(b""));
        scope.spawn(|| kind.say(b"{\"method\": \"Quer"));
        scope.spawn(|| kind.refused(b"{\"method\": \"\xff\xfe\", \"args\": []}", "UTF-8"));
        scope.spawn(|| kind.refused(deep.as_bytes(), unread));
        scope.spawn(|| kind.refused(&call("NoSuchMethod", &json!([])), "NoSuchMethod"));
        scope.spawn(|| kind.refused(&too_many, unread));
        scope.spawn(|| kind.giants());
        scope.spawn(|| kind.slow_readers());
        scope.spawn(|| kind.vanishing());
    });
}

/// Makes answers large. Gives the number of jobs.
fn prepare(client: &mut Client) {
    let op = json!([{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true,
        "comment": "x".repeat(COMMENT_BYTES)}]);
    let ops: Vec<OpInput> = serde_json::from_str(&op.to_string()).unwrap();
    let taken = client.call(&SubmitManyJobs { jobs: vec![ops; JOBS] }).unwrap();
    assert_eq!(taken.len(), JOBS);
    let last = luxi::method::Submission::Accepted(model::JobId(u64::try_from(JOBS).unwrap()));
    assert_eq!(taken.last(), Some(&last));
}

#[test]
fn a_crowd_of_every_bad_kind_costs_good_clients_nothing() {
    if stdx::daemon::allow_files(FILES) < FILES {
        tests::skip("a crowd of every kind", "this process may not open so many files");
        return;
    }
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let mut client = cluster.client();
    prepare(&mut client);
    let good: Vec<_> = (0..GOOD).map(|_| GoodClient::start(socket.clone())).collect();
    let before = peak_kib(cluster.master_pid().unwrap());
    come_all(&socket);
    let done: u64 = good.into_iter().map(GoodClient::end).sum();
    one_job(&socket);
    // Nobody else's request made a job, and none of theirs is lost.
    let fields = ["id", "status"].into();
    let jobs = client.call(&Query { what: What::Job, fields, filter: None }).unwrap().data;
    let ended = jobs.iter().filter(|row| row[1].value() == Some(&json!("success"))).count();
    assert_eq!((jobs.len(), ended), (JOBS + usize::try_from(done).unwrap() + 1, jobs.len()));
    let cost = peak_kib(cluster.master_pid().unwrap()) - before;
    println!("{cost} KiB more at the most, {done} jobs of good clients meanwhile");
    assert!(cost < COST_KIB_MAX, "{cost} KiB");
}
