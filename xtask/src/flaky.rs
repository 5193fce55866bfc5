//! Looks for tests that fail by chance: runs the suite again and again while something else keeps every
//! processor busy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;

use crate::test::steps::{Step, named};
use crate::test::{Outcome, Round};

/// The steps of `cargo xtask test` that run tests.
const SUITE: [&str; 2] = ["test", "failures"];

/// How often the suite runs.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Rounds of the suite
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Parts of names of tests; all tests when none is named
    #[arg(value_name = "FILTER")]
    pub tests: Vec<String>,
}

/// Why the rounds were not clean.
#[derive(Debug, thiserror::Error)]
pub enum FlakyError {
    /// A step did not come to its tests.
    #[error("step {step} failed before it ran a test: {why}")]
    Broken {
        /// Which step.
        step: &'static str,
        /// What it said.
        why: String,
    },
    /// Tests failed, which were named.
    #[error("{0} tests failed at least once")]
    Failed(usize),
}

/// Runs the rounds, and names each test that failed with its count.
///
/// # Errors
/// Something failed.
pub fn run(arguments: &Arguments) -> Result<(), FlakyError> {
    // Compiling is no part of a round.
    let build = named("build").map(|step| (step.run)(&mut Round::default()));
    if let Some(Outcome::Failed(why)) = build {
        return Err(FlakyError::Broken { step: "build", why });
    }
    let over = AtomicBool::new(false);
    let tally = std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors {
            scope.spawn(|| burn(&over));
        }
        let tally = rounds(arguments);
        over.store(true, Ordering::Relaxed);
        tally
    })?;
    print!("\n{tally}");
    match tally.failures.len() {
        0 => Ok(()),
        count => Err(FlakyError::Failed(count)),
    }
}

/// Keeps one processor busy until all is over.
fn burn(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn rounds(arguments: &Arguments) -> Result<Tally, FlakyError> {
    let mut tally = Tally::default();
    for number in 1..=arguments.rounds {
        println!("\n=== round {number} of {}", arguments.rounds);
        let begun = Instant::now();
        let mut round = Round { tests: arguments.tests.clone(), ..Round::default() };
        for step in SUITE.into_iter().filter_map(named) {
            run_step(step, &mut round)?;
        }
        let failed: Vec<String> =
            round.cases.into_iter().filter(|case| case.failed).map(|case| case.test).collect();
        let (count, seconds) = (failed.len(), begun.elapsed().as_secs());
        println!("=== round {number}: {count} tests failed, {seconds} s");
        tally.add(failed);
    }
    Ok(tally)
}

/// Runs the tests of a step. A failure that no test explains ends the rounds.
fn run_step(step: &'static Step, round: &mut Round) -> Result<(), FlakyError> {
    let before = round.cases.len();
    let outcome = (step.run)(round);
    let explained = round.cases[before..].iter().any(|case| case.failed);
    match outcome {
        Outcome::Failed(why) if !explained => Err(FlakyError::Broken { step: step.name, why }),
        _ => Ok(()),
    }
}

/// How often each test failed.
#[derive(Debug, Default)]
struct Tally {
    rounds: usize,
    clean: usize,
    failures: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, failed: Vec<String>) {
        self.rounds += 1;
        self.clean += usize::from(failed.is_empty());
        for test in failed {
            *self.failures.entry(test).or_default() += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {} rounds were clean", self.clean, self.rounds)?;
        self.failures
            .iter()
            .try_for_each(|(test, count)| writeln!(f, "  failed {count} times: {test}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_clean_rounds_and_failures_of_each_test() {
        let mut tally = Tally::default();
        let failed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        tally.add(failed(&["e2e a", "e2e b"]));
        tally.add(failed(&[]));
        tally.add(failed(&["e2e b"]));
        let expected = "\
1 of 3 rounds were clean
  failed 1 times: e2e a
  failed 2 times: e2e b
";
        assert_eq!(tally.to_string(), expected);
    }

    #[test]
    fn the_suite_is_made_of_steps() {
        assert!(SUITE.into_iter().all(|name| named(name).is_some()));
    }
}
