//! Receiving a snapshot from another member, and becoming it.

use super::Recorder;
use crate::position::Position;
use crate::store::incoming::{Incoming, InstallError, Installing, SpoolDirectory};
use crate::store::install::Request;

impl<T: Send + 'static> Recorder<T> {
    /// Begins to receive a snapshot of this position; `members` are those of that moment, in the
    /// engine's words, and the entry that named them. One at a time.
    ///
    /// # Errors
    /// Another one is being received, or the disk takes nothing.
    pub fn receive(
        &self,
        at: Position,
        members: (Position, String),
    ) -> Result<Incoming, InstallError> {
        let reader = &self.reader;
        let (disk, root) = (reader.disk.clone(), reader.root.clone());
        let place = SpoolDirectory { disk, root, salt: self.salt };
        let installing = Installing { position: at, members };
        Incoming::begin(place, installing, self.receiving.clone())
    }

    /// Makes the store what was received: keys that are not in it are gone, and the log up to its
    /// position is void. Blocks until all is durable; meanwhile nothing may be applied, and what is
    /// read is neither the old nor the new state. A start after a crash finishes it.
    ///
    /// # Errors
    /// It was not received to its end, is not ahead of what is applied, or the store has ended.
    pub fn install(&self, mut incoming: Incoming) -> Result<(), InstallError> {
        let at = incoming.installing.position;
        let position = self.position();
        if at <= position || at.index <= position.index {
            return Err(InstallError::Older { at, position });
        }
        incoming.hand_over()?;
        let progress = self.progress.clone();
        let covered = Box::new(move || progress.frames.lock().replaced(at.index));
        let request = Request { installing: incoming.installing.clone(), covered };
        if !self.replace_files(request) {
            return Err(InstallError::Ended);
        }
        self.commit(at.index);
        self.shared.status.lock().position = at;
        self.log_goes_on(at.index);
        incoming.installed();
        Ok(())
    }

    /// Has the files replaced; false if there is an end instead.
    fn replace_files(&self, request: Request) -> bool {
        #[cfg(any(test, feature = "simulation"))]
        if let Some(driver) = &self.by_hand {
            return driver.lock().install(request);
        }
        self.shared.bell.install_and_wait(request)
    }
}
