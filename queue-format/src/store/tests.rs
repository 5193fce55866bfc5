//! The store as its users see it, on a real directory, with its threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;

use super::{
    Callbacks, CloseError, Committer, Durability, Health, OpenError, Recovered, Refusal,
    StartError, Store, StoreOptions,
};
use crate::change::Change;
use crate::key::Key;
use crate::position::{Epoch, Position};

const EPOCH: Epoch = Epoch { term: 1, node: 1 };

fn options() -> StoreOptions {
    StoreOptions { segment_bytes: 64 << 10, ..StoreOptions::default() }
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn put(name: &str, content: &str) -> Change {
    Change::Put { key: key(name), content: Bytes::copy_from_slice(content.as_bytes()) }
}

type Committed = Receiver<(Vec<u64>, Position)>;

fn start(dir: &Path, options: StoreOptions) -> (Committer<u64>, Committed, Recovered) {
    let store = Store::open(dir, options).unwrap();
    let recovered = store.recovered().clone();
    let (send, committed) = sync_channel(100_000);
    let callbacks = Callbacks::new(move |tags, position| send.send((tags, position)).unwrap())
        .on_fatal(|error| panic!("{error:?}"));
    (store.start(EPOCH, callbacks).unwrap(), committed, recovered)
}

fn content(dir: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(dir.join(name)).ok()
}

#[test]
fn who_measures_is_told_of_each_group_and_how_full_the_journal_is() {
    for durability in [Durability::Journal, Durability::File] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), StoreOptions { durability, ..options() }).unwrap();
        let (send, flushed) = sync_channel(8);
        let (tell, told) = sync_channel(8);
        let callbacks = Callbacks::new(move |tags: Vec<u64>, _position| tell.send(tags).unwrap())
            .on_flushed(move |group| send.send((group.submissions, group.changes)).unwrap());
        let committer = store.start(EPOCH, callbacks).unwrap();
        let before = committer.journal_fill();
        committer.submit(vec![put("queue/job-1", "one"), put("queue/serial", "1\n")], 7).unwrap();
        assert_eq!(told.recv().unwrap(), [7]);
        assert_eq!(flushed.recv().unwrap(), (1, 2));
        let fill = committer.journal_fill();
        let with_journal = durability == Durability::Journal;
        assert_eq!(fill.used_bytes > before.used_bytes, with_journal);
        assert_eq!(fill.bytes > 0, with_journal);
        committer.close().unwrap();
    }
}

#[test]
fn what_is_committed_is_read_at_once_and_in_the_files_after_closing() {
    for durability in [Durability::Journal, Durability::File] {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { durability, ..options() };
        let (committer, committed, recovered) = start(dir.path(), options.clone());
        assert!(recovered.created);
        assert_eq!(recovered.position, Position::default());
        committer.submit(vec![put("queue/job-1", "one"), put("queue/serial", "1\n")], 7).unwrap();
        let (tags, position) = committed.recv().unwrap();
        assert_eq!((tags, position), (vec![7], Position { epoch: EPOCH, index: 1 }));
        let read = committer.reader().read(&key("queue/job-1")).unwrap();
        assert_eq!(read, Some("one".into()));
        let (from, to) = (key("queue/job-1"), key("queue/archive/0/job-1"));
        committer.submit(vec![Change::Move { from: from.clone(), to }], 8).unwrap();
        committed.recv().unwrap();
        assert_eq!(committer.reader().read(&from).unwrap(), None);
        committer.close().unwrap();
        committer.close().unwrap();
        assert_eq!(content(dir.path(), "queue/archive/0/job-1"), Some("one".into()));
        assert_eq!(content(dir.path(), "queue/job-1"), None);
        assert_eq!(content(dir.path(), "queue/serial"), Some("1\n".into()));
        assert_eq!(std::fs::read_dir(dir.path().join(".tmp")).unwrap().count(), 0);

        // At rest the files alone are the store.
        std::fs::remove_dir_all(dir.path().join("journal")).unwrap();
        let (committer, _committed, again) = start(dir.path(), options);
        assert_eq!((again.position, again.created), (position_at(2), false));
        assert_eq!(again.incarnation, recovered.incarnation);
        drop(committer);
    }
}

fn position_at(index: u64) -> Position {
    Position { epoch: EPOCH, index }
}

