//! From an opcode to a job that has ended, or was just submitted.
//!
//! Opcodes are submitted as the JSON that they are on the wire. The master judges what they may contain:
//! it may know more of them than this program.

use std::collections::VecDeque;
use std::time::Instant;

use clap::{Args, ValueEnum};
use luxi::method::{Access, Class};
use luxi::response::Failure;
use luxi::{Client, ClientError, Method};
use model::{JobId, OpCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::follow::follow;
use crate::output::{say, warn};
use crate::retry::{Loss, Sending, reason};
use crate::session::{Session, pause};

/// `SubmitJob` with opcodes as they come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RawJob((Vec<Value>,));

impl Method for RawJob {
    const NAME: &'static str = "SubmitJob";
    const ARGUMENTS: &'static str = "[ops]";
    const CLASS: Class = Class::Change;
    const ACCESS: Access = Access::Opcodes;
    type Reply = JobId;
}

/// `SubmitJobToDrainedQueue` with opcodes as they come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RawDrainedJob((Vec<Value>,));

impl Method for RawDrainedJob {
    const NAME: &'static str = "SubmitJobToDrainedQueue";
    const ARGUMENTS: &'static str = "[ops]";
    const CLASS: Class = Class::Change;
    const ACCESS: Access = Access::Opcodes;
    type Reply = JobId;
}

/// `SubmitManyJobs` with opcodes as they come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RawJobs((Vec<Vec<Value>>,));

impl Method for RawJobs {
    const NAME: &'static str = "SubmitManyJobs";
    const ARGUMENTS: &'static str = "[jobs]";
    const CLASS: Class = Class::Change;
    const ACCESS: Access = Access::Opcodes;
    type Reply = Vec<luxi::method::Submission>;
}

impl RawJob {
    pub(crate) const fn new(ops: Vec<Value>) -> Self {
        Self((ops,))
    }
}

impl RawJobs {
    pub(crate) const fn new(jobs: Vec<Vec<Value>>) -> Self {
        Self((jobs,))
    }
}

/// A submission, with all that it submits.
pub(crate) trait Submits: Method {
    /// Every opcode of every job.
    fn opcodes(&self) -> impl Iterator<Item = &Value>;
}

impl Submits for RawJob {
    fn opcodes(&self) -> impl Iterator<Item = &Value> {
        self.0.0.iter()
    }
}

impl Submits for RawDrainedJob {
    fn opcodes(&self) -> impl Iterator<Item = &Value> {
        self.0.0.iter()
    }
}

impl Submits for RawJobs {
    fn opcodes(&self) -> impl Iterator<Item = &Value> {
        self.0.0.iter().flatten()
    }
}

/// Submits. If the connection is lost before the answer, the same bytes are sent again, and `client` is
/// then a new connection. The master knows a stamped submission again, and answers with the jobs that it
/// made of the first. A submission without stamps would be two jobs, and is sent once.
pub(crate) fn submit<M: Submits>(
    session: &Session,
    client: &mut Client,
    call: &M,
) -> Result<M::Reply, CliError> {
    let begin = Instant::now();
    let mut sending = Sending::new(session.away_left(), session.away_max());
    // A submission that was lost once may have been accepted, whatever is said later.
    let mut unsure = false;
    let mut answer = client.call(call);
    loop {
        session.note(&answer);
        let error = match answer {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        unsure |= error.is_away() && !error.certainly_not_done();
        let loss = if call.opcodes().all(is_stamped) || error.certainly_not_done() {
            sending.failed(&error, begin.elapsed())
        } else {
            Loss::Over
        };
        match loss {
            Loss::First => {
                let what = if error.certainly_not_done() {
                    "No master takes"
                } else {
                    "The connection to the master is lost before it answered"
                };
                let (why, seconds) = (reason(&error), sending.limit().as_secs());
                warn(format_args!(
                    "{what} {}{why}; sending the same again for {seconds} s",
                    M::NAME
                ))?;
            }
            Loss::Still => {}
            Loss::Over => return Err(unanswered(error, unsure)),
        }
        pause(sending.pause());
        answer = session.reach().and_then(|fresh| {
            *client = fresh;
            sending.sent_again();
            client.call(call)
        });
    }
}

fn unanswered(error: ClientError, unsure: bool) -> CliError {
    let unread = matches!(error, ClientError::Failure(Failure::Malformed { .. }));
    // Of what was lost and is refused then, the refusal is about the repeat.
    let still = unsure && error.is_away();
    if unread || still { CliError::Unsure(error) } else { error.into() }
}

/// Whether the master knows an opcode again, as it is on the wire: it says at which nanosecond it
/// was asked for.
fn is_stamped(op: &Value) -> bool {
    let stamps = op.get("reason").and_then(Value::as_array).into_iter().flatten();
    stamps.filter_map(|entry| entry.get(2)?.as_i64()).any(|nanos| nanos > 0)
}

/// How urgent a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Priority {
    /// 10: behind the usual ones.
    Low,
    /// 0: as usual.
    Normal,
    /// -10: before the usual ones.
    High,
}

impl Priority {
    /// The number that opcodes carry.
    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::Low => 10,
            Self::Normal => 0,
            Self::High => -10,
        }
    }
}

