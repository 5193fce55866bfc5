//! Whether what a step covers has changed since it passed.
//!
//! A digest of the files is kept below the directory that cargo builds into. A fresh clone has none,
//! and runs each step once.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use super::steps::Step;
use crate::{cargo, root, target_dir};

/// Mode of the file that keeps a digest.
const MODE: u32 = 0o644;

/// The digest of what a step covers; none where it covers everything, or a file cannot be read.
pub(super) fn digest(step: &Step) -> Option<String> {
    if step.inputs.is_empty() {
        return None;
    }
    // Another compiler makes another program of the same source.
    let mut hasher = DefaultHasher::new();
    hasher.write(&cargo().arg("-vV").output().ok()?.stdout);
    for input in step.inputs {
        add(&root().join(input), &mut hasher).ok()?;
    }
    Some(format!("{:016x}", hasher.finish()))
}

/// Whether the step passed with this digest.
pub(super) fn has_passed(step: &Step, digest: &str) -> bool {
    fs::read_to_string(place(step)).is_ok_and(|passed| passed == digest)
}

/// Remembers that the step passed with this digest.
pub(super) fn remember(step: &Step, digest: &str) {
    let place = place(step);
    let made = place.parent().map_or(Ok(()), fs::create_dir_all);
    // A step that is not remembered is only done again.
    drop(made.and_then(|()| {
        stdx::atomic::write(&place, digest.as_bytes(), MODE).map_err(io::Error::other)
    }));
}

fn place(step: &Step) -> PathBuf {
    target_dir().join("passed").join(step.name)
}

/// Adds a file, or all files below a directory, each with its path.
fn add(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if !path.is_dir() {
        let name = path.strip_prefix(root()).unwrap_or(path).as_os_str().as_encoded_bytes();
        let content = fs::read(path)?;
        for part in [name, content.as_slice()] {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        return Ok(());
    }
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| add(entry, hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(path: &Path) -> u64 {
        let mut hasher = DefaultHasher::new();
        add(path, &mut hasher).unwrap();
        hasher.finish()
    }

    #[test]
    fn a_digest_changes_with_content_and_name_of_any_file() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        let write = |name: &str, text: &str| {
            stdx::atomic::write(&below.join(name), text.as_bytes(), MODE).unwrap();
            digest_of(dir.path())
        };
        let (empty, first) = (digest_of(dir.path()), write("one", "a"));
        assert_ne!(first, empty);
        assert_ne!(write("one", "b"), first);
        assert_ne!(write("two", "a"), first);
        fs::remove_file(below.join("two")).unwrap();
        assert_eq!(write("one", "a"), first);
    }

    #[test]
    fn inputs_of_all_steps_exist() {
        let inputs = super::super::steps::STEPS.iter().flat_map(|step| step.inputs);
        for input in inputs {
            assert!(root().join(input).exists(), "{input}");
        }
    }
}
