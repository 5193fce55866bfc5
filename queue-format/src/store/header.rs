//! `store.json`: what the store knows about itself when its journal is gone.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::incoming::Installing;
use crate::disk::Disk;
use crate::disk::real::RealDisk;
use crate::position::Position;

/// Name of the file in the data directory.
pub(crate) const NAME: &str = "store.json";

/// The version of everything below the data directory that this program writes.
pub const FORMAT: u32 = 1;

/// The oldest version that it reads, journal included; opening such a store makes it one of
/// [`FORMAT`]. Two versions at least, as soon as there are two: so no upgrade has to stop between.
pub const FORMAT_OLDEST: u32 = 1;

/// The content of `store.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Version of the layout.
    pub(crate) format: u32,
    /// Made when the store was created: another one means that its history is another one.
    pub(crate) incarnation: Uuid,
    /// The files alone are the store; otherwise the journal belongs to it.
    pub(crate) clean: bool,
    /// Frames up to this one are durable in the files.
    pub(crate) lsn: u64,
    /// The state of the files is at least this.
    pub(crate) position: Position,
    /// Entries up to this index are committed, as far as a replication engine said so before the
    /// last checkpoint; 0 without one.
    #[serde(default)]
    pub(crate) committed: u64,
    /// The replication engine's note; empty without one.
    #[serde(default, skip_serializing_if = "Note::is_empty")]
    pub(crate) note: Note,
    /// The snapshot that the files are becoming; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) installing: Option<Installing>,
}

/// A replication engine's data to be kept together with the files, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The vote, at least as new as any in a frame that the header covers.
    pub(crate) vote: Option<String>,
    /// The members as of the header's position, and the entry that named them.
    pub(crate) members: Option<(Position, String)>,
    /// The id of the member that owns this store, and has no other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<u64>,
}

impl Note {
    fn is_empty(&self) -> bool {
        self.vote.is_none() && self.members.is_none() && self.member.is_none()
    }
}

/// Just the version, which every future layout keeps in its place.
#[derive(Deserialize)]
struct Version {
    format: u32,
    /// Whatever it is, there is one.
    #[serde(default)]
    crc32c: Option<IgnoredAny>,
}

/// Facts on a store that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtRest {
    /// Version of everything below the data directory.
    pub format: u32,
    /// Whether the files alone are the store. Otherwise somebody has it open, or did not close it,
    /// and the journal holds more.
    pub clean: bool,
    /// Which history it is: made when the store was created.
    pub incarnation: Uuid,
    /// The member of a replication engine that it belongs to; none for a single master's.
    pub member: Option<u64>,
}

impl AtRest {
    /// Reads it below `root` and changes nothing; none where there is no store.
    ///
    /// # Errors
    /// The header does not read, or is of a version that this program cannot read.
    pub fn read(root: &Path) -> Result<Option<Self>, HeaderError> {
        let disk = RealDisk::new(root.to_owned(), 0, 0);
        let header = Header::read(&disk, root)?;
        Ok(header.map(|Header { format, clean, incarnation, note, .. }| {
            let member = note.member;
            Self { format, clean, incarnation, member }
        }))
    }
}

/// A header that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// It is not what this program writes.
    #[error(
        "`{path}` is damaged. Check the disk. Beside a master, put the \
         store aside, and this node gets a copy from the others (runbook: A candidate gets a new store); \
         without any other copy, restore a backup of the whole data directory"
    )]
    Parse {
        /// The file.
        path: PathBuf,
        /// The JSON parser's error.
        #[source]
        error: serde_json::Error,
    },
    /// It is not what was written.
    #[error(
        "`{path}` is damaged: its checksum is not that of its content. Check the disk. Beside a master, put the \
         store aside, and this node gets a copy from the others (runbook: A candidate gets a new store); \
         without any other copy, restore a backup of the whole data directory"
    )]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer program.
    #[error(
        "`{path}` has format {found}, but this program knows formats up to {FORMAT}: install the \
         version that wrote it, or a newer one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Written by a program that is too old.
    #[error(
        "`{path}` has format {found}, but this program reads formats from {FORMAT_OLDEST} to \
         {FORMAT}: install a version in between first, start it once and stop it"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It cannot be replaced.
    #[error("cannot replace `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl Header {
    /// A store that never held anything.
    pub(crate) fn new() -> Self {
        Self {
            format: FORMAT,
            incarnation: Uuid::new_v4(),
            clean: true,
            lsn: 0,
            position: Position::default(),
            committed: 0,
            note: Note::default(),
            installing: None,
        }
    }

    /// The position behind which entries of the journal count.
    pub(crate) fn base(&self) -> Position {
        self.installing.as_ref().map_or(self.position, |installing| installing.position)
    }

    /// The start of the journal's checksums, so that frames of another store are no frames.
    pub(crate) fn salt(&self) -> u32 {
        crc32c::crc32c(self.incarnation.as_bytes())
    }

    /// Reads the header below `root`; none if there is no such file.
    pub(crate) fn read(disk: &dyn Disk, root: &Path) -> Result<Option<Self>, HeaderError> {
        let path = root.join(NAME);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(HeaderError::Read { path, error }),
        };
        let parse = |error| HeaderError::Parse { path: path.clone(), error };
        let version: Version = serde_json::from_slice(&bytes).map_err(parse)?;
        if version.format > FORMAT {
            return Err(HeaderError::Newer { path, found: version.format });
        }
        if version.format < FORMAT_OLDEST {
            return Err(HeaderError::Older { path, found: version.format });
        }
        let header: Self = serde_json::from_slice(&bytes).map_err(parse)?;
        // Versions before this one wrote none.
        match version.crc32c.is_none() || is_sealed(&bytes) {
            true => Ok(Some(header)),
            false => Err(HeaderError::Checksum { path }),
        }
    }

    /// Replaces the header below `root`, durably.
    pub(crate) fn write(&self, disk: &dyn Disk, root: &Path) -> Result<(), HeaderError> {
        let path = root.join(NAME);
        let text = seal(serde_json::to_vec(self).expect("a header has no keys but strings"));
        disk.replace_synced(&path, &text)
            .and_then(|()| disk.sync_directory(root))
            .map_err(|error| HeaderError::Write { path, error })
    }
}

