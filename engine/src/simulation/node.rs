//! A node's runtime, whose clock the simulation moves.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// The runtime of the tasks of one process. Dropped, all of them end where they are, as in a crash.
#[derive(Debug)]
pub struct Node(Runtime);

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Node {
    /// One without tasks, whose clock stands still.
    ///
    /// # Panics
    /// The system has no room for it.
    pub fn new() -> Self {
        let built = Builder::new_current_thread().enable_time().start_paused(true).build();
        Self(built.expect("a runtime without threads or sockets needs nothing but memory"))
    }

    /// Begins a task.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.0.spawn(task));
    }

    /// Lets the tasks that can go on do so, `turns` times; no time passes.
    pub fn run(&self, turns: usize) {
        self.0.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Moves the clock.
    pub fn advance(&self, time: Duration) {
        self.0.block_on(tokio::time::advance(time));
    }

    /// Looks at something by this node's clock.
    pub fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let _clock = self.0.enter();
        look()
    }

    /// Does something that waits for nothing but this node's own tasks.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.0.block_on(work)
    }
}