#[test]
fn many_threads_share_flushes_and_every_tag_comes_back_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (committer, committed, _) = start(dir.path(), options());
    let committer = Arc::new(committer);
    let threads: Vec<_> = (0..8_u64)
        .map(|thread| {
            let committer = committer.clone();
            std::thread::spawn(move || {
                for n in 0..200 {
                    let tag = thread * 1000 + n;
                    let job = put(&format!("queue/job-{tag}"), &tag.to_string().repeat(100));
                    committer.submit(vec![job], tag).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    committer.close().unwrap();
    let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut last = 0;
    while let Ok((tags, position)) = committed.try_recv() {
        assert_eq!(position.index, last + 1);
        last = position.index;
        tags.into_iter().for_each(|tag| seen.entry(tag / 1000).or_default().push(tag % 1000));
    }
    assert_eq!(seen.len(), 8);
    assert!(seen.values().all(|tags| tags.iter().copied().eq(0..200)));
    // 1,600 jobs of 400 bytes went several times round a ring of 256 KiB.
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(store.recovered().replayed_keys, 0);
    let jobs: Vec<_> = store.scan("queue/job-").unwrap().map(Result::unwrap).collect();
    assert_eq!(jobs.len(), 1600);
    assert!(jobs.is_sorted_by_key(|(key, _content)| key.clone()));
    assert_eq!(store.recovered().position, position_at(last));
}

#[test]
fn a_second_opener_is_told_who_has_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let held = Store::open(dir.path(), options()).unwrap();
    let error = Store::open(dir.path(), options()).unwrap_err();
    assert!(matches!(&error, OpenError::Locked { owner, .. }
        if *owner == std::process::id().to_string()));
    drop(held);
    Store::open(dir.path(), options()).unwrap();
}

#[test]
fn an_epoch_that_is_over_cannot_write() {
    let dir = tempfile::tempdir().unwrap();
    let (committer, _committed, _) = start(dir.path(), options());
    committer.submit(vec![put("ipam", "{}")], 1).unwrap();
    committer.close().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let before = Epoch { term: 0, node: 9 };
    let error = store.start(before, Callbacks::<u64>::new(|_, _| {})).unwrap_err();
    assert!(matches!(error, StartError::Epoch { found: EPOCH, .. }));
}

#[test]
fn half_a_store_is_refused_instead_of_losing_the_other_half() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path(), options()).unwrap());
    let journal = dir.path().join("journal");
    let aside = dir.path().join("aside");
    let rename = |from: &Path, to: &Path| {
        rustix::fs::rename(from, to).unwrap();
    };
    rename(&journal, &aside);
    let error = Store::open(dir.path(), options()).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    std::fs::remove_dir_all(&journal).unwrap();
    rename(&aside, &journal);
    let (header, aside) = (dir.path().join("store.json"), dir.path().join("aside"));
    rename(&header, &aside);
    let error = Store::open(dir.path(), options()).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    rename(&aside, &header);
    Store::open(dir.path(), options()).unwrap();
}

#[test]
fn the_scan_knows_text_prefixes_and_leaves_out_what_is_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let (committer, _committed, _) = start(dir.path(), options());
    let names = ["config/cluster", "config/nodes/n1", "queue/archive/0/job-1", "queue/job-2"];
    let changes = names.iter().map(|name| put(name, name)).collect();
    committer.submit(changes, 1).unwrap();
    committer.close().unwrap();
    std::fs::File::create(dir.path().join("queue/.job-3.swp")).unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let keys = |prefix: &str| -> Vec<String> {
        store.scan(prefix).unwrap().map(|item| item.unwrap().0.to_string()).collect()
    };
    assert_eq!(keys(""), names);
    assert_eq!(keys("config/"), &names[..2]);
    assert_eq!(keys("config/n"), &names[1..2]);
    assert_eq!(keys("queue/job-"), &names[3..]);
    assert_eq!(keys("nothing/here"), Vec::<String>::new());
}

#[test]
fn refusals_give_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let (committer, _committed, _) = start(dir.path(), options());
    let refused = committer.try_submit(vec![put("a", &"x".repeat(60 << 10))], 5).unwrap_err();
    assert_eq!((refused.tag, refused.changes.len()), (5, 1));
    assert!(matches!(refused.reason, Refusal::TooLarge { .. }));
    committer.close().unwrap();
    let refused = committer.submit(vec![], 6).unwrap_err();
    assert_eq!(refused.reason, Refusal::Stopped);
    assert!(matches!(committer.health(), Health::Good));
}

#[test]
fn a_broken_directory_is_fatal_and_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let (send, failed) = sync_channel(10);
    let (sent, committed) = sync_channel(10);
    let callbacks = Callbacks::new(move |tags: Vec<u64>, _| sent.send(tags).unwrap())
        .on_fatal(move |error| send.send(error.to_string()).unwrap());
    let committer = store.start(EPOCH, callbacks).unwrap();
    std::fs::File::create(dir.path().join("machines")).unwrap();
    committer.submit(vec![put("machines/SN1", "{}")], 1).unwrap();
    assert_eq!(committed.recv().unwrap(), [1]);
    assert_eq!(failed.recv_timeout(Duration::from_secs(60)).unwrap(), "a file failed");
    assert!(matches!(committer.health(), Health::Failed { .. }));
    assert!(matches!(committer.close(), Err(CloseError::Failed { .. })));
    std::fs::remove_file(dir.path().join("machines")).unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(store.recovered().replayed_keys, 1);
    assert_eq!(store.read(&key("machines/SN1")).unwrap(), Some("{}".into()));
}

