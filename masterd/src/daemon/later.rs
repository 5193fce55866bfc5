//! What this node was told of a reign that its store does not know. It is kept in a file beside the
//! store, of which it is a part: it goes where that goes. Serves the change of master, for `taker`.
//!
//! Where two nodes are left and either one takes the other for lost, each could be master after the other
//! with what it has. Who has once heard of a later reign does not start without it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::role::confirm::Later;

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
pub(super) struct LaterError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// What was told, as far as it is remembered.
///
/// # Errors
/// The file does not read. That it is not there is no error.
pub(super) fn recall(data: &Path) -> Result<Option<Later>, LaterError> {
    let path = data.join(NAME);
    let failed = |error| LaterError { path: path.clone(), error };
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
pub(super) fn remember(data: &Path, later: &Later) -> Result<(), LaterError> {
    let path = data.join(NAME);
    let bytes = serde_json::to_vec(later).expect("a name and numbers have a JSON form");
    stdx::atomic::write(&path, &bytes, MODE).map_err(|error| LaterError { path, error })
}

#[cfg(test)]
mod tests {
    use queue_format::Epoch;

    use super::*;

    #[test]
    fn what_was_told_is_remembered_until_the_store_goes() {
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
