//! The segment files: appending frames, going from segment to segment, using them again.

use std::io;
use std::path::{Path, PathBuf};

use super::frame::{self, Header};
use super::record::Record;
use crate::disk::SegmentFile;

/// Room that is kept at the end of the last free segment for a frame that moves the checkpoint. Without
/// it a full ring could never become free again. Only a frame that makes a segment free takes of it; it
/// has one sector, and a vote may ride along.
pub(crate) const CHECKPOINT_RESERVE_BYTES: u64 = 4096;

/// The journal, open for appending. One thread owns it.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    salt: u32,
    segments: Vec<Segment>,
    active: usize,
    offset: u64,
    last_lsn: u64,
    committed: u64,
    checkpoint: u64,
    written_bytes: u64,
    /// The frame being built; kept, so that a commit does not allocate.
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    number: usize,
    file: Box<dyn SegmentFile>,
    bytes: u64,
    /// The last frame in it; the segment is free once a durable checkpoint covers it.
    last_lsn: u64,
}

/// A frame that is not in the journal.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Every segment holds frames that are not yet durable in the files. Try again after the next
    /// checkpoint.
    #[error("all segments of the journal are in use")]
    Full,
    /// The frame can never fit.
    #[error("a frame of {bytes} bytes does not fit into a segment")]
    TooLarge {
        /// Bytes of the frame.
        bytes: u64,
    },
    /// Writing or syncing failed. Nothing can be believed from here on: the process must end.
    #[error("cannot write the journal segment `{path}`")]
    Failed {
        /// The segment.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl Journal {
    /// A journal that goes on from here in this segment, at this offset in bytes.
    pub(crate) fn new(
        directory: &Path,
        salt: u32,
        start: Start,
        (segment, offset): (NewSegment, u64),
    ) -> Self {
        let mut journal = Self {
            directory: directory.to_owned(),
            salt,
            segments: Vec::new(),
            active: 0,
            offset,
            last_lsn: start.last_lsn,
            committed: start.committed,
            checkpoint: start.checkpoint,
            written_bytes: 0,
            buffer: Vec::new(),
        };
        journal.add_segment(segment);
        journal
    }

    /// Adds a segment; it may be written from its start once its frames are covered.
    pub(crate) fn add_segment(&mut self, segment: NewSegment) {
        let NewSegment { number, file, bytes, last_lsn } = segment;
        self.segments.push(Segment { number, file, bytes, last_lsn });
    }

    /// Number of the last frame.
    pub fn last_lsn(&self) -> u64 {
        self.last_lsn
    }

    /// Frames up to this one are durable in the files, and a durable frame says so.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Index of the last entry that a durable frame says to be committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Bytes written since the journal was opened.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Size of the smallest segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).min().unwrap_or(0)
    }

    /// How many segments the journal has, and how many of them are free.
    pub fn segments(&self) -> (usize, usize) {
        (self.segments.len(), self.free().count())
    }

    /// How much of the ring is in use.
    pub fn fill(&self) -> Fill {
        let bytes = self.segments.iter().map(|segment| segment.bytes).sum();
        let active = self.segments.get(self.active).map_or(0, |segment| segment.bytes);
        let free: u64 = self.free().map(|index| self.segments[index].bytes).sum();
        Fill { used_bytes: bytes - free - (active - self.offset), bytes }
    }

    /// Writes these records as one frame and makes it durable; gives its number.
    ///
    /// `committed` is the index of the last entry known to be committed once the frame is durable;
    /// it never goes back.
    ///
    /// # Errors
    /// See [`AppendError`]; only [`AppendError::Failed`] leaves the journal in doubt.
    pub fn append(&mut self, records: &[Record], committed: u64) -> Result<u64, AppendError> {
        self.make_room(records)?;
        self.write(records, committed, self.checkpoint)
    }

    /// Writes a frame which says that all frames up to `checkpoint` are durable in the files, with
    /// `records` that must outlive the segments which thereby come free. A frame that makes none free is
    /// refused where an ordinary frame is: a later one needs the room that is left.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_checkpoint(
        &mut self,
        records: &[Record],
        checkpoint: u64,
    ) -> Result<u64, AppendError> {
        assert!(checkpoint <= self.last_lsn, "a checkpoint covers frames that exist");
        if !self.frees(checkpoint) {
            self.make_room(records)?;
        }
        let bytes = frame_bytes(records);
        let fits = self.offset + bytes <= self.segments[self.active].bytes;
        if !fits {
            self.rotate(bytes)?;
        }
        let lsn = self.write(records, self.committed, checkpoint.max(self.checkpoint))?;
        self.checkpoint = self.checkpoint.max(checkpoint);
        Ok(lsn)
    }

    /// Writes an empty frame that says how far entries are committed.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_committed(&mut self, committed: u64) -> Result<u64, AppendError> {
        self.append(&[], committed)
    }

    fn free(&self) -> impl Iterator<Item = usize> {
        let unused = |(index, segment): (usize, &Segment)| {
            (index != self.active && segment.last_lsn <= self.checkpoint).then_some(index)
        };
        self.segments.iter().enumerate().filter_map(unused)
    }

    /// Whether a segment comes free once all frames up to `checkpoint` are durable in the files.
    fn frees(&self, checkpoint: u64) -> bool {
        let held = |(index, segment): (usize, &Segment)| {
            index != self.active && segment.last_lsn > self.checkpoint
        };
        let mut held = self.segments.iter().enumerate().filter(|one| held(*one));
        held.any(|(_index, segment)| segment.last_lsn <= checkpoint)
    }

    /// Sees to it that an ordinary frame fits, and that the checkpoint frame after it will.
    fn make_room(&mut self, records: &[Record]) -> Result<(), AppendError> {
        let bytes = frame_bytes(records);
        let spared = if self.free().next().is_some() { 0 } else { CHECKPOINT_RESERVE_BYTES };
        if self.offset + bytes + spared <= self.segments[self.active].bytes {
            return Ok(());
        }
        let spared = if self.free().count() > 1 { 0 } else { CHECKPOINT_RESERVE_BYTES };
        self.rotate(bytes + spared)
    }

    /// Goes to the start of a free segment with room for `bytes`.
    fn rotate(&mut self, bytes: u64) -> Result<(), AppendError> {
        if self.segments.iter().all(|segment| segment.bytes < bytes) {
            return Err(AppendError::TooLarge { bytes });
        }
        let next = self.free().find(|&index| self.segments[index].bytes >= bytes);
        self.active = next.ok_or(AppendError::Full)?;
        self.offset = 0;
        Ok(())
    }

    fn write(
        &mut self,
        records: &[Record],
        committed: u64,
        checkpoint: u64,
    ) -> Result<u64, AppendError> {
        let lsn = self.last_lsn + 1;
        let committed = committed.max(self.committed);
        frame::encode(Header { lsn, committed, checkpoint }, records, self.salt, &mut self.buffer);
        let segment = &mut self.segments[self.active];
        segment.file.write_durably(self.offset, &self.buffer).map_err(|error| {
            let path = self.directory.join(super::segment_name(segment.number));
            AppendError::Failed { path, error }
        })?;
        segment.last_lsn = lsn;
        let bytes = u64::try_from(self.buffer.len()).expect("a frame fits a segment");
        self.offset += bytes;
        self.written_bytes += bytes;
        self.last_lsn = lsn;
        self.committed = committed;
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        Ok(lsn)
    }
}

