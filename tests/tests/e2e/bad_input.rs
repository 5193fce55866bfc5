//! What should never happen, happens: each gets a clear answer in the right place, and those who
//! did nothing wrong notice nothing.

mod clients;
mod disk;
mod messages;
mod network;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use luxi::Client;
use luxi::method::SubmitJob;
use model::JobStatus;

/// Longest that a good client waits for one job while others misbehave.
const NOTICED: Duration = Duration::from_secs(10);

/// A client that does nothing wrong: submits job after job and waits for each, until told to end.
struct GoodClient {
    stop: std::sync::Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl GoodClient {
    fn start(socket: PathBuf) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let told = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut done = 0;
            while !told.load(Ordering::Relaxed) {
                one_job(&socket);
                done += 1;
            }
            done
        });
        Self { stop, thread }
    }

    /// Ends it; every job of it must have gone well, and there must have been some.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(done > 0, "the good client did nothing");
    }
}

/// One job over a connection of its own.
fn one_job(socket: &Path) {
    let begun = Instant::now();
    let mut client = Client::connect(socket).unwrap();
    let op = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}]"#;
    let id = client.call(&SubmitJob { ops: serde_json::from_str(op).unwrap() }).unwrap();
    let outcome = client.wait_for_job(id, &mut ()).unwrap();
    assert_eq!(outcome.status, JobStatus::Success);
    assert!(begun.elapsed() < NOTICED, "a good client waited {:?}", begun.elapsed());
}
