//! The steps of a store's threads, taken one by one by whoever simulates them.

use std::io;
use std::sync::Arc;

use super::checkpoint::{Checkpoint, segment_path};
use super::commit::FatalError;
use super::files::Reach;
use super::log_writer::{LogSteps, LogWriter};
use super::threads::Shared;
use crate::journal::ring::NewSegment;

/// The work of a store's three threads, and how far it is.
pub(in crate::store) struct Hands<T, S: LogSteps<T>> {
    pub(in crate::store) shared: Arc<Shared<T>>,
    pub(in crate::store) log: LogWriter<T, S>,
    pub(in crate::store) checkpoint: Checkpoint,
    /// How far the checkpoint that is under way is to reach.
    begun: Option<Reach>,
}

impl<T, S: LogSteps<T>> Hands<T, S> {
    pub(in crate::store) fn new(
        shared: Arc<Shared<T>>,
        log: LogWriter<T, S>,
        checkpoint: Checkpoint,
    ) -> Self {
        Self { shared, log, checkpoint, begun: None }
    }

    /// A whole checkpoint, behind one that may be under way.
    pub(in crate::store) fn make_checkpoint(&mut self) -> Result<(), FatalError> {
        self.end_checkpoint()?;
        self.go_on_with_checkpoint()?;
        self.go_on_with_checkpoint()
    }

    /// Completes a checkpoint that is under way.
    pub(in crate::store) fn end_checkpoint(&mut self) -> Result<(), FatalError> {
        if self.begun.is_some() { self.go_on_with_checkpoint() } else { Ok(()) }
    }

    pub(in crate::store) fn write_files(&mut self) -> Result<(), FatalError> {
        self.shared.files.write_chunk(0, false).map_err(FatalError::File)
    }

    pub(in crate::store) fn go_on_with_checkpoint(&mut self) -> Result<(), FatalError> {
        match self.begun.take() {
            Some(reach) => {
                while !self.shared.files.is_written(reach.position.index) {
                    self.write_files()?;
                }
                if self.checkpoint.sync_upto(reach, false)? {
                    self.shared.queue.push_checkpoint(reach);
                }
            }
            None => self.begun = self.checkpoint.begin(false)?,
        }
        Ok(())
    }
}

/// Makes the segments that the ring lacks.
pub(in crate::store) fn make_segments<T>(
    shared: &Shared<T>,
    checkpoint: &Checkpoint,
    missing: Vec<usize>,
    segment_bytes: u64,
) -> io::Result<()> {
    let disk = &checkpoint.disk;
    for number in missing {
        let path = segment_path(&checkpoint.root, number);
        disk.make_segment(&path, segment_bytes)?;
        let (file, bytes) = disk.open_segment(&path)?;
        shared.queue.push_segment(NewSegment { number, file, bytes, last_lsn: 0 });
    }
    Ok(())
}
