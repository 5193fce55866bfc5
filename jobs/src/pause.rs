//! The place where opcodes that have their locks wait while none may run: while the role is handed over,
//! and once the leadership ends. An opcode that waits here, or for locks, is "waiting" on disk, and runs
//! under the next master.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// An opcode that has its locks runs.
    #[default]
    Open,
    /// Nobody begins to run.
    Shut,
    /// Nobody ever will.
    Ended,
}

/// Whether opcodes of one leadership may run.
#[derive(Debug, Default)]
pub struct Pause(watch::Sender<Stage>);

impl Pause {
    /// Waits until opcodes may run, and notes in `runs` that this one does. Once [`Pause::shut`] is
    /// back, whoever has not passed does not.
    pub async fn pass(&self, runs: &AtomicBool) {
        loop {
            {
                let stage = self.0.borrow();
                if *stage == Stage::Open {
                    runs.store(true, Ordering::Release);
                    return;
                }
            }
            self.wait_for(Stage::Open).await;
        }
    }

    /// Has nobody pass until [`Pause::open`].
    pub fn shut(&self) {
        self.become_from(Stage::Open, Stage::Shut);
    }

    /// Has opcodes pass again.
    pub fn open(&self) {
        self.become_from(Stage::Shut, Stage::Open);
    }

    /// Has nobody pass any more.
    pub fn end(&self) {
        self.0.send_replace(Stage::Ended);
    }

    /// Waits until nobody will pass any more.
    pub async fn ended(&self) {
        self.wait_for(Stage::Ended).await;
    }

    fn become_from(&self, from: Stage, to: Stage) {
        self.0.send_if_modified(|stage| {
            let turns = *stage == from;
            if turns {
                *stage = to;
            }
            turns
        });
    }

    async fn wait_for(&self, wanted: Stage) {
        let mut stages = self.0.subscribe();
        // The sender is here, so that this comes back with what was waited for.
        drop(stages.wait_for(|stage| *stage == wanted).await);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn whoever_has_not_passed_waits_until_it_is_open() {
        let (gate, passed) = (Pause::default(), AtomicBool::new(false));
        let mut nobody = Context::from_waker(Waker::noop());
        gate.shut();
        let mut first = Box::pin(gate.pass(&passed));
        assert!(first.as_mut().poll(&mut nobody).is_pending());
        assert!(!passed.load(Ordering::Acquire));
        gate.open();
        assert!(first.as_mut().poll(&mut nobody).is_ready());
        assert!(passed.load(Ordering::Acquire));
        let mut open = Box::pin(gate.pass(&passed));
        assert!(open.as_mut().poll(&mut nobody).is_ready());
    }

    #[test]
    fn an_end_is_for_good() {
        let (gate, passed) = (Pause::default(), AtomicBool::new(false));
        let mut nobody = Context::from_waker(Waker::noop());
        let mut ended = Box::pin(gate.ended());
        assert!(ended.as_mut().poll(&mut nobody).is_pending());
        gate.shut();
        gate.end();
        gate.open();
        assert!(ended.as_mut().poll(&mut nobody).is_ready());
        let mut late = Box::pin(gate.pass(&passed));
        assert!(late.as_mut().poll(&mut nobody).is_pending());
        assert!(!passed.load(Ordering::Acquire));
    }
}
