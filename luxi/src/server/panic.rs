//! A panic in one request ends there.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs `future`; `None` if it panicked. The panic's message went to standard error by then.
pub(super) async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // The future is never polled again after a panic, and what it shares is locked by
        // `parking_lot` or owned by tasks that are reached through channels.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(_message) => Poll::Ready(None),
        }
    })
    .await
}