/// The bytes between the content and the digits of its checksum.
const SUM: &[u8] = b",\"crc32c\":\"";

/// The object `content` with the checksum of all that stands before it as its last field.
fn seal(mut content: Vec<u8>) -> Vec<u8> {
    content.pop();
    let sum = crc32c::crc32c(&content);
    content.extend_from_slice(SUM);
    content.extend_from_slice(format!("{sum:08x}\"}}\n").as_bytes());
    content
}

/// Whether the checksum is that of the content before it, all as it was written.
fn is_sealed(bytes: &[u8]) -> bool {
    let at = bytes.windows(SUM.len()).rposition(|part| part == SUM);
    at.is_some_and(|at| seal([&bytes[..at], b"}"].concat()) == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;

    fn disk() -> (SimDisk, PathBuf) {
        let root = PathBuf::from("/data");
        let disk = SimDisk::with_root(&root);
        disk.make_directory(&root.join(".tmp")).unwrap();
        (disk, root)
    }

    #[test]
    fn a_header_is_read_as_written() {
        let (disk, root) = disk();
        assert_eq!(Header::read(&disk, &root).unwrap(), None);
        let header = Header::new();
        header.write(&disk, &root).unwrap();
        assert_eq!(Header::read(&disk, &root).unwrap(), Some(header));
    }

    /// Written down, so that what one version seals the next one takes for whole.
    #[test]
    fn the_checksum_is_of_all_that_stands_before_it() {
        let content = br#"{"format":1,"clean":true}"#.to_vec();
        let text = String::from_utf8(seal(content)).unwrap();
        assert_eq!(text, "{\"format\":1,\"clean\":true,\"crc32c\":\"04465031\"}\n");
        assert!(is_sealed(text.as_bytes()));
        // A text that does not read as a checksum is a wrong one.
        assert!(!is_sealed(text.replace("\"}", "x\"}").as_bytes()));
    }

    #[test]
    fn a_changed_header_is_found_out() {
        let (disk, root) = disk();
        let vote = Some(r#"{"epoch":{"term":3,"node":1}}"#.to_owned());
        let header = Header { note: Note { vote, ..Note::default() }, ..Header::new() };
        header.write(&disk, &root).unwrap();
        let bytes = disk.read(&root.join(NAME)).unwrap();
        // Not the end of the line, which means nothing.
        for at in 0..bytes.len() - 1 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            disk.replace(&root.join(NAME), &changed).unwrap();
            let read = Header::read(&disk, &root);
            let text = String::from_utf8_lossy(&changed);
            // One without a sum is one of a version before, and has all that this one has.
            assert!(read.is_err() || read.unwrap() == Some(header.clone()), "{text}");
        }
        let text = String::from_utf8(bytes).unwrap();
        disk.replace(&root.join(NAME), text.replace(":3,", ":4,").as_bytes()).unwrap();
        assert!(matches!(Header::read(&disk, &root), Err(HeaderError::Checksum { .. })));
        // A tool that writes it anew may have changed it.
        let spaced = text.replace(":3,", ":4,").replace("\"crc32c\":", "\"crc32c\": ");
        disk.replace(&root.join(NAME), spaced.as_bytes()).unwrap();
        assert!(matches!(Header::read(&disk, &root), Err(HeaderError::Checksum { .. })));
        // Versions before wrote none.
        let (content, _) = text.rsplit_once(",\"crc32c\"").unwrap();
        disk.replace(&root.join(NAME), format!("{content}}}").as_bytes()).unwrap();
        assert_eq!(Header::read(&disk, &root).unwrap(), Some(header));
    }

    #[test]
    fn a_newer_format_is_refused_with_a_remedy_whatever_else_it_holds() {
        let (disk, root) = disk();
        disk.create(&root.join(NAME), br#"{"format":2,"shape":"other"}"#).unwrap();
        let error = Header::read(&disk, &root).unwrap_err();
        assert!(matches!(error, HeaderError::Newer { found: 2, .. }));
        assert!(error.to_string().contains("install the version that wrote it"));
        disk.replace(&root.join(NAME), br#"{"format":0,"shape":"other"}"#).unwrap();
        let error = Header::read(&disk, &root).unwrap_err();
        assert!(matches!(error, HeaderError::Older { found: 0, .. }));
        assert!(error.to_string().contains("a version in between"), "{error}");
        disk.replace(&root.join(NAME), b"{").unwrap();
        assert!(matches!(Header::read(&disk, &root), Err(HeaderError::Parse { .. })));
    }
}
