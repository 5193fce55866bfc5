//! Clients of the queue's bench, in a process of their own. One connection submits a trivial job, waits
//! for its success, and begins again. Many connections read all jobs again and again, or ask for
//! machines.

mod machines;

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use luxi::client::{Client, ClientError};
use luxi::method::{
    Fields, JobChange, Query, Submission, SubmitJob, SubmitManyJobs, WaitForJobChange, What,
};
use model::opcode::{OpCode, TestDelay};
use model::{JobId, OpInput};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use machines::Question;

/// Longest wait for one job; a bench job takes milliseconds.
const JOB_SECONDS_MAX: f64 = 30.0;
/// Most latencies that one client reports: enough for its percentiles.
const LATENCIES_MAX: usize = 20_000;

/// The arguments of a client.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The master's socket
    #[arg(long)]
    pub socket: PathBuf,
    /// How long to go on, in milliseconds
    #[arg(long, required_unless_present = "total", default_value_t = u64::MAX)]
    pub time_ms: u64,
    /// How many jobs are enough
    #[arg(long, default_value_t = u64::MAX)]
    pub total: u64,
    /// Jobs of one submission
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Read all jobs over so many connections until standard input ends, and submit none
    #[arg(long)]
    pub readers: Option<usize>,
    /// Ask for machines, or change them
    #[arg(long, requires = "time_ms")]
    pub question: Option<Question>,
    /// How many machines there are
    #[arg(long, default_value_t = 1)]
    pub machines: u32,
    /// Connections that ask for them
    #[arg(long, default_value_t = 1)]
    pub connections: usize,
}

/// The findings of a client, as a line of JSON on its standard output.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Jobs that it saw succeed; or answers, if it read.
    pub jobs: u64,
    /// How long each submission took until its answer, in microseconds.
    pub submit_us: Vec<u32>,
    /// How long each submission took until the success of its last job.
    pub finish_us: Vec<u32>,
}

/// A client that could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ClientFailure {
    /// The master did not answer.
    #[error("the master did not serve the bench's client")]
    Luxi(#[from] ClientError),
    /// A job did not succeed.
    #[error("job {id} ended as {status}")]
    Job {
        /// Which.
        id: JobId,
        /// How.
        status: Value,
    },
    /// A job was refused.
    #[error("a job was refused: {0}")]
    Refused(String),
    /// Standard input or output failed.
    #[error("cannot talk with the bench")]
    Pipe(#[from] io::Error),
    /// The tally has no JSON form.
    #[error("cannot write the tally")]
    Encode(#[from] serde_json::Error),
}

/// Connects, says so, waits for the word to begin, works, and tells.
///
/// # Errors
/// Anything that does not go well: a bench does not count what failed.
pub fn run(arguments: &Arguments) -> Result<(), ClientFailure> {
    let mut client = Client::connect(&arguments.socket)?;
    let mut output = io::stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    if let Some(readers) = arguments.readers {
        let tally = Tally { jobs: read(&arguments.socket, readers)?, ..Tally::default() };
        serde_json::to_writer(&mut output, &tally)?;
        return Ok(writeln!(output)?);
    }
    let time = Duration::from_millis(arguments.time_ms);
    if let Some(question) = arguments.question {
        let Arguments { machines, connections, .. } = *arguments;
        let load = machines::Load { question, machines, connections, time };
        serde_json::to_writer(&mut output, &machines::run(&arguments.socket, load)?)?;
        return Ok(writeln!(output)?);
    }
    let mut tally = Tally::default();
    let begun = Instant::now();
    while begun.elapsed() < time && tally.jobs < arguments.total {
        let asked = Instant::now();
        let ids = submit(&mut client, arguments.jobs, 0.0)?;
        keep(&mut tally.submit_us, asked.elapsed());
        for &id in ids.iter().rev() {
            succeed(&mut client, id)?;
        }
        keep(&mut tally.finish_us, asked.elapsed());
        tally.jobs += u64::try_from(ids.len()).unwrap_or(0);
    }
    serde_json::to_writer(&mut output, &tally)?;
    writeln!(output)?;
    Ok(output.flush()?)
}

/// Reads all jobs over `readers` connections until standard input ends; how many answers there were.
fn read(socket: &Path, readers: usize) -> Result<u64, ClientFailure> {
    let (ended, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let read = || {
        let mut client = Client::connect(socket)?;
        let fields = Fields::from(["id", "ops"]);
        while !ended.load(Ordering::Relaxed) {
            client.call(&Query { what: What::Job, fields: fields.clone(), filter: None })?;
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let read: &(dyn Fn() -> Result<(), ClientFailure> + Sync) = &read;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        let word = io::stdin().lock().read_line(&mut String::new());
        ended.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        word?;
        Ok(answers.load(Ordering::Relaxed))
    })
}

fn keep(latencies: &mut Vec<u32>, elapsed: Duration) {
    if latencies.len() < LATENCIES_MAX {
        latencies.push(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX));
    }
}

/// Submits `jobs` jobs of `seconds` each.
///
/// # Errors
/// One is refused, or the master does not answer.
pub fn submit(client: &mut Client, jobs: usize, seconds: f64) -> Result<Vec<JobId>, ClientFailure> {
    if jobs == 1 {
        return Ok(vec![client.call(&SubmitJob { ops: vec![delay(seconds)] })?]);
    }
    let answers = client.call(&SubmitManyJobs { jobs: vec![vec![delay(seconds)]; jobs] })?;
    answers
        .into_iter()
        .map(|answer| match answer {
            Submission::Accepted(id) => Ok(id),
            Submission::Refused(why) => Err(ClientFailure::Refused(why)),
        })
        .collect()
}

/// A job that sleeps and needs no lock.
fn delay(seconds: f64) -> OpInput {
    OpInput::new(OpCode::TestDelay(TestDelay {
        on_master: seconds > 0.0,
        ..TestDelay::on_master(seconds)
    }))
}

/// Waits until a job has succeeded.
///
/// # Errors
/// It has not, or the master does not answer.
pub fn succeed(client: &mut Client, id: JobId) -> Result<(), ClientFailure> {
    let mut question = WaitForJobChange {
        job_id: id,
        fields: Fields::from(["status", "opresult"]),
        previous: Some(vec![Value::from("waiting"), json!([null])]),
        previous_log: None,
        timeout: JOB_SECONDS_MAX,
    };
    loop {
        let JobChange::Changed(values, _log) = client.call(&question)? else { continue };
        match values.first().and_then(Value::as_str) {
            Some("success") => return Ok(()),
            Some("queued" | "waiting" | "running") => question.previous = Some(values),
            _ => return Err(ClientFailure::Job { id, status: Value::from(values) }),
        }
    }
}
