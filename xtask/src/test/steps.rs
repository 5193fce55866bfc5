//! The steps, in the order in which they run: what is quick to find comes first.

use std::fs;
use std::io;
use std::process::Command;

use super::skips;
use super::{Outcome, Round, needs, package, units};
use crate::bench::instructions::{self, Verdict};
use crate::bench::report::Report;
use crate::programs::{self, Profile, Programs};
use crate::{cargo, root};

/// Cases of each property test with `--quick`, where the test does not set its own number.
const QUICK_CASES: &str = "16";

/// The tests of package `tests` that have a step of their own.
const FAILURES: &str = "failures";

/// One step.
#[derive(Debug)]
pub struct Step {
    /// What it is chosen by.
    pub name: &'static str,
    /// What it checks, in one line.
    pub about: &'static str,
    /// Whether `--quick` has it too.
    pub quick: bool,
    /// Checks.
    pub run: fn(&mut Round) -> Outcome,
}

/// All steps.
pub const STEPS: &[Step] = &[
    Step { name: "install", about: "programs that tests need", quick: false, run: needs::install },
    Step { name: "fmt", about: "the format of the source", quick: true, run: fmt },
    Step { name: "clippy", about: "lints, warnings are errors", quick: true, run: clippy },
    Step { name: "build", about: "the programs, for tests that run them", quick: true, run: build },
    Step { name: "test", about: "every test", quick: true, run: test },
    Step {
        name: "failures",
        about: "nodes in real trouble: links, disks, power, processes",
        quick: false,
        run: failures,
    },
    Step { name: "orders", about: "many orders of the store's steps", quick: false, run: orders },
    Step { name: "doctest", about: "examples in the documentation", quick: false, run: doctest },
    Step { name: "doc", about: "the documentation builds", quick: false, run: doc },
    Step {
        name: "units",
        about: "service files, by systemd's own word",
        quick: true,
        run: units::verify,
    },
    Step {
        name: "instructions",
        about: "the steps of a job take no more instructions than is accepted",
        quick: false,
        run: instructions,
    },
    Step {
        name: "package",
        about: "the packages: installed, used, upgraded and removed on a fresh Debian",
        quick: false,
        run: package::install,
    },
];

/// The steps as help of the command line.
#[must_use]
pub fn help() -> String {
    let mut text = String::from("Steps:\n");
    for step in STEPS {
        text.push_str(&format!("  {:12} {}\n", step.name, step.about));
    }
    text.push_str("Any other word is part of the names of the tests to run.");
    text
}

fn fmt(_round: &mut Round) -> Outcome {
    finish(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy(_round: &mut Round) -> Outcome {
    finish(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn build(_round: &mut Round) -> Outcome {
    match Programs::build(Profile::Debug, programs::NODE) {
        Ok(_programs) => Outcome::Passed,
        Err(error) => Outcome::Failed(crate::chain(&error)),
    }
}

fn instructions(_round: &mut Round) -> Outcome {
    let mut report = Report::default();
    let verdict = instructions::measure(false, &mut report);
    if !report.figures().is_empty() {
        print!("{report}");
    }
    match verdict {
        Ok(Verdict::Kept) => Outcome::Passed,
        Ok(Verdict::Worse(whys)) => Outcome::Failed(whys.join("; ")),
        Ok(Verdict::Skipped(why)) => Outcome::Skipped(why),
        Err(error) => Outcome::Failed(crate::chain(&error)),
    }
}

/// Under a scheduler in place of the system's, which only these tests can live with.
fn orders(_round: &mut Round) -> Outcome {
    let package = ["test", "--package", "queue-format", "--features", "shuttle", "--lib"];
    finish(cargo().args(package).arg("store::orders::"))
}

fn doctest(_round: &mut Round) -> Outcome {
    finish(cargo().args(["test", "--workspace", "--doc"]))
}

fn doc(_round: &mut Round) -> Outcome {
    let mut command = cargo();
    command.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--no-deps", "--workspace"]);
    finish(&mut command)
}

fn test(round: &mut Round) -> Outcome {
    let has_nextest = cargo().args(["nextest", "--version"]).output();
    if has_nextest.is_ok_and(|output| output.status.success()) {
        with_nextest(round)
    } else {
        println!("cargo nextest is not installed; cargo test does the same, slower");
        with_cargo(round)
    }
}

/// One at a time: each has three nodes that are to hear of each other within a second. Of the whole
/// workspace, as all tests are: for one package, cargo would build all that it needs anew.
fn failures(round: &mut Round) -> Outcome {
    let mut command = cargo();
    command.args(["test", "--workspace", "--test", FAILURES]);
    command.args(["--", "--show-output", "--test-threads", "1"]);
    watched(&mut command, round)
}

fn with_nextest(round: &mut Round) -> Outcome {
    // A report of an earlier run must not pass for this one's. It lies below the workspace, wherever
    // what is built does.
    let report = root().join("target/nextest/default/junit.xml");
    drop(fs::remove_file(&report));
    let config = format!("xtask:{}", root().join("xtask/nextest.toml").display());
    let mut command = cargo();
    command.args([
        "nextest",
        "run",
        "--workspace",
        "--no-fail-fast",
        "--tool-config-file",
        &config,
        "--filterset",
        &format!("not binary(={FAILURES})"),
        "--test-threads",
        &places().to_string(),
    ]);
    command.args(&round.tests);
    let outcome = finish(quicken(&mut command, round));
    match fs::read_to_string(&report) {
        Ok(text) => round.skips.extend(skips::in_junit(&text)),
        Err(error) if outcome == Outcome::Passed => {
            return Outcome::Failed(format!("cannot read `{}`: {error}", report.display()));
        }
        // It did not build: there is no report, and the failure is told already.
        Err(_) => {}
    }
    outcome
}

/// Two for each core: see `nextest.toml`, which says who takes how many.
fn places() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn with_cargo(round: &mut Round) -> Outcome {
    let mut command = cargo();
    command.args(["test", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
    command.args(["--no-fail-fast", "--", "--show-output"]).args(&round.tests);
    watched(quicken(&mut command, round), round)
}

/// Runs `cargo test`, and takes in what it skips.
fn watched(command: &mut Command, round: &mut Round) -> Outcome {
    let mut found = skips::InOutput::default();
    let outcome = match skips::run_watched(command, io::stdout(), io::stderr(), &mut found) {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(error) => Outcome::Failed(format!("cargo does not start: {error}")),
    };
    round.skips.extend(found.skips());
    outcome
}

fn quicken<'c>(command: &'c mut Command, round: &Round) -> &'c mut Command {
    if round.quick {
        command.env("PROPTEST_CASES", QUICK_CASES).env("GANTRY_TEST_QUICK", "1");
    }
    command
}

/// Runs a command in sight, to its end.
pub(super) fn finish(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            Outcome::Failed(format!("`{program}` does not start: {error}"))
        }
    }
}
