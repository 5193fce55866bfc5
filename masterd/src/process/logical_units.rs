//! The work of the queue's workers: the logical unit of an opcode, unless its job is killed.

use std::sync::Arc;

use jobs::{CancelHandle, Outcome, Start, Work};
use model::Exception;
use model::error::ExceptionKind;
use tokio_util::sync::CancellationToken;

use crate::units::{Context, Failure, Resources};

/// Why an opcode has failed that was killed.
const KILLED: &str = "Job killed by request";

/// Runs logical units.
#[derive(Debug, Clone)]
pub(crate) struct LogicalUnits(pub Arc<Resources>);

impl Work for LogicalUnits {
    async fn run(&self, start: Start, handle: CancelHandle) -> Option<Outcome> {
        let Some(input) = start.input.known() else {
            return Some(Outcome::Failure(Exception::new(
                ExceptionKind::OpCodeUnknown,
                "This version knows no such opcode",
            )));
        };
        let mut context = Context::new(Arc::clone(&self.0), &start, &input.common, &handle);
        // The locks go with the context, before the end is reported. Later entries of the log may rely
        // on them being free, and nothing that they protect is visible before the end is.
        Some(
            match unless_killed(crate::units::run(input.op.clone(), &mut context), &handle.kill)
                .await
            {
                Some(Ok(result)) => Outcome::Success(result),
                Some(Err(Failure::Canceled)) => Outcome::Canceled,
                Some(Err(Failure::Exception(failure))) => Outcome::Failure(failure),
                Some(Err(Failure::Withdrawn)) => return None,
                None => Outcome::Failure(killed(context.has_changed(), context.has_called())),
            },
        )
    }
}

/// The outcome of `work`; none if it is killed, and dropped, at the point where it waits. Its locks are
/// free when the context is dropped behind it.
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