#[test]
fn the_segments_that_are_there_bound_a_submission() {
    let dir = tempfile::tempdir().unwrap();
    let (committer, _, _) = start(dir.path(), options());
    let small = committer.submission_bytes_max();
    assert_eq!(small, 32 << 10);
    drop(committer);
    let (committer, committed, _) = start(dir.path(), StoreOptions::default());
    assert_eq!(committer.submission_bytes_max(), small);
    let fits = "x".repeat(small - 64);
    committer.submit(vec![put("a", &fits)], 1).unwrap();
    assert_eq!(committed.recv().unwrap().0, [1]);
    let refused = committer.submit(vec![put("a", &"x".repeat(small))], 2).unwrap_err();
    assert!(matches!(refused.reason, Refusal::TooLarge { .. }), "{refused:?}");
}

#[test]
fn submitters_who_write_by_themselves_keep_the_order_of_all() {
    const EACH: u64 = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let (committer, committed, _) = start(dir.path(), options());
    let committer = Arc::new(committer);
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let committer = committer.clone();
            std::thread::spawn(move || {
                for number in 0..EACH {
                    let tag = thread * EACH + number;
                    let changes = vec![put(&format!("k/{thread}"), &tag.to_string())];
                    let done = match thread % 2 {
                        0 => committer.submit_here(changes, tag),
                        _ => committer.submit(changes, tag),
                    };
                    done.unwrap();
                }
            })
        })
        .collect();
    let mut next = [0; 4];
    let mut last = Position::default();
    while next.iter().sum::<u64>() < 4 * EACH {
        let (tags, position) = committed.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(position > last, "commits come in their order");
        last = position;
        for tag in tags {
            let thread = usize::try_from(tag / EACH).unwrap();
            assert_eq!(tag % EACH, next[thread], "of thread {thread}");
            next[thread] += 1;
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    committer.close().unwrap();
    for thread in 0..4_u64 {
        let last = ((thread + 1) * EACH - 1).to_string();
        assert_eq!(content(dir.path(), &format!("k/{thread}")), Some(last));
    }
}

#[test]
fn nobody_who_writes_by_himself_is_left_waiting() {
    const THREADS: u64 = 4;
    const ROUNDS: usize = 50;
    const EACH: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    // No checkpoint comes to the rescue.
    let options = StoreOptions { checkpoint_every: Duration::from_secs(3_600), ..options() };
    let store = Store::open(dir.path(), options).unwrap();
    let (tell, mut told): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| sync_channel(1)).unzip();
    let callbacks = Callbacks::new(move |tags: Vec<u64>, _position| {
        for tag in tags {
            tell[usize::try_from(tag).unwrap()].send(()).unwrap();
        }
    });
    let committer = store.start(EPOCH, callbacks).unwrap();
    // The last thread in a round has nobody who comes along for it.
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            for (thread, told) in (0..THREADS).zip(&mut told) {
                let committer = &committer;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let change = put(&format!("k/{thread}"), &number.to_string());
                        committer.submit_here(vec![change], thread).unwrap();
                        told.recv_timeout(Duration::from_secs(30)).unwrap();
                    }
                });
            }
        });
    }
}

#[test]
fn a_single_masters_store_is_read_at_one_moment_while_jobs_are_archived() {
    let dir = tempfile::tempdir().unwrap();
    let (committer, committed, _) = start(dir.path(), options());
    let live = |n: u64| format!("queue/job-{n}");
    let mut expected = BTreeMap::new();
    for n in 0..300 {
        committer.submit(vec![put(&live(n), &n.to_string())], n).unwrap();
        expected.insert(key(&live(n)), Bytes::from(n.to_string()));
    }
    let archive = |n: u64| {
        let to = key(&format!("queue/archive/0/job-{n}"));
        committer.submit(vec![Change::Move { from: key(&live(n)), to }], 0).unwrap();
    };
    // These are on their way when the view begins.
    for n in 0..100 {
        archive(n);
        let content = expected.remove(&key(&live(n))).unwrap();
        expected.insert(key(&format!("queue/archive/0/job-{n}")), content);
    }
    // Their commits are what the view must begin behind.
    let mut submissions = 0;
    while submissions < 400 {
        submissions += committed.recv().unwrap().0.len();
    }
    let mut view = committer.freeze().unwrap();
    assert_eq!(view.position(), committer.position());
    for n in 100..200 {
        archive(n);
        committer.submit(vec![put(&live(n + 100), "changed")], 0).unwrap();
    }
    let mut found = BTreeMap::new();
    while let Some(chunk) = view.next_chunk(1_000).unwrap() {
        found.extend(chunk);
    }
    assert_eq!(found, expected);
    drop(view);
    committer.close().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let naive = StoreOptions { durability: Durability::File, ..options() };
    let (committer, _committed, _) = start(dir.path(), naive);
    let told = committer.freeze().unwrap_err().to_string();
    assert!(told.contains("without a journal"), "{told}");
}
