//! A recorder without threads: what they would do is done step by step, when a simulation says so.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::steps::{RecordSteps, Recorded};
use super::{Assembled, Recorder, ReplicatedStore};
use crate::disk::sim::SimDisk;
use crate::simulation::{ROOT, Step};
use crate::store::StartError;
use crate::store::by_hand::{Hands, make_segments};
use crate::store::callbacks::Callbacks;
use crate::store::commit::FatalError;
use crate::store::install::Request;
use crate::store::log_writer::LogWriter;
use crate::store::open::{OpenError, Writer, open};
use crate::store::threads::Closing;
use crate::store::{Durability, StoreOptions};

/// Rounds of the log's and the files' steps until nothing waits: each opens the gate a bit further.
const CATCH_UP_ROUNDS: usize = 1_000;

pub(super) type Driver = Arc<Mutex<dyn Drive>>;

/// Steps, whatever tags go with them.
pub(super) trait Drive: Send {
    fn take(&mut self, step: Step) -> Result<(), FatalError>;
    /// Makes the files what was received; false if that is not to be.
    fn install(&mut self, request: Request) -> bool;
    /// Brings the files up to date with what is applied.
    fn catch_up(&mut self);
    /// All that a process does that was asked to end.
    fn finish(&mut self);
    /// The end, without anything more.
    fn end(&mut self);
}

struct Steps<T: Send + 'static> {
    hands: Hands<Recorded<T>, RecordSteps<T>>,
    disk: SimDisk,
}

/// The hand that takes the steps of a recorder's threads. Steps that the recorder itself waits for, as
/// of an installation, are done at once.
#[derive(Clone)]
pub struct RecorderHand(Driver);

impl std::fmt::Debug for RecorderHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecorderHand")
    }
}

impl ReplicatedStore {
    /// As [`ReplicatedStore::open`], on a simulated disk.
    ///
    /// # Errors
    /// See [`ReplicatedStore::open`].
    pub fn open_simulated(
        disk: &SimDisk,
        options: StoreOptions,
        member: u64,
    ) -> Result<Self, OpenError> {
        let options = StoreOptions { durability: Durability::Journal, ..options };
        let disk = Arc::new(disk.clone());
        Ok(Self { opened: open(disk, Path::new(ROOT), options, Writer::Engine { member })? })
    }

    /// As [`ReplicatedStore::start`], on the `disk` on which it was opened; but every [`Step`] is
    /// taken by the hand. A failure ends the store, and not the process.
    ///
    /// # Errors
    /// The disk ends.
    pub fn start_by_hand<T: Send + 'static>(
        self,
        disk: &SimDisk,
        callbacks: Callbacks<T>,
    ) -> Result<(Recorder<T>, RecorderHand), StartError> {
        let callbacks = callbacks.on_fatal(|_told_by_health| {});
        let Assembled { mut recorder, steps, checkpoint, missing_segments, options, lock } =
            self.assemble(callbacks);
        let shared = recorder.shared.clone();
        make_segments(&shared, &checkpoint, missing_segments, options.segment_bytes)
            .map_err(StartError::Thread)?;
        let log = LogWriter::new(shared.clone(), steps, options.segment_bytes);
        let hands = Hands::new(shared, log, checkpoint);
        let driver: Driver = Arc::new(Mutex::new(Steps { hands, disk: disk.clone() }));
        *recorder.closing.lock() = Some(Closing { threads: Vec::new(), lock });
        recorder.by_hand = Some(driver.clone());
        Ok((recorder, RecorderHand(driver)))
    }
}

impl<T: Send + 'static> Recorder<T> {
    /// Brings the files up to date at once, where there is no thread of theirs to wait for.
    pub(super) fn catch_up_by_hand(&self) {
        if let Some(driver) = &self.by_hand {
            driver.lock().catch_up();
        }
    }

    /// Does at once what closing waits for, where there are no threads.
    pub(super) fn finish_by_hand(&self) {
        if let Some(driver) = self.by_hand.as_ref().filter(|_| self.closing.lock().is_some()) {
            driver.lock().finish();
        }
    }
}

impl RecorderHand {
    /// Takes one step. On a full disk, files and checkpoints wait.
    ///
    /// # Errors
    /// The store has failed, and is over.
    pub fn take(&self, step: Step) -> Result<(), FatalError> {
        self.0.lock().take(step)
    }

    /// Ends the store as a crash does: who waits for a step waits no longer.
    pub fn end(&self) {
        self.0.lock().end();
    }
}

impl<T: Send + 'static> Steps<T> {
    /// Whether the disk takes no files, which is then told.
    fn is_full(&self) -> bool {
        let full = self.disk.is_full();
        if full {
            let error = io::ErrorKind::StorageFull.into();
            self.hands.shared.files.set_full(Path::new(ROOT), &error);
        }
        full
    }

    /// Commits what waits; what finds no room, for entries that are not applied hold it, waits on.
    fn commit(&mut self) -> Result<(), FatalError> {
        if self.hands.log.write_unless_full(false)? || self.is_full() {
            return Ok(());
        }
        self.hands.make_checkpoint()?;
        self.hands.log.write_unless_full(true).map(drop)
    }

    fn step(&mut self, step: Step) -> Result<(), FatalError> {
        match step {
            Step::Log => self.commit(),
            Step::Files | Step::Checkpoint if self.is_full() => Ok(()),
            Step::Files => {
                if self.hands.shared.files.is_gated() {
                    self.hands.shared.queue.ask_for_frame();
                }
                self.hands.write_files()
            }
            Step::Checkpoint => self.hands.go_on_with_checkpoint(),
        }
    }

    fn is_over(&self) -> bool {
        self.hands.shared.queue.is_over()
    }
}

impl<T: Send + 'static> Drive for Steps<T> {
    fn take(&mut self, step: Step) -> Result<(), FatalError> {
        if self.is_over() {
            return Ok(());
        }
        let done = self.step(step);
        if let Err(error) = &done {
            self.hands.shared.fail(error);
        }
        done
    }

    fn install(&mut self, request: Request) -> bool {
        let hands = &mut self.hands;
        let ended = hands.end_checkpoint();
        match ended.and_then(|()| hands.checkpoint.install(request, false)) {
            Ok(Some(reach)) => {
                hands.shared.queue.push_checkpoint(reach);
                self.take(Step::Log).is_ok()
            }
            Ok(None) => {
                // The thread would wait for the disk; here the process ends, and its next start
                // goes on with it.
                hands.shared.end();
                false
            }
            Err(error) => {
                hands.shared.fail(&error);
                false
            }
        }
    }

    fn catch_up(&mut self) {
        for _ in 0..CATCH_UP_ROUNDS {
            let lags = self.hands.shared.files.lag().0 > 0;
            if !lags || self.is_full() || self.is_over() {
                return;
            }
            for step in [Step::Files, Step::Log] {
                if self.take(step).is_err() {
                    return;
                }
            }
        }
        // Nobody will write what waits: who waits for it must not wait for ever.
        self.hands.shared.end();
    }

    fn finish(&mut self) {
        for step in [
            Step::Log,
            Step::Checkpoint,
            Step::Checkpoint,
            Step::Log,
            Step::Checkpoint,
            Step::Checkpoint,
            Step::Log,
        ] {
            if self.take(step).is_err() {
                return;
            }
        }
        let clean = !self.is_full() && !self.is_over();
        self.hands.shared.status.lock().clean = clean;
        self.hands.shared.end();
    }

    fn end(&mut self) {
        self.hands.shared.end();
    }
}
