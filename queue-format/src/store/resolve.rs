//! Making each batch complete in itself, before it goes to the journal.
//!
//! Recovery rewrites files from the journal alone, and a file whose key changed since the last
//! checkpoint may be torn, so it is never read. A move that does not carry the content is therefore
//! journaled only when the file it renames has not changed since the checkpoint and its new name is
//! free: after a crash that file is whole and has one of the two names. Any other move becomes a
//! write and a deletion.

use std::collections::HashMap;

use bytes::Bytes;

use super::files::{FileError, Files};
use crate::change::{Batch, Change};
use crate::key::Key;

/// What an earlier change of the same batch made of a key.
enum Seen {
    Content(Option<Bytes>),
    RenamedFrom(Key),
}

/// A batch that recovery can repeat.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// The batch; none when the original will do.
    pub(crate) batch: Option<Batch>,
    /// Content that was added to it.
    pub(crate) added_bytes: usize,
}

/// Brings every move of the batch into a form that recovery can repeat.
pub(crate) fn resolve(batch: &Batch, files: &Files) -> Result<Resolved, FileError> {
    if !batch.0.iter().any(|change| matches!(change, Change::Move { .. })) {
        return Ok(Resolved::default());
    }
    let mut seen: HashMap<Key, Seen> = HashMap::new();
    let mut resolved = Vec::with_capacity(batch.0.len());
    let mut added_bytes = 0;
    for change in &batch.0 {
        match change {
            Change::Put { key, content } => {
                seen.insert(key.clone(), Seen::Content(Some(content.clone())));
            }
            Change::Delete { key } => {
                seen.insert(key.clone(), Seen::Content(None));
            }
            Change::Move { from, to } if from == to => continue,
            Change::Move { from, to } => {
                let untouched = |key| !seen.contains_key(key) && !files.is_touched(key);
                if untouched(from) && untouched(to) && !files.has_file(to)? {
                    // Were it journaled, recovery might rename a file that came later.
                    if !files.has_file(from)? {
                        continue;
                    }
                    seen.insert(to.clone(), Seen::RenamedFrom(from.clone()));
                    seen.insert(from.clone(), Seen::Content(None));
                } else {
                    let content = match seen.get(from) {
                        Some(Seen::Content(content)) => content.clone(),
                        Some(Seen::RenamedFrom(origin)) => files.content(origin)?,
                        None => files.content(from)?,
                    };
                    let Some(content) = content else { continue };
                    added_bytes += content.len();
                    seen.insert(from.clone(), Seen::Content(None));
                    seen.insert(to.clone(), Seen::Content(Some(content.clone())));
                    resolved.push(Change::Delete { key: from.clone() });
                    resolved.push(Change::Put { key: to.clone(), content });
                    continue;
                }
            }
        }
        resolved.push(change.clone());
    }
    Ok(Resolved { batch: Some(Batch(resolved).collapse()), added_bytes })
}
