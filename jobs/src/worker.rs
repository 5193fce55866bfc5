//! Runs opcodes: one task each, which reports to the queue whatever happens.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use futures_util::FutureExt;
use model::error::ExceptionKind;
use model::opcode::{Input, Reach};
use model::{Exception, JobId};
use stdx::Tasks;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::configuration::Configuration;
use crate::effects::Start;
use crate::event::{Event, Outcome};
use crate::locks::{Locks, Owner};
use crate::writer::Writer;

/// The signals that end an opcode before it has done its work.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle {
    /// Asks it to end before it changes anything, or between two of its steps.
    pub cancel: CancellationToken,
    /// Ends it where it waits next, whatever it is at.
    pub kill: CancellationToken,
    /// Whether it has its locks, and runs.
    pub runs: Arc<AtomicBool>,
}

/// What opcodes do.
pub trait Work: Send + Sync + 'static {
    /// Does what one opcode says, as long as `handle` lets it, and gives back its locks. None where
    /// the master's role ended before the opcode began to run.
    fn run(
        &self,
        start: Start,
        handle: CancelHandle,
    ) -> impl Future<Output = Option<Outcome>> + Send;
}

/// Starts opcodes in the background.
#[derive(Debug)]
pub struct Workers<C: Configuration, W> {
    work: Arc<W>,
    writer: Writer<C>,
    locks: Locks,
    tasks: Tasks,
}

impl<C: Configuration, W: Work> Workers<C, W> {
    /// Workers that do `work` and report to `writer`.
    pub fn new(work: Arc<W>, writer: Writer<C>, locks: Locks, tasks: Tasks) -> Self {
        Self { work, writer, locks, tasks }
    }

    /// Runs one opcode, as long as `handle` lets it.
    ///
    /// An opcode that stays on the master is taken as far as it comes without waiting before this
    /// returns: most have ended by then. If it has to wait, it continues by itself.
    pub fn start(&self, start: Start, handle: CancelHandle) {
        let near = start.input.reach() == Reach::Master;
        let mut work = Box::pin(run(Arc::clone(&self.work), self.writer.clone(), start, handle));
        // Its task polls it again and thereby takes over its wake-ups.
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        if !near || work.as_mut().poll(&mut nobody).is_pending() {
            self.tasks.spawn("opcode", work);
        }
    }

    /// Changes the priority of a job that waits for locks.
    pub fn reprioritize(&self, job: JobId, priority: i32) {
        self.locks.set_priority(Owner(job.0), priority);
    }
}

async fn run<C: Configuration, W: Work>(
    work: Arc<W>,
    writer: Writer<C>,
    start: Start,
    handle: CancelHandle,
) {
    let (job, op) = (start.job, start.op);
    let input = Arc::clone(&start.input);
    let outcome = unless_panicked(job, op, named(job, op, work.run(start, handle))).await;
    let Some(outcome) = outcome else {
        tracing::debug!(%job, op, "had not begun to run: it does so under the next master");
        // At the master's end nobody may be there to be told.
        drop(writer.tell(Event::Withdrawn { job }).await);
        return;
    };
    record(job, op, &input, &outcome);
    if writer.tell(Event::Ended { job, op, outcome }).await.is_err() {
        tracing::info!(%job, op, "the master ends before this opcode's end could be recorded");
    }
}

/// Lines that `work` logs name the opcode from where it first waits; most opcodes have ended by
/// then, and the name costs more than they do.
async fn named<T>(job: JobId, op: usize, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let at_once = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(done) = at_once {
        return done;
    }
    work.instrument(tracing::info_span!("op", %job, op)).await
}

/// The outcome of `work`, or that it panicked; everything that it held is free then.
async fn unless_panicked(
    job: JobId,
    op: usize,
    work: impl Future<Output = Option<Outcome>>,
) -> Option<Outcome> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| {
        tracing::error!(%job, op, "logical unit panicked");
        Some(Outcome::Failure(Exception::new(
            ExceptionKind::ProgrammerError,
            "Internal error: the logical unit panicked; the master's log has the place",
        )))
    })
}

/// The log's word on an opcode's end. Tests of the queue come by thousands a second and are told of
/// at `debug`.
fn record(job: JobId, op: usize, input: &Input, outcome: &Outcome) {
    let summary = || input.summary();
    match outcome {
        Outcome::Success(_) if input.known().is_some_and(|known| known.op.is_test()) => {
            tracing::debug!(%job, op, summary = summary(), "succeeded");
        }
        Outcome::Success(_) => tracing::info!(%job, op, summary = summary(), "succeeded"),
        Outcome::Failure(why) => tracing::warn!(%job, op, summary = summary(), %why, "failed"),
        Outcome::Canceled => tracing::info!(%job, op, summary = summary(), "canceled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::{LockName, Mode};

    /// At once, as within [`Workers::start`], and after it has waited, as in a task of its own.
    #[tokio::test]
    async fn work_that_panics_has_failed_and_its_locks_are_free() {
        let locks = Locks::new();
        let acquire = |owner| {
            let wanted = vec![(LockName::big(), Mode::Exclusive)];
            locks.try_acquire(Owner(owner), wanted, 1, 0)
        };
        for waits in [false, true] {
            let work = async {
                let _grant = acquire(1).unwrap();
                assert!(acquire(2).is_err());
                if waits {
                    tokio::task::yield_now().await;
                }
                panic!("as a unit with a fault would")
            };
            let Some(Outcome::Failure(why)) = unless_panicked(JobId(1), 0, work).await else {
                panic!("it has not failed")
            };
            assert_eq!(why.kind, ExceptionKind::ProgrammerError);
            assert!(why.message().contains("the master's log"), "{why}");
            let _free = acquire(2).unwrap();
        }
    }
}
