//! Opening a store: lock, header, journal, recovery.

mod segments;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use self::segments::{Read, continue_journal, list_segments, read_segments, write_last_again};
use super::checkpoint::Checkpoint;
use super::commit::FatalError;
use super::files::{FileError, Files, Reach};
use super::header::{FORMAT, Header, HeaderError, Note};
use super::incoming::replace::{ReplaceError, replace_all};
use super::incoming::spool::SpoolError;
use super::incoming::{Installing, SpoolDirectory};
use super::scan::Reader;
use super::wipe::is_going;
use super::{Durability, Recovered, StoreOptions};
use crate::change::Batch;
use crate::change::codec::DecodeError;
use crate::disk::real::RealDisk;
use crate::disk::{Disk, Locked};
use crate::journal::live::{Damage, Live};
use crate::journal::ring::Start;
use crate::journal::{AppendError, DIRECTORY, Entry, Journal, Payload};
use crate::position::Position;

/// The directory of files that have no name yet; emptied at every start.
const TEMPORARIES: &str = ".tmp";

/// The lock of the store, by Ganeti's name.
pub(super) const LOCK: &str = "queue/lock";

/// The smallest segment: room for a checkpoint frame's reserve and a few ordinary frames.
const SEGMENT_BYTES_MIN: usize = 16 << 10;

/// Segments that an open store may have: a ring of thousands of files is a mistake.
pub(super) const SEGMENTS_MAX: usize = 1024;

/// Files that a start brings to the journal's end from which it says so: they take seconds.
const KEYS_TOLD: usize = 1_000;

/// A store that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Options that no store can be kept with.
    #[error("a journal needs at least 2 and at most 1024 segments of at least 16384 bytes")]
    Options,
    /// Somebody else has it.
    #[error("`{path}` is locked by process {owner}: is another master running on this data?")]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process id that its owner wrote into it.
        owner: String,
    },
    /// A directory or file of the store cannot be made ready.
    #[error("cannot prepare `{path}`")]
    Prepare {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The header cannot be used.
    #[error("cannot use the header of the store")]
    Header(#[from] HeaderError),
    /// A segment cannot be read.
    #[error("cannot read the journal segment `{path}`")]
    Segment {
        /// The segment.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// There is a journal, or there should be one, but its other half is missing.
    #[error(
        "`{path}` is missing, although the store was not closed cleanly: acknowledged changes would \
         be lost. Put it back. Where it is gone: beside a master, put the \
         store aside, and this node gets a copy from the others (runbook: A candidate gets a new store); \
         without any other copy, restore a backup of the whole data directory"
    )]
    Missing {
        /// The missing file or directory.
        path: PathBuf,
    },
    /// The journal is not what a crash leaves behind.
    #[error(
        "the journal in `{directory}` is damaged: acknowledged changes may be lost. Check the disk. Beside a master, put the \
         store aside, and this node gets a copy from the others (runbook: A candidate gets a new store); \
         without any other copy, restore a backup of the whole data directory"
    )]
    Damaged {
        /// The directory of the journal.
        directory: PathBuf,
        /// The damage and its place.
        #[source]
        damage: Damage,
    },
    /// Every number of a segment is taken by frames that the files do not hold.
    #[error(
        "the journal in `{directory}` has 1024 segments, and no room in any: what it holds was never \
         settled by a master. Beside a master, put the \
         store aside, and this node gets a copy from the others (runbook: A candidate gets a new store)"
    )]
    Segments {
        /// The directory of the journal.
        directory: PathBuf,
    },
    /// A batch in the journal is not understood.
    #[error("entry {index} of the journal in `{directory}` is not understood: wrong version?")]
    Batch {
        /// The directory of the journal.
        directory: PathBuf,
        /// The entry.
        index: u64,
        /// The fault in it.
        #[source]
        error: DecodeError,
    },
    /// The store belongs to a replication engine, which alone knows what is committed.
    #[error("the store in `{path}` is replicated and cannot be written by a single master")]
    Replicated {
        /// The data directory.
        path: PathBuf,
    },
    /// A snapshot was being installed, and is not whole.
    #[error(
        "the files were being replaced by the snapshot in `{path}`, which is damaged: they are of no \
         use. Check the disk. Beside a master, put the \
         store aside, and this node gets a copy from the others (runbook: A candidate gets a new store); \
         without any other copy, restore a backup of the whole data directory"
    )]
    Incoming {
        /// The spooled snapshot.
        path: PathBuf,
        /// The fault in it.
        #[source]
        error: SpoolError,
    },
    /// The store is that of another member, whose promises are not this one's.
    #[error(
        "the store in `{path}` belongs to member {found}, not {asked}: put it aside, and this node \
         gets a copy from the others (runbook: A candidate gets a new store)"
    )]
    OtherMember {
        /// The data directory.
        path: PathBuf,
        /// The member that owns it.
        found: u64,
        /// The member that should own it.
        asked: u64,
    },
    /// The disk takes nothing.
    #[error("cannot write `{path}` ({reason}): make room or make it writable, then start again")]
    Full {
        /// The file that should have been written, or the data directory.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// Writing the files again failed.
    #[error("cannot bring the files up to date")]
    Recover(#[source] FatalError),
    /// A file cannot be written again.
    #[error("cannot bring the files up to date")]
    File(#[from] FileError),
    /// The journal cannot be continued.
    #[error("cannot continue the journal")]
    Journal(#[from] AppendError),
}

/// The parts of an open store.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) files: Arc<Files>,
    pub(crate) header: Header,
    pub(crate) position: Position,
    /// None when the files are durable by themselves.
    pub(crate) journal: Option<Journal>,
    /// Numbers of segments that are yet to be made.
    pub(crate) missing_segments: Vec<usize>,
    pub(crate) lock: Box<dyn Locked>,
}

impl Parts {
    pub(crate) fn reader(&self) -> Reader {
        Reader { disk: self.disk.clone(), root: self.root.clone(), files: self.files.clone() }
    }
}

/// The future writer of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A single master, whose entries are committed by being durable.
    Single,
    /// A replication engine, which says what is committed.
    Engine {
        /// The member whose store it is.
        member: u64,
    },
}

/// A store as it was found, with what the files do not hold.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) parts: Parts,
    pub(crate) recovered: Recovered,
    /// Entries behind the committed ones.
    pub(crate) tail: Vec<Entry>,
    pub(crate) note: Note,
}

