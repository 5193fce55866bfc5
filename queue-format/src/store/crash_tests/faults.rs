//! Errors at every operation, once or for good: the store ends, or waits; what it acknowledged is
//! there.

use std::sync::mpsc::sync_channel;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::stops::{boot, new_disk, operations, run};
use super::*;
use crate::disk::sim::{Fault, Loss};
use crate::store::{Callbacks, CloseError, Health, Refusal};

/// Every fault of one place: not done or done, once or for good.
fn faults() -> Vec<Fault> {
    let mut faults = Vec::new();
    for errno in [Errno::IO, Errno::NOSPC] {
        for (done, times) in [(false, 1), (true, 1), (false, usize::MAX)] {
            faults.push(Fault { errno, done, times });
        }
    }
    faults
}

#[test]
fn an_error_anywhere_loses_nothing_that_was_acknowledged() {
    for seed in 0..2 {
        let steps = any_steps(&mut Chance::new(seed), 40, true);
        let count = operations(&steps);
        for at in 0..count {
            for fault in faults() {
                let what = format!("seed {seed}, operation {at} of {count}, {fault:?}");
                let mut chance = Chance::new(seed ^ u64::try_from(at).unwrap() << 20);
                let (disk, mut history) = (new_disk(), History::new());
                disk.fail_after(at, fault);
                let ended = run(&disk, &steps, &mut history);
                assert!(disk.has_failed(), "{what}: not met");
                // A loss must not matter to a run that went on.
                let loss = [Loss::Nothing, Loss::PowerCut][chance.below(2)];
                let (_disk, store) = boot(disk.crash(loss, &mut chance), &mut chance, &what);
                if ended.is_ok() {
                    assert_eq!(history.acknowledged + 1, history.states.len(), "{what}");
                }
                history.check(&store, &format!("{what}, {loss:?}"));
            }
        }
    }
}

fn put(number: usize) -> Vec<Change> {
    let job =
        Change::Put { key: key(&format!("queue/job-{number}")), content: vec![b'x'; 700].into() };
    vec![job, Change::Put { key: key("queue/serial"), content: number.to_string().into() }]
}

/// The real threads on a disk that fails for a while: what is acknowledged is kept, and who does not
/// end goes on when there is room again.
#[test]
fn a_running_store_ends_or_waits_and_never_lies() {
    let mut outcomes = [0; 2];
    for at in (0..160).step_by(3) {
        for errno in [Errno::IO, Errno::NOSPC] {
            let disk = new_disk();
            let store = open_on(&disk).unwrap();
            disk.fail_after(at, Fault { errno, done: false, times: 3 });
            let acknowledged = fill(store, &disk);
            let failed = acknowledged.1;
            outcomes[usize::from(failed)] += 1;
            let what = format!("operation {at}, {errno:?}, failed: {failed}");
            let disk = disk.crash(Loss::PowerCut, &mut Chance::new(u64::try_from(at).unwrap()));
            let files = files_of(&open_on(&disk).unwrap());
            for number in acknowledged.0 {
                assert!(files.contains_key(&key(&format!("queue/job-{number}"))), "{what}");
            }
            check_serial(&files, &what);
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "both happen: {outcomes:?}");
}

fn check_serial(files: &State, what: &str) {
    let jobs = files.keys().filter(|key| key.as_str().starts_with("queue/job-")).count();
    let serial = files
        .get(&key("queue/serial"))
        .map_or(0, |text| std::str::from_utf8(text).unwrap().parse().unwrap());
    assert_eq!(jobs, serial, "{what}: batches are whole and in order");
}

/// Submits until everything is in or the store failed; what was acknowledged, and whether it failed.
fn fill(store: Store, disk: &SimDisk) -> (Vec<usize>, bool) {
    let (send, committed) = sync_channel(1000);
    let failed = Arc::new(Mutex::new(false));
    let note = Arc::clone(&failed);
    let callbacks = Callbacks::new(move |tags: Vec<usize>, _| send.send(tags).unwrap())
        .on_fatal(move |_error| *note.lock() = true);
    let committer = store.start(EPOCH, callbacks).unwrap();
    for number in 1..=40 {
        loop {
            match committer.try_submit(put(number), number) {
                Ok(()) => break,
                Err(refused) if refused.reason == Refusal::Stopped => break,
                Err(_full_or_busy) => std::thread::yield_now(),
            }
        }
        if number % 10 == 0 {
            committer.checkpoint();
        }
    }
    // A fault that is not met changes nothing; one that is ends the store, or is over by now.
    let closed = committer.close();
    let failed = *failed.lock();
    assert_eq!(matches!(committer.health(), Health::Failed { .. }), failed);
    if closed.is_ok() {
        assert!(!failed && disk.operations() > 0);
    }
    drop(committer);
    (committed.into_iter().flatten().collect(), failed)
}

/// A checkpoint that was asked for waits for the disk; the end does not wait for it.
#[test]
fn a_store_on_a_full_disk_ends_in_the_middle_of_a_checkpoint() {
    let disk = new_disk();
    let (send, committed) = sync_channel(10);
    let callbacks = Callbacks::new(move |tags: Vec<usize>, _| send.send(tags).unwrap());
    let committer = open_on(&disk).unwrap().start(EPOCH, callbacks).unwrap();
    disk.set_full(true);
    committer.submit(put(1), 1).unwrap();
    assert_eq!(committed.recv().unwrap(), [1]);
    while !matches!(committer.health(), Health::DiskFull { .. }) {
        std::thread::yield_now();
    }
    committer.checkpoint();
    assert!(matches!(committer.close(), Err(CloseError::DiskFull)));
    drop(committer);

    disk.set_full(false);
    let files = files_of(&open_on(&disk).unwrap());
    assert!(files.contains_key(&key("queue/job-1")));
}
