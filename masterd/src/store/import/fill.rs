//! Puts the documents of an export into a new store.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use model::Secret;
use queue_format::{Callbacks, Change, Committer, Health, Key};

use super::adapt::Plan;
use super::{Import, ImportError};
use crate::role::load;
use crate::store::bootstrap::{self, InitError};

/// Documents in one submission: a small part of what a store takes at most.
const DOCUMENTS_MAX: usize = 1_024;
/// How often is looked whether the disk is full while a submission becomes durable.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Makes the store, with all documents in it.
pub(super) fn fill(
    data: &Path,
    plan: &Plan,
    authority: &Secret<String>,
    wanted: &Import,
    documents: impl FnOnce(
        &mut dyn FnMut(Key, Bytes) -> Result<(), ImportError>,
    ) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let store = bootstrap::open_store(data, wanted.segment_bytes)?;
    let (tell, told) = sync_channel(1);
    let callbacks = Callbacks::new(move |_: Vec<()>, _| tell.send(()).unwrap_or_default());
    let committer = store.start(plan.epoch(), callbacks).map_err(InitError::from)?;
    let mut filling = Filling {
        bytes_max: committer.submission_bytes_max() / 2,
        committer,
        told,
        changes: Vec::new(),
        bytes: 0,
    };
    documents(&mut |key, content| match plan.adapt(&key, content)? {
        Some(content) => filling.put(key, content),
        None => Ok(()),
    })?;
    // All of the export was whole, and is durable.
    filling.flush()?;
    for (name, content) in plan.last(authority) {
        filling.put(key(&name), content)?;
    }
    filling.flush()?;
    load::load(&filling.committer.reader())?;
    Ok(filling.committer.close().map_err(InitError::from)?)
}

pub(super) fn key(name: &str) -> Key {
    Key::parse(name).expect("keys of documents are good keys")
}

/// A store that is being filled.
struct Filling {
    committer: Committer<()>,
    told: Receiver<()>,
    bytes_max: usize,
    changes: Vec<Change>,
    bytes: usize,
}

impl Filling {
    fn put(&mut self, key: Key, content: Bytes) -> Result<(), ImportError> {
        let change = Change::Put { key, content };
        let weight = change.weight();
        if self.changes.len() >= DOCUMENTS_MAX || self.bytes + weight > self.bytes_max {
            self.flush()?;
        }
        self.bytes += weight;
        self.changes.push(change);
        Ok(())
    }

    /// Makes durable what was put; one submission after the other, so that none is too much.
    fn flush(&mut self) -> Result<(), ImportError> {
        if self.changes.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let submitted = self.committer.submit(std::mem::take(&mut self.changes), ());
        submitted.map_err(|refused| InitError::Refused(refused.reason.to_string()))?;
        loop {
            match self.told.recv_timeout(LOOK_AGAIN) {
                Ok(()) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(ImportError::Ended),
                Err(RecvTimeoutError::Timeout) => {
                    if let Health::DiskFull { reason, .. } = self.committer.health() {
                        return Err(ImportError::DiskFull { reason });
                    }
                }
            }
        }
    }
}
