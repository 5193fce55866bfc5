//! Runs everything that must hold, and says at the end what failed and what was not tested.
//!
//! In reading order: [`steps`] is the table of what is run. Changes of what a step covers are found by
//! [`inputs`]. The machine gets what the tests want by [`install`]. Results are read by [`junit`]; tests
//! that passed without testing are found by [`skips`]. Service files are checked by [`units`]. The
//! packages are installed on a machine of its own by [`package`]; the demonstration runs on one by
//! [`fresh`].

pub mod steps;

pub mod fresh;
pub mod inputs;
pub mod install;
pub mod junit;
pub mod package;
pub mod skips;
pub mod units;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use junit::Case;
use skips::Skip;
use steps::{Effort, STEPS, Step};

/// The arguments of the tests.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Steps to run, and parts of names of tests to run; everything when none is named
    #[arg(value_name = "FILTER", long_help = steps::help())]
    pub filters: Vec<String>,
    /// Leave out the steps that take long, and most cases of property tests
    #[arg(long)]
    pub quick: bool,
    /// Simulate many more histories and power cuts, count instructions, and repeat every step: hours, for a
    /// release
    #[arg(long, conflicts_with = "quick")]
    pub long: bool,
}

/// Tests that the summary names as the slowest.
const SLOWEST: usize = 10;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Passed,
    /// Something is not; the step has shown it, and this names it.
    Failed(String),
    /// Nothing was checked, for this reason.
    Skipped(String),
    /// It passed before, and nothing that it covers has changed since.
    Unchanged,
}

/// The options of a run, and its results so far.
#[derive(Debug, Default)]
pub struct Round {
    /// Whether what takes long is left out.
    pub quick: bool,
    /// Whether there is time for more.
    pub long: bool,
    /// Parts of names of tests; none means all.
    pub tests: Vec<String>,
    /// The outcome of each test, so far.
    pub cases: Vec<Case>,
    /// Tests that were skipped, so far.
    pub skips: Vec<Skip>,
}

impl Round {
    /// Takes in what came of some tests.
    fn take_in(&mut self, cases: Vec<Case>) {
        self.skips.extend(cases.iter().flat_map(|case| case.skips.iter().cloned()));
        self.cases.extend(cases);
    }
}

/// One step with its end.
#[derive(Debug)]
struct Ended {
    step: &'static Step,
    outcome: Outcome,
    took: Duration,
}

