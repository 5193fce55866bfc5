//! Instructions that the steps of a trivial job take, compared with those that the tree holds
//! (`masterd/benches/instructions`).
//!
//! Valgrind counts them, so a busy machine changes nothing. Another compiler, C library or
//! processor does, a little.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use super::report::Report;
use super::{BenchError, Setting};
use crate::needs;
use crate::{cargo, root, target_dir};

#[path = "../../../masterd/benches/instructions/turns.rs"]
mod turns;

/// How many times the accepted instructions a bench may take. Hash maps are seeded at random, and a
/// processor's features choose how bytes are copied and found: up to a twentieth. A regression that
/// matters is more.
const RATIO_MAX: f64 = 1.1;
/// Below this ratio the accepted count no longer protects what was gained.
const RATIO_GAINED: f64 = 0.9;
/// The ends of names of two benches that do the same beside few and beside many objects.
const BESIDE: [&str; 2] = ["beside_10", "beside_10000"];
/// Most instructions beside many objects, as a multiple of those beside few.
const BESIDE_MANY_MAX: f64 = 2.0;
/// The file of accepted counts, by bench: instructions of one turn.
const ACCEPTED: &str = "masterd/benches/instructions.json";
/// Its mode.
const ACCEPTED_MODE: u32 = 0o644;
/// The counted program: an example of `masterd`.
const PROGRAM: &str = "instructions";
/// How it is compiled.
const CONFIG: &str = "masterd/benches/instructions.toml";
/// The program that runs each bench below Valgrind.
const RUNNER: &str = "gungraun-runner";
/// Its version: that of the library, which talks to no other.
const RUNNER_VERSION: &str = "0.20.0";

/// Instructions that could not be counted or compared.
#[derive(Debug, thiserror::Error)]
pub enum InstructionsError {
    /// Cargo, or what it built, did not start.
    #[error("cannot start cargo, or the program `{PROGRAM}` of masterd that it builds")]
    Start(#[source] io::Error),
    /// It did not build or did not end well, and has said why.
    #[error("the program `{PROGRAM}` of masterd failed ({0})")]
    Failed(ExitStatus),
    /// A line that it printed is no summary of a bench.
    #[error("the program `{PROGRAM}` of masterd printed what is no summary: {0}")]
    Summary(String),
    /// The accepted counts cannot be read or written.
    #[error("cannot use `{ACCEPTED}`")]
    File(#[source] io::Error),
    /// The accepted counts are no object of numbers.
    #[error("`{ACCEPTED}` is no object of whole numbers; `--accept` writes it anew")]
    Accepted(#[source] serde_json::Error),
}

/// Instructions of one turn, by bench.
pub type Counts = BTreeMap<String, u64>;

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing takes more than it may.
    Kept,
    /// These do, or cannot be compared; each with its reason.
    Worse(Vec<String>),
    /// Nothing was counted, for this reason.
    Skipped(String),
}

/// The bench `instructions`.
///
/// # Errors
/// It cannot be built or run, or what is accepted cannot be read or written.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    match measure(setting.accept, report)? {
        Verdict::Kept => {}
        Verdict::Worse(whys) => whys.into_iter().for_each(|why| report.fail(why)),
        Verdict::Skipped(why) => report.tell(format!("skipped: instructions: {why}")),
    }
    Ok(())
}

/// Counts, and compares with what is accepted, or accepts what it found.
///
/// # Errors
/// It cannot be built or run, or what is accepted cannot be read or written.
pub fn measure(accept: bool, report: &mut Report) -> Result<Verdict, InstructionsError> {
    let runner = match needs::provide("valgrind").and_then(|_valgrind| provide_runner()) {
        Ok(runner) => runner,
        Err(why) => return Ok(Verdict::Skipped(why)),
    };
    let found = count(&runner)?;
    if accept {
        write(&found)?;
    }
    Ok(compare(&found, &read()?, report))
}

/// Below the directory that cargo builds into, so that nothing of the user's is changed.
fn provide_runner() -> Result<PathBuf, String> {
    let tools = target_dir().join("tools");
    let runner = tools.join("bin").join(RUNNER);
    if has_version(&runner) {
        return Ok(runner);
    }
    println!("{RUNNER} {RUNNER_VERSION} is built once, in {}", tools.display());
    let mut install = cargo();
    install.args(["install", "--quiet", "--debug", "--locked", RUNNER]);
    install.args(["--version", &format!("={RUNNER_VERSION}"), "--root"]).arg(&tools);
    let ended = install.status().map_err(|error| format!("cargo does not start: {error}"))?;
    if has_version(&runner) {
        return Ok(runner);
    }
    Err(format!(
        "`{RUNNER}` cannot be installed ({ended}); with a network: cargo install --locked \
         --version ={RUNNER_VERSION} --root {} {RUNNER}",
        tools.display()
    ))
}

fn has_version(runner: &Path) -> bool {
    let told = Command::new(runner).arg("--version").output();
    told.is_ok_and(|told| {
        String::from_utf8_lossy(&told.stdout).split_whitespace().any(|word| word == RUNNER_VERSION)
    })
}

fn count(runner: &Path) -> Result<Counts, InstructionsError> {
    let mut build = cargo();
    // The whole workspace, since its crates were built with the features that it asks for together.
    build.args(["build", "--config", CONFIG, "--workspace", "--example", PROGRAM]);
    let status = build.status().map_err(InstructionsError::Start)?;
    if !status.success() {
        return Err(InstructionsError::Failed(status));
    }
    let mut program = Command::new(target_dir().join("debug/examples").join(PROGRAM));
    program.args(["--bench", "--output-format=json"]).current_dir(root().join("masterd"));
    program.env("GUNGRAUN_HOME", target_dir().join("gungraun"));
    program.env("GUNGRAUN_WORKSPACE_ROOT", root()).env("CARGO_PKG_NAME", "masterd");
    program.env("PATH", path_with(runner)).stderr(Stdio::inherit());
    let output = program.output().map_err(InstructionsError::Start)?;
    if !output.status.success() {
        return Err(InstructionsError::Failed(output.status));
    }
    String::from_utf8_lossy(&output.stdout).lines().map(summary).collect()
}

