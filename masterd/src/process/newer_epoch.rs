//! A leadership that this node was told of, and that its store does not know. It is kept in a file
//! beside the store, of which it is a part: it goes where that goes. Serves the change of master, for
//! `takeover`.
//!
//! When two nodes are left and either one takes the other for lost, each could be master after the other
//! with what it has. A node that has once heard of a later leadership does not start without it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use engine::Engine;
use queue_format::Epoch;
use stdx::daemon::chain;

use super::lifecycle::{Lifecycle, Stage};
use membership::confirm::{Later, Question, later_leadership};

/// Name of the file in the data directory; no key has it.
const NAME: &str = "later.json";

/// Mode of the file: nothing in it is secret.
const MODE: u32 = 0o640;

/// A file that does not tell.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use `{path}`, which tells of a later master that this node was told of: mend it, or remove \
     it if there was none"
)]
pub(super) struct NewerEpochError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// The leadership that was told, as far as it is remembered.
///
/// # Errors
/// The file does not read. A missing file is no error.
fn recall(data: &Path) -> Result<Option<Later>, NewerEpochError> {
    let path = data.join(NAME);
    let failed = |error| NewerEpochError { path: path.clone(), error };
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed(io::Error::other(error))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Remembers it, durably.
///
/// # Errors
/// The file cannot be written.
fn remember(data: &Path, later: &Later) -> Result<(), NewerEpochError> {
    let path = data.join(NAME);
    let bytes = serde_json::to_vec(later).expect("a name and numbers have a JSON form");
    stdx::atomic::write(&path, &bytes, MODE).map_err(|error| NewerEpochError { path, error })
}

/// Forgets it once the store here holds what was committed by then: up to entries of the epoch `known`.
///
/// # Errors
/// The file does not read, or does not go.
fn forget(data: &Path, known: Epoch) -> Result<(), NewerEpochError> {
    let is_here = |later: Later| later.epoch <= known;
    if !recall(data)?.is_some_and(is_here) {
        return Ok(());
    }
    let path = data.join(NAME);
    std::fs::remove_file(&path).map_err(|error| NewerEpochError { path, error })
}

impl Lifecycle {
    /// The leadership that was told before, and that the store here does not know.
    pub(super) fn later(&self) -> Result<Option<Later>, NewerEpochError> {
        match self.stage {
            Stage::Machine => stdx::aside(|| recall(&self.options.layout.data())),
            #[cfg(test)]
            Stage::Simulation => Ok(None),
        }
    }

    /// Forgets what was told of a leadership that the store here knows by now.
    pub(super) fn forget_later(&self, engine: &Engine) {
        if self.stage == Stage::Machine {
            let (data, known) = (self.options.layout.data(), engine.position().epoch);
            if let Err(error) = stdx::aside(|| forget(&data, known)) {
                tracing::warn!(error = chain(&error), "a file is left that is of no use");
            }
        }
    }

    /// Remembers a leadership of which somebody told, and that the store here does not know.
    pub(super) fn remember(&self, question: &Question) -> Result<(), NewerEpochError> {
        let Some(told) = later_leadership(question) else { return Ok(()) };
        match self.stage {
            Stage::Machine => {
                let Later { node, epoch } = &told;
                tracing::warn!(%node, %epoch, "told of a newer epoch than the store here knows");
                stdx::aside(|| remember(&self.options.layout.data(), &told))
            }
            #[cfg(test)]
            Stage::Simulation => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_remembered_until_it_is_here_or_the_store_goes() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        let write = |name: &str, text: &str| {
            stdx::atomic::write(&data.join(name), text.as_bytes(), MODE).unwrap();
        };
        assert_eq!(recall(data).unwrap(), None);
        let told = |term| Later { node: "n2".parse().unwrap(), epoch: Epoch { term, node: 3 } };
        for term in [7, 1_000_007] {
            remember(data, &told(term)).unwrap();
            assert_eq!(recall(data).unwrap(), Some(told(term)));
        }
        forget(data, Epoch { term: 1_000_007, node: 2 }).unwrap();
        assert!(recall(data).unwrap().is_some());
        forget(data, told(1_000_007).epoch).unwrap();
        assert_eq!(recall(data).unwrap(), None);
        forget(data, told(9).epoch).unwrap();
        remember(data, &told(8)).unwrap();
        write("store.json", "{}");
        std::fs::create_dir(data.join("queue")).unwrap();
        write("queue/lock", "");
        queue_format::store::wipe(data).unwrap();
        assert_eq!(recall(data).unwrap(), None);
        write(NAME, "half");
        let error = recall(data).unwrap_err().to_string();
        assert!(error.contains(NAME) && error.contains("remove it"), "{error}");
    }
}