pub(crate) fn open_real(
    root: &Path,
    options: StoreOptions,
    writer: Writer,
) -> Result<Opened, OpenError> {
    std::fs::create_dir_all(root)
        .map_err(|error| OpenError::Prepare { path: root.to_owned(), error })?;
    let temporaries = root.join(TEMPORARIES);
    let disk = RealDisk::new(temporaries, options.file_mode, options.directory_mode);
    open(Arc::new(disk), root, options, writer)
}

/// Opens the store on any disk; the directory `root` exists.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    root: &Path,
    options: StoreOptions,
    writer: Writer,
) -> Result<Opened, OpenError> {
    let too_small =
        usize::try_from(options.segment_bytes).is_ok_and(|bytes| bytes < SEGMENT_BYTES_MIN);
    if !(2..=SEGMENTS_MAX).contains(&options.segments) || too_small {
        return Err(OpenError::Options);
    }
    let lock = prepare(disk.as_ref(), root)?;
    let (mut header, created) = find_header(disk.as_ref(), root)?;
    // The next header that is written, before anything is answered, says so.
    let found = std::mem::replace(&mut header.format, FORMAT);
    let upgraded_from = (found != FORMAT).then_some(found);
    let Read { mut live, segments } = read_segments(disk.as_ref(), root, &header)?;
    // Entries that the files hold are committed, also when the frame that said so is no longer needed.
    live.committed = live.committed.max(header.base().index).max(header.committed);
    let mut note = note_of(&header, &live);
    let tail = live.entries.split_off(&live.committed.saturating_add(1));
    let replicated = !tail.is_empty() || note != Note::default() || header.installing.is_some();
    note.member = owner(writer, (replicated, note.member), root)?;

    write_last_again(disk.as_ref(), root, &segments)?;
    let place = SpoolDirectory { disk: disk.clone(), root: root.to_owned(), salt: header.salt() };
    finish_installation(&place, &mut header)?;

    let files = Arc::new(Files::new(disk.clone(), root, options.write_behind));
    files.change_note(|kept| kept.clone_from(&note));
    // Frames of the tail stay in the journal, with all that follow them.
    let tail_lsn = tail.first_key_value().map(|(_index, (lsn, _entry))| *lsn);
    let covered = tail_lsn.map_or(live.last_lsn, |lsn| lsn - 1);
    let (reach, replayed_batches) = replay(&files, &live, &header, covered, root)?;
    let replayed_keys = write_all(&files)?;
    let mut checkpoint = Checkpoint { disk, root: root.to_owned(), files, header };
    checkpoint.header.clean |= options.durability == Durability::File;
    if checkpoint.make_durable(false).map_err(OpenError::Recover)?.is_none() {
        return Err(full(&checkpoint.files, root));
    }
    let Checkpoint { disk, root, files, mut header } = checkpoint;
    let position = reach.position;
    let (journal, missing_segments) = match options.durability {
        Durability::File => (None, Vec::new()),
        Durability::Journal => {
            let Live { last_lsn, committed, .. } = live;
            let start = Start { last_lsn, checkpoint: covered, committed };
            let (journal, missing) = continue_journal(
                disk.as_ref(),
                &root,
                &options,
                &segments,
                (start, header.salt()),
            )?;
            (Some(journal), missing)
        }
    };
    if header.clean && journal.is_some() {
        // From here on the journal belongs to the store; before, it need not even exist.
        header.clean = false;
        header.write(disk.as_ref(), &root)?;
    }
    place.remove().map_err(|error| OpenError::Prepare { path: place.path(), error })?;
    files.synced(position.index);
    let incarnation = header.incarnation;
    let parts =
        Parts { disk, root, options, files, header, position, journal, missing_segments, lock };
    let recovered = Recovered {
        position,
        replayed_batches,
        replayed_keys,
        created,
        incarnation,
        upgraded_from,
    };
    let tail = tail.into_values().map(|(_lsn, entry)| entry).collect();
    Ok(Opened { parts, recovered, tail, note })
}

