//! One driver for all reconcilers. Each looks at what is committed and at what was observed, and submits
//! a job or pushes a desired state. docs/ARCHITECTURE.md has their table.

use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// Pause after a panic: it is a bug, and no reason never to look again.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// Looks at something again and again, and brings it to what it should be. Looking twice does no
/// harm: it keeps no queue, and what it remembers may be lost.
pub(crate) trait Reconciler: Send {
    /// Its name, for the log.
    const NAME: &'static str;

    /// Looks once, and does what follows. Gives how long until the next look; none until it is woken.
    fn reconcile(&mut self) -> impl Future<Output = Option<Duration>> + Send;

    /// Waits for a reason to look before that.
    fn woken(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Forgets what it remembers, which a panic may have left half done.
    fn begin_anew(&mut self) {}
}

/// Drives a reconciler until `stop`; a look that is under way then is dropped where it waits.
pub(crate) async fn run<R: Reconciler>(mut reconciler: R, stop: CancellationToken) {
    loop {
        let looking = AssertUnwindSafe(Box::pin(reconciler.reconcile())).catch_unwind();
        let next = match stop.run_until_cancelled(looking).await {
            None => return,
            Some(Ok(next)) => next,
            Some(Err(_panic)) => {
                tracing::error!(reconciler = R::NAME, "a reconciler panicked; it begins anew");
                reconciler.begin_anew();
                Some(AFTER_PANIC)
            }
        };
        let pause = async {
            match next {
                Some(pause) => tokio::time::sleep(pause).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = pause => {}
            () = reconciler.woken() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::*;

    /// Notes when it looks; panics at its second look.
    struct Looks {
        begun: Instant,
        at: Arc<Mutex<Vec<u64>>>,
        remembered: u32,
        wake: Arc<Notify>,
    }

    impl Reconciler for Looks {
        const NAME: &'static str = "looks";

        async fn reconcile(&mut self) -> Option<Duration> {
            self.remembered += 1;
            let number = {
                let mut at = self.at.lock();
                at.push(self.begun.elapsed().as_secs());
                at.len()
            };
            assert!(number != 2, "as one with a fault would");
            (number < 4).then_some(Duration::from_secs(10))
        }

        async fn woken(&mut self) {
            self.wake.notified().await;
        }

        fn begin_anew(&mut self) {
            self.remembered = 0;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_looks_by_time_when_woken_and_after_a_panic_until_it_is_stopped() {
        let (at, wake) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (begun, stop) = (Instant::now(), CancellationToken::new());
        let looks = Looks { begun, at: Arc::clone(&at), remembered: 0, wake: Arc::clone(&wake) };
        let driven = tokio::time::timeout(Duration::from_secs(100), run(looks, stop.clone()));
        let around = async {
            // By time at 0, 10 (a panic), 15 and 25; then only when it is woken.
            tokio::time::sleep(Duration::from_secs(40)).await;
            wake.notify_one();
            tokio::time::sleep(Duration::from_secs(20)).await;
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(driven, around);
        assert!(ended.is_ok(), "it is stopped");
        assert_eq!(*at.lock(), [0, 10, 15, 25, 40]);
    }
}