/// The arguments of every command that makes a job.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArguments {
    /// Submit the job, print `JobID: N` on standard error and do not wait for it.
    #[arg(long)]
    pub(crate) submit: bool,
    /// Print the job's number before waiting for it.
    #[arg(long)]
    pub(crate) print_jobid: bool,
    /// How urgent the job is; as usual without it.
    #[arg(long, value_name = "PRIORITY")]
    pub(crate) priority: Option<Priority>,
    /// Check everything, change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Says which parameters the change with the arguments `A` takes, of which none was given.
pub(crate) fn nothing_given<A: Args>(session: &Session) -> Result<CliError, CliError> {
    warn("Please give at least one of the parameters.")?;
    if session.is_as_ganeti() {
        return Ok(CliError::Told);
    }
    let all = A::augment_args(clap::Command::new(""));
    let of_jobs = JobArguments::augment_args(clap::Command::new(""));
    let is_of_jobs =
        |id: &clap::Id| of_jobs.get_arguments().any(|argument| argument.get_id() == id);
    let names = all
        .get_arguments()
        .filter(|argument| !is_of_jobs(argument.get_id()) && argument.get_id() != "force")
        .filter_map(|argument| Some(format!("--{}", argument.get_long()?)));
    let names: Vec<String> = names.collect();
    warn(format_args!("They are {}; --help describes them.", names.join(", ")))?;
    Ok(CliError::Told)
}

/// The parameters of every opcode of one request, as far as the command line sets them.
#[derive(Debug)]
pub(crate) struct Common {
    priority: Option<Priority>,
    dry_run: bool,
    debug_level: u8,
    reason: Value,
}

impl Common {
    /// The parameters of a new request, with a stamp of its own.
    pub(crate) fn new(priority: Option<Priority>, dry_run: bool, session: &Session) -> Self {
        let reason = json!(session.reason());
        Self { priority, dry_run, debug_level: session.debug_level(), reason }
    }

    /// Sets it.
    pub(crate) fn complete(&self, op: &mut Value) {
        let Value::Object(params) = op else { return };
        let mut set = |key: &str, value: Value| params.insert(key.to_owned(), value);
        set("debug_level", self.debug_level.into());
        set("dry_run", self.dry_run.into());
        set("reason", self.reason.clone());
        if let Some(priority) = self.priority {
            set("priority", priority.number().into());
        }
    }
}

/// The opcode `id` with its parameters, which are a map.
pub(crate) fn opcode(id: &str, params: Value) -> Value {
    let mut op = params;
    if let Value::Object(params) = &mut op {
        params.insert("OP_ID".to_owned(), id.into());
    }
    op
}

impl JobArguments {
    /// Submits one opcode as a job, follows it and gives its result. `None` means that nothing was done
    /// yet or at all: it was only submitted, or a dry run.
    pub(crate) fn run(&self, op: OpCode, session: &Session) -> Result<Option<Value>, CliError> {
        let op = serde_json::to_value(op).expect("opcodes are maps of plain values");
        self.run_raw(op, session)
    }

    /// Submits opcodes as one job, which carries them out in this order, and follows it.
    pub(crate) fn run_all(&self, ops: Vec<OpCode>, session: &Session) -> Result<(), CliError> {
        let mut client = session.connect()?;
        let id = self.begin_all(ops, None, &mut client, session)?;
        self.end(id, &mut client, session).map(drop)
    }

    fn begin_all(
        &self,
        ops: Vec<OpCode>,
        behind: Option<JobId>,
        client: &mut Client,
        session: &Session,
    ) -> Result<JobId, CliError> {
        let completed = |op| {
            let op = serde_json::to_value(op).expect("opcodes are maps of plain values");
            self.completed(op, session)
        };
        let mut ops: Vec<Value> = ops.into_iter().map(completed).collect();
        if let (Some(id), Some(Value::Object(first))) = (behind, ops.first_mut()) {
            first.insert("depends".to_owned(), json!([[id, ["success"]]]));
        }
        submit(session, client, &RawJob::new(ops))
    }

    /// The same of an opcode as it is on the wire.
    pub(crate) fn run_raw(&self, op: Value, session: &Session) -> Result<Option<Value>, CliError> {
        let mut client = session.connect()?;
        let id = self.begin(op, &mut client, session)?;
        self.end(id, &mut client, session)
    }

