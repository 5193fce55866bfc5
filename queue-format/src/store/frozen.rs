//! Reading all that was applied at one moment, while changes go on.
//!
//! Nothing is copied when the view begins but what is on its way to a file. From then on the writer
//! puts aside (`aside`) what a file holds before it changes it, unless the reader is past that key.

pub(crate) mod aside;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use self::aside::{ASIDE_BYTES_MAX, Broken};
use super::files::frozen::{Begun, FROZEN_MAX};
use super::files::{FileError, Files};
use super::scan::Reader;
use super::walk::Walk;
use crate::digest::{Digester, Group, Hash, StoreDigest};
use crate::key::Key;
use crate::position::Position;

/// Files read at a time: enough for the threads, and little memory where each is some KB.
const ROUND_FILES: usize = 256;

/// Threads that read, as for a scan: the work is waiting (cold) or system calls (warm).
const READ_THREADS: usize = 4;

/// Bytes in memory at a time while a digest is made.
const DIGEST_BYTES: usize = 1 << 20;

/// Why one moment cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum FrozenError {
    /// Too many are being read.
    #[error("{FROZEN_MAX} views of the store are being read already: wait until one of them ends")]
    Many,
    /// The reader was too slow.
    #[error(
        "changes outran the reader: more than {} MiB had to be put aside for it. Start anew",
        ASIDE_BYTES_MAX >> 20
    )]
    Outrun,
    /// The moment that was asked for is over.
    #[error("entry {position} is applied already: the moment of entry {index} is over")]
    Passed {
        /// The entry that was asked for.
        index: u64,
        /// The last position that is applied.
        position: Position,
    },
    /// The moment that was asked for has not come.
    #[error("entry {position} is applied: that of entry {index} did not come in time")]
    Late {
        /// The entry that was asked for.
        index: u64,
        /// The last position that is applied.
        position: Position,
    },
    /// Files get other names at this moment.
    #[error("files of the store are being moved at this moment: try again in a moment")]
    Moving,
    /// Files change at once, and nobody puts aside what they held.
    #[error("a store without a journal cannot be read at one moment while changes go on")]
    Naked,
    /// The store became another one.
    #[error("a snapshot replaced what was being read: start anew")]
    Replaced,
    /// A file was not read before it changed.
    #[error("a file was not read before it changed ({what}): check the disk, then start anew")]
    Unread {
        /// The fault.
        what: String,
    },
    /// A file or directory cannot be read.
    #[error("cannot read what the store held")]
    File(#[from] FileError),
    /// The store is closed.
    #[error("the store has ended")]
    Ended,
}

impl From<Broken> for FrozenError {
    fn from(why: Broken) -> Self {
        match why {
            Broken::Outrun => Self::Outrun,
            Broken::Replaced => Self::Replaced,
            Broken::Unread(what) => Self::Unread { what },
        }
    }
}

/// Everything that was applied at one moment, or one group of it. It is read once from the first key to
/// the last: the keys of a directory in their order, then those below its directories. Drop it as soon
/// as it is not needed, for changes that come put aside what it has not read.
#[derive(Debug)]
pub struct Frozen {
    files: Arc<Files>,
    view: u64,
    position: Position,
    members: Option<(Position, String)>,
    /// None at its end.
    walk: Option<Walk>,
    ready: VecDeque<(Key, Bytes)>,
    round_files: usize,
}

impl Frozen {
    /// Begins with what is applied now, once the files show what is applied so far.
    pub(crate) fn begin(reader: &Reader, group: Option<Group>) -> Result<Self, FrozenError> {
        reader.files.wait_written();
        Self::begin_now(reader, group)
    }

    pub(crate) fn begin_now(reader: &Reader, group: Option<Group>) -> Result<Self, FrozenError> {
        let begun = reader.files.begin_view(group.clone())?;
        Self::of(reader, begun, group)
    }

    /// Begins right behind entry `index`, and waits for that until `deadline`.
    pub(crate) fn begin_at(
        reader: &Reader,
        index: u64,
        group: Option<Group>,
        deadline: Instant,
    ) -> Result<Self, FrozenError> {
        let begun = reader.files.begin_view_at(index, group.clone(), deadline)?;
        Self::of(reader, begun, group)
    }