/// The search path for programs, the runner's directory first.
fn path_with(runner: &Path) -> OsString {
    let mut path = runner.parent().map(|dir| dir.as_os_str().to_owned()).unwrap_or_default();
    path.push(":");
    path.push(needs::path());
    path
}

/// Name and instructions of a turn, from one line of the runner's.
fn summary(line: &str) -> Result<(String, u64), InstructionsError> {
    let wrong = || InstructionsError::Summary(line.chars().take(200).collect());
    let value: Value = serde_json::from_str(line).map_err(|_error| wrong())?;
    let text = |key| value[key].as_str();
    let name = text("function_name").zip(text("id")).map(|(what, id)| format!("{what}.{id}"));
    let all = instructions(&value);
    name.zip(all).map(|(name, all)| (name, all / turns::TURNS)).ok_or_else(wrong)
}

fn instructions(summary: &Value) -> Option<u64> {
    summary.pointer("/profiles/0/data/total/metrics/Ir/values/new")?.as_u64()
}

fn read() -> Result<Counts, InstructionsError> {
    let text = std::fs::read_to_string(root().join(ACCEPTED)).map_err(InstructionsError::File)?;
    serde_json::from_str(&text).map_err(InstructionsError::Accepted)
}

fn write(counts: &Counts) -> Result<(), InstructionsError> {
    let mut text = serde_json::to_string_pretty(counts).map_err(InstructionsError::Accepted)?;
    text.push('\n');
    stdx::atomic::write(&root().join(ACCEPTED), text.as_bytes(), ACCEPTED_MODE)
        .map_err(|error| InstructionsError::File(io::Error::other(error)))
}

fn compare(found: &Counts, accepted: &Counts, report: &mut Report) -> Verdict {
    let mut whys = Vec::new();
    for (name, &count) in found {
        let before = accepted.get(name).copied().unwrap_or(0);
        report.add_compared(format!("instructions.{name}"), number(count), "", number(before));
        let ratio = number(count) / number(before);
        if before == 0 {
            whys.push(format!("{name} has no accepted count; `--accept` makes it {count}"));
        } else if ratio > RATIO_MAX {
            let told = format!("{name} takes {count} instructions, {ratio:.2} of the accepted");
            whys.push(format!("{told} {before}; find out why, or `--accept`"));
        } else if ratio < RATIO_GAINED {
            report
                .tell(format!("{name} takes {ratio:.2} of what is accepted: `--accept` keeps it"));
        }
    }
    whys.extend(found.iter().filter_map(|(name, count)| grows(name, *count, found)));
    let gone = accepted.keys().filter(|name| !found.contains_key(*name));
    whys.extend(gone.map(|name| format!("{name} was not counted; `--accept` forgets it")));
    if whys.is_empty() { Verdict::Kept } else { Verdict::Worse(whys) }
}

/// Why a bench beside many objects takes too much, if it does.
fn grows(name: &str, many: u64, found: &Counts) -> Option<String> {
    let [beside_few, beside_many] = BESIDE;
    let few = *found.get(&format!("{}{beside_few}", name.strip_suffix(beside_many)?))?;
    let ratio = number(many) / number(few);
    (ratio > BESIDE_MANY_MAX).then(|| {
        format!("{name} takes {ratio:.2} of the {few} instructions of {beside_few}; its cost must not grow")
    })
}

#[expect(clippy::cast_precision_loss, reason = "a turn takes far fewer than 2^52 instructions")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn more_than_the_tolerance_is_worse_and_named() {
        let accepted = counts(&[("read", 1_000), ("wake", 500), ("gone", 1)]);
        let mut report = Report::default();
        let same = counts(&[("read", 1_090), ("wake", 400), ("gone", 1)]);
        assert_eq!(compare(&same, &accepted, &mut report), Verdict::Kept);
        assert!(report.to_string().contains("wake takes 0.80 of what is accepted"), "{report}");
        let worse = counts(&[("read", 1_110), ("wake", 500), ("new", 7)]);
        let Verdict::Worse(whys) = compare(&worse, &accepted, &mut report) else {
            panic!("a tenth more is too much");
        };
        let begins = ["new has no accepted count", "read takes 1110", "gone was not counted"];
        assert_eq!(whys.len(), begins.len(), "{whys:?}");
        assert!(whys.iter().zip(begins).all(|(why, begin)| why.starts_with(begin)), "{whys:?}");
    }

    #[test]
    fn the_cost_of_one_object_must_not_grow_with_the_others() {
        let verdict = |many| {
            let found = counts(&[("add.beside_10", 500), ("add.beside_10000", many)]);
            compare(&found, &found, &mut Report::default())
        };
        assert_eq!(verdict(1_000), Verdict::Kept);
        let Verdict::Worse(whys) = verdict(1_001) else { panic!("more than twice is too much") };
        assert!(whys[0].starts_with("add.beside_10000 takes 2.00 of the 500"), "{whys:?}");
    }

    #[test]
    fn the_runner_is_of_the_library_s_version() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("gungraun = \"={RUNNER_VERSION}\"")));
    }

    #[test]
    fn what_is_accepted_can_be_read() {
        assert!(read().unwrap().values().all(|&count| count > 0));
    }
}