/// Runs what is asked for; the exit code says whether all of it holds.
pub fn run(arguments: &Arguments) -> ExitCode {
    let (chosen, tests) = choose(arguments);
    let (quick, long) = (arguments.quick, arguments.long);
    let mut round = Round { quick, long, tests, ..Round::default() };
    // A step that is asked for by name runs.
    let repeats = long || !arguments.filters.is_empty();
    let mut ended = Vec::new();
    for step in chosen {
        println!("\n=== {}: {}", step.name, step.about);
        let begun = Instant::now();
        let outcome = run_step(step, repeats, &mut round);
        ended.push(Ended { step, outcome, took: begun.elapsed() });
    }
    print!("\n{}", summary(&ended, &round));
    let failed = ended.iter().any(|ended| matches!(ended.outcome, Outcome::Failed(_)));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs a step, unless it passed before and nothing that it covers has changed.
fn run_step(step: &Step, repeats: bool, round: &mut Round) -> Outcome {
    let digest = inputs::digest(step);
    if let Some(digest) = &digest
        && !repeats
        && inputs::has_passed(step, digest)
    {
        println!("passed before, and nothing that it covers has changed; `--long` repeats it");
        return Outcome::Unchanged;
    }
    let outcome = (step.run)(round);
    if let Some(digest) = digest
        && outcome == Outcome::Passed
    {
        inputs::remember(step, &digest);
    }
    outcome
}

/// The steps to run and the tests to run in them. A word that names no step is part of a test's
/// name, and asks for the tests.
fn choose(arguments: &Arguments) -> (Vec<&'static Step>, Vec<String>) {
    let names_step = |word: &String| STEPS.iter().any(|step| step.name == word);
    let (named, mut tests): (Vec<String>, Vec<String>) =
        arguments.filters.iter().cloned().partition(names_step);
    tests.dedup();
    let effort = match (arguments.quick, arguments.long) {
        (true, _) => Effort::Quick,
        (false, false) => Effort::Usual,
        (false, true) => Effort::Long,
    };
    let wanted = |step: &&Step| {
        let everything = arguments.filters.is_empty() && step.effort <= effort;
        let by_test = !tests.is_empty() && ["build", "test"].contains(&step.name);
        everything || by_test || named.iter().any(|name| name == step.name)
    };
    (STEPS.iter().filter(wanted).collect(), tests)
}

/// The summary, for a reader of the end alone.
fn summary(ended: &[Ended], round: &Round) -> String {
    let mut text = slowest(&round.cases);
    text.push_str("=== summary\n");
    for Ended { step, outcome, took } in ended {
        let (word, why) = match outcome {
            Outcome::Passed => ("passed", String::new()),
            Outcome::Failed(why) => ("FAILED", format!(": {why}")),
            Outcome::Skipped(why) => ("SKIPPED", format!(": {why}")),
            Outcome::Unchanged => ("unchanged", " since it passed".to_owned()),
        };
        let seconds = took.as_secs_f64();
        text.push_str(&format!("{:12} {seconds:7.1} s  {word}{why}\n", step.name));
    }
    if !round.skips.is_empty() {
        let plural = if round.skips.len() == 1 { "" } else { "s" };
        text.push_str(&format!("\n{} test{plural} skipped:\n", round.skips.len()));
        for Skip { test, why } in &round.skips {
            text.push_str(&format!("  {test}: {why}\n"));
        }
    }
    text.push_str(&verdict(ended));
    text
}

/// The tests that took longest.
fn slowest(cases: &[Case]) -> String {
    let mut cases: Vec<&Case> = cases.iter().collect();
    cases.sort_by_key(|case| std::cmp::Reverse(case.took));
    let mut text = String::new();
    for Case { test, took, .. } in cases.into_iter().take(SLOWEST) {
        text.push_str(&format!("{:20.1} s  {test}\n", took.as_secs_f64()));
    }
    if text.is_empty() { text } else { format!("=== slowest tests\n{text}\n") }
}

fn verdict(ended: &[Ended]) -> String {
    let count =
        |wanted: fn(&Outcome) -> bool| ended.iter().filter(|ended| wanted(&ended.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let left_out = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    match (failed, left_out) {
        (0, 0) => "\nall steps passed\n".to_owned(),
        (0, left_out) => format!("\nno step failed, {left_out} skipped\n"),
        (failed, _) => format!("\n{failed} of {} steps FAILED\n", ended.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &[&str], quick: bool) -> (Vec<&'static str>, Vec<String>) {
        let filters = filters.iter().map(|&word| word.to_owned()).collect();
        let (steps, tests) = choose(&Arguments { filters, quick, long: false });
        (steps.iter().map(|step| step.name).collect(), tests)
    }

    #[test]
    fn more_effort_has_more_steps() {
        let steps = |quick, long| choose(&Arguments { filters: vec![], quick, long }).0.len();
        let (few, usual, all) = (steps(true, false), steps(false, false), steps(false, true));
        assert!(few < usual && usual < all);
        assert_eq!(all, STEPS.len());
    }

    #[test]
    fn words_choose_steps_or_tests() {
        assert_eq!(names(&["fmt"], false), (vec!["fmt"], vec![]));
        assert_eq!(names(&["doc"], true), (vec!["doc"], vec![]), "asked for by name");
        let lease = vec!["lease".to_owned()];
        assert_eq!(names(&["lease"], false), (vec!["build", "test"], lease.clone()));
        assert_eq!(names(&["lease", "units"], false), (vec!["build", "test", "units"], lease));
    }

    #[test]
    fn the_summary_names_what_failed_and_what_was_not_tested() {
        let step = |name: &str| STEPS.iter().find(|step| step.name == name).unwrap();
        let took = Duration::from_millis(1_500);
        let ended = [
            Ended { step: step("fmt"), outcome: Outcome::Passed, took },
            Ended { step: step("test"), outcome: Outcome::Failed("exit status: 100".into()), took },
            Ended { step: step("units"), outcome: Outcome::Skipped("no tool".into()), took },
        ];
        let case = |test: &str, millis| {
            let (test, took) = (test.to_owned(), Duration::from_millis(millis));
            Case { test, took, failed: false, skips: Vec::new() }
        };
        let mut round = Round {
            cases: vec![case("e2e short", 20), case("e2e long", 61_300)],
            ..Round::default()
        };
        round.skips.push(Skip { test: "noded::dhcp lease".into(), why: "needs root".into() });
        let expected = "\
=== slowest tests
                61.3 s  e2e long
                 0.0 s  e2e short

=== summary
fmt              1.5 s  passed
test             1.5 s  FAILED: exit status: 100
units            1.5 s  SKIPPED: no tool

1 test skipped:
  noded::dhcp lease: needs root

1 of 3 steps FAILED
";
        assert_eq!(summary(&ended, &round), expected);
        assert!(summary(&ended[..1], &Round::default()).ends_with("\nall steps passed\n"));
        assert!(summary(&ended[2..], &Round::default()).ends_with("\nno step failed, 1 skipped\n"));
    }
}
