//! Submits jobs on behalf of clients and of the master's own reconcilers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use luxi::response::{CUT_OFF, ENDING, UNCONFIRMED};
use model::audit::Asker;
use model::error::ExceptionKind;
use model::job::RequestDigest;
use model::{Code, Exception, JobId, OpInput};
use queue_format::{Health, Refusal};
use tokio::time::Instant;

use crate::admission::Admission;
use crate::archive::Archive;
use crate::commits::Commits;
use crate::configuration::Configuration;
use crate::event::{Event, Submitted};
use crate::limits::JobBytes;
use crate::submit::{self, Submission};
use crate::writer::Writer;

/// Looks into the archive for one submission. Each answers for at least one job that is depended on,
/// so more than one means that jobs are archived at this very moment.
const LOOK_UPS_MAX: usize = 100;

/// The submitter: the user, and the digest by which the request is known if it is sent again.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The user.
    pub uid: u32,
    /// Its name, and from where it asks.
    pub asker: Option<Arc<Asker>>,
    /// None if it cannot be told from another request.
    pub digest: Option<RequestDigest>,
}

/// Takes jobs for the queue; clones share it.
#[derive(Debug)]
pub struct Submitter<C: Configuration> {
    writer: Writer<C>,
    commits: Arc<Commits<C>>,
    archive: Archive<C>,
    admission: Arc<Admission>,
}

impl<C: Configuration> Clone for Submitter<C> {
    fn clone(&self) -> Self {
        Self {
            writer: self.writer.clone(),
            commits: Arc::clone(&self.commits),
            archive: self.archive.clone(),
            admission: Arc::clone(&self.admission),
        }
    }
}

impl<C: Configuration> Submitter<C> {
    /// Submits to `writer`, as long as `commits` has room; `archive` tells how jobs ended.
    pub fn new(writer: Writer<C>, commits: Arc<Commits<C>>, archive: Archive<C>) -> Self {
        Self { writer, commits, archive, admission: Arc::default() }
    }

    /// Submits jobs; gives for each its id, or why it was refused, when all that is durable. A job
    /// that came of the same request of `sender` before is answered with its id, and is not made
    /// again. The master's own jobs have no sender.
    ///
    /// # Errors
    /// The whole submission is refused, there is no room for new work, or the master is ending.
    pub async fn submit(
        &self,
        jobs: Vec<Vec<OpInput>>,
        to_drained: bool,
        sender: Option<Sender>,
    ) -> Result<Vec<Result<JobId, Exception>>, Exception> {
        let admit = || self.commits.admit();
        self.admission.pass(admit).await.map_err(|refusal| no_room(&refusal))?;
        let limits = JobBytes::within(self.commits.submission_bytes_max());
        let mut jobs = submit::check(jobs, limits)?;
        if let Some(Sender { uid, asker, digest }) = sender {
            let sent = |(index, job): (u32, Submission)| {
                job.sent_by((uid, asker.clone()), digest.map(|digest| digest.at(index)))
            };
            jobs = (0..).zip(jobs).map(sent).collect();
        }
        let mut looked_up = HashMap::new();
        for _ in 0..LOOK_UPS_MAX {
            let archived = looked_up.clone();
            let make = |reply| Event::Submit { jobs, to_drained, archived, reply };
            match self.unless_stalled(self.writer.ask(make)).await? {
                Submitted::Jobs(answers) => return Ok(answers),
                Submitted::LookUp(back, missing) => {
                    jobs = back;
                    let found = self.archive.jobs(missing.iter().copied().collect()).await?;
                    let status = |id| (id, found.get(&id).map(|job| job.status()));
                    looked_up.extend(missing.into_iter().map(status));
                }
            }
        }
        Err(Exception::new(
            ExceptionKind::JobQueueError,
            "The jobs that these depend on are being archived; submit them again",
        ))
    }

    /// Waits for the result of a change that the writer was asked for.
    ///
    /// # Errors
    /// Its own; or a disk has taken nothing, or a majority has said nothing, for so long that nobody
    /// should wait for it.
    pub async fn unless_stalled<T>(
        &self,
        change: impl Future<Output = Result<T, Exception>>,
    ) -> Result<T, Exception> {
        tokio::select! {
            biased;
            done = change => done,
            stalled = self.stalled() => Err(stalled),
        }
    }

    /// Ends when the disk has taken nothing, or the majority has said nothing, for so long that
    /// whoever waits for a change should know.
    async fn stalled(&self) -> Exception {
        let begun = Instant::now();
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let silence_ms = u128::from(self.commits.majority().silence_ms());
            if silence_ms >= MAJORITY_PATIENCE.as_millis() {
                return Exception::new(ExceptionKind::JobQueueError, UNCONFIRMED)
                    .coded(Code::MajorityLost);
            }
            if let Health::DiskFull { path, reason, .. } = self.commits.health()
                && begun.elapsed() >= DISK_PATIENCE
            {
                let text = format!(
                    "The master cannot write `{}` ({reason}): make room, or make it writable. \
                     Whether this is done then is not known; look before you try again",
                    path.display()
                );
                return Exception::new(ExceptionKind::GenericError, text).coded(Code::DiskFull);
            }
        }
    }
}

/// How long a disk may take nothing before those who wait for it are told.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// How long a majority of the voters may be silent before those who wait for it are told. It may come
/// back at any time, and a client that knows goes to look for another master.
const MAJORITY_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at disk and majority.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

fn no_room(refusal: &Refusal) -> Exception {
    let (code, text) = match refusal {
        Refusal::Busy => (
            Code::Overloaded,
            "The queue has more to store than the disk takes; try again later".to_owned(),
        ),
        Refusal::DiskFull { path, reason } => (
            Code::DiskFull,
            format!(
                "The master cannot write `{}` ({reason}); no new jobs are taken until it can: make \
                 room, or make it writable",
                path.display()
            ),
        ),
        Refusal::TooLarge { what } => {
            (Code::ChangeTooLarge, format!("The submission is too large: {what}"))
        }
        Refusal::CutOff => (Code::MajorityLost, CUT_OFF.to_owned()),
        Refusal::Stopped => (Code::MasterUnreached, ENDING.to_owned()),
    };
    Exception::new(ExceptionKind::JobQueueError, text).coded(code)
}
