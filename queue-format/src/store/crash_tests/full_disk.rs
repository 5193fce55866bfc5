//! A disk that takes no more files is waited for.

use std::sync::mpsc::sync_channel;

use super::*;
use crate::disk::Disk;
use crate::store::{Callbacks, CloseError, Committer, Health, Refusal};

fn put(name: &str) -> Vec<Change> {
    vec![Change::Put { key: key(name), content: Bytes::from_static(b"{}") }]
}

fn start(disk: &SimDisk) -> (Committer<u8>, std::sync::mpsc::Receiver<Vec<u8>>) {
    let (send, committed) = sync_channel(100);
    let callbacks = Callbacks::new(move |tags, _| send.send(tags).unwrap())
        .on_fatal(|error| panic!("{error:?}"));
    (open_on(disk).unwrap().start(EPOCH, callbacks).unwrap(), committed)
}

fn wait_until_full(committer: &Committer<u8>) {
    while !matches!(committer.health(), Health::DiskFull { .. }) {
        std::thread::yield_now();
    }
}

#[test]
fn new_work_is_refused_old_work_goes_on_and_the_files_follow_later() {
    let disk = SimDisk::with_root(Path::new(ROOT));
    let (committer, committed) = start(&disk);
    disk.set_full(true);
    committer.submit(put("queue/job-1"), 1).unwrap();
    assert_eq!(committed.recv().unwrap(), [1]);
    wait_until_full(&committer);
    let refused = committer.try_submit(put("queue/job-2"), 2).unwrap_err();
    assert!(matches!(refused.reason, Refusal::DiskFull { .. }));
    committer.submit(put("queue/job-3"), 3).unwrap();
    assert_eq!(committed.recv().unwrap(), [3]);
    assert!(!disk.exists(Path::new("/data/queue/job-1")).unwrap());
    disk.set_full(false);
    committer.close().unwrap();
    for name in ["job-1", "job-3"] {
        assert!(disk.exists(&Path::new("/data/queue").join(name)).unwrap());
    }
}

#[test]
fn closing_on_a_full_disk_leaves_the_rest_to_the_next_start() {
    let disk = SimDisk::with_root(Path::new(ROOT));
    let (committer, committed) = start(&disk);
    disk.set_full(true);
    committer.submit(put("queue/job-1"), 1).unwrap();
    assert_eq!(committed.recv().unwrap(), [1]);
    wait_until_full(&committer);
    assert!(matches!(committer.close(), Err(CloseError::DiskFull)));
    disk.set_full(false);
    let store = open_on(&disk).unwrap();
    assert_eq!(store.recovered().replayed_batches, 1);
    assert_eq!(files_of(&store).len(), 1);
}
