//! Core: what a frame holds.
//!
//! Little-endian. A record is `kind u8 | length u32 | body`. An entry's body is
//! `term u64 | node u64 | index u64 | payload kind u8 | payload`.

use bytes::{Buf, BufMut, Bytes};

use crate::position::{Epoch, Position};

/// One statement about the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An entry at the end of the log.
    Entry(Entry),
    /// The engine's vote, in its own form; the newest counts.
    Vote(Bytes),
    /// Entries behind this index are cut off; none of them was committed.
    Truncate {
        /// The last index that stays.
        after_index: u64,
    },
    /// Entries up to here are in the files and needed by nobody.
    Purge {
        /// The last position that went.
        upto: Position,
    },
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log.
    pub position: Position,
    /// Its content.
    pub payload: Payload,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// An encoded [`crate::Batch`].
    Batch(Bytes),
    /// Nothing: the engine's first entry of a term.
    Blank,
    /// The members, in the engine's form.
    Membership(Bytes),
}

const ENTRY: u8 = 1;
const VOTE: u8 = 2;
const TRUNCATE: u8 = 3;
const PURGE: u8 = 4;

const BATCH: u8 = 0;
const BLANK: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// Kind and length.
const RECORD_HEADER_BYTES: usize = 5;
const POSITION_BYTES: usize = 24;
const ENTRY_HEADER_BYTES: usize = POSITION_BYTES + 1;

/// A frame with a good checksum whose content is not understood: written by another program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end within a record.
    #[error("record {number} is cut")]
    Short {
        /// Which record of the frame, from 0.
        number: usize,
    },
    /// A kind of record or payload that does not exist.
    #[error("record {number} has the unknown kind {kind}")]
    Kind {
        /// Which record of the frame, from 0.
        number: usize,
        kind: u8,
    },
    /// A body of the wrong length for its kind.
    #[error("record {number} has {bytes} bytes too many")]
    Trailing {
        /// Which record of the frame, from 0.
        number: usize,
        /// How many.
        bytes: usize,
    },
}

impl Record {
    /// Bytes of the encoded record.
    pub fn encoded_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.body_bytes()
    }

    fn body_bytes(&self) -> usize {
        match self {
            Self::Entry(entry) => {
                ENTRY_HEADER_BYTES
                    + match &entry.payload {
                        Payload::Batch(bytes) | Payload::Membership(bytes) => bytes.len(),
                        Payload::Blank => 0,
                    }
            }
            Self::Vote(vote) => vote.len(),
            Self::Truncate { .. } => 8,
            Self::Purge { .. } => POSITION_BYTES,
        }
    }

    /// Appends the record to `out`.
    ///
    /// # Panics
    /// A body of 4 GiB or more.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Entry(_) => ENTRY,
            Self::Vote(_) => VOTE,
            Self::Truncate { .. } => TRUNCATE,
            Self::Purge { .. } => PURGE,
        };
        out.put_u8(kind);
        out.put_u32_le(u32::try_from(self.body_bytes()).expect("a frame is smaller than 4 GiB"));
        match self {
            Self::Entry(entry) => {
                put_position(out, entry.position);
                match &entry.payload {
                    Payload::Batch(bytes) => {
                        out.put_u8(BATCH);
                        out.put_slice(bytes);
                    }
                    Payload::Blank => out.put_u8(BLANK),
                    Payload::Membership(bytes) => {
                        out.put_u8(MEMBERSHIP);
                        out.put_slice(bytes);
                    }
                }
            }
            Self::Vote(vote) => out.put_slice(vote),
            Self::Truncate { after_index } => out.put_u64_le(*after_index),
            Self::Purge { upto } => put_position(out, *upto),
        }
    }
}

/// Reads all records of a frame; payloads share the memory of `bytes`.
///
/// # Errors
/// The bytes are not exactly a row of known records.
pub fn decode_all(mut bytes: Bytes) -> Result<Vec<Record>, RecordError> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let number = records.len();
        let mut header = take(&mut bytes, RECORD_HEADER_BYTES, number)?;
        let kind = header.get_u8();
        let length = usize::try_from(header.get_u32_le()).unwrap_or(usize::MAX);
        let mut body = take(&mut bytes, length, number)?;
        records.push(decode_body(kind, &mut body, number)?);
        if !body.is_empty() {
            return Err(RecordError::Trailing { number, bytes: body.len() });
        }
    }
    Ok(records)
}

fn decode_body(kind: u8, body: &mut Bytes, number: usize) -> Result<Record, RecordError> {
    match kind {
        ENTRY => {
            let position = take_position(body, number)?;
            let payload = match take(body, 1, number)?.get_u8() {
                BATCH => Payload::Batch(std::mem::take(body)),
                BLANK => Payload::Blank,
                MEMBERSHIP => Payload::Membership(std::mem::take(body)),
                kind => return Err(RecordError::Kind { number, kind }),
            };
            Ok(Record::Entry(Entry { position, payload }))
        }
        VOTE => Ok(Record::Vote(std::mem::take(body))),
        TRUNCATE => Ok(Record::Truncate { after_index: take(body, 8, number)?.get_u64_le() }),
        PURGE => Ok(Record::Purge { upto: take_position(body, number)? }),
        kind => Err(RecordError::Kind { number, kind }),
    }
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    out.put_u64_le(position.epoch.term);
    out.put_u64_le(position.epoch.node);
    out.put_u64_le(position.index);
}

fn take_position(bytes: &mut Bytes, number: usize) -> Result<Position, RecordError> {
    let mut raw = take(bytes, POSITION_BYTES, number)?;
    let epoch = Epoch { term: raw.get_u64_le(), node: raw.get_u64_le() };
    Ok(Position { epoch, index: raw.get_u64_le() })
}

fn take(bytes: &mut Bytes, count: usize, number: usize) -> Result<Bytes, RecordError> {
    if bytes.len() < count {
        return Err(RecordError::Short { number });
    }
    Ok(bytes.split_to(count))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn position() -> impl Strategy<Value = Position> {
        (any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(term, node, index)| Position { epoch: Epoch { term, node }, index })
    }

    fn blob() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
    }

    pub(crate) fn record() -> impl Strategy<Value = Record> {
        let payload = prop_oneof![
            blob().prop_map(Payload::Batch),
            Just(Payload::Blank),
            blob().prop_map(Payload::Membership),
        ];
        prop_oneof![
            (position(), payload)
                .prop_map(|(position, payload)| Record::Entry(Entry { position, payload })),
            blob().prop_map(Record::Vote),
            any::<u64>().prop_map(|after_index| Record::Truncate { after_index }),
            position().prop_map(|upto| Record::Purge { upto }),
        ]
    }

    proptest! {
        #[test]
        fn records_survive_the_way_through_bytes(
            records in proptest::collection::vec(record(), 0..6),
        ) {
            let mut out = Vec::new();
            for record in &records {
                let before = out.len();
                record.encode(&mut out);
                prop_assert_eq!(out.len() - before, record.encoded_bytes());
            }
            prop_assert_eq!(decode_all(out.into()), Ok(records));
        }

        #[test]
        fn decoding_is_total(bytes in proptest::collection::vec(0..9_u8, 0..80)) {
            drop(decode_all(bytes.into()));
        }
    }
}
