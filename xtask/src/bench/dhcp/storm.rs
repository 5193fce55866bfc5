//! A power-on: thousands of machines ask at the same moment, by broadcast, as their firmware does.
//!
//! A process of its own, [`run`], is all of the machines. A machine collects offers for a while, takes
//! the first, and asks again when nothing comes, later each time. Its times are those of EDK2.

mod machines;

use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::super::bed::Bed;
use super::super::queue::count_as_number;
use super::super::report::{Report, Target};
use super::super::{BenchError, Setting};
use crate::guest::GuestError;
pub use machines::{StormFailure, run};

/// Machines: as many as the largest range has addresses, nearly.
const MACHINES: u32 = 4_000;
/// From one question to the next, at first; a machine that got no answer until then has lost time.
pub const RETRY: Duration = Duration::from_secs(4);
/// How long firmware collects offers, and how long iPXE and systems do.
const COLLECT: [(&str, Duration); 2] =
    [("firmware", Duration::from_millis(3_800)), ("system", Duration::ZERO)];

/// The arguments of the machines.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many
    #[arg(long)]
    pub machines: u32,
    /// How long each collects offers, in milliseconds
    #[arg(long)]
    pub collect_ms: u64,
    /// End of the wait for leases, in seconds
    #[arg(long, default_value_t = 90)]
    pub seconds: u64,
}

/// The findings of the machines, as a line of JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Machines that have a lease.
    pub leased: u64,
    /// Questions that were asked again.
    pub repeated: u64,
    /// Machines each of whose questions was answered at once.
    pub at_once: u64,
    /// From the power-on to the last lease.
    pub seconds: f64,
    /// Addresses that two machines got.
    pub twice: u64,
}

/// Powers machines on, in front of an agent that knows none of them.
pub(super) fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    // It has little to do, and need not be built for measuring.
    let program = std::env::current_exe()
        .map_err(|error| GuestError::File { path: "this program".to_owned(), error })?;
    for (name, collect) in COLLECT {
        let mut bed = Bed::new(setting)?;
        bed.wait_for_service()?;
        let load = bed.rack.switch.add_host("storm", "02:00:00:00:02:01")?;
        let mut command = Command::new(&program);
        command.args(["bench-storm", "--machines", &MACHINES.to_string()]);
        command.args(["--collect-ms", &collect.as_millis().to_string()]);
        let said = bed.run(&load, &command)?;
        let seen: Seen = serde_json::from_str(said.trim()).map_err(|error| {
            GuestError::Impossible(format!("the machines said `{said}`: {error}"))
        })?;
        let (all, name) = (f64::from(MACHINES), format!("dhcp.storm_of_{name}"));
        report.add_compared(
            format!("{name}.leased"),
            count_as_number(seen.leased),
            "machines",
            all,
        );
        let at_once = count_as_number(seen.at_once);
        report.add_compared(format!("{name}.at_once"), at_once, "machines", all);
        report.add(format!("{name}.last"), seen.seconds - collect.as_secs_f64(), "s");
        report.add(format!("{name}.repeated"), count_as_number(seen.repeated), "questions");
        report.aim(&format!("{name}.at_once"), Target::RatioAtLeast(1.0));
        report.aim(&format!("{name}.last"), Target::ValueBelow(RETRY.as_secs_f64()));
        if seen.twice > 0 {
            report.fail(format!("{name}: {} addresses were given twice", seen.twice));
        }
    }
    Ok(())
}
