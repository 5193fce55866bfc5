//! Core: what a journal says after a crash, decided from its frames alone.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::frame::{ALIGN, Frame};
use super::record::{self, Entry, Record, RecordError};
use crate::position::Position;

/// The log, as the frames behind the last checkpoint have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// Number of the last frame, or of the checkpoint when there is none behind it.
    pub last_lsn: u64,
    /// How many frames are behind the checkpoint.
    pub frames: u64,
    /// Index of the last committed entry, as far as the frames know.
    pub committed: u64,
    /// Entries of the log by index, each with the number of its frame, cuts and purges done.
    pub entries: BTreeMap<u64, (u64, Entry)>,
    /// The newest vote.
    pub vote: Option<Bytes>,
    /// Entries up to here were purged, if any were.
    pub purged: Option<Position>,
    /// The position that the files hold.
    base: Position,
    /// The log at `base` is not what the files hold.
    void: bool,
}

/// Frames that cannot be what a crash leaves behind.
///
/// A segment is named by its number, the place by its offset in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A frame is missing or bad although later ones are good.
    #[error(
        "frame {lsn} is damaged although later frames are good (segment {segment}, near offset \
         {offset})"
    )]
    Gap {
        /// The first frame that is missing.
        lsn: u64,
        /// The segment in which it is expected.
        segment: usize,
        /// The offset at which it is expected.
        offset: usize,
    },
    /// Two different frames have the same number.
    #[error("frame {lsn} exists twice with different content (segment {segment}, offset {offset})")]
    Twice {
        /// Their number.
        lsn: u64,
        /// The segment of the second.
        segment: usize,
        /// Its place.
        offset: usize,
    },
    /// A good frame whose content is not understood.
    #[error("frame {lsn} cannot be read (segment {segment}, offset {offset})")]
    Content {
        /// Its number.
        lsn: u64,
        segment: usize,
        /// Its place.
        offset: usize,
        /// The fault in its records.
        #[source]
        error: RecordError,
    },
    /// An entry that does not continue the log.
    #[error("entry {index} follows entry {last} (frame {lsn}, segment {segment}, offset {offset})")]
    Order {
        /// Index of the entry.
        index: u64,
        /// The last index before it.
        last: u64,
        /// Its frame.
        lsn: u64,
        /// The segment of the frame.
        segment: usize,
        /// The place of the frame.
        offset: usize,
    },
}

/// Reads all frames behind `checkpoint`, each with the number of its segment. `checkpoint` is the newest
/// one that the store's header knows; a newer one named by the frames themselves counts.
///
/// The files hold everything up to `base`, so entries up to there are passed over. If the files came as
/// a snapshot, those may be of another history, or some may be missing. All that follows an entry other
/// than the one at `base` is void, unless the log was cut before it.
///
/// The frame that was being written when the world ended is simply not there. No other frame may be
/// missing: any other hole is damage.
///
/// # Errors
/// The frames are not what a crash can leave behind.
pub fn read(frames: Vec<(usize, Frame)>, checkpoint: u64, base: Position) -> Result<Live, Damage> {
    let newest = frames.iter().max_by_key(|(_segment, frame)| frame.header.lsn);
    let checkpoint = newest.map_or(0, |(_segment, frame)| frame.header.checkpoint).max(checkpoint);
    let ordered = contiguous(frames, checkpoint)?;

    let mut live = Live { last_lsn: checkpoint, base, ..Live::default() };
    for (segment, frame) in ordered {
        let (lsn, offset) = (frame.header.lsn, frame.offset);
        let records = record::decode_all(frame.records).map_err(|error| Damage::Content {
            lsn,
            segment,
            offset,
            error,
        })?;
        for record in records {
            live.take(lsn, record).map_err(|(index, last)| Damage::Order {
                index,
                last,
                lsn,
                segment,
                offset,
            })?;
        }
        live.last_lsn = lsn;
        live.frames += 1;
        live.committed = live.committed.max(frame.header.committed);
    }
    Ok(live)
}

/// The frames behind the checkpoint in order, without a hole.
fn contiguous(
    mut frames: Vec<(usize, Frame)>,
    checkpoint: u64,
) -> Result<Vec<(usize, Frame)>, Damage> {
    frames.sort_by_key(|(_segment, frame)| frame.header.lsn);
    let mut ordered: Vec<(usize, Frame)> = Vec::with_capacity(frames.len());
    // The expected place of the next frame: behind the one before it.
    let mut expected = (checkpoint.saturating_add(1), 0, 0);
    for (segment, frame) in frames {
        let lsn = frame.header.lsn;
        let next = (lsn.saturating_add(1), segment, frame.end().next_multiple_of(ALIGN));
        if lsn < expected.0 {
            if let Some((_segment, last)) = ordered.last()
                && last.header.lsn == lsn
            {
                if last.header != frame.header || last.records != frame.records {
                    return Err(Damage::Twice { lsn, segment, offset: frame.offset });
                }
            } else if lsn == checkpoint {
                expected = next;
            }
            continue;
        }
        if lsn != expected.0 {
            return Err(Damage::Gap { lsn: expected.0, segment: expected.1, offset: expected.2 });
        }
        expected = next;
        ordered.push((segment, frame));
    }
    Ok(ordered)
}

