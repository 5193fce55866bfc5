//! A committer without threads: what they would do is done step by step, when a simulation says so.

use super::{Assembled, CommitSteps, Committer, StartError};
use crate::position::Epoch;
use crate::store::by_hand::{Hands, make_segments};
use crate::store::callbacks::Callbacks;
use crate::store::commit::FatalError;
use crate::store::log_writer::LogWriter;
use crate::store::threads::Closing;
use crate::store::{Durability, Store};
use crate::sync::Mutex;

/// The work of one of the threads between two points where others come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Commits what waits.
    Log,
    /// Writes files, a chunk of them.
    Files,
    /// Takes a checkpoint to its next pause: from all files written to all of them durable, or from
    /// there to the journal's note of it.
    Checkpoint,
}

/// The hand that takes the steps of a committer's threads.
pub struct Hand<T: Send + 'static>(Hands<T, CommitSteps<T>>);

impl<T: Send + 'static> std::fmt::Debug for Hand<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hand")
    }
}

impl Store {
    /// As [`Store::start`], but nothing happens on its own: every [`Step`] is taken by the hand. A
    /// submission that may be written by its submitter is. A failure ends the store, and not the
    /// process.
    ///
    /// # Errors
    /// The store has seen a later epoch, its durability is not that of a journal, or the disk ends.
    pub fn start_by_hand<T: Send + 'static>(
        self,
        epoch: Epoch,
        callbacks: Callbacks<T>,
    ) -> Result<(Committer<T>, Hand<T>), StartError> {
        let assembled = self.assemble(epoch, callbacks.on_fatal(|_told_by_health| {}))?;
        let Assembled { shared, steps, checkpoint, missing_segments, options, .. } = assembled;
        if options.durability == Durability::File {
            return Err(StartError::Thread(std::io::ErrorKind::Unsupported.into()));
        }
        make_segments(&shared, &checkpoint, missing_segments, options.segment_bytes)
            .map_err(StartError::Thread)?;
        let log = LogWriter::new(shared.clone(), steps, options.segment_bytes);
        log.forget_time();
        let hand = Hand(Hands::new(shared.clone(), log.clone(), checkpoint));
        let committer = Committer {
            shared,
            reader: assembled.reader,
            closing: Mutex::new(Some(Closing { threads: Vec::new(), lock: assembled.lock })),
            log,
            submission_bytes_max: assembled.submission_bytes_max,
            has_journal: assembled.has_journal,
        };
        Ok((committer, hand))
    }
}

impl<T: Send + 'static> Hand<T> {
    /// Takes one step.
    ///
    /// # Errors
    /// The store has failed, and is over.
    pub fn take(&mut self, step: Step) -> Result<(), FatalError> {
        let done = match step {
            Step::Log => self.commit(),
            Step::Files => self.0.write_files(),
            Step::Checkpoint => self.0.go_on_with_checkpoint(),
        };
        if let Err(error) = &done {
            self.0.shared.fail(error);
        }
        done
    }

    fn commit(&mut self) -> Result<(), FatalError> {
        while !self.0.log.write_unless_full(false)? {
            self.0.make_checkpoint()?;
            if self.0.log.write_unless_full(true)? {
                break;
            }
        }
        Ok(())
    }

    /// Commits what waits, completes the files and says so, as at the end of a process that was
    /// asked to end.
    ///
    /// # Errors
    /// The store has failed.
    pub fn finish(mut self) -> Result<(), FatalError> {
        self.commit()?;
        self.0.make_checkpoint()?;
        self.commit()?;
        self.0.checkpoint.mark_clean()?;
        Ok(())
    }
}

impl<T: Send + 'static> Drop for Hand<T> {
    fn drop(&mut self) {
        // Nobody takes steps any more: who waits for one must not wait for ever.
        self.0.shared.end();
    }
}
