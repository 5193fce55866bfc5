//! Runtimes of their own for work that must not delay other work, or be delayed by it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// How long threads of a runtime may take to end with it: what still runs by then only reads.
const END_TIME: Duration = Duration::from_secs(1);

/// The place where futures run: a runtime of its own, or the caller's.
///
/// The caller's is for tests, where all is to happen in one order. A clone refers to the same runtime,
/// which ends with the last one.
#[derive(Debug, Clone, Default)]
pub struct Executor(Option<Arc<Owned>>);

#[derive(Debug)]
struct Owned {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last one may go on a thread of a runtime, which must not wait.
            drop(std::thread::spawn(move || runtime.shutdown_timeout(END_TIME)));
        }
    }
}

/// Ends a task where nobody waits for it any more.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Executor {
    /// A runtime with this many threads, and at most `blocking` more for what waits for the disk. `name`
    /// is that of its threads, at most 15 bytes long.
    ///
    /// # Errors
    /// The system's.
    pub fn new(name: &str, threads: usize, blocking: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).max_blocking_threads(blocking).thread_name(name);
        let runtime = builder.enable_all().build()?;
        let handle = runtime.handle().clone();
        Ok(Self(Some(Arc::new(Owned { runtime: Some(runtime), handle }))))
    }

    /// The runtime of the caller, which goes on to own it.
    pub fn current() -> Self {
        Self(Some(Arc::new(Owned { runtime: None, handle: Handle::current() })))
    }

    /// Runs `future` there and waits for it. Dropped, it ends the future at its next await. A panic in
    /// it is one of the caller.
    pub fn run<F>(&self, future: F) -> impl Future<Output = F::Output> + Send + use<'_, F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // The caller's future would otherwise need room for all of it.
        let future = Box::pin(future);
        async move {
            let Some(owned) = &self.0 else { return future.await };
            let mut task = AbortOnDrop(owned.handle.spawn(future));
            match (&mut task.0).await {
                Ok(output) => output,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime ends, and with it the process: nobody is to be told.
                    Err(_cancelled) => std::future::pending().await,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn thread_name() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn work_runs_on_the_threads_of_its_executor() {
        let executor = Executor::new("own", 1, 1).unwrap();
        assert_eq!(executor.run(async { thread_name() }).await, "own");
        assert_eq!(Executor::default().run(async { thread_name() }).await, thread_name());
        assert_eq!(Executor::current().run(async { thread_name() }).await, thread_name());
    }

    /// Tells when it is dropped.
    struct Tell(mpsc::Sender<()>);

    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_ends() {
        let executor = Executor::new("own", 1, 1).unwrap();
        let (tell, told) = mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let work = async move {
            let _tell = Tell(tell);
            begin.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = executor.run(work) => unreachable!("it never ends by itself"),
            begun = begun => begun.unwrap(),
        }
        told.recv().unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_one_of_the_caller() {
        let executor = Executor::new("own", 1, 1).unwrap();
        let mut callers = tokio::task::JoinSet::new();
        callers.spawn(async move { executor.run(async { panic!("of the work") }).await });
        let error = callers.join_next().await.unwrap().unwrap_err();
        assert_eq!(error.into_panic().downcast_ref(), Some(&"of the work"));
    }
}
