//! Background tasks that are named, joined at shutdown, and whose panics are told.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;

/// Does work that takes long without awaiting anything, so that other tasks go on meanwhile: on
/// other threads, where the runtime has several.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Does work that waits for the disk on a thread of its own, whether or not its end is awaited. On a
/// runtime with a single thread everything is to happen in one order, so it does the work before it
/// returns.
///
/// # Errors
/// It panicked.
pub fn apart<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    work: W,
) -> impl Future<Output = Result<T, tokio::task::JoinError>> + use<T, W> {
    let begun = match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => Ok(tokio::task::spawn_blocking(work)),
        _ => Err(work()),
    };
    async {
        match begun {
            Ok(running) => running.await,
            Err(done) => Ok(done),
        }
    }
}

/// A set of tasks which ends together.
///
/// A clone refers to the same set. A task that panics is logged with its name and ends alone.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` in the background under `name`, which shows in the log if it panics.
    ///
    /// Must be called within a tokio runtime.
    pub fn spawn<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut set = self.0.lock();
        while let Some(ended) = set.try_join_next() {
            report(ended);
        }
        set.spawn(async move {
            let guard = PanicReport { name };
            future.await;
            std::mem::forget(guard);
        });
    }

    /// Number of tasks that have not been seen to end.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether no task is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until every task has ended by itself.
    pub async fn join(&self) {
        let mut set = std::mem::take(&mut *self.0.lock());
        while let Some(ended) = set.join_next().await {
            report(ended);
        }
    }

    /// Stops every task at its next await, and waits for it.
    pub async fn shutdown(&self) {
        let mut set = std::mem::take(&mut *self.0.lock());
        set.shutdown().await;
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "task panicked");
    }
}

struct PanicReport {
    name: &'static str,
}

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(task = self.name, "task is unwinding after a panic");
        }
    }
}
