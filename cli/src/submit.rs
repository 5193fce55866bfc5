//! From an opcode to a job that has ended, or was just submitted.

use clap::{Args, ValueEnum};
use luxi::method::SubmitJob;
use luxi::response::Failure;
use luxi::{Client, ClientError, Method};
use model::{OpCode, OpInput};
use serde_json::Value;

use crate::error::CliError;
use crate::follow::follow;
use crate::session::{Session, say};
use crate::watch::is_loss;

/// Submits, once: a submission that was sent twice would be two jobs.
pub(crate) fn submit<M: Method>(client: &mut Client, call: &M) -> Result<M::Reply, CliError> {
    client.call(call).map_err(|error| {
        let unread = matches!(error, ClientError::Failure(Failure::Malformed { .. }));
        if unread || is_loss(&error) { CliError::Unsure(error) } else { error.into() }
    })
}

/// How urgent a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Priority {
    /// Behind all others.
    Low,
    /// As usual.
    Normal,
    /// Before all others.
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

/// What every command that makes a job takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArguments {
    /// Submit the job, print `JobID: N` and do not wait for it.
    #[arg(long)]
    pub(crate) submit: bool,
    /// Print the job's number before waiting for it.
    #[arg(long)]
    pub(crate) print_jobid: bool,
    /// How urgent the job is.
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    pub(crate) priority: Priority,
    /// Why it is done; kept with the job.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Check everything, change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl JobArguments {
    /// The opcode with what all opcodes carry.
    pub(crate) fn input(&self, op: OpCode, session: &Session) -> OpInput {
        let mut input = OpInput::new(op);
        input.common.priority = self.priority.number();
        input.common.dry_run = self.dry_run;
        input.common.reason = session.reason(self.reason.as_deref());
        input
    }

    /// Submits one opcode as a job and follows it; gives its result, or `None` if nothing was done
    /// yet or at all: it was only submitted, or a dry run.
    pub(crate) fn run(&self, op: OpCode, session: &Session) -> Result<Option<Value>, CliError> {
        let mut client = session.connect()?;
        let id = submit(&mut client, &SubmitJob { ops: vec![self.input(op, session)] })?;
        if self.submit {
            say(format_args!("JobID: {id}"))?;
            return Ok(None);
        }
        if self.print_jobid {
            say(id)?;
        }
        let outcome = follow(session, &mut client, id)?;
        let results = outcome.into_result().map_err(|exception| CliError::Job { id, exception })?;
        if self.dry_run {
            say(format_args!("Dry run: job {id} checked what it would do; nothing was changed"))?;
            return Ok(None);
        }
        Ok(results.into_iter().next())
    }
}
