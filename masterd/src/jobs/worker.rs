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

use super::{Event, Outcome, Start};
use crate::locks::Owner;
use crate::lu::{self, Context, Failure, World};

/// Why an opcode has failed that was killed.
const KILLED: &str = "Job killed by request";

/// What ends an opcode before it has done its work.
#[derive(Debug, Clone, Default)]
pub struct Leash {
    /// Asks it to end before it changes anything, or between two of its steps.
    pub cancel: CancellationToken,
    /// Ends it where it waits next, whatever it is at.
    pub kill: CancellationToken,
    /// Whether it has its locks, and runs.
    pub passed: Arc<AtomicBool>,
}

/// Starts opcodes in the background.
#[derive(Debug, Clone)]
pub struct Workers {
    world: Arc<World>,
    tasks: Tasks,
}

impl Workers {
    /// Workers that act on `world`.
    #[must_use]
    pub fn new(world: Arc<World>, tasks: Tasks) -> Self {
        Self { world, tasks }
    }

    /// Runs one opcode, as long as `leash` lets it.
    ///
    /// One that stays on the master is taken as far as it comes without waiting before this
    /// returns, since most have ended by then; whatever it waits for, it goes on by itself.
    pub fn start(&self, start: Start, leash: Leash) {
        let world = Arc::clone(&self.world);
        let near = start.input.reach() == Reach::Master;
        let mut work = Box::pin(run(start, world, leash));
        // Its task polls it again and thereby takes over its wake-ups.
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        if !near || work.as_mut().poll(&mut nobody).is_pending() {
            self.tasks.spawn("opcode", work);
        }
    }

    /// Changes the priority of a job that waits for locks.
    pub fn reprioritize(&self, job: JobId, priority: i32) {
        self.world.locks.set_priority(Owner(job.0), priority);
    }
}

async fn run(start: Start, world: Arc<World>, leash: Leash) {
    let (job, op) = (start.job, start.op);
    let writer = world.writer.clone();
    let input = Arc::clone(&start.input);
    let outcome = unless_panicked(job, op, named(job, op, outcome(start, world, leash))).await;
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

/// What `work` comes to, or that it panicked; what it held is free then.
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

/// None where the reign ended before the opcode began to run.
async fn outcome(start: Start, world: Arc<World>, leash: Leash) -> Option<Outcome> {
    let Some(input) = start.input.known() else {
        return Some(Outcome::Failure(Exception::new(
            ExceptionKind::OpCodeUnknown,
            "This version knows no such opcode",
        )));
    };
    let mut context = Context::new(world, &start, &input.common, &leash);
    // The locks go with the context, before the end is reported: what follows in the log may rely
    // on them being free, and nothing that they protect is visible before the end is.
    Some(match unless_killed(lu::run(input.op.clone(), &mut context), &leash.kill).await {
        Some(Ok(result)) => Outcome::Success(result),
        Some(Err(Failure::Canceled)) => Outcome::Canceled,
        Some(Err(Failure::Exception(failure))) => Outcome::Failure(failure),
        Some(Err(Failure::Withdrawn)) => return None,
        None => Outcome::Failure(killed(context.has_changed(), context.has_called())),
    })
}

/// What `work` comes to; none if it is killed, and dropped, at the point where it waits. Its locks
/// are free when the context is dropped behind it.
async fn unless_killed<T>(work: impl Future<Output = T>, kill: &CancellationToken) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = kill.cancelled() => None,
    }
}

fn killed(has_changed: bool, has_called: bool) -> Exception {
    let changed = match has_changed {
        true => "; what it had changed in the configuration by then stands",
        false => "",
    };
    let called = match has_called {
        true => "; what it had asked of agents by then may have been done, or still be done",
        false => "",
    };
    Exception::exec(format!("{KILLED}{changed}{called}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::{LockName, Locks, Mode};

    #[tokio::test]
    async fn work_that_never_ends_is_killed_and_dropped() {
        let kill = CancellationToken::new();
        let held = Arc::new(());
        let mut work = Box::pin(unless_killed(
            {
                let held = Arc::clone(&held);
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }
            },
            &kill,
        ));
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(work.as_mut().poll(&mut nobody).is_pending());
        kill.cancel();
        assert_eq!(work.await, None);
        assert_eq!(Arc::strong_count(&held), 1, "what it held is free");
    }

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

    #[tokio::test]
    async fn work_that_is_done_is_not_killed() {
        let kill = CancellationToken::new();
        kill.cancel();
        assert_eq!(unless_killed(async { 7 }, &kill).await, Some(7));
    }

    #[test]
    fn what_a_killed_opcode_did_is_said() {
        assert_eq!(killed(false, false).message(), KILLED);
        for (changed, called) in [(true, false), (false, true), (true, true)] {
            let told = killed(changed, called).message().to_owned();
            assert!(told.starts_with(KILLED), "{told}");
            assert_eq!(told.contains("configuration"), changed, "{told}");
            assert_eq!(told.contains("agents"), called, "{told}");
        }
    }
}
