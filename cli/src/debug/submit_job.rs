//! `gnt debug submit-job`.

use std::path::PathBuf;

use clap::Args;
use luxi::method::{Submission, SubmitManyJobs};
use model::{JobId, OpInput};

use crate::error::CliError;
use crate::follow::wait;
use crate::session::{Session, read_input, say, warn};
use crate::submit::{Priority, submit};

/// Opcodes in one request: their text stays below what the master takes.
const OPCODES_PER_REQUEST: usize = 5_000;
/// Jobs of one call: more would only be a typing error.
const JOBS_MAX: usize = 1_000_000;

/// Arguments of `submit-job`.
#[derive(Debug, Args)]
pub(crate) struct SubmitJobArguments {
    /// JSON files, each with the list of one job's opcodes; `-` reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take the list of opcodes so often in each job.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    op_repeat: usize,
    /// Submit each job so often.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    job_repeat: usize,
    /// Print how long it took.
    #[arg(long)]
    timing_stats: bool,
    /// Print the jobs' numbers.
    #[arg(short, long)]
    verbose: bool,
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
    /// How urgent the jobs are; without it, as the files say.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<Priority>,
}

/// Submits all jobs, then waits for each.
pub(super) fn run(arguments: &SubmitJobArguments, session: &Session) -> Result<(), CliError> {
    let begin = session.now_micros();
    let jobs = jobs(arguments, session)?;
    let loaded = session.now_micros();
    let mut client = session.connect()?;
    let mut ids: Vec<JobId> = Vec::new();
    let mut failures = 0_usize;
    for part in parts(&jobs) {
        for submission in submit(&mut client, &SubmitManyJobs { jobs: part.to_vec() })? {
            match submission {
                Submission::Accepted(id) => ids.push(id),
                Submission::Refused(why) => {
                    failures += 1;
                    warn(format_args!("A job was not taken: {why}"))?;
                }
            }
        }
    }
    let submitted = session.now_micros();
    if arguments.verbose {
        let ids: Vec<String> = ids.iter().map(JobId::to_string).collect();
        say(format_args!("Submitted jobs {}", ids.join(", ")))?;
    }
    for &id in &ids {
        if let Err(exception) = wait(session, &mut client, id)?.into_result() {
            failures += 1;
            warn(format_args!("Job {id} failed: {exception}"))?;
        }
    }
    let ended = session.now_micros();
    if arguments.timing_stats {
        let opcodes: usize = jobs.iter().map(Vec::len).sum();
        say(format_args!("Jobs:     {}, with {opcodes} opcodes", jobs.len()))?;
        for (title, span) in [
            ("Loading: ", loaded - begin),
            ("Submit:  ", submitted - loaded),
            ("Waiting: ", ended - submitted),
            ("Total:   ", ended - begin),
        ] {
            say(format_args!("{title} {}.{:06} s", span / 1_000_000, span % 1_000_000))?;
        }
    }
    match failures {
        0 if arguments.dry_run => {
            say("Dry run: the jobs checked what they would do; nothing was changed")
        }
        0 => Ok(()),
        n => Err(CliError::Failed(format!("{n} of {} jobs", jobs.len()))),
    }
}

fn jobs(arguments: &SubmitJobArguments, session: &Session) -> Result<Vec<Vec<OpInput>>, CliError> {
    let mut jobs = Vec::new();
    for file in &arguments.files {
        let text = read_input(file)?;
        let mut ops: Vec<OpInput> = serde_json::from_str(&text).map_err(|error| {
            CliError::Content { path: file.clone(), wanted: "a list of opcodes", error }
        })?;
        for op in &mut ops {
            op.common.dry_run |= arguments.dry_run;
            if let Some(priority) = arguments.priority {
                op.common.priority = priority.number();
            }
            op.common.reason.extend(session.reason(None));
        }
        let job: Vec<OpInput> =
            ops.iter().cycle().take(ops.len() * arguments.op_repeat).cloned().collect();
        if jobs.len() + arguments.job_repeat > JOBS_MAX {
            return Err(CliError::Usage(format!("at most {JOBS_MAX} jobs")));
        }
        jobs.resize(jobs.len() + arguments.job_repeat, job);
    }
    Ok(jobs)
}

/// Cuts the jobs into requests of bounded size.
fn parts(jobs: &[Vec<OpInput>]) -> impl Iterator<Item = &[Vec<OpInput>]> {
    let most = jobs.iter().map(Vec::len).max().unwrap_or(1).max(1);
    jobs.chunks((OPCODES_PER_REQUEST / most).max(1))
}
