//! The cost of a commit: the disk alone, a single master's committer, a lone voter of the engine.
//!
//! All in one run, in the same directory, so that the ratios mean something on a shared machine.

use std::fs::OpenOptions;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use queue_format::{Callbacks, Change, Committer, Epoch, Key, Store, StoreOptions};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::{Engine, EngineOptions, Link, Peers, Proposer};

/// Bytes of a document: a small job.
const DOCUMENT_BYTES: usize = 1100;

/// Bytes of the frame around one of them.
const FRAME_BYTES: usize = 1536;

/// Keys that each client writes in turn. Few, so that files take little of the time: the question
/// is what a commit costs.
const KEYS_PER_CLIENT: usize = 16;

/// Clients at the same time.
const CLIENTS: [usize; 3] = [1, 16, 64];

/// One measured row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Changes committed per second.
    pub per_second: f64,
    /// Median time of one commit, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 commits took at most this, in milliseconds.
    pub p99_ms: f64,
    /// `per_second` divided by that of the bare disk.
    pub ratio: f64,
}

/// A measurement that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot measure {what}: {reason}")]
pub struct BenchError {
    what: &'static str,
    reason: String,
}

fn fail<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> BenchError {
    move |error| BenchError { what, reason: error.to_string() }
}

/// Measures everything in `directory`, which should be empty, for `time` a row.
///
/// # Errors
/// The directory cannot be used.
pub async fn run(directory: &Path, time: Duration) -> Result<Vec<Row>, BenchError> {
    let bare = bare_flush(directory, time).map_err(fail("the disk"))?;
    let base = bare.per_second;
    let mut rows = vec![bare];
    let store = Store::open(&directory.join("single"), StoreOptions::default())
        .map_err(fail("the committer"))?;
    let callbacks = Callbacks::new(|tags: Vec<oneshot::Sender<()>>, _position| {
        // A client that went away does not wait.
        tags.into_iter().for_each(|tag| tag.send(()).unwrap_or(()));
    });
    let committer = store.start(Epoch::default(), callbacks).map_err(fail("the committer"))?;
    let committer = Arc::new(committer);
    for clients in CLIENTS {
        let name = format!("committer, {clients} clients");
        let shared = committer.clone();
        let commit = move |change| commit(shared.clone(), change);
        rows.push(measure((name, base), clients, time, commit).await);
    }
    let closing = committer.clone();
    let closed = tokio::task::spawn_blocking(move || closing.close()).await;
    closed.map_err(fail("the committer"))?.map_err(fail("the committer"))?;

    let options = EngineOptions::new(1, "localhost", StoreOptions::default());
    let opened = Engine::open(&directory.join("engine"), options, Arc::new(Nobody)).await;
    let (engine, mut committed) = opened.map_err(fail("the engine"))?;
    let mut running = JoinSet::new();
    running.spawn(async move { while committed.recv().await.is_some() {} });
    let epoch = engine.take_over(Duration::from_secs(10)).await.map_err(fail("the engine"))?;
    let engine = Arc::new(engine);
    let proposer = Arc::new(Proposer::new(engine.clone(), epoch));
    let run = proposer.clone();
    running.spawn(async move {
        let answer = |tags: Vec<oneshot::Sender<()>>, _, _| {
            tags.into_iter().for_each(|tag| tag.send(()).unwrap_or(()));
        };
        run.run(Box::new(answer)).await;
    });
    for clients in CLIENTS {
        let name = format!("engine, {clients} clients");
        let shared = proposer.clone();
        let propose = move |change| propose(shared.clone(), change);
        rows.push(measure((name, base), clients, time, propose).await);
    }
    proposer.close();
    engine.close().await.map_err(fail("the engine"))?;
    Ok(rows)
}

async fn commit(committer: Arc<Committer<oneshot::Sender<()>>>, change: Change) -> bool {
    let (send, done) = oneshot::channel();
    committer.submit(vec![change], send).is_ok() && done.await.is_ok()
}

async fn propose(proposer: Arc<Proposer<oneshot::Sender<()>>>, change: Change) -> bool {
    let (send, done) = oneshot::channel();
    proposer.submit(vec![change], send).is_ok() && done.await.is_ok()
}

/// The way to others of who has none.
#[derive(Debug)]
struct Nobody;

impl Peers for Nobody {
    fn link(&self, member: u64, _node: &str) -> Box<dyn Link> {
        unreachable!("a lone voter asks member {member}")
    }
}

async fn measure<C, F>(
    (name, base): (String, f64),
    clients: usize,
    time: Duration,
    commit: C,
) -> Row
where
    C: Fn(Change) -> F + Clone + Send + 'static,
    F: Future<Output = bool> + Send,
{
    let content = Bytes::from(vec![b'x'; DOCUMENT_BYTES]);
    let mut running = JoinSet::new();
    let began = Instant::now();
    for client in 0..clients {
        let (commit, content) = (commit.clone(), content.clone());
        running.spawn(async move {
            let mut took = Vec::new();
            for number in (0..KEYS_PER_CLIENT).cycle() {
                if began.elapsed() >= time {
                    break;
                }
                let key = format!("queue/job-{}", client * KEYS_PER_CLIENT + number);
                let key = Key::parse(&key).expect("a job's key is one");
                let one = Instant::now();
                if commit(Change::Put { key, content: content.clone() }).await {
                    took.push(one.elapsed());
                }
            }
            took
        });
    }
    let took = running.join_all().await.concat();
    row(name, base, began.elapsed(), took)
}

/// Overwrites a pre-zeroed file, one frame and one flush at a time.
fn bare_flush(directory: &Path, time: Duration) -> io::Result<Row> {
    const FILE_BYTES: u64 = 16 << 20;
    let path = directory.join("flush");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    file.write_all_at(&vec![0; usize::try_from(FILE_BYTES).unwrap_or(usize::MAX)], 0)?;
    file.sync_all()?;
    let frame = [b'x'; FRAME_BYTES];
    let step = u64::try_from(FRAME_BYTES).unwrap_or(u64::MAX);
    let (began, mut took, mut offset) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < time {
        let one = Instant::now();
        file.write_all_at(&frame, offset)?;
        file.sync_data()?;
        took.push(one.elapsed());
        offset = if offset + 2 * step > FILE_BYTES { 0 } else { offset + step };
    }
    let mut row = row("write + fdatasync".to_owned(), 1.0, began.elapsed(), took);
    row.ratio = 1.0;
    Ok(row)
}

fn row(name: String, base: f64, time: Duration, mut took: Vec<Duration>) -> Row {
    took.sort_unstable();
    let at = |permille: usize| {
        let last = took.len().saturating_sub(1);
        took.get((took.len() * permille / 1000).min(last)).map_or(0.0, Duration::as_secs_f64) * 1e3
    };
    let count = f64::from(u32::try_from(took.len()).unwrap_or(u32::MAX));
    let per_second = count / time.as_secs_f64();
    let (p50_ms, p99_ms) = (at(500), at(990));
    Row { name, per_second, p50_ms, p99_ms, ratio: per_second / base }
}