/// A buffer larger than this is given back after its frame: such groups are rare.
const BUFFER_KEPT_BYTES: usize = 16 << 20;

fn frame_bytes(records: &[Record]) -> u64 {
    u64::try_from(frame::padded_bytes(records)).expect("a frame fits the memory")
}

/// How full a journal is. When nothing is left, commits wait for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    /// Bytes up to the next one to be written, of segments that cannot be written anew yet.
    pub used_bytes: u64,
    /// Bytes of all segments.
    pub bytes: u64,
}

/// The numbers with which a journal goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start {
    pub(crate) last_lsn: u64,
    pub(crate) checkpoint: u64,
    pub(crate) committed: u64,
}

/// A segment for the ring.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) number: usize,
    pub(crate) file: Box<dyn SegmentFile>,
    pub(crate) bytes: u64,
    /// The last frame in it; 0 if there is none.
    pub(crate) last_lsn: u64,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::disk::Disk;
    use crate::disk::sim::SimDisk;
    use crate::journal::frame::scan;

    const SEGMENT: u64 = 16 << 10;

    fn journal(disk: &SimDisk, segments: usize) -> Journal {
        let open = |number: usize| {
            let path = Path::new("/data").join(super::super::segment_name(number));
            disk.make_segment(&path, SEGMENT).unwrap();
            let (file, bytes) = disk.open_segment(&path).unwrap();
            NewSegment { number, file, bytes, last_lsn: 0 }
        };
        let mut journal = Journal::new(Path::new("/data"), 1, Start::default(), (open(0), 0));
        (1..segments).for_each(|number| journal.add_segment(open(number)));
        journal
    }

    fn disk() -> SimDisk {
        let disk = SimDisk::with_root(Path::new("/data"));
        disk.make_directory(Path::new("/data/.tmp")).unwrap();
        disk
    }

    fn vote(bytes: usize) -> [Record; 1] {
        [Record::Vote(Bytes::from(vec![7; bytes]))]
    }

    #[test]
    fn a_full_ring_takes_a_checkpoint_and_goes_on() {
        let disk = disk();
        let mut journal = journal(&disk, 3);
        for round in 0..20 {
            let refused = loop {
                if let Err(error) = journal.append(&vote(3000), 0) {
                    break error;
                }
            };
            assert!(matches!(refused, AppendError::Full), "round {round}: {refused}");
            let Fill { used_bytes, bytes } = journal.fill();
            assert!(bytes == 3 * SEGMENT && used_bytes > bytes - 8_192, "{used_bytes} of {bytes}");
            let covered = journal.last_lsn();
            journal.append_checkpoint(&[], covered).unwrap();
            assert_eq!(journal.checkpoint(), covered);
            assert_eq!(journal.segments(), (3, 2));
            assert!(journal.fill().used_bytes <= SEGMENT);
        }
        let frames: Vec<_> = (0..3)
            .flat_map(|number| {
                let path = Path::new("/data").join(super::super::segment_name(number));
                scan(&disk.read(&path).unwrap().into(), 1)
            })
            .collect();
        let newest = frames.iter().map(|frame| frame.header.lsn).max();
        assert_eq!(newest, Some(journal.last_lsn()));
    }

    #[test]
    fn a_late_checkpoint_still_finds_room() {
        let disk = disk();
        let mut journal = journal(&disk, 3);
        journal.append(&vote(100), 0).unwrap();
        while journal.append(&vote(3000), 0).is_ok() {}
        while journal.append(&[], 0).is_ok() {}
        // They cover some of the first segment, so nothing comes free; the next one frees the ring.
        for covered in [1, 2, 3] {
            let refused = journal.append_checkpoint(&[], covered);
            assert!(matches!(refused, Err(AppendError::Full)), "{refused:?}");
        }
        assert_eq!(journal.segments(), (3, 0));
        assert!(matches!(journal.append(&vote(3000), 0), Err(AppendError::Full)));
        let covered = journal.last_lsn();
        journal.append_checkpoint(&[], covered).unwrap();
        journal.append(&vote(3000), 0).unwrap();
    }

    #[test]
    fn what_never_fits_is_told() {
        let disk = disk();
        let mut journal = journal(&disk, 2);
        let error = journal.append(&vote(20 << 10), 0).unwrap_err();
        assert!(matches!(error, AppendError::TooLarge { .. }));
        journal.append(&vote(10), 0).unwrap();
    }
}
