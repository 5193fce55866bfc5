//! How fast locks are: uncontended, and when many wait for one. Run with `--release`.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use masterd::locks::waiting::LockQueue;
use masterd::locks::{Level, LockName, Locks, Mode, Owner};

/// Enough turns that the clock's resolution and the first page faults do not show.
const TURNS: u32 = 2_000_000;

type Wanted = Vec<(LockName, Mode)>;

fn node(name: &str) -> LockName {
    LockName::member(Level::Node, name)
}

fn rate(name: &str, turns: u32, took: Duration) {
    let rate = f64::from(turns) / took.as_secs_f64();
    println!("{name:<58} {rate:>12.0} /s   {:>8.0} ns", 1e9 / rate);
}

fn core(name: &str, wanted: &Wanted) {
    let mut queue = LockQueue::new();
    let began = Instant::now();
    for _ in 0..TURNS {
        let answer = queue.request(Owner(1), wanted.clone(), 0);
        debug_assert!(answer.is_ok());
        black_box(&answer);
        queue.release_all(Owner(1));
    }
    rate(&format!("core: acquire and release {name}"), TURNS, began.elapsed());
}

async fn shell(name: &str, wanted: &Wanted) {
    let locks = Locks::new();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(3_600);
    let began = Instant::now();
    for _ in 0..TURNS {
        let grant = locks.acquire(Owner(1), wanted.clone(), 0, deadline).await;
        drop(black_box(grant));
    }
    rate(&format!("shell: acquire and release {name}"), TURNS, began.elapsed());
}

/// `waiters` wait for one lock; each release wakes one, who ends and asks again at the end.
fn wakes(waiters: u64, mode: Mode) {
    let mut queue = LockQueue::new();
    let wanted = vec![(LockName::big(), Mode::Shared), (node("n1"), mode)];
    let holder = vec![(node("n1"), Mode::Exclusive)];
    black_box(queue.request(Owner(0), holder.clone(), 0).is_ok());
    for job in 1..=waiters {
        black_box(queue.request(Owner(job), wanted.clone(), 0).is_ok());
    }
    let turns = 200_000_u32;
    let began = Instant::now();
    for turn in 0..u64::from(turns) {
        let owner = Owner(turn % (waiters + 1));
        queue.release_all(owner);
        assert_eq!(queue.take_woken().len(), 1);
        black_box(queue.request(owner, wanted.clone(), 0).is_ok());
    }
    rate(&format!("core: wake and ask again, {waiters} wait for one lock"), turns, began.elapsed());
}

/// One release wakes all of `waiters`.
fn wake_all(waiters: u32) {
    let mut queue = LockQueue::new();
    black_box(queue.request(Owner(0), vec![(node("n1"), Mode::Exclusive)], 0).is_ok());
    for job in 1..=waiters {
        black_box(queue.request(Owner(job.into()), vec![(node("n1"), Mode::Shared)], 0).is_ok());
    }
    let began = Instant::now();
    queue.release_all(Owner(0));
    assert_eq!(queue.take_woken().len(), usize::try_from(waiters).expect("a small number"));
    rate(&format!("core: one release wakes {waiters} shared, each"), waiters, began.elapsed());
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let one = vec![(node("n1"), Mode::Exclusive)];
    let shared = vec![(LockName::big(), Mode::Shared)];
    let set = vec![(LockName::set(Level::Node), Mode::Exclusive)];
    let two = vec![(LockName::big(), Mode::Shared), (node("n1"), Mode::Exclusive)];
    let cases = [("one exclusive", one), ("one shared", shared), ("a set", set), ("two", two)];
    for (name, wanted) in &cases {
        core(name, wanted);
        shell(name, wanted).await;
    }
    for waiters in [10, 1_000, 10_000] {
        wakes(waiters, Mode::Exclusive);
    }
    wake_all(10_000);
}
