//! A committer without threads: what they would do is done step by step, when a simulation says so.

use std::sync::Arc;

use super::{Assembled, CommitSteps, Committer, StartError};
use crate::position::Epoch;
use crate::store::callbacks::Callbacks;
use crate::store::checkpoint::{Checkpoint, segment_path};
use crate::store::commit::FatalError;
use crate::store::files::Reach;
use crate::store::log_writer::LogWriter;
use crate::store::threads::{Closing, Shared};
use crate::store::{Durability, Store};
use crate::sync::Mutex;

/// What one of the threads does between two points where others come in.
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
pub struct Hand<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    log: LogWriter<T, CommitSteps<T>>,
    checkpoint: Checkpoint,
    /// How far the files are written that are to be made durable.
    written: Option<Reach>,
}

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
        for number in missing_segments {
            let path = segment_path(&checkpoint.root, number);
            let disk = &checkpoint.disk;
            disk.make_segment(&path, options.segment_bytes).map_err(StartError::Thread)?;
            let (file, bytes) = disk.open_segment(&path).map_err(StartError::Thread)?;
            let segment = crate::journal::ring::NewSegment { number, file, bytes, last_lsn: 0 };
            shared.queue.push_segment(segment);
        }
        let log = LogWriter::new(shared.clone(), steps, options.segment_bytes);
        log.forget_time();
        let hand = Hand { shared: shared.clone(), log: log.clone(), checkpoint, written: None };
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
            Step::Files => self.write_files(),
            Step::Checkpoint => self.go_on_with_checkpoint(),
        };
        if let Err(error) = &done {
            self.shared.fail(error);
        }
        done
    }

    fn commit(&mut self) -> Result<(), FatalError> {
        while !self.log.write_unless_full(false)? {
            self.make_checkpoint()?;
            if self.log.write_unless_full(true)? {
                break;
            }
        }
        Ok(())
    }

    /// A whole checkpoint, behind one that may be under way.
    fn make_checkpoint(&mut self) -> Result<(), FatalError> {
        if self.written.is_some() {
            self.go_on_with_checkpoint()?;
        }
        self.go_on_with_checkpoint()?;
        self.go_on_with_checkpoint()
    }

    fn write_files(&mut self) -> Result<(), FatalError> {
        self.shared.files.write_chunk(0, false).map_err(FatalError::File)
    }

    fn go_on_with_checkpoint(&mut self) -> Result<(), FatalError> {
        match self.written.take() {
            Some(reach) => {
                if self.checkpoint.sync_upto(reach, false)? {
                    self.shared.queue.push_checkpoint(reach);
                }
            }
            None => {
                while self.shared.files.lag().0 > 0 {
                    self.write_files()?;
                }
                self.written = self.shared.files.flush(false);
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
        self.make_checkpoint()?;
        self.commit()?;
        self.checkpoint.mark_clean()?;
        Ok(())
    }
}

impl<T: Send + 'static> Drop for Hand<T> {
    fn drop(&mut self) {
        // Nobody takes steps any more: who waits for one must not wait for ever.
        self.shared.end();
    }
}
