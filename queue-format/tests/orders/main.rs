//! Tests of a store's threads and their callers, in thousands of orders of their steps. A scheduler
//! decides at every lock and every wait which thread goes on, and reports a deadlock. Time never passes
//! here, so nobody may need a timeout to be woken.
//!
//! `cargo xtask test orders` runs it. An order that fails is printed, and can be repeated by
//! `shuttle::replay`.
#![expect(clippy::unwrap_used, reason = "a test, its functions included")]

mod recorder;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use queue_format::simulation::SimDisk;
use queue_format::{Callbacks, Change, Committer, Epoch, Key, Store, StoreOptions};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

const EPOCH: Epoch = Epoch { term: 1, node: 1 };
/// Bytes of a document: a few of them fill a segment, so that groups wait for checkpoints.
const DOCUMENT_BYTES: usize = 2_500;

/// Orders of each kind: more of them where `cargo xtask test --long` asks for it.
fn orders() -> usize {
    if std::env::var_os("GANTRY_TEST_LONG").is_some() { 6_000 } else { 400 }
}

fn options() -> StoreOptions {
    let (segment_bytes, write_behind) = (16 << 10, Duration::ZERO);
    StoreOptions { segment_bytes, segments: 2, write_behind, ..StoreOptions::default() }
}

/// The tags that came back, and the condition for threads that wait for one.
#[derive(Default)]
struct Told {
    tags: Mutex<BTreeSet<u32>>,
    more: Condvar,
}

impl Told {
    fn wait_for(&self, tag: u32) {
        let mut tags = self.tags.lock().unwrap();
        while !tags.contains(&tag) {
            tags = self.more.wait(tags).unwrap();
        }
    }
}

fn start(disk: &SimDisk, told: &Arc<Told>) -> Arc<Committer<u32>> {
    let told = Arc::clone(told);
    let callbacks = Callbacks::new(move |tags: Vec<u32>, _| {
        told.tags.lock().unwrap().extend(tags);
        told.more.notify_all();
    })
    .on_fatal(|error| panic!("{error:?}"));
    let store = Store::open_simulated(disk, options()).unwrap();
    Arc::new(store.start(EPOCH, callbacks).unwrap())
}

fn put(tag: u32) -> Vec<Change> {
    let key = Key::parse(&format!("queue/job-{tag}")).unwrap();
    vec![Change::Put { key, content: Bytes::from(vec![b'x'; DOCUMENT_BYTES]) }]
}

/// One who submits some, here or by the thread, and waits for each or for all.
fn submit(committer: &Committer<u32>, told: &Told, tags: std::ops::Range<u32>) {
    for tag in tags.clone() {
        match tag % 3 {
            0 => committer.submit(put(tag), tag).unwrap(),
            _ => committer.submit_here(put(tag), tag).unwrap(),
        }
        if tag % 2 == 0 {
            told.wait_for(tag);
        }
    }
    tags.for_each(|tag| told.wait_for(tag));
}

fn submitters_and_close() {
    let (disk, told) = (SimDisk::empty(), Arc::new(Told::default()));
    let committer = start(&disk, &told);
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let (committer, told) = (Arc::clone(&committer), Arc::clone(&told));
            thread::spawn(move || submit(&committer, &told, number * 10..number * 10 + 4))
        })
        .collect();
    committer.checkpoint();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    committer.close().unwrap();
    let store = Store::open_simulated(&disk, options()).unwrap();
    for tag in told.tags.lock().unwrap().iter() {
        let key = Key::parse(&format!("queue/job-{tag}")).unwrap();
        assert!(store.read(&key).unwrap().is_some(), "{key} was acknowledged");
    }
    assert_eq!(told.tags.lock().unwrap().len(), 12);
}

#[test]
fn orders_of_submitters_and_threads_end_well() {
    shuttle::check_random(submitters_and_close, orders());
}

#[test]
fn unlikely_orders_of_submitters_and_threads_end_well() {
    shuttle::check_pct(submitters_and_close, orders(), 3);
}
