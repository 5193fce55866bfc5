//! Several jobs of one command: those that it submits, and those that an opcode made.

use luxi::method::Submission;
use model::OpCode;
use serde_json::Value;

use crate::batch::Batch;
use crate::error::CliError;
use crate::output::warn;
use crate::python;
use crate::session::Session;
use crate::submit::{Common, JobArguments, RawJobs, submit};

/// The jobs that an opcode made.
pub(crate) fn made_by(result: &Value) -> Batch {
    let mut batch = Batch::default();
    let jobs = result.get("jobs").and_then(Value::as_array);
    for job in jobs.into_iter().flatten() {
        let submission = serde_json::from_value(job.clone());
        let unread = |_error| Submission::Refused(python::repr(job));
        batch.add(None, submission.unwrap_or_else(unread));
    }
    batch
}

/// Waits for the jobs that an opcode made.
fn follow_all(made: &Value, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    match made_by(made).wait(session, &mut client, true)?.failed {
        0 => Ok(()),
        _ => Err(CliError::Told),
    }
}

/// Carries out an opcode that makes jobs, and waits for these.
pub(crate) fn spread(op: OpCode, job: &JobArguments, session: &Session) -> Result<(), CliError> {
    match job.run(op, session)? {
        Some(made) => follow_all(&made, session),
        None => Ok(()),
    }
}

/// Submits a job for each object, and waits for all.
pub(crate) fn each(
    names: &[String],
    op: impl Fn(&String) -> OpCode,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let common = Common::new(job.priority, job.dry_run, session);
    let completed = |name: &String| {
        let mut op = serde_json::to_value(op(name)).expect("opcodes are plain maps");
        common.complete(&mut op);
        vec![op]
    };
    let jobs: Vec<Vec<Value>> = names.iter().map(completed).collect();
    let answers = submit(session, &mut client, &RawJobs::new(jobs))?;
    let mut batch = Batch::default();
    for (name, answer) in names.iter().zip(answers) {
        batch.add(Some(name.clone()), answer);
    }
    if job.submit {
        for id in batch.ids() {
            warn(format_args!("JobID: {id}"))?;
        }
        return Ok(());
    }
    match batch.wait(session, &mut client, true)?.failed {
        0 => Ok(()),
        _ => Err(CliError::Told),
    }
}
