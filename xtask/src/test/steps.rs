//! The steps, in the order in which they run: what is quick to find comes first.

use std::fs;
use std::io;
use std::process::Command;

use super::{Outcome, Round, fresh, install, junit, package, skips, units};
use crate::bench::instructions::{self, Verdict};
use crate::bench::report::Report;
use crate::programs::{self, Profile, Programs};
use crate::{cargo, root};

/// Cases of each property test with `--quick`, where the test does not set its own number.
const QUICK_CASES: &str = "16";
/// The same with `--long`: four times the usual.
const LONG_CASES: &str = "1024";
/// Tells tests that there is time for more.
const LONG: &str = "GANTRY_TEST_LONG";

/// The tests of package `tests` that have a step of their own.
const FAILURES: &str = "failures";
/// Likewise.
const GUESTS: &str = "guests";

/// How much a run asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// `--quick`.
    Quick,
    /// No option.
    Usual,
    /// `--long`.
    Long,
}

/// One step.
#[derive(Debug)]
pub struct Step {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// The subject of its check, in one line.
    pub about: &'static str,
    /// The least effort that has it.
    pub effort: Effort,
    /// Files and directories that it covers, where that can be told: it is left out while none of them
    /// changes.
    pub inputs: &'static [&'static str],
    /// Checks.
    pub run: fn(&mut Round) -> Outcome,
}

impl Step {
    const fn new(name: &'static str, about: &'static str, run: fn(&mut Round) -> Outcome) -> Self {
        Self { name, about, effort: Effort::Quick, inputs: &[], run }
    }

    /// The same step, which `--quick` leaves out.
    const fn slow(self) -> Self {
        Self { effort: Effort::Usual, ..self }
    }

    /// The same step, which `--long` alone has.
    const fn longest(self) -> Self {
        Self { effort: Effort::Long, ..self }
    }

    /// The same step, which covers these files only.
    const fn covering(self, inputs: &'static [&'static str]) -> Self {
        Self { inputs, ..self }
    }
}

/// All steps.
pub const STEPS: &[Step] = &[
    Step::new("install", "programs that tests need", install::run).slow(),
    Step::new("fmt", "the format of the source", fmt),
    Step::new("clippy", "lints, warnings are errors", clippy),
    Step::new("build", "the programs, for tests that run them", build),
    Step::new("test", "every test", test),
    Step::new("failures", "nodes in real trouble: links, disks, power, processes", failures).slow(),
    Step::new("guests", "machines that boot: UEFI firmware in QEMU", guests).slow().covering(BOOT),
    Step::new("orders", "many orders of the store's steps", orders).slow().covering(STORE),
    Step::new("doctest", "examples in the documentation", doctest).slow(),
    Step::new("doc", "the documentation builds", doc).slow(),
    Step::new("units", "service files, by systemd's own word", units::verify),
    Step::new(
        "instructions",
        "the steps of a job take no more instructions than is accepted",
        instructions,
    )
    .longest()
    .covering(JOBS),
    Step::new(
        "package",
        "the packages: installed, used, upgraded and removed on a fresh Debian",
        package::install,
    )
    .slow()
    .covering(PACKAGES),
    Step::new("fresh", "the demonstration on a Debian that has nothing", fresh::demonstrate)
        .slow()
        .covering(SETUP),
];

/// The sources of the store.
const STORE: &[&str] = &["Cargo.toml", "Cargo.lock", "stdx", "model", "queue-format"];
/// The sources that a machine meets when it boots.
const BOOT: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "stdx",
    "model",
    "blobs",
    "rpc",
    "masterd/src/sync",
    "masterd/src/agents/blobs.rs",
    "masterd/src/machines/image.rs",
    "masterd/src/machines/rack/document.rs",
    "netboot",
    "noded",
    "hostnet",
    "virt",
    "tests/tests/guests",
    "xtask/src/guest",
];
/// The sources of the steps of a job, and of the count of their instructions.
const JOBS: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "stdx",
    "model",
    "blobs",
    "queue-format",
    "engine",
    "luxi",
    "rpc",
    "jobs",
    "membership",
    "masterd",
    "xtask/src/bench/instructions.rs",
];
/// The sources of the packages, and of what is done with them.
const PACKAGES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "CHANGELOG.md",
    "README.md",
    "docs",
    "packaging",
    "stdx",
    "model",
    "blobs",
    "queue-format",
    "engine",
    "luxi",
    "rpc",
    "jobs",
    "membership",
    "masterd",
    "netboot",
    "noded",
    "rapi",
    "cli",
    "tests/golden",
    "xtask/src/dist",
    "xtask/src/dist.rs",
    "xtask/src/test/package.rs",
    "xtask/src/test/package.sh",
];

