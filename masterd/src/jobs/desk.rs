//! Submits jobs on behalf of clients and of the master's own reconcilers.

use std::collections::HashMap;
use std::time::Duration;

use luxi::response::{CUT_OFF, ENDING, UNCONFIRMED};
use model::error::ExceptionKind;
use model::job::RequestDigest;
use model::{Exception, JobId, OpInput};
use queue_format::{Health, Refusal};
use tokio::time::Instant;

use super::{Answer, Event, JobBytes, Submission, submit};
use crate::lu::World;
use crate::writer::Reply;

/// Looks into the archive for one submission. Each answers for at least one job that is depended on,
/// so more than one means that jobs are archived at this very moment.
const LOOK_UPS_MAX: usize = 100;

/// Who submits: the user, and what the request is known by if it is sent again.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// The user.
    pub uid: u32,
    /// None if it cannot be told from another request.
    pub digest: Option<RequestDigest>,
}

/// Submits jobs of the master's own; gives for each its id, or why it was refused, when all that is durable.
///
/// # Errors
/// The whole submission is refused, there is no room for new work, or the master is ending.
pub async fn submit(
    world: &World,
    jobs: Vec<Vec<OpInput>>,
    to_drained: bool,
) -> Result<Vec<Result<JobId, Exception>>, Exception> {
    submit_for(world, jobs, to_drained, None).await
}

/// As [`submit()`], on behalf of `sender`. A job that came of the same request before is answered
/// with its id, and is not made again.
///
/// # Errors
/// As [`submit()`].
pub async fn submit_for(
    world: &World,
    jobs: Vec<Vec<OpInput>>,
    to_drained: bool,
    sender: Option<Sender>,
) -> Result<Vec<Result<JobId, Exception>>, Exception> {
    let admit = || world.commits.admit();
    world.turnstile.pass(admit).await.map_err(|refusal| no_room(&refusal))?;
    let limits = JobBytes::within(world.commits.submission_bytes_max());
    let mut jobs = submit::check(jobs, limits)?;
    if let Some(Sender { uid, digest }) = sender {
        let sent = |(index, job): (u32, Submission)| {
            job.sent_by(uid, digest.map(|digest| digest.at(index)))
        };
        jobs = (0..).zip(jobs).map(sent).collect();
    }
    let mut looked_up = HashMap::new();
    for _ in 0..LOOK_UPS_MAX {
        let archived = looked_up.clone();
        let make = |reply| Event::Submit { jobs, to_drained, archived, reply };
        match ask(world, make).await? {
            Answer::Submitted(answers) => return Ok(answers),
            Answer::LookUp(back, missing) => {
                jobs = back;
                let found = world.archive.jobs(missing.iter().copied().collect()).await?;
                let status = |id| (id, found.get(&id).map(|job| job.status()));
                looked_up.extend(missing.into_iter().map(status));
            }
            other => {
                tracing::error!(?other, "a submission got an answer that is none");
                break;
            }
        }
    }
    Err(Exception::new(
        ExceptionKind::JobQueueError,
        "The jobs that these depend on are being archived; submit them again",
    ))
}

/// Asks the writer for a change, and waits until it is durable.
///
/// # Errors
/// As the writer's; or of a disk that takes nothing, or a majority that says nothing, for so long that
/// nobody should wait for it.
pub async fn ask(
    world: &World,
    make: impl FnOnce(Reply) -> Event<Reply>,
) -> Result<Answer, Exception> {
    or_trouble(world, world.writer.ask(make)).await
}

/// What comes of a change that was asked for.
///
/// # Errors
/// Its own, and as [`ask`].
pub async fn or_trouble<T>(
    world: &World,
    change: impl Future<Output = Result<T, Exception>>,
) -> Result<T, Exception> {
    tokio::select! {
        biased;
        done = change => done,
        trouble = trouble(world) => Err(trouble),
    }
}

/// How long a disk may take nothing before those who wait for it are told.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// For how long a majority of the voters may be silent before those who wait for it are told: it may
/// come back at any time, and a client that knows goes to look for another master.
const MAJORITY_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at disk and majority.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Ends when the disk has taken nothing, or the majority has said nothing, for so long that whoever
/// waits for a change should know.
async fn trouble(world: &World) -> Exception {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if u128::from(world.commits.majority().silence_ms()) >= MAJORITY_PATIENCE.as_millis() {
            return Exception::new(ExceptionKind::JobQueueError, UNCONFIRMED);
        }
        if let Health::DiskFull { path, reason, .. } = world.commits.health()
            && begun.elapsed() >= DISK_PATIENCE
        {
            return Exception::new(
                ExceptionKind::GenericError,
                format!(
                    "The master cannot write `{}` ({reason}): make room, or make it writable. \
                     Whether this is done then is not known; look before you try again",
                    path.display()
                ),
            );
        }
    }
}

fn no_room(refusal: &Refusal) -> Exception {
    let text = match refusal {
        Refusal::Busy => {
            "The queue has more to store than the disk takes; try again later".to_owned()
        }
        Refusal::DiskFull { path, reason } => format!(
            "The master cannot write `{}` ({reason}); no new jobs are taken until it can: make room, \
             or make it writable",
            path.display()
        ),
        Refusal::TooLarge { what } => format!("The submission is too large: {what}"),
        Refusal::CutOff => CUT_OFF.to_owned(),
        Refusal::Stopped => ENDING.to_owned(),
    };
    Exception::new(ExceptionKind::JobQueueError, text)
}