/// Makes the files those of the snapshot whose installation had begun, if one had. The header that is
/// written next says that it is over.
fn finish_installation(place: &SpoolDirectory, header: &mut Header) -> Result<(), OpenError> {
    let Some(Installing { position, .. }) = header.installing.take() else { return Ok(()) };
    let fail = |error| OpenError::Incoming { path: place.path(), error };
    place.check(position).map_err(fail)?;
    replace_all(place, &|_path, _error| false).map_err(|error| match error {
        ReplaceError::Spool(error) => fail(error),
        ReplaceError::File(error) => OpenError::File(error),
    })?;
    header.position = position;
    header.committed = header.committed.max(position.index);
    Ok(())
}

/// Which file the disk did not take, and why.
fn full(files: &Files, root: &Path) -> OpenError {
    let told = files.full().map(|full| (full.path, full.reason));
    let (path, reason) = told.unwrap_or_else(|| (root.to_owned(), "nothing is taken".to_owned()));
    OpenError::Full { path, reason }
}

/// The header, or a new one for a new store; refuses half a store.
fn find_header(disk: &dyn Disk, root: &Path) -> Result<(Header, bool), OpenError> {
    let found = Header::read(disk, root)?;
    let has_segments = !list_segments(disk, root)?.is_empty();
    match found {
        Some(header) if !header.clean && !has_segments => {
            Err(OpenError::Missing { path: root.join(DIRECTORY) })
        }
        Some(header) => Ok((header, false)),
        None if has_segments => Err(OpenError::Missing { path: root.join(super::header::NAME) }),
        None => Ok((Header::new(), true)),
    }
}

