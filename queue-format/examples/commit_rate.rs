//! Measures a store on this disk: the bare flush, then jobs of two commits each.
//!
//! Leaves its files where they are: on ext4, files are created slowly for minutes after many were
//! removed, so remove them long before the next run.
//!
//! `cargo run --release -p queue-format --example commit_rate -- DIRECTORY [SECONDS]`
#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use queue_format::{Callbacks, Change, Committer, Epoch, Key, Store, StoreOptions};

/// Bytes of a job's document.
const DOCUMENT_BYTES: usize = 1100;

type Tag = SyncSender<()>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory is given");
    let seconds = arguments.next().map_or(3, |text| text.parse().expect("seconds are a number"));
    let time = Duration::from_secs(seconds);
    let root = Path::new(&directory).join("commit-rate");
    std::fs::create_dir_all(&root).expect("the directory can be written");
    bare_flush(&root, time);
    let store = Store::open(&root.join("store"), StoreOptions::default()).expect("a new store");
    let callbacks = Callbacks::new(|tags: Vec<Tag>, _position| {
        // A client that is gone does not wait.
        tags.into_iter().for_each(|tag| tag.send(()).unwrap_or(()));
    });
    let committer = Arc::new(store.start(Epoch::default(), callbacks).expect("threads start"));
    let next = Arc::new(AtomicU64::new(1));
    for clients in [1, 16, 64] {
        jobs(&committer, &next, clients, time);
    }
    let began = Instant::now();
    committer.close().expect("a clean end");
    println!("close {:.3} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let store = Store::open(&root.join("store"), StoreOptions::default()).expect("the store");
    let files = store.scan("queue/job-").expect("the directory").filter(Result::is_ok).count();
    println!("open and scan of {files} files {:.3} s", began.elapsed().as_secs_f64());
}

/// Overwrites a pre-zeroed file, a document and a flush at a time.
fn bare_flush(root: &Path, time: Duration) {
    let path = root.join("flush");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path).expect("new");
    file.write_all_at(&vec![0; 16 << 20], 0).expect("room");
    file.sync_all().expect("a disk");
    let document = [b'x'; 1536];
    let (began, mut took, mut offset) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < time {
        let one = Instant::now();
        file.write_all_at(&document, offset).expect("room");
        file.sync_data().expect("a disk");
        took.push(one.elapsed());
        offset = (offset + 1536) % (15 << 20);
    }
    report("write + fdatasync", began.elapsed(), took);
}

fn jobs(committer: &Arc<Committer<Tag>>, next: &Arc<AtomicU64>, clients: usize, time: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (committer, next, stop) = (committer.clone(), next.clone(), stop.clone());
            std::thread::spawn(move || {
                let (send, done) = sync_channel(1);
                let mut took = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let key = Key::parse(&format!("queue/job-{id}")).expect("a key");
                    for state in [b'r', b's'] {
                        let content = Bytes::from(vec![state; DOCUMENT_BYTES]);
                        let change = Change::Put { key: key.clone(), content };
                        let one = Instant::now();
                        while committer.try_submit(vec![change.clone()], send.clone()).is_err() {
                            std::thread::yield_now();
                        }
                        done.recv().expect("every tag comes back");
                        took.push(one.elapsed());
                    }
                }
                took
            })
        })
        .collect();
    while began.elapsed() < time {
        std::thread::park_timeout(time.saturating_sub(began.elapsed()));
    }
    stop.store(true, Ordering::Relaxed);
    let took: Vec<Duration> =
        threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect();
    let running = began.elapsed();
    let commits = took.len();
    report(&format!("{clients} clients"), running, took);
    while committer.backlog().file_lag_keys > 0 {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let jobs = f64::from(u32::try_from(commits / 2).expect("fewer than 4 billion"));
    println!("    {:.0} jobs/s with every file written", jobs / began.elapsed().as_secs_f64());
}

fn report(what: &str, time: Duration, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part / 1000).min(took.len() - 1)].as_secs_f64() * 1e3;
    let count = f64::from(u32::try_from(took.len()).expect("fewer than 4 billion"));
    let rate = count / time.as_secs_f64();
    println!(
        "{what:18} {rate:9.0} commits/s  p50 {:.3} p99 {:.3} p99.9 {:.3} max {:.3} ms",
        at(500),
        at(990),
        at(999),
        at(1000)
    );
}
