//! How fast locks are on one core: uncontended, and when many wait for one. Prints a JSON object
//! of nanoseconds by figure; `cargo xtask bench locks` runs it and says what they should be.
//!
//! All figures are measured by turns in short blocks, of which the median counts: what another
//! process takes of the machine then falls into few of them.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use jobs::locks::waiting::LockQueue;
use jobs::locks::{Level, LockName, Locks, Mode, Owner};
use parking_lot::Mutex;

/// The daemon's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Slices of each figure.
const SLICES: u32 = 10;
/// How long each figure is measured if the command line does not say, in milliseconds.
const TIME_MS: u64 = 2_000;
/// Turns of a block, between two looks at the clock. With so many, looking costs nothing; with so few,
/// most blocks are over before another process is given the processor.
const TURNS: u32 = 100;

type Wanted = Vec<(LockName, Mode)>;

/// One figure: its name, and what does so many turns of it.
struct Figure {
    name: String,
    turns: Box<dyn FnMut(u32)>,
    /// Nanoseconds of each block; as many as there is time for.
    blocks: Vec<u64>,
}

fn figure(name: impl Into<String>, turns: impl FnMut(u32) + 'static) -> Figure {
    Figure { name: name.into(), turns: Box::new(turns), blocks: Vec::new() }
}

impl Figure {
    /// Measures blocks for so long, one at least.
    fn measure(&mut self, time: Duration) {
        let begun = Instant::now();
        loop {
            let block = Instant::now();
            (self.turns)(TURNS);
            self.blocks.push(u64::try_from(block.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if begun.elapsed() >= time {
                return;
            }
        }
    }

    /// Nanoseconds of one turn.
    fn median(mut self) -> (String, u64) {
        self.blocks.sort_unstable();
        let median = self.blocks.get(self.blocks.len() / 2).copied().unwrap_or(0);
        (self.name, median / u64::from(TURNS))
    }
}

fn node() -> LockName {
    LockName::member(Level::Node, "node1.example.com")
}

/// The cost of a lock that knows no owners, levels, modes and waiters: a map behind a mutex.
fn map() -> Figure {
    let held = Mutex::new(HashMap::new());
    let name = node();
    figure("map", move |turns| {
        for _ in 0..turns {
            black_box(held.lock().insert(name.clone(), (Owner(1), Mode::Exclusive)));
            black_box(held.lock().remove(&name));
        }
    })
}

fn core(name: &str, wanted: Wanted) -> Figure {
    let mut queue = LockQueue::new();
    figure(format!("core.{name}"), move |turns| {
        for _ in 0..turns {
            let answer = queue.request(Owner(1), wanted.clone(), 0);
            black_box(answer).expect("nobody else is there");
            queue.release_all(Owner(1));
        }
    })
}

fn shell(name: &str, wanted: Wanted) -> Figure {
    let locks = Locks::new();
    let deadline = tokio::time::Instant::now();
    figure(format!("shell.{name}"), move |turns| {
        for _ in 0..turns {
            let acquired = locks.acquire(Owner(1), wanted.clone(), 0, deadline).now_or_never();
            drop(black_box(acquired.expect("it is free").expect("nobody else is there")));
        }
    })
}

/// So many wait for one lock; each release wakes one, and who had it waits again.
fn wake(waiters: u64) -> Figure {
    let mut queue = LockQueue::new();
    let wanted = vec![(LockName::big(), Mode::Shared), (node(), Mode::Exclusive)];
    for owner in 0..=waiters {
        queue.request(Owner(owner), wanted.clone(), 0).expect("it may wait");
    }
    let mut turn = 0;
    figure(format!("wake.{waiters}"), move |turns| {
        for _ in 0..turns {
            let owner = Owner(turn % (waiters + 1));
            turn += 1;
            queue.release_all(owner);
            assert_eq!(queue.take_woken().len(), 1);
            black_box(queue.request(owner, wanted.clone(), 0)).expect("it may wait");
        }
    })
}

/// How long each figure is measured: the argument that is a number; cargo gives others too.
fn time() -> Duration {
    let given = std::env::args().find_map(|argument| argument.parse().ok());
    Duration::from_millis(given.unwrap_or(TIME_MS))
}

fn main() {
    let one = || vec![(node(), Mode::Exclusive)];
    let two = || vec![(LockName::big(), Mode::Shared), (node(), Mode::Exclusive)];
    let mut figures = vec![
        map(),
        core("one", one()),
        shell("one", one()),
        core("two", two()),
        shell("two", two()),
    ];
    figures.extend([10, 1_000, 10_000].map(wake));
    let time = time() / SLICES;
    for _ in 0..SLICES {
        figures.iter_mut().for_each(|figure| figure.measure(time));
    }
    let found: BTreeMap<_, _> = figures.into_iter().map(Figure::median).collect();
    println!("{}", serde_json::to_string(&found).expect("numbers"));
}
