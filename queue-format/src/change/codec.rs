//! Core: a batch in bytes.
//!
//! Little-endian: `version u8 | count u32 | change…`. A change is `kind u8` (1 put, 2 move, 3 delete),
//! its keys as `length u16 | text`, and for a put `length u32 | content`. Reading never panics and takes
//! nothing on trust: every length is checked against what is there.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Batch, Change};
use crate::key::{Key, KeyError};

/// The one version so far.
const VERSION: u8 = 1;

/// Changes in one batch: some hundred thousand jobs in one submit are a mistake of the caller, and
/// a reader must not be made to reserve more.
pub const BATCH_CHANGES_MAX: usize = 262_144;

const PUT: u8 = 1;
const MOVE: u8 = 2;
const DELETE: u8 = 3;

/// Bytes that are no batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a field.
    #[error("the batch ends within {field}")]
    Short {
        /// The field that is cut.
        field: &'static str,
    },
    /// Written by another version.
    #[error("the batch has format version {found}, this program reads {VERSION}")]
    Version {
        /// The version that was found.
        found: u8,
    },
    /// More changes than a batch may have.
    #[error("the batch has {count} changes, more than {BATCH_CHANGES_MAX}")]
    Count {
        /// The number that it states.
        count: u32,
    },
    /// A kind of change that does not exist.
    #[error("change {number} has the unknown kind {kind}")]
    Kind {
        /// Which change, from 0.
        number: u32,
        kind: u8,
    },
    /// A key that is not text.
    #[error("change {number} has a key that is not UTF-8")]
    Text {
        /// Which change, from 0.
        number: u32,
    },
    /// A key that breaks the rules of keys.
    #[error("change {number} has a bad key")]
    Key {
        /// Which change, from 0.
        number: u32,
        /// The fault in the key.
        #[source]
        error: KeyError,
    },
    /// Bytes behind the last change.
    #[error("{bytes} bytes follow the last change of the batch")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

impl Batch {
    /// The batch in bytes.
    ///
    /// # Panics
    /// More than [`BATCH_CHANGES_MAX`] changes, or a content of 4 GiB or more.
    pub fn encode(&self) -> Bytes {
        assert!(self.0.len() <= BATCH_CHANGES_MAX, "a batch is bounded by its maker");
        let mut out = BytesMut::with_capacity(5 + self.0.iter().map(Change::weight).sum::<usize>());
        out.put_u8(VERSION);
        out.put_u32_le(u32::try_from(self.0.len()).expect("checked just above"));
        for change in &self.0 {
            match change {
                Change::Put { key, content } => {
                    out.put_u8(PUT);
                    put_key(&mut out, key);
                    out.put_u32_le(u32::try_from(content.len()).expect("contents are below 4 GiB"));
                    out.put_slice(content);
                }
                Change::Move { from, to } => {
                    out.put_u8(MOVE);
                    put_key(&mut out, from);
                    put_key(&mut out, to);
                }
                Change::Delete { key } => {
                    out.put_u8(DELETE);
                    put_key(&mut out, key);
                }
            }
        }
        out.freeze()
    }

    /// Reads a batch. Contents share the memory of `bytes`.
    ///
    /// # Errors
    /// The bytes are not exactly one batch of the known version.
    pub fn decode(mut bytes: Bytes) -> Result<Self, DecodeError> {
        let version = take(&mut bytes, 1, "the version")?.get_u8();
        if version != VERSION {
            return Err(DecodeError::Version { found: version });
        }
        let count = take(&mut bytes, 4, "the number of changes")?.get_u32_le();
        let reserve = usize::try_from(count).unwrap_or(usize::MAX);
        if reserve > BATCH_CHANGES_MAX {
            return Err(DecodeError::Count { count });
        }
        let mut changes = Vec::with_capacity(reserve.min(bytes.len() / CHANGE_BYTES_MIN));
        for number in 0..count {
            changes.push(decode_change(&mut bytes, number)?);
        }
        if !bytes.is_empty() {
            return Err(DecodeError::Trailing { bytes: bytes.len() });
        }
        Ok(Self(changes))
    }
}

/// The shortest change: kind, and a key of one byte with its length.
const CHANGE_BYTES_MIN: usize = 4;

fn decode_change(bytes: &mut Bytes, number: u32) -> Result<Change, DecodeError> {
    match take(bytes, 1, "the kind of a change")?.get_u8() {
        PUT => {
            let key = take_key(bytes, number)?;
            let length = take(bytes, 4, "the length of a content")?.get_u32_le();
            let content = take(bytes, usize::try_from(length).unwrap_or(usize::MAX), "a content")?;
            Ok(Change::Put { key, content })
        }
        MOVE => {
            let from = take_key(bytes, number)?;
            Ok(Change::Move { from, to: take_key(bytes, number)? })
        }
        DELETE => Ok(Change::Delete { key: take_key(bytes, number)? }),
        kind => Err(DecodeError::Kind { number, kind }),
    }
}

fn put_key(out: &mut BytesMut, key: &Key) {
    let text = key.as_str();
    out.put_u16_le(u16::try_from(text.len()).expect("keys are shorter than 2 KiB"));
    out.put_slice(text.as_bytes());
}

fn take_key(bytes: &mut Bytes, number: u32) -> Result<Key, DecodeError> {
    let length = take(bytes, 2, "the length of a key")?.get_u16_le();
    let raw = take(bytes, usize::from(length), "a key")?;
    let text = std::str::from_utf8(&raw).map_err(|_not_text| DecodeError::Text { number })?;
    Key::parse(text).map_err(|error| DecodeError::Key { number, error })
}

fn take(bytes: &mut Bytes, count: usize, field: &'static str) -> Result<Bytes, DecodeError> {
    if bytes.len() < count {
        return Err(DecodeError::Short { field });
    }
    Ok(bytes.split_to(count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::collapse::tests::batch;
    use super::*;

    proptest! {
        #[test]
        fn a_batch_survives_the_way_through_bytes(batch in batch(20)) {
            prop_assert_eq!(Batch::decode(batch.encode()), Ok(batch));
        }

        #[test]
        fn every_shorter_or_longer_form_is_refused(batch in batch(8), tail in any::<u8>()) {
            let whole = batch.encode();
            for end in 0..whole.len() {
                prop_assert!(Batch::decode(whole.slice(..end)).is_err());
            }
            let mut longer = whole.to_vec();
            longer.push(tail);
            prop_assert!(Batch::decode(longer.into()).is_err());
        }

        #[test]
        fn decoding_is_total(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            count in 0..4_u32,
        ) {
            drop(Batch::decode(bytes.clone().into()));
            let mut plausible = vec![VERSION];
            plausible.extend(count.to_le_bytes());
            plausible.extend(bytes);
            drop(Batch::decode(plausible.into()));
        }
    }

    #[test]
    fn an_absurd_count_reserves_nothing() {
        let mut bytes = vec![VERSION];
        bytes.extend(u32::MAX.to_le_bytes());
        assert_eq!(Batch::decode(bytes.into()), Err(DecodeError::Count { count: u32::MAX }));
    }
}
