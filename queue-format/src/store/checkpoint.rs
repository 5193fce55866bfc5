//! Checkpoints: making durable what the files hold, so that the journal may forget.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::commit::FatalError;
use super::files::sync::Aim;
use super::files::{Files, Reach};
use super::header::{self, Header, HeaderError};
use super::install::Request;
use crate::disk::{self, Disk};
use crate::sync::{Condvar, Mutex};

/// How long to wait before trying again to replace the header on a disk that takes nothing.
const FULL_RETRY: Duration = Duration::from_millis(500);

/// The steps of a checkpoint, without the thread.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) files: Arc<Files>,
    pub(crate) header: Header,
}

impl Checkpoint {
    /// Waits for the files, makes them durable, and says so in the header.
    ///
    /// None when the writer stopped, or when the disk takes nothing and `patient` is false.
    pub(crate) fn make_durable(&mut self, patient: bool) -> Result<Option<Reach>, FatalError> {
        let Some(reach) = self.begin(patient)? else { return Ok(None) };
        if !self.files.flush(reach.position.index, patient) {
            return Ok(None);
        }
        Ok(self.sync_upto(reach, patient)?.then_some(reach))
    }

    /// Lets everything that is applied so far show in the files. The header says that it is committed,
    /// as the journal may have no room to say so. Tells how far that is. No further may the checkpoint
    /// wait for the files: what is applied meanwhile may need that room.
    pub(crate) fn begin(&mut self, patient: bool) -> Result<Option<Reach>, FatalError> {
        let Aim { reach, gated } = self.files.aim();
        if gated {
            self.header.committed = reach.position.index;
            if !self.write_header(patient)? {
                return Ok(None);
            }
            self.files.open_gate(reach.position.index);
        }
        Ok(Some(reach))
    }

    /// Makes the files durable, which hold everything up to `reach`, and says so in the header.
    pub(crate) fn sync_upto(&mut self, reach: Reach, patient: bool) -> Result<bool, FatalError> {
        self.files.sync().map_err(FatalError::File)?;
        self.header.lsn = reach.lsn;
        self.header.position = reach.position;
        self.header.note = self.files.captured_note();
        // A file that changed again meanwhile shows that, too, and the journal repeats it from now on
        // only if it is known to be committed.
        self.header.committed = self.header.committed.max(self.files.shown().unwrap_or(0));
        self.write_header(patient)
    }

    /// Says in the header that the files alone are the store.
    pub(crate) fn mark_clean(&mut self) -> Result<bool, FatalError> {
        self.header.clean = true;
        self.write_header(false)
    }

    pub(crate) fn write_header(&self, patient: bool) -> Result<bool, FatalError> {
        loop {
            match self.header.write(self.disk.as_ref(), &self.root) {
                Ok(()) => {
                    self.files.clear_full();
                    return Ok(true);
                }
                Err(HeaderError::Write { error, .. }) if disk::is_full(&error) => {
                    self.files.set_full(&self.root.join(header::NAME), &error);
                    if !patient || !self.files.pause(FULL_RETRY) {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(FatalError::Header(error)),
            }
        }
    }
}

/// The signals that the checkpoint thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    requested: bool,
    /// The checkpoint that a durable frame names.
    noted: Reach,
    install: Option<Request>,
    /// Whether the last installation that was asked for is over.
    installed: bool,
    ending: bool,
    broken: bool,
}

/// Why the checkpoint thread was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    /// Somebody wants a snapshot to be installed.
    Install,
    /// Somebody wants a checkpoint.
    Requested,
    /// The time has come.
    Time,
    /// The last checkpoint, then the end.
    End,
    /// The end at once.
    Broken,
}

impl Bell {
    /// Asks for a checkpoint.
    pub(crate) fn request(&self) {
        self.state.lock().requested = true;
        self.rung.notify_all();
    }

    /// Asks for a checkpoint if the last one does not cover the frame `lsn`.
    pub(crate) fn request_beyond(&self, lsn: u64) {
        let mut state = self.state.lock();
        if state.noted.lsn < lsn {
            state.requested = true;
            self.rung.notify_all();
        }
    }

    /// Asks for the last one.
    pub(crate) fn end(&self) {
        self.state.lock().ending = true;
        self.rung.notify_all();
    }

    /// Ends everything without a checkpoint.
    pub(crate) fn break_off(&self) {
        self.state.lock().broken = true;
        self.rung.notify_all();
    }

    /// Asks for an installation and waits for its end; false if there is none.
    pub(crate) fn install_and_wait(&self, request: Request) -> bool {
        let mut state = self.state.lock();
        state.install = Some(request);
        state.installed = false;
        self.rung.notify_all();
        while !state.installed && !state.broken {
            self.rung.wait(&mut state);
        }
        state.installed
    }

    /// The installation that was asked for.
    pub(crate) fn take_request(&self) -> Option<Request> {
        self.state.lock().install.take()
    }

    /// Says that it is over.
    pub(crate) fn installed(&self) {
        self.state.lock().installed = true;
        self.rung.notify_all();
    }

    /// Says that a durable frame names this checkpoint.
    pub(crate) fn note(&self, reach: Reach) {
        self.state.lock().noted = reach;
        self.rung.notify_all();
    }

    /// Waits for a reason to make a checkpoint, `interval` at most.
    pub(crate) fn wait(&self, interval: Duration) -> Ring {
        let until = Instant::now() + interval;
        let mut state = self.state.lock();
        loop {
            if state.broken {
                return Ring::Broken;
            }
            if state.install.is_some() {
                return Ring::Install;
            }
            if std::mem::take(&mut state.requested) {
                return Ring::Requested;
            }
            if state.ending {
                return Ring::End;
            }
            if self.rung.wait_until(&mut state, until).timed_out() {
                return Ring::Time;
            }
        }
    }

    /// Waits until a durable frame names the checkpoint; false if none ever will.
    pub(crate) fn wait_noted(&self, lsn: u64) -> bool {
        let mut state = self.state.lock();
        while state.noted.lsn < lsn && !state.broken {
            self.rung.wait(&mut state);
        }
        !state.broken
    }

    /// Asks for a checkpoint and waits until one covers the entry `index`; false if none ever will.
    pub(crate) fn request_and_wait(&self, index: u64) -> bool {
        self.request();
        let mut state = self.state.lock();
        while state.noted.position.index < index && !state.broken {
            self.rung.wait(&mut state);
        }
        !state.broken
    }
}

pub(crate) fn segment_path(root: &Path, number: usize) -> PathBuf {
    root.join(crate::journal::DIRECTORY).join(crate::journal::segment_name(number))
}
