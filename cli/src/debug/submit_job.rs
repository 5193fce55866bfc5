//! `gnt debug submit-job`.

use std::path::{Path, PathBuf};

use clap::Args;
use luxi::method::Submission;
use luxi::{Client, ClientError};
use model::{OpInput, json};
use serde_json::Value;

use crate::batch::Batch;
use crate::error::CliError;
use crate::output::{say, warn};
use crate::session::{Session, read_input, read_json};
use crate::submit::{Common, Priority, RawJob, RawJobs, submit};

/// Opcodes in one request: their text stays below what the master takes.
const OPCODES_PER_REQUEST: usize = 5_000;
/// Jobs of one call: more would only be a typing error.
const JOBS_MAX: usize = 1_000_000;
const MICROS_PER_SECOND: f64 = 1e6;

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
    /// Submit each job by a request of its own.
    #[arg(long)]
    each: bool,
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

/// The opcodes of a file.
struct Loaded {
    path: PathBuf,
    ops: Vec<Value>,
}

/// A job and what it is told of as.
type Named = (String, Vec<Value>);

/// Submits all jobs, then waits for each.
pub(super) fn run(arguments: &SubmitJobArguments, session: &Session) -> Result<(), CliError> {
    let stage = |name: &str| if arguments.timing_stats { say(name) } else { Ok(()) };
    stage("Loading...")?;
    let files = arguments.files.iter().map(|file| loaded(file)).collect::<Result<Vec<_>, _>>()?;
    let jobs = jobs(&files, arguments)?;
    let opcodes: usize = jobs.iter().map(|(_name, ops)| ops.len()).sum();
    let count = jobs.len();
    let loaded = session.now_micros();
    stage("Submitting...")?;
    let mut client = session.connect()?;
    let batch =
        submitted(jobs, arguments, session, &mut client).map_err(|error| blame(error, &files))?;
    let submitted = session.now_micros();
    stage("Executing...")?;
    let outcome = batch.wait(session, &mut client, arguments.verbose)?;
    let ended = session.now_micros();
    if arguments.timing_stats {
        let span = |begin: i64, end: i64| (end - begin) as f64 / MICROS_PER_SECOND;
        say(format_args!("C:op     {opcodes:4}"))?;
        say(format_args!("C:job    {count:4}"))?;
        say(format_args!("T:submit {:.4}", span(loaded, submitted)))?;
        say(format_args!("T:exec   {:.4}", span(submitted, ended)))?;
        say(format_args!("T:total  {:.4}", span(loaded, ended)))?;
    }
    match outcome.failed {
        0 if arguments.dry_run => {
            warn("Dry run: the jobs checked what they would do; nothing was changed")
        }
        0 => Ok(()),
        n => Err(CliError::Failed(format!("{n} of {count} jobs failed"))),
    }
}

/// Submits the jobs. Each request has a stamp of its own: jobs that are repeated would make equal
/// requests otherwise, which are one to the master.
fn submitted(
    jobs: Vec<Named>,
    arguments: &SubmitJobArguments,
    session: &Session,
    client: &mut Client,
) -> Result<Batch, CliError> {
    let complete = |jobs: &mut dyn Iterator<Item = &mut Vec<Value>>| {
        let common = Common::new(arguments.priority, arguments.dry_run, session);
        jobs.flatten().for_each(|op| common.complete(op));
    };
    let mut batch = Batch::default();
    if arguments.each {
        for (name, mut ops) in jobs {
            complete(&mut std::iter::once(&mut ops));
            let id = submit(session, client, &RawJob::new(ops))?;
            batch.add(Some(name), Submission::Accepted(id));
        }
        return Ok(batch);
    }
    let most = jobs.iter().map(|(_name, ops)| ops.len()).max().unwrap_or(1).max(1);
    let mut rest = jobs.into_iter();
    loop {
        let part = rest.by_ref().take((OPCODES_PER_REQUEST / most).max(1));
        let (names, mut ops): (Vec<_>, Vec<_>) = part.unzip();
        if names.is_empty() {
            return Ok(batch);
        }
        complete(&mut ops.iter_mut());
        let answers = submit(session, client, &RawJobs::new(ops))?;
        for (name, submission) in names.into_iter().zip(answers) {
            batch.add(Some(name), submission);
        }
    }
}

fn loaded(path: &Path) -> Result<Loaded, CliError> {
    let (path, text) = (path.to_owned(), read_input(path)?);
    let ops = read_json(&path, &text, "a list of opcodes")?;
    Ok(Loaded { path, ops })
}

/// A refusal of what cannot be read, told of the file that it is in: the master knows the request
/// alone. Only then, as it may know more opcodes than this program.
fn blame(error: CliError, files: &[Loaded]) -> CliError {
    if !matches!(error, CliError::Client(ClientError::Failure(_))) {
        return error;
    }
    let wrong = |file: &Loaded| {
        file.ops.iter().enumerate().find_map(|(at, op)| {
            let why = json::read::<OpInput>(&op.to_string()).err()?;
            let id = op.get("OP_ID").and_then(Value::as_str).unwrap_or("without an OP_ID");
            Some(format!("`{}`: opcode {}, {id}: {why}", file.path.display(), at + 1))
        })
    };
    files.iter().find_map(wrong).map_or(error, CliError::Failed)
}

fn jobs(files: &[Loaded], arguments: &SubmitJobArguments) -> Result<Vec<Named>, CliError> {
    if files.len().saturating_mul(arguments.job_repeat) > JOBS_MAX {
        return Err(CliError::Usage(format!("at most {JOBS_MAX} jobs")));
    }
    let named = |round: usize| {
        files.iter().map(move |file| {
            let repeated = file.ops.len().saturating_mul(arguments.op_repeat);
            let ops = file.ops.iter().cycle().take(repeated).cloned().collect();
            (format!("file {}/{round}", file.path.display()), ops)
        })
    };
    Ok((0..arguments.job_repeat).flat_map(named).collect())
}