/// Whether there is a journal below `root` and nothing that says whose: such a store is not opened, and
/// no other one is made in its place. A store that is being wiped or kept aside goes by itself.
pub fn is_headless(root: &Path) -> bool {
    let disk = RealDisk::new(root.to_owned(), 0, 0);
    let header = root.join(super::header::NAME);
    let is_missing = match find_header(&disk, root) {
        Err(OpenError::Missing { path }) => path == header,
        _ => false,
    };
    is_missing && !is_going(root)
}

/// The member whose store it is from here on; refuses who must not write it.
fn owner(
    writer: Writer,
    (replicated, found): (bool, Option<u64>),
    root: &Path,
) -> Result<Option<u64>, OpenError> {
    let path = root.to_owned();
    match (writer, found) {
        (Writer::Single, _) if replicated => Err(OpenError::Replicated { path }),
        (Writer::Single, _) => Ok(None),
        (Writer::Engine { member: asked }, Some(found)) if asked != found => {
            Err(OpenError::OtherMember { path, found, asked })
        }
        (Writer::Engine { member }, _) => Ok(Some(member)),
    }
}

/// The engine's note, as the header and the frames behind it say.
fn note_of(header: &Header, live: &Live) -> Note {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let committed = live.entries.range(..=live.committed).rev();
    let members = committed.filter_map(|(_index, (_lsn, entry))| match &entry.payload {
        Payload::Membership(members) => Some((entry.position, text(members))),
        Payload::Batch(_) | Payload::Blank => None,
    });
    Note {
        vote: live.vote.as_ref().map(text).or_else(|| header.note.vote.clone()),
        members: members.into_iter().next().or_else(|| {
            let installing = header.installing.as_ref().map(|snapshot| snapshot.members.clone());
            installing.or_else(|| header.note.members.clone())
        }),
        member: header.note.member,
    }
}

/// Makes the directories of the store itself, takes the lock, removes leftovers.
fn prepare(disk: &dyn Disk, root: &Path) -> Result<Box<dyn Locked>, OpenError> {
    let fail = |path: PathBuf| move |error| OpenError::Prepare { path, error };
    for name in ["queue", DIRECTORY, TEMPORARIES] {
        let path = root.join(name);
        match disk.make_directory(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(fail(path)(error));
            }
            Err(_) | Ok(()) => {}
        }
    }
    let path = root.join(LOCK);
    let lock = disk.lock(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::WouldBlock {
            OpenError::Locked { path, owner: error.to_string() }
        } else {
            OpenError::Prepare { path, error }
        }
    })?;
    disk.sync_directory(root).map_err(fail(root.to_owned()))?;
    let temporaries = root.join(TEMPORARIES);
    for leftover in disk.list(&temporaries).map_err(fail(temporaries.clone()))? {
        let path = temporaries.join(leftover.name);
        disk.remove(&path).map_err(fail(path.clone()))?;
    }
    Ok(lock)
}

/// Makes files of all that was handed to them, and tells how many.
fn write_all(files: &Files) -> Result<usize, FileError> {
    let (keys, _bytes) = files.lag();
    if keys > KEYS_TOLD {
        tracing::info!(files = keys, "files are brought to the journal's end");
    }
    while files.lag().0 > 0 {
        files.write_chunk(0, false)?;
    }
    Ok(keys)
}

/// Hands the entries, which are committed, to the files.
fn replay(
    files: &Files,
    live: &Live,
    header: &Header,
    covered: u64,
    root: &Path,
) -> Result<(Reach, u64), OpenError> {
    let mut reach = Reach { lsn: covered, position: header.position };
    let mut batches = 0;
    files.begin_at(reach);
    for (&index, (_lsn, entry)) in &live.entries {
        reach.position = reach.position.max(entry.position);
        let batch = match &entry.payload {
            Payload::Batch(bytes) => Batch::decode(bytes.clone()).map_err(|error| {
                OpenError::Batch { directory: root.join(DIRECTORY), index, error }
            })?,
            Payload::Blank | Payload::Membership(_) => Batch::default(),
        };
        files.hand_over(&batch, reach).map_err(|error| OpenError::Recover(error.into()))?;
        batches += 1;
    }
    Ok((reach, batches))
}