    fn of(reader: &Reader, begun: Begun, group: Option<Group>) -> Result<Self, FrozenError> {
        let Begun { view, position, members } = begun;
        let files = reader.files.clone();
        // Dropped, it ends the view, also when the walk cannot begin.
        let (walk, ready, round_files) = (None, VecDeque::new(), ROUND_FILES);
        let mut frozen = Self { files, view, position, members, walk, ready, round_files };
        frozen.walk = Some(Walk::new(reader.disk.clone(), &reader.root, group)?);
        Ok(frozen)
    }

    /// The last entry that is in it.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The members at that moment, in the engine's words, and the entry that named them.
    pub fn members(&self) -> Option<&(Position, String)> {
        self.members.as_ref()
    }

    /// The next keys and contents, of `bytes_max` together or a single one; none at the end. Blocks.
    ///
    /// # Errors
    /// A file cannot be read, or the reader was outrun. Every later call fails, too.
    pub fn next_chunk(
        &mut self,
        bytes_max: usize,
    ) -> Result<Option<Vec<(Key, Bytes)>>, FrozenError> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        loop {
            while let Some((key, content)) = self.ready.front() {
                let weight = key.as_str().len() + content.len();
                if !chunk.is_empty() && bytes + weight > bytes_max {
                    return Ok(Some(chunk));
                }
                bytes += weight;
                chunk.extend(self.ready.pop_front());
            }
            if !self.read_on()? {
                return Ok(if chunk.is_empty() { None } else { Some(chunk) });
            }
        }
    }

    /// Reads some more files; false at the end.
    fn read_on(&mut self) -> Result<bool, FrozenError> {
        let Some(walk) = &mut self.walk else { return Ok(false) };
        let mut keys = Vec::with_capacity(self.round_files);
        while keys.len() < self.round_files {
            match walk.next() {
                Ok(Some(key)) => keys.push(key),
                Ok(None) => break,
                Err(error) => return Err(self.fail(error)),
            }
        }
        let last = keys.len() < self.round_files;
        let mut read = Vec::with_capacity(keys.len());
        for (key, content) in keys.iter().zip(read_files(&self.files, &keys)) {
            match content {
                Ok(content) => read.push((key.clone(), content)),
                Err(error) => return Err(self.fail(error)),
            }
        }
        self.ready.extend(self.files.settle(self.view, read, last)?);
        if last {
            self.walk = None;
        }
        Ok(true)
    }

    /// Breaks the view: the next call must not pass over keys that were met and not read.
    fn fail(&self, error: FileError) -> FrozenError {
        self.files.break_view(self.view, error.to_string());
        error.into()
    }

    /// Checksums of all groups, from the files' real contents. Reads everything that is left; blocks.
    ///
    /// # Errors
    /// See [`Frozen::next_chunk`].
    pub fn digest(mut self) -> Result<StoreDigest, FrozenError> {
        let mut digester = Digester::default();
        while let Some(chunk) = self.next_chunk(DIGEST_BYTES)? {
            chunk.iter().for_each(|(key, content)| digester.add(key, content));
        }
        Ok(digester.finish(self.position))
    }

    /// The next keys, each with the checksum of its content; none at the end. About `bytes_max` of
    /// content are read for it. Blocks.
    ///
    /// # Errors
    /// See [`Frozen::next_chunk`].
    pub fn next_hashes(
        &mut self,
        bytes_max: usize,
    ) -> Result<Option<Vec<(Key, Hash)>>, FrozenError> {
        let chunk = self.next_chunk(bytes_max)?;
        let hash = |(key, content): (Key, Bytes)| (key, Hash::of(&content));
        Ok(chunk.map(|chunk| chunk.into_iter().map(hash).collect()))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.files.end_view(self.view);
    }
}

type Content = Result<Option<Bytes>, FileError>;

/// The present contents of these keys' files, whatever is on its way to them.
fn read_files(files: &Files, keys: &[Key]) -> Vec<Content> {
    let share = keys.len().div_ceil(READ_THREADS).max(1);
    let read = |keys: &[Key]| keys.iter().map(|key| files.read_file(key)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            keys.chunks(share).map(|share| scope.spawn(move || read(share))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Content>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests;
