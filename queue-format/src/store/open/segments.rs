//! The segments of an earlier run: read, and gone on behind.

use std::path::Path;

use bytes::Bytes;

use super::{OpenError, SEGMENT_BYTES_MIN, SEGMENTS_MAX};
use crate::disk::Disk;
use crate::journal::frame::{self, Frame};
use crate::journal::live::{self, Live};
use crate::journal::ring::{CHECKPOINT_RESERVE_BYTES, NewSegment, Start};
use crate::journal::{DIRECTORY, Journal};
use crate::store::StoreOptions;
use crate::store::checkpoint::segment_path;
use crate::store::header::Header;

/// Numbers of the segments that exist, in order.
pub(super) fn list_segments(disk: &dyn Disk, root: &Path) -> Result<Vec<usize>, OpenError> {
    let path = root.join(DIRECTORY);
    let names = disk.list(&path).map_err(|error| OpenError::Prepare { path, error })?;
    let number = |name: &str| -> Option<usize> {
        let number = name.strip_prefix("segment-")?.parse().ok()?;
        (crate::journal::segment_name(number) == name && number < SEGMENTS_MAX).then_some(number)
    };
    let mut numbers: Vec<_> = names.iter().filter_map(|found| number(&found.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A segment of an earlier run.
pub(super) struct Found {
    pub(super) number: usize,
    /// It is as long as a segment must be.
    pub(super) usable: bool,
    /// Its last frame behind the header's checkpoint, or 0.
    pub(super) last_lsn: u64,
    pub(super) frames: Vec<Frame>,
    pub(super) content: Bytes,
}

/// The content of the segments.
pub(super) struct Read {
    pub(super) live: Live,
    pub(super) segments: Vec<Found>,
}

pub(super) fn read_segments(
    disk: &dyn Disk,
    root: &Path,
    header: &Header,
) -> Result<Read, OpenError> {
    let mut all: Vec<(usize, Frame)> = Vec::new();
    let mut segments = Vec::new();
    for number in list_segments(disk, root)? {
        let path = segment_path(root, number);
        let content = disk.read(&path).map_err(|error| OpenError::Segment { path, error })?;
        let (usable, content) = (content.len() >= SEGMENT_BYTES_MIN, Bytes::from(content));
        let mut frames = frame::scan(&content, header.salt());
        // The frame at the checkpoint tells where the first one behind it is expected.
        frames.retain(|frame| frame.header.lsn >= header.lsn);
        all.extend(frames.iter().map(|frame| (number, frame.clone())));
        frames.retain(|frame| frame.header.lsn > header.lsn);
        let last_lsn = frames.iter().map(|frame| frame.header.lsn).max().unwrap_or(0);
        // A segment that holds nothing live need not be kept in memory.
        let content = if frames.is_empty() { Bytes::new() } else { content };
        segments.push(Found { number, usable, last_lsn, frames, content });
    }
    let live = live::read(all, header.lsn, header.base())
        .map_err(|damage| OpenError::Damaged { directory: root.join(DIRECTORY), damage })?;
    Ok(Read { live, segments })
}

/// Writes the last frame once more over itself. It may have been read from a page that never
/// reached the disk, and must be there before a file shows what it says. Every other frame was
/// durable before the one behind it was written.
pub(super) fn write_last_again(
    disk: &dyn Disk,
    root: &Path,
    segments: &[Found],
) -> Result<(), OpenError> {
    let all =
        segments.iter().flat_map(|found| found.frames.iter().map(move |frame| (found, frame)));
    let Some((found, frame)) = all.max_by_key(|(_found, frame)| frame.header.lsn) else {
        return Ok(());
    };
    let path = segment_path(root, found.number);
    let fail = |error| OpenError::Segment { path: path.clone(), error };
    let (mut file, _bytes) = disk.open_segment(&path).map_err(fail)?;
    let bytes = found.content.slice(frame.offset..frame.end());
    file.write_durably(u64::try_from(frame.offset).unwrap_or(u64::MAX), &bytes).map_err(fail)
}

/// The place where a journal can go on behind its last frame: the segment, and the offset in bytes. A
/// ring that is all but full keeps its last room for checkpoints.
fn behind_last(segments: &[Found]) -> Option<(usize, u64)> {
    let last = segments.iter().filter(|found| found.usable).max_by_key(|found| found.last_lsn)?;
    let frame = last.frames.iter().max_by_key(|frame| frame.header.lsn)?;
    let offset = u64::try_from(frame.end().next_multiple_of(frame::ALIGN)).ok()?;
    let bytes = u64::try_from(last.content.len()).ok()?;
    // The start writes one frame, which makes nothing free.
    let taken = u64::try_from(frame::ALIGN).ok()? + CHECKPOINT_RESERVE_BYTES;
    (offset + taken <= bytes).then_some((last.number, offset))
}

/// Goes on behind the last frame, which [`write_last_again`] has made durable; in another segment
/// where that has no room. A member whose log is not settled opens its store as often as it likes:
/// each time takes room for a frame, and not a segment.
pub(super) fn continue_journal(
    disk: &dyn Disk,
    root: &Path,
    options: &StoreOptions,
    segments: &[Found],
    (start, salt): (Start, u32),
) -> Result<(Journal, Vec<usize>), OpenError> {
    let open = |number: usize, last_lsn: u64| {
        let path = segment_path(root, number);
        let (file, bytes) =
            disk.open_segment(&path).map_err(|error| OpenError::Segment { path, error })?;
        Ok::<_, OpenError>(NewSegment { number, file, bytes, last_lsn })
    };
    let directory = root.join(DIRECTORY);
    let is_free = |found: &&Found| found.usable && found.last_lsn == 0;
    let free = || segments.iter().find(is_free).map(|free| (free.number, 0));
    let (number, offset) = match behind_last(segments).or_else(free) {
        Some(place) => place,
        None => {
            let taken = |number: &usize| segments.iter().any(|found| found.number == *number);
            let number = (0..SEGMENTS_MAX).find(|number| !taken(number));
            let number = number.ok_or(OpenError::Segments { directory: directory.clone() })?;
            let path = segment_path(root, number);
            disk.make_segment(&path, options.segment_bytes)
                .map_err(|error| OpenError::Prepare { path, error })?;
            (number, 0)
        }
    };
    let last_lsn = if offset == 0 { 0 } else { start.last_lsn };
    let mut journal = Journal::new(&directory, salt, start, (open(number, last_lsn)?, offset));
    journal.append_checkpoint(&[], start.checkpoint)?;
    let mut missing: Vec<usize> = (0..options.segments).filter(|&other| other != number).collect();
    let needed = |found: &&Found| found.usable || found.last_lsn > start.checkpoint;
    for other in segments.iter().filter(needed).filter(|found| found.number != number) {
        journal.add_segment(open(other.number, other.last_lsn)?);
        missing.retain(|&number| number != other.number);
    }
    Ok((journal, missing))
}