/// The sources that make a machine ready for the demonstration.
const SETUP: &[&str] = &[
    "xtask/src/debian.rs",
    "xtask/src/demo",
    "xtask/src/demo.rs",
    "xtask/src/guest",
    "xtask/src/needs",
    "xtask/src/needs.rs",
    "xtask/src/test/fresh.rs",
];

/// The step of this name.
pub fn named(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

/// The steps as help of the command line.
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
fn orders(round: &mut Round) -> Outcome {
    let mut command = cargo();
    command.args(["test", "--workspace", "--features", "queue-format/shuttle", "--test", "orders"]);
    finish(with_effort(&mut command, round))
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
    let tests = round.tests.clone();
    if has_nextest() {
        return with_nextest(
            &format!("not (binary(={FAILURES}) or binary(={GUESTS}))"),
            &tests,
            round,
        );
    }
    println!("cargo nextest is not installed; cargo test does the same, slower");
    let mut command = cargo();
    command.args(["test", "--workspace", "--tests"]);
    command.args(["--no-fail-fast", "--", "--show-output"]).args(&tests);
    watched(&mut command, round)
}

fn failures(round: &mut Round) -> Outcome {
    one_binary(FAILURES, round)
}

fn guests(round: &mut Round) -> Outcome {
    one_binary(GUESTS, round)
}

/// Of the whole workspace, as all tests are: for one package, cargo would build all that it needs anew.
fn one_binary(name: &str, round: &mut Round) -> Outcome {
    if has_nextest() {
        return with_nextest(&format!("binary(={name})"), &[], round);
    }
    let mut command = cargo();
    command.args([
        "test",
        "--workspace",
        "--test",
        name,
        "--",
        "--show-output",
        "--test-threads=1",
    ]);
    watched(&mut command, round)
}

fn has_nextest() -> bool {
    let told = cargo().args(["nextest", "--version"]).output();
    told.is_ok_and(|output| output.status.success())
}

fn with_nextest(binaries: &str, tests: &[String], round: &mut Round) -> Outcome {
    // A report of an earlier run must not pass for this one's. It lies below the workspace, wherever
    // what is built does.
    let report = root().join("target/nextest/default/junit.xml");
    drop(fs::remove_file(&report));
    let config = format!("xtask:{}", root().join("xtask/nextest.toml").display());
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace", "--tests", "--no-fail-fast"]);
    command.args(["--tool-config-file", &config, "--filterset", binaries]);
    command.args(["--test-threads", &places().to_string()]).args(tests);
    let outcome = finish(with_effort(&mut command, round));
    match fs::read_to_string(&report) {
        Ok(text) => round.take_in(junit::cases(&text)),
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

/// Runs `cargo test`, and takes in what it skips.
fn watched(command: &mut Command, round: &mut Round) -> Outcome {
    let mut found = skips::InOutput::default();
    let outcome = match skips::run_watched(
        with_effort(command, round),
        io::stdout(),
        io::stderr(),
        &mut found,
    ) {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(error) => Outcome::Failed(format!("cargo does not start: {error}")),
    };
    round.skips.extend(found.skips());
    outcome
}

/// Tells tests how much is asked of them.
fn with_effort<'c>(command: &'c mut Command, round: &Round) -> &'c mut Command {
    if round.quick {
        command.env("PROPTEST_CASES", QUICK_CASES);
    }
    if round.long {
        command.env("PROPTEST_CASES", LONG_CASES).env(LONG, "1");
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
