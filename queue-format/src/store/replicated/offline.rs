//! A replicated store on which no engine runs: what may be written there is one frame, or nothing.

use super::{Parts, ReplicatedStore};
use crate::journal::{AppendError, Record};

impl ReplicatedStore {
    /// Appends `records` behind the log as one frame, makes that durable, and frees the lock. A crash
    /// leaves all of them or none. Whether they are committed is not said by it: entries among them
    /// are the tail of the log that the next one to open it finds.
    ///
    /// # Errors
    /// There is no room for them in the journal: nothing was written, and a member that runs for a
    /// while makes some. Or the disk failed, and the next one to open the store finds out what is
    /// there.
    pub fn append_at_rest(self, records: &[Record]) -> Result<(), AppendError> {
        let Parts { journal, lock, .. } = self.opened.parts;
        let mut journal = journal.expect("a replicated store is opened with a journal");
        let committed = journal.committed();
        journal.append(records, committed)?;
        drop(lock);
        Ok(())
    }
}

/// For the crash tests, which open it on a disk of theirs.
#[cfg(test)]
impl From<super::Opened> for ReplicatedStore {
    fn from(opened: super::Opened) -> Self {
        Self { opened }
    }
}