    /// Submits one opcode, as it is on the wire, as a job.
    pub(crate) fn begin(
        &self,
        op: Value,
        client: &mut Client,
        session: &Session,
    ) -> Result<JobId, CliError> {
        let op = self.completed(op, session);
        submit(session, client, &RawJob((vec![op],)))
    }

    /// Submits each opcode as a job of its own, so many at a time. It stops behind those among which one
    /// failed: the others may have the same fault.
    pub(crate) fn run_in_waves(
        &self,
        ops: Vec<OpCode>,
        parallel: usize,
        session: &Session,
    ) -> Result<(), CliError> {
        let mut client = session.connect()?;
        let mut left = ops.len();
        for wave in ops.chunks(parallel) {
            let mut jobs = Vec::new();
            for op in wave {
                let op = serde_json::to_value(op).expect("opcodes are maps of plain values");
                jobs.push(self.begin(op, &mut client, session)?);
            }
            left -= wave.len();
            let mut failed = None;
            for id in jobs {
                if let Err(error) = self.end(id, &mut client, session) {
                    match failed {
                        None => failed = Some(error),
                        Some(_) => warn(format_args!("{error}"))?,
                    }
                }
            }
            if let Some(error) = failed {
                if left > 0 {
                    warn(format_args!("{left} were not begun, as one of these failed"))?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Submits a chain of jobs for each machine, each job behind the success of the one before. Never
    /// more than so many chains run at a time: the next one begins when the oldest ends, and none behind
    /// a failure. Chains that run then are awaited. If nobody waits, the jobs themselves depend on each
    /// other so.
    pub(crate) fn run_rolling(
        &self,
        chains: Vec<Vec<Vec<OpCode>>>,
        parallel: usize,
        session: &Session,
    ) -> Result<(), CliError> {
        let mut client = session.connect()?;
        let mut left = chains.into_iter();
        let mut running: VecDeque<Vec<JobId>> = VecDeque::new();
        let (mut first, mut failed) = (None, None);
        loop {
            while running.len() < parallel && failed.is_none() {
                let Some(chain) = left.next() else { break };
                let ids = self.begin_chain(chain, None, &mut client, session)?;
                first = first.or(ids.first().copied());
                running.push_back(ids);
            }
            let Some(mut ids) = running.pop_front() else { break };
            for id in &ids {
                if let Err(error) = self.end(*id, &mut client, session) {
                    match failed {
                        None => failed = Some(error),
                        Some(_) => warn(format_args!("{error}"))?,
                    }
                    break;
                }
            }
            if self.submit
                && let (Some(chain), Some(last)) = (left.next(), ids.pop())
            {
                running.push_back(self.begin_chain(chain, Some(last), &mut client, session)?);
            }
        }
        let (Some(error), Some(first)) = (failed, first) else { return Ok(()) };
        if left.len() > 0 {
            warn(format_args!(
                "{} were not begun, as one of these failed; --resume {first} goes on there",
                left.len()
            ))?;
        }
        Err(error)
    }

    /// Submits jobs, each behind the success of the one before, and the first behind that of `behind`.
    fn begin_chain(
        &self,
        chain: Vec<Vec<OpCode>>,
        mut behind: Option<JobId>,
        client: &mut Client,
        session: &Session,
    ) -> Result<Vec<JobId>, CliError> {
        let mut ids = Vec::new();
        for ops in chain {
            let id = self.begin_all(ops, behind, client, session)?;
            ids.push(id);
            behind = Some(id);
        }
        Ok(ids)
    }

    /// The same, even if the queue is drained.
    pub(crate) fn run_though_drained(
        &self,
        op: Value,
        session: &Session,
    ) -> Result<Option<Value>, CliError> {
        let op = self.completed(op, session);
        let mut client = session.connect()?;
        let id = submit(session, &mut client, &RawDrainedJob((vec![op],)))?;
        self.end(id, &mut client, session)
    }

    fn completed(&self, mut op: Value, session: &Session) -> Value {
        Common::new(self.priority, self.dry_run, session).complete(&mut op);
        op
    }

    fn end(
        &self,
        id: JobId,
        client: &mut Client,
        session: &Session,
    ) -> Result<Option<Value>, CliError> {
        if self.print_jobid {
            say(id)?;
        }
        if self.submit {
            warn(format_args!("JobID: {id}"))?;
            return Ok(None);
        }
        let outcome = follow(session, client, id)?;
        let results = CliError::of_end(id, outcome)?;
        if self.dry_run {
            let told = "checked what it would do; nothing was changed";
            warn(format_args!("Dry run: job {id} {told}"))?;
            return Ok(None);
        }
        Ok(results.into_iter().next())
    }
}
