//! Making each batch complete in itself, before it goes to the journal.
//!
//! Recovery rewrites files from the journal alone, and a file whose key changed since the last
//! checkpoint may be torn, so it is never read. So a move without its content is journaled only if the
//! file that it renames has not changed since the checkpoint and its new name is free. After a crash
//! that file is whole and has one of the two names. Any other move becomes a write and a deletion. So
//! does every move in a cluster, where members repeat the batch, each from files of its own age.

use std::collections::HashMap;

use bytes::Bytes;

use super::files::{FileError, Files};
use crate::change::{Batch, Change};
use crate::key::Key;

/// The batch with every move as a deletion and a write of the content, which any member can repeat
/// whatever its files hold. One of a key that does not exist is left out.
pub(crate) fn moves_as_content(batch: Batch, files: &Files) -> Result<Batch, FileError> {
    if !batch.0.iter().any(|change| matches!(change, Change::Move { .. })) {
        return Ok(batch.collapse());
    }
    let mut seen: HashMap<Key, Option<Bytes>> = HashMap::new();
    let mut resolved = Vec::with_capacity(batch.0.len());
    for change in batch.0 {
        match change {
            Change::Move { from, to } if from == to => {}
            Change::Move { from, to } => {
                let content = match seen.get(&from) {
                    Some(content) => content.clone(),
                    None => files.content(&from)?,
                };
                let Some(content) = content else { continue };
                seen.insert(from.clone(), None);
                seen.insert(to.clone(), Some(content.clone()));
                resolved.push(Change::Delete { key: from });
                resolved.push(Change::Put { key: to, content });
            }
            Change::Put { key, content } => {
                seen.insert(key.clone(), Some(content.clone()));
                resolved.push(Change::Put { key, content });
            }
            Change::Delete { key } => {
                seen.insert(key.clone(), None);
                resolved.push(Change::Delete { key });
            }
        }
    }
    Ok(Batch(resolved).collapse())
}

/// The effect of an earlier change of the same batch on a key.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::change::collapse::tests::{apply, batch};
    use crate::disk::Disk;
    use crate::disk::sim::SimDisk;
    use crate::position::{Epoch, Position};
    use crate::store::files::Reach;

    fn files() -> (SimDisk, Files) {
        let root = Path::new("/data");
        let disk = SimDisk::with_root(root);
        disk.make_directory(&root.join(".tmp")).unwrap();
        let files = Files::new(Arc::new(disk.clone()), root, Duration::ZERO);
        (disk, files)
    }

    fn hand_over(files: &Files, index: u64, batch: &Batch) {
        let position = Position { epoch: Epoch::default(), index };
        files.hand_over(batch, Reach { lsn: index, position }).unwrap();
    }

    /// Lets so many of the following things happen.
    fn go_on(files: &Files, steps: usize) {
        if steps > 0 {
            files.write_chunk(0, false).unwrap();
        }
        if steps > 1 {
            let index = files.aim().reach.position.index;
            assert!(files.flush(index, false));
            files.sync().unwrap();
            files.synced(index);
        }
    }

    fn all(files: &Files) -> BTreeMap<Key, Bytes> {
        let read = |n: u8| {
            let key = Key::parse(&format!("k/{n}")).unwrap();
            Some((key.clone(), files.content(&key).unwrap()?))
        };
        (0..6).filter_map(read).collect()
    }

    proptest! {
        #[test]
        fn resolved_batches_make_the_same_files_whatever_the_checkpoints(
            batches in proptest::collection::vec((batch(6), 0..3_usize, 0..3_usize), 0..12),
        ) {
            let ((_one, here), (_other, there)) = (files(), files());
            let mut expected = BTreeMap::new();
            let mut log = Vec::new();
            for (index, (batch, steps_here, steps_there)) in (1..).zip(batches) {
                apply(&mut expected, &batch);
                let resolved = moves_as_content(batch, &here).unwrap();
                let moves = resolved.0.iter().filter(|one| matches!(one, Change::Move { .. }));
                prop_assert_eq!(moves.count(), 0);
                hand_over(&here, index, &resolved);
                hand_over(&there, index, &resolved);
                go_on(&here, steps_here);
                go_on(&there, steps_there);
                prop_assert_eq!(&all(&here), &expected);
                prop_assert_eq!(&all(&there), &expected);
                log.push((index, resolved));
            }
            // A start from any checkpoint repeats what the files may have already.
            let from = log.len() / 2;
            for (index, batch) in &log[from..] {
                hand_over(&there, *index, batch);
            }
            go_on(&here, 2);
            go_on(&there, 2);
            prop_assert_eq!(&all(&here), &expected);
            prop_assert_eq!(&all(&there), &expected);
        }
    }
}
