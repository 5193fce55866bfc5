//! Core: a frame in bytes.
//!
//! Little-endian:
//!
//! | offset | field | |
//! |---|---|---|
//! | 0 | magic | `GJF` and the format version 1 |
//! | 4 | crc32c | of everything behind it, begun with the store's salt |
//! | 8 | length | bytes of the records |
//! | 12 | lsn | running number of the frame, without gaps |
//! | 20 | committed | index of the last entry known to be committed |
//! | 28 | checkpoint | frames up to this lsn are durable in the files |
//! | 36 | records | see [`super::record`] |
//!
//! A frame starts on a multiple of [`ALIGN`] and is filled up with zeros to the next. The checksum
//! covers the lsn, so a frame from an earlier round of the ring never looks new. It starts with the
//! store's salt, so no content that a client sent, and no segment of another store, passes for a frame.

use bytes::{Buf, Bytes};

use super::record::Record;

/// A disk writes a sector whole or not at all, and frames share no sector: a torn write never
/// touches the frame before it.
pub const ALIGN: usize = 512;

/// Bytes before the records.
pub const HEADER_BYTES: usize = 36;

const MAGIC: [u8; 4] = *b"GJF\x01";

/// Offset of the checksummed part.
const CHECKED_FROM: usize = 8;

/// The fields of a frame beside its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Running number of the frame, from 1.
    pub lsn: u64,
    /// Index of the last entry known to be committed when the frame was written.
    pub committed: u64,
    /// Frames up to this one are durable in the files.
    pub checkpoint: u64,
}

/// A whole frame found in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its fields beside its records.
    pub header: Header,
    /// Its offset in the segment.
    pub offset: usize,
    /// Its records, still encoded.
    pub records: Bytes,
}

impl Frame {
    /// The offset in the segment at which its last record ends.
    pub fn end(&self) -> usize {
        self.offset + HEADER_BYTES + self.records.len()
    }
}

/// Bytes that a frame with these records takes in a segment.
pub fn padded_bytes(records: &[Record]) -> usize {
    let records: usize = records.iter().map(Record::encoded_bytes).sum();
    (HEADER_BYTES + records).next_multiple_of(ALIGN)
}

/// Writes the frame into `out`, replacing what is there.
///
/// # Panics
/// Records of 4 GiB or more.
pub fn encode(header: Header, records: &[Record], salt: u32, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&header.lsn.to_le_bytes());
    out.extend_from_slice(&header.committed.to_le_bytes());
    out.extend_from_slice(&header.checkpoint.to_le_bytes());
    for record in records {
        record.encode(out);
    }
    let length = u32::try_from(out.len() - HEADER_BYTES).expect("a frame is smaller than 4 GiB");
    out[8..12].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c_append(salt, &out[CHECKED_FROM..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// All whole frames of a segment, in order of their place; whatever is between them is skipped.
pub fn scan(segment: &Bytes, salt: u32) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut offset = 0;
    while offset + HEADER_BYTES <= segment.len() {
        match decode_at(segment, offset, salt) {
            Some(frame) => {
                offset = frame.end().next_multiple_of(ALIGN);
                frames.push(frame);
            }
            None => offset += ALIGN,
        }
    }
    frames
}

fn decode_at(segment: &Bytes, offset: usize, salt: u32) -> Option<Frame> {
    let mut header = &segment[offset..offset + HEADER_BYTES];
    if header[..4] != MAGIC {
        return None;
    }
    header.advance(4);
    let crc = header.get_u32_le();
    let length = usize::try_from(header.get_u32_le()).ok()?;
    let start = offset + HEADER_BYTES;
    let end = start.checked_add(length).filter(|&end| end <= segment.len())?;
    if crc32c::crc32c_append(salt, &segment[offset + CHECKED_FROM..end]) != crc {
        return None;
    }
    let header = Header {
        lsn: header.get_u64_le(),
        committed: header.get_u64_le(),
        checkpoint: header.get_u64_le(),
    };
    Some(Frame { header, offset, records: segment.slice(start..end) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::record::decode_all;
    use super::super::record::tests::record;
    use super::*;

    const SALT: u32 = 77;

    fn header(lsn: u64) -> Header {
        Header { lsn, committed: lsn * 2, checkpoint: lsn / 2 }
    }

    fn segment(rows: &[Vec<Record>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut frame = Vec::new();
        for (lsn, records) in (1..).zip(rows) {
            encode(header(lsn), records, SALT, &mut frame);
            assert_eq!(frame.len(), padded_bytes(records));
            bytes.extend_from_slice(&frame);
        }
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_found_again(
            rows in proptest::collection::vec(proptest::collection::vec(record(), 0..4), 0..5),
            zeros in 0..3_usize,
        ) {
            let mut bytes = segment(&rows);
            bytes.resize(bytes.len() + zeros * ALIGN, 0);
            let frames = scan(&bytes.into(), SALT);
            prop_assert_eq!(frames.len(), rows.len());
            for (lsn, (frame, records)) in (1..).zip(frames.into_iter().zip(rows)) {
                prop_assert_eq!(frame.header, header(lsn));
                prop_assert_eq!(decode_all(frame.records), Ok(records));
            }
        }

        #[test]
        fn a_flipped_bit_costs_exactly_one_frame(
            rows in proptest::collection::vec(proptest::collection::vec(record(), 0..4), 1..5),
            at in any::<proptest::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let whole: Bytes = segment(&rows).into();
            let before = scan(&whole, SALT);
            let at = at.index(whole.len());
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1 << bit;
            let after = scan(&bytes.into(), SALT);
            for frame in &before {
                let hit = (frame.offset..frame.end()).contains(&at);
                let found = after.iter().any(|found| found.header == frame.header);
                prop_assert_eq!(found, !hit);
            }
        }

        #[test]
        fn scanning_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut plausible = MAGIC.to_vec();
            plausible.extend_from_slice(&bytes);
            prop_assert!(scan(&plausible.into(), SALT).is_empty());
        }
    }

    #[test]
    fn a_frame_of_another_store_is_no_frame() {
        let bytes: Bytes = segment(&[vec![]]).into();
        assert_eq!(scan(&bytes, SALT).len(), 1);
        assert!(scan(&bytes, SALT + 1).is_empty());
    }
}
