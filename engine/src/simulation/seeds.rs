//! Which seeds are simulated, and how one that fails is told.
#![expect(clippy::print_stderr, reason = "who runs a test is to see its seeds")]

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The seed that this thread simulates.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    /// A task's panic would end that task alone.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Whether anything panicked in what this thread simulates.
pub fn has_panicked() -> bool {
    PANICKED.get()
}

/// Runs one seed; a panic in it says how to repeat it, and is known of even where a task ends by it.
pub fn one<R>(seed: u64, run: impl FnOnce(u64) -> R) -> R {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            if let Some(seed) = SEED.get() {
                eprintln!(
                    "this is SEED={seed}; `SEED={seed} cargo xtask test simulation` repeats it"
                );
            }
            usual(panic);
        }));
    });
    SEED.set(Some(seed));
    PANICKED.set(false);
    let done = run(seed);
    SEED.set(None);
    done
}

/// Runs `usual` seeds, other ones each time, or `long` ones where `cargo xtask test --long` asks for
/// them, on all processors. The environment may ask for one `SEED`, or for another number of
/// `HISTORIES`.
///
/// # Panics
/// `HISTORIES` is no number, or a seed fails.
#[expect(clippy::disallowed_methods, reason = "only to begin with other seeds each time")]
pub fn many(what: &str, (usual, long): (u64, u64), run: impl Fn(u64) + Sync) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SEED") {
        return one(seed, run);
    }
    let is_long = std::env::var_os("GANTRY_TEST_LONG").is_some();
    let count = number("HISTORIES").unwrap_or(if is_long { long } else { usual });
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let begin = since.map_or(0, |since| u64::from(since.subsec_nanos()) / 10);
    eprintln!("{what}: {count} histories, seeds {begin} to {}", begin + count - 1);
    let next = AtomicU64::new(begin);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= begin + count {
                        break;
                    }
                    one(seed, &run);
                }
            });
        }
    });
}
