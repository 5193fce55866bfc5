//! Events that should never happen. Each gets a clear answer in the right place, and clients that did
//! nothing wrong notice nothing.

mod by_hand;
mod clients;
mod crowd;
mod disk;
mod messages;
mod network;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use luxi::Client;
use luxi::method::{QueryConfigValues, SubmitJob};
use model::JobStatus;
use tests::cluster::PATIENCE;
use tests::run::wait_for;

/// A client that does nothing wrong: submits job after job and waits for each, until told to end.
struct GoodClient {
    stop: std::sync::Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl GoodClient {
    fn start(socket: PathBuf) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let told = std::sync::Arc::clone(&stop);
        // It has its place before the others come.
        let mut client = Client::connect(&socket).unwrap();
        let thread = std::thread::spawn(move || {
            let mut done = 0;
            while !told.load(Ordering::Relaxed) {
                one_job_by(&mut client);
                done += 1;
            }
            done
        });
        Self { stop, thread }
    }

    /// Ends it and gives how many jobs it had; every one must have gone well, and there must have
    /// been some.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(done > 0, "the good client did nothing");
        done
    }
}

/// One job over a connection of its own, as soon as there is a place for it: the master may not have
/// noticed yet who has gone.
fn one_job(socket: &Path) {
    let question = QueryConfigValues { names: ["cluster_name"].into() };
    let mut client = wait_for("a place at the master", PATIENCE, || {
        let mut client = Client::connect(socket).ok()?;
        client.call(&question).ok().map(|_name| client)
    });
    one_job_by(&mut client);
}

fn one_job_by(client: &mut Client) {
    let op = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}]"#;
    let id = client.call(&SubmitJob { ops: serde_json::from_str(op).unwrap() }).unwrap();
    let outcome = client.wait_for_job(id, &mut ()).unwrap();
    assert_eq!(outcome.status, JobStatus::Success);
}
