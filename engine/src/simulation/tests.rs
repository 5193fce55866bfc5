//! Engines alone: batches by whoever leads, and all that can befall nodes and the network between.
//!
//! A seed decides everything. `SEED=n cargo xtask test simulation` repeats one. [`play`] is what
//! befalls them, [`oracle`] what was acknowledged and must hold.

mod oracle;
mod play;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::seeds;

/// Simulated histories in a usual run, and in a long one.
const HISTORIES: (u64, u64) = (400, 2_400);
/// Seeds that are played twice, to see that nothing but the seed decides.
const REPEATED: u64 = 5;

fn run_one(seed: u64) -> (u64, usize) {
    play::History::new(seed).run()
}

#[test]
fn simulation_of_engines_repeats_with_its_seed() {
    for seed in 0..REPEATED {
        let twice = [seeds::one(seed, run_one), seeds::one(seed, run_one)];
        assert_eq!(twice[0], twice[1], "seed {seed} gave two histories");
    }
}

#[test]
fn simulation_of_engines_and_all_that_befalls_them() {
    let acknowledged = AtomicUsize::new(0);
    seeds::many("engines", HISTORIES, |seed| {
        acknowledged.fetch_add(run_one(seed).1, Ordering::Relaxed);
    });
    eprintln!("engines: {} batches acknowledged", acknowledged.into_inner());
}