impl Live {
    /// Follows one record; an entry out of order is told with the index before it.
    fn take(&mut self, lsn: u64, record: Record) -> Result<(), (u64, u64)> {
        match record {
            Record::Entry(entry) => {
                let index = entry.position.index;
                if index == self.base.index {
                    self.void = entry.position != self.base;
                }
                if index <= self.base.index || self.void {
                    return Ok(());
                }
                if let Some((&last, _entry)) = self.entries.last_key_value()
                    && index != last.saturating_add(1)
                {
                    return Err((index, last));
                }
                self.entries.insert(index, (lsn, entry));
            }
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Truncate { after_index } => {
                self.void &= after_index >= self.base.index;
                if let Some(first_cut) = after_index.checked_add(1) {
                    drop(self.entries.split_off(&first_cut));
                }
            }
            Record::Purge { upto } => {
                let kept = upto.index.checked_add(1).map(|first| self.entries.split_off(&first));
                self.entries = kept.unwrap_or_default();
                self.purged = Some(upto);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Header, encode, scan};
    use super::super::record::Payload;
    use super::*;
    use crate::position::Epoch;

    const SALT: u32 = 5;
    const NONE: Position = Position { epoch: Epoch { term: 0, node: 0 }, index: 0 };

    fn entry(index: u64) -> Record {
        let position = Position { epoch: Epoch { term: 1, node: 1 }, index };
        Record::Entry(Entry { position, payload: Payload::Batch(Bytes::from(index.to_string())) })
    }

    fn frame(lsn: u64, checkpoint: u64, records: &[Record]) -> (usize, Frame) {
        let mut bytes = Vec::new();
        encode(Header { lsn, committed: lsn, checkpoint }, records, SALT, &mut bytes);
        (0, scan(&bytes.into(), SALT).remove(0))
    }

    fn indexes(live: &Live) -> Vec<u64> {
        live.entries.keys().copied().collect()
    }

    #[test]
    fn only_frames_behind_the_checkpoint_count() {
        let frames: Vec<_> = (1..=5).map(|n| frame(n, n / 2, &[entry(n)])).collect();
        let live = read(frames.clone(), 0, NONE).unwrap();
        assert_eq!((indexes(&live), live.last_lsn, live.frames), (vec![3, 4, 5], 5, 3));
        // The header of the store knows better than the frames.
        let live = read(frames.clone(), 4, NONE).unwrap();
        assert_eq!((indexes(&live), live.committed), (vec![5], 5));
        // The newest frames never reached the disk, the checkpoint did.
        let live = read(frames, 9, NONE).unwrap();
        assert_eq!((indexes(&live), live.last_lsn), (vec![], 9));
        assert_eq!(read(vec![], 7, NONE).unwrap().last_lsn, 7);
    }

    #[test]
    fn a_hole_before_good_frames_is_damage() {
        let frames: Vec<_> = [1, 2, 4].map(|n| frame(n, 0, &[entry(n)])).into();
        assert!(matches!(read(frames, 0, NONE), Err(Damage::Gap { lsn: 3, offset: 512, .. })));
        let frames: Vec<_> = [2, 3].map(|n| frame(n, 0, &[entry(n)])).into();
        assert!(matches!(read(frames, 0, NONE), Err(Damage::Gap { lsn: 1, .. })));
        let twice = vec![frame(1, 0, &[entry(1)]), frame(1, 0, &[entry(2)])];
        assert!(matches!(read(twice, 0, NONE), Err(Damage::Twice { lsn: 1, .. })));
        let same = vec![frame(1, 0, &[entry(1)]), frame(1, 0, &[entry(1)])];
        assert_eq!(indexes(&read(same, 0, NONE).unwrap()), [1]);
    }

    #[test]
    fn entries_continue_the_log_and_cuts_are_followed() {
        let skip = vec![frame(1, 0, &[entry(1), entry(3)])];
        assert!(matches!(read(skip, 0, NONE), Err(Damage::Order { index: 3, last: 1, .. })));
        let cut = vec![
            frame(1, 0, &[entry(1), entry(2), entry(3)]),
            frame(2, 0, &[Record::Truncate { after_index: 1 }, entry(2)]),
        ];
        assert_eq!(indexes(&read(cut, 0, NONE).unwrap()), [1, 2]);
        let upto = Position { epoch: Epoch::default(), index: 2 };
        let purged = vec![
            frame(1, 0, &[entry(1), entry(2), entry(3), Record::Vote(Bytes::from("a"))]),
            frame(2, 0, &[Record::Purge { upto }, Record::Vote(Bytes::from("b"))]),
        ];
        let live = read(purged, 0, NONE).unwrap();
        assert_eq!((indexes(&live), live.purged), (vec![3], Some(upto)));
        assert_eq!(live.vote, Some(Bytes::from("b")));
    }

    #[test]
    fn a_log_that_the_files_left_behind_is_void() {
        let base = |term, index| Position { epoch: Epoch { term, node: 1 }, index };
        let old = frame(1, 0, &[entry(1), entry(2), entry(3), entry(4)]);
        // The log that led to the files.
        assert_eq!(indexes(&read(vec![old.clone()], 0, base(1, 2)).unwrap()), [3, 4]);
        // Another one.
        assert_eq!(indexes(&read(vec![old.clone()], 0, base(2, 2)).unwrap()), Vec::<u64>::new());
        // It was cut, and begins anew behind the files.
        let records = [Record::Truncate { after_index: 1 }, entry(3)];
        let cut = vec![old.clone(), frame(2, 0, &records)];
        assert_eq!(indexes(&read(cut, 0, base(2, 2)).unwrap()), [3]);
        // It ended before.
        let behind = vec![old, frame(2, 0, &[entry(10), entry(11)])];
        assert_eq!(indexes(&read(behind.clone(), 0, base(2, 9)).unwrap()), [10, 11]);
        assert!(matches!(read(behind, 0, NONE), Err(Damage::Order { index: 10, last: 4, .. })));
    }
}
