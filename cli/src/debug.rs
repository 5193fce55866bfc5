//! `gnt debug`.

mod iallocator;
mod submit_job;
mod test_jobqueue;

use clap::{Args, Subcommand};
use luxi::method::What;
use model::OpCode;
use model::opcode::TestDelay;

use crate::error::CliError;
use crate::list::ListArguments;
use crate::output::say;
use crate::selection::Selection;
use crate::session::{Session, pause};
use crate::submit::{JobArguments, Priority};

/// The fields that `locks` shows by default.
const USUAL: [&str; 4] = ["name", "mode", "owner", "pending"];

/// The verbs of `gnt debug`.
#[derive(Debug, Subcommand)]
pub(crate) enum Debug {
    /// Sleep in a job.
    Delay(DelayArguments),
    /// List the locks that are held or waited for.
    Locks {
        /// Print the list again after so many seconds, until interrupted.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
        interval: Option<u64>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Try whether the queue keeps its promises, by jobs that do nothing.
    TestJobqueue {
        /// How urgent the jobs are; as usual without it.
        #[arg(long, value_name = "PRIORITY")]
        priority: Option<Priority>,
    },
    /// Show what an allocator is asked, or what it answers.
    #[command(visible_alias = "allocator")]
    Iallocator(Box<iallocator::IallocatorArguments>),
    /// Submit jobs from files and wait for them.
    SubmitJob(submit_job::SubmitJobArguments),
}

/// Arguments of `delay`.
#[derive(Debug, Args)]
pub(crate) struct DelayArguments {
    /// Seconds to sleep.
    #[arg(value_parser = duration)]
    duration: f64,
    /// Do not sleep on the master.
    #[arg(long)]
    no_master: bool,
    /// Sleep on this node; may be given several times.
    #[arg(short = 'n', value_name = "NODE")]
    nodes: Vec<String>,
    /// How often to sleep again.
    #[arg(short, long, value_name = "COUNT", default_value_t = 0)]
    repeat: u32,
    /// End early when someone connects to the socket that the job names.
    #[arg(short, long)]
    interruptible: bool,
    /// Take no locks.
    #[arg(short = 'l', long)]
    no_locks: bool,
    /// Sleep only on those nodes whose locks are free, at least one.
    #[arg(long, conflicts_with = "no_locks")]
    opportunistic_locking: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Seconds; how many are too many is for the master to judge.
fn duration(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if seconds.is_finite() { Ok(seconds) } else { Err("it must be a finite number".to_owned()) }
}

/// Carries out one verb.
pub(crate) fn run(verb: Debug, session: &Session) -> Result<(), CliError> {
    match verb {
        Debug::Delay(arguments) => delay(arguments, session),
        Debug::Locks { interval, list } => locks(interval, &list, session),
        Debug::TestJobqueue { priority } => test_jobqueue::run(priority, session),
        Debug::Iallocator(arguments) => arguments.run(session),
        Debug::SubmitJob(arguments) => submit_job::run(&arguments, session),
    }
}

fn delay(arguments: DelayArguments, session: &Session) -> Result<(), CliError> {
    let op = TestDelay {
        duration: arguments.duration,
        on_master: !arguments.no_master,
        on_nodes: arguments.nodes,
        on_node_uuids: None,
        repeat: arguments.repeat,
        interruptible: arguments.interruptible,
        no_locks: arguments.no_locks,
        opportunistic_locking: arguments.opportunistic_locking,
    };
    arguments.job.run(OpCode::TestDelay(op), session).map(drop)
}

fn locks(interval: Option<u64>, list: &ListArguments, session: &Session) -> Result<(), CliError> {
    loop {
        list.print(What::Lock, list.fields(&USUAL), &Selection::all(), session)?;
        let Some(seconds) = interval.filter(|seconds| *seconds > 0) else { return Ok(()) };
        say("")?;
        pause(std::time::Duration::from_secs(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("0", 0.0), ("1.5", 1.5), ("1e30", 1e30)] {
            assert_eq!(duration(text), Ok(seconds));
        }
        for text in ["nan", "inf", "-inf", "1e3000", "", "x"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
