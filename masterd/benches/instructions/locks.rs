//! Locks that nobody else wants, and one that many do.

use std::hint::black_box;

use futures_util::FutureExt as _;
use gungraun::library_benchmark;
use jobs::locks::waiting::LockQueue;
use jobs::locks::{Level, LockName, Locks, Mode, Owner};

use crate::turns::TURNS;

type Wanted = Vec<(LockName, Mode)>;

/// The locks of a job on one node.
fn two() -> Wanted {
    let node = LockName::member(Level::Node, "node1.example.com");
    vec![(LockName::big(), Mode::Shared), (node, Mode::Exclusive)]
}

// Takes two free locks and gives them back, in the core.
#[library_benchmark]
#[bench::two(two())]
fn locks_of_a_job(wanted: Wanted) -> LockQueue {
    let mut queue = LockQueue::new();
    for _ in 0..TURNS {
        black_box(queue.request(Owner(1), wanted.clone(), 0)).expect("nobody else is there");
        queue.release_all(Owner(1));
    }
    queue
}

// The same as a job's task does it.
#[library_benchmark]
#[bench::two(two())]
fn locks_of_a_task(wanted: Wanted) -> Locks {
    let locks = Locks::new();
    let deadline = tokio::time::Instant::now();
    for _ in 0..TURNS {
        let acquired = locks.acquire(Owner(1), wanted.clone(), 0, deadline).now_or_never();
        drop(black_box(acquired.expect("free").expect("nobody else is there")));
    }
    locks
}

fn crowded(waiters: u64) -> (LockQueue, u64) {
    let mut queue = LockQueue::new();
    for owner in 0..=waiters {
        queue.request(Owner(owner), two(), 0).expect("it may wait");
    }
    (queue, waiters)
}

// The holder gives its locks back, the next of the waiters gets them, and the one before waits
// again.
#[library_benchmark]
#[bench::of_10(crowded(10))]
#[bench::of_1000(crowded(1_000))]
#[bench::of_10000(crowded(10_000))]
fn wake_one((mut queue, waiters): (LockQueue, u64)) -> LockQueue {
    let wanted = two();
    for turn in 0..TURNS {
        let owner = Owner(turn % (waiters + 1));
        queue.release_all(owner);
        assert_eq!(queue.take_woken().len(), 1);
        black_box(queue.request(owner, wanted.clone(), 0)).expect("it may wait");
    }
    queue
}
