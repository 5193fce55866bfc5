//! Locks on one core: taken and given back when nobody else wants them, and handed on when many
//! wait. The measuring program is a bench of `masterd`; what it finds should be is here.

use std::collections::BTreeMap;
use std::process::Stdio;

use super::report::{Report, Target};
use super::{BenchError, Setting};
use crate::cargo;

/// How figures end that take and give one lock a turn.
const ONE: &str = ".one";
/// Least uncontended turns a second, of one lock each, on one core.
const RATE_MIN: f64 = 1_000_000.0;
/// Most waiters, and least, of those that are compared.
const WAITERS: (&str, &str) = ("wake.10000", "wake.10");
/// How much longer a wake may take with a thousand times the waiters. Logarithmic growth takes 4 times
/// as long, and up to twice that where the waiters are too many for the processor's caches. Growth by
/// the square root would be 32.
const GROWTH_MAX: f64 = 10.0;
/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

/// The measuring program did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum LocksError {
    /// Cargo did not start.
    #[error("cannot start cargo, which builds and runs the bench `locks` of masterd")]
    Start(#[source] std::io::Error),
    /// It did not build or did not end well, and has said why.
    #[error("the bench `locks` of masterd failed ({0})")]
    Failed(std::process::ExitStatus),
    /// Its output is no object of numbers.
    #[error("the bench `locks` of masterd printed no figures")]
    Output(#[source] serde_json::Error),
}

/// The bench `locks`.
///
/// # Errors
/// The measuring program does not build or run.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    tell(&measure(setting)?, report);
    Ok(())
}

/// Nanoseconds of one turn, by figure.
type Found = BTreeMap<String, f64>;

fn measure(setting: &Setting) -> Result<Found, LocksError> {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", "jobs", "--bench", "locks", "--"]);
    command.arg(setting.time.as_millis().to_string());
    let output = command.stderr(Stdio::inherit()).output().map_err(LocksError::Start)?;
    if !output.status.success() {
        return Err(LocksError::Failed(output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(LocksError::Output)
}

fn tell(found: &Found, report: &mut Report) {
    let map = found.get("map").copied().unwrap_or(0.0);
    report.add("locks.map", NANOS / map, "1/s");
    let (many, few) = WAITERS;
    let of_few = found.get(few).copied().unwrap_or(0.0);
    for (name, &nanos) in found {
        let figure = format!("locks.{name}");
        if name.starts_with("core.") || name.starts_with("shell.") {
            report.add_compared(&figure, NANOS / nanos, "1/s", NANOS / map);
            if name.ends_with(ONE) {
                report.aim(&figure, Target::ValueAbove(RATE_MIN));
            }
        } else if name.starts_with("wake.") {
            report.add_compared(&figure, nanos, "ns", of_few);
        }
        if name == many {
            report.aim(&figure, Target::RatioBelow(GROWTH_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_growth_are_told() {
        let found = [("map", 50.0), ("core.one", 200.0), ("shell.one", 2_000.0)];
        let wakes = [("wake.10", 500.0), ("wake.10000", 5_500.0)];
        let found = found.into_iter().chain(wakes).map(|(name, ns)| (name.to_owned(), ns));
        let mut report = Report::default();
        tell(&found.collect(), &mut report);
        let text = report.to_string();
        for line in [
            "target of locks.core.one: above 1000000 1/s; found 5000000: met",
            "target of locks.shell.one: above 1000000 1/s; found 500000: NOT MET",
            "target of locks.wake.10000: ratio below 10; found 11.00: NOT MET",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(report.value("locks.wake.10"), 500.0);
    }
}
