//! Trouble at random, one thing after the other and sometimes two, on nodes whose clients never rest.
//! After each, the answers to clients are compared with the state of the cluster.
//!
//! [`round`] is one round of trouble, [`record`] the report of all. The process that was called seals
//! another one, which does the work: however either ends, nothing is left but the record.

pub mod record;
pub mod round;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use nix::sys::signal::{Signal, kill};

use crate::sealed::{self, Sealed};
use crate::seed::Seed;
use crate::testbed::scene::Scene;
use crate::testbed::stamp;
use record::Record;
use round::{Round, State};

/// Every so many rounds all jobs of the run are looked at once more.
const ALL_EVERY: u64 = 25;

/// Make random trouble on three nodes whose clients never rest.
#[derive(Debug, Clone, Parser)]
pub struct Arguments {
    /// How long it goes on
    #[arg(value_name = "MINUTES")]
    pub minutes: u64,
    /// Seed of all random choices [default: another one each time, which is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Directory of the record, and of what a finding leaves
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
}

/// Carries it out; the exit code says whether there was no finding.
pub fn run(arguments: &Arguments) -> ExitCode {
    if sealed::is_inside() {
        return inside(arguments);
    }
    if let Some(why) = sealed::missing() {
        eprintln!("the soak cannot run here: {why}");
        return ExitCode::FAILURE;
    }
    let drawn = u64::try_from(stamp()).expect("this is after 1970") % 1_000_000;
    let seed = arguments.seed.unwrap_or(drawn);
    let minutes = arguments.minutes.to_string();
    let mut words: Vec<std::ffi::OsString> = vec![minutes.into(), "--seed".into()];
    words.extend([seed.to_string().into(), "--dir".into(), arguments.dir.clone().into()]);
    let mut sealed = Sealed::start(&std::env::current_exe().unwrap(), &words);
    let (mut leash, id) = (sealed.leash(), sealed.id());
    // The terminal sends its signals to this process alone; the second one is in earnest.
    on_signals(move |count| match count {
        1 => drop(leash.take()),
        _ => {
            let _sent_or_gone = kill(id, Signal::SIGKILL);
        }
    });
    match sealed.wait().success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Calls `then` for every SIGINT and SIGTERM, with its count.
fn on_signals(mut then: impl FnMut(u32) + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let watch = move || {
        for count in 1.. {
            if runtime.block_on(stdx::daemon::asked_to_end()).is_err() {
                return;
            }
            then(count);
        }
    };
    drop(std::thread::spawn(watch));
}

/// Whether somebody wants the end.
#[derive(Debug, Clone, Default)]
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Whether it was asked for.
    pub fn to_end(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn inside(arguments: &Arguments) -> ExitCode {
    let asked = Asked::default();
    let watched = asked.clone();
    sealed::settle_in(move || watched.0.store(true, Ordering::SeqCst));
    let seed = arguments.seed.expect("who sealed this process drew one");
    let name = format!("{seed}-{}", stamp());
    let mut record = Record::begin(&arguments.dir, &name);
    record.say(&format!(
        "soak of {} min with --seed {seed}; the record is {}",
        arguments.minutes,
        record.path().display()
    ));
    let limit = Duration::from_secs(arguments.minutes * 60);
    let found = soak(limit, seed, &asked, &mut record, &arguments.dir.join(&name));
    let summary = record.summary(seed, found.as_ref().err());
    record.say(&summary);
    if found.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Goes on until the time is over, the end is asked for, or something is found.
fn soak(
    limit: Duration,
    seed: u64,
    asked: &Asked,
    record: &mut Record,
    place: &Path,
) -> Result<(), String> {
    let begun = Instant::now();
    let mut seed = Seed::of(seed);
    let scene = caught(|| Ok(Scene::begin(&mut seed.branch())))?;
    record.say("three nodes are there, and all is well");
    let mut state = State::begin(scene, asked.clone());
    let (mut number, mut outcome) = (0, Ok(()));
    while outcome.is_ok() && begun.elapsed() < limit && !asked.to_end() {
        number += 1;
        let mut round = Round { number, seed: &mut seed, record: &mut *record };
        outcome = caught(|| state.play(&mut round));
        if outcome.is_ok() && number % ALL_EVERY == 0 {
            outcome = caught(|| state.scene.compare_all());
        }
    }
    outcome = outcome.and_then(|()| caught(|| state.scene.compare_all()));
    record.totals = state.scene.reckoning.totals;
    if let Err(finding) = &outcome {
        record.say(&format!("FINDING in round {number}: {finding}"));
        state.scene.keep(place);
        record.say(&format!("what is left of it lies in {}", place.display()));
    }
    outcome
}

/// A panic is a finding, too.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(words(panic.as_ref())))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
