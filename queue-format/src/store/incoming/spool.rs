//! A snapshot as one file of checksummed frames.
//!
//! Little-endian. A frame is `length u32 | crc32c u32 | body`; the checksum begins with the store's salt
//! and covers the running number of the frame, from 0, and the body. The first body is the position:
//! `1 | term u64 | node u64 | index u64`. Bodies of puts, in the order of a walk, are `2 | batch`. The
//! last body is `3 | keys u64`, with the number of keys. Nothing follows it.

use std::io::{self, Read};

use bytes::{Buf, BufMut, Bytes};

use crate::change::codec::DecodeError;
use crate::change::{Batch, Change};
use crate::key::{Key, Placed};
use crate::position::{Epoch, Position};

const POSITION: u8 = 1;
const PUTS: u8 = 2;
const END: u8 = 3;

/// Kind and position.
const POSITION_BYTES: usize = 25;

/// Kind and number of keys.
const END_BYTES: usize = 9;

/// Why a spooled snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The disk says no.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// It ends within a frame, or before the last one.
    #[error("it ends within frame {number}")]
    Short {
        /// The frame, from 0.
        number: u64,
    },
    /// A frame is not as it was written.
    #[error("frame {number} is damaged")]
    Checksum {
        /// The frame, from 0.
        number: u64,
    },
    /// A frame that is whole, but cannot be there.
    #[error("frame {number} cannot be where it is")]
    Misplaced {
        /// The frame, from 0.
        number: u64,
    },
    /// Contents that are not understood.
    #[error("frame {number} is not understood: wrong version?")]
    Batch {
        /// The frame, from 0.
        number: u64,
        /// The fault in it.
        #[source]
        error: DecodeError,
    },
}

/// Makes the frames.
#[derive(Debug)]
pub(crate) struct Encoder {
    salt: u32,
    number: u64,
    keys: u64,
    last: Option<Placed>,
}

impl Encoder {
    pub(crate) fn new(salt: u32) -> Self {
        Self { salt, number: 0, keys: 0, last: None }
    }

    /// The first frame.
    pub(crate) fn position(&mut self, at: Position) -> Vec<u8> {
        let mut body = Vec::with_capacity(POSITION_BYTES);
        body.put_u8(POSITION);
        body.put_u64_le(at.epoch.term);
        body.put_u64_le(at.epoch.node);
        body.put_u64_le(at.index);
        self.frame(&body)
    }

    /// A frame of some keys; the key that does not follow the one before it, if there is one.
    pub(crate) fn puts(&mut self, chunk: &[(Key, Bytes)]) -> Result<Vec<u8>, Key> {
        let mut changes = Vec::with_capacity(chunk.len());
        for (key, content) in chunk {
            let placed = Placed(key.clone());
            if self.last.as_ref().is_some_and(|last| *last >= placed) {
                return Err(key.clone());
            }
            self.last = Some(placed);
            self.keys += 1;
            changes.push(Change::Put { key: key.clone(), content: content.clone() });
        }
        let mut body = vec![PUTS];
        body.extend_from_slice(&Batch(changes).encode());
        Ok(self.frame(&body))
    }

    /// The last frame.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        let mut body = Vec::with_capacity(END_BYTES);
        body.put_u8(END);
        body.put_u64_le(self.keys);
        self.frame(&body)
    }

    fn frame(&mut self, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("a frame has far less than 4 GiB");
        let mut frame = Vec::with_capacity(body.len() + 8);
        frame.put_u32_le(length);
        frame.put_u32_le(checksum(self.salt, self.number, body));
        frame.extend_from_slice(body);
        self.number += 1;
        frame
    }
}

fn checksum(salt: u32, number: u64, body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(salt, &number.to_le_bytes()), body)
}

/// Reads the frames one by one, and believes nothing.
pub(crate) struct Decoder<R> {
    from: R,
    salt: u32,
    number: u64,
    keys: u64,
    last: Option<Placed>,
    at: Position,
}

impl<R: Read> Decoder<R> {
    /// Reads the first frame.
    pub(crate) fn new(from: R, salt: u32) -> Result<Self, SpoolError> {
        let at = Position::default();
        let mut decoder = Self { from, salt, number: 0, keys: 0, last: None, at };
        let mut body = decoder.frame()?;
        if body.len() != POSITION_BYTES || body.get_u8() != POSITION {
            return Err(SpoolError::Misplaced { number: 0 });
        }
        let epoch = Epoch { term: body.get_u64_le(), node: body.get_u64_le() };
        decoder.at = Position { epoch, index: body.get_u64_le() };
        Ok(decoder)
    }

    /// The position of the snapshot.
    pub(crate) fn position(&self) -> Position {
        self.at
    }

    /// The next keys; none at the end, when all that was written was there.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<(Key, Bytes)>>, SpoolError> {
        let number = self.number;
        let misplaced = SpoolError::Misplaced { number };
        let mut body = self.frame()?;
        if !body.has_remaining() {
            return Err(misplaced);
        }
        match body.get_u8() {
            PUTS => self.puts(number, body).map(Some),
            END if body.len() + 1 == END_BYTES && body.get_u64_le() == self.keys => {
                match self.from.read(&mut [0]) {
                    Ok(0) => Ok(None),
                    Ok(_more) => Err(SpoolError::Misplaced { number: number + 1 }),
                    Err(error) => Err(SpoolError::Read(error)),
                }
            }
            _ => Err(misplaced),
        }
    }

    fn puts(&mut self, number: u64, body: Bytes) -> Result<Vec<(Key, Bytes)>, SpoolError> {
        let batch = Batch::decode(body).map_err(|error| SpoolError::Batch { number, error })?;
        let mut chunk = Vec::with_capacity(batch.0.len());
        for change in batch.0 {
            let Change::Put { key, content } = change else {
                return Err(SpoolError::Misplaced { number });
            };
            let placed = Placed(key.clone());
            if self.last.as_ref().is_some_and(|last| *last >= placed) {
                return Err(SpoolError::Misplaced { number });
            }
            self.last = Some(placed);
            self.keys += 1;
            chunk.push((key, content));
        }
        Ok(chunk)
    }

    fn frame(&mut self) -> Result<Bytes, SpoolError> {
        let number = self.number;
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => SpoolError::Short { number },
            _ => SpoolError::Read(error),
        };
        let mut head = [0; 8];
        self.from.read_exact(&mut head).map_err(fail)?;
        let mut head = &head[..];
        let (length, crc) = (head.get_u32_le(), head.get_u32_le());
        let mut body = Vec::new();
        // The length is not trusted: memory grows only as bytes come.
        let read = self.from.by_ref().take(u64::from(length)).read_to_end(&mut body);
        read.map_err(fail)?;
        if u32::try_from(body.len()).ok() != Some(length) {
            return Err(SpoolError::Short { number });
        }
        if checksum(self.salt, number, &body) != crc {
            return Err(SpoolError::Checksum { number });
        }
        self.number += 1;
        Ok(body.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SALT: u32 = 9;
    const AT: Position = Position { epoch: Epoch { term: 3, node: 2 }, index: 77 };

    fn spool(chunks: &[Vec<(Key, Bytes)>]) -> Vec<u8> {
        let mut encoder = Encoder::new(SALT);
        let mut bytes = encoder.position(AT);
        for chunk in chunks {
            bytes.extend(encoder.puts(chunk).unwrap());
        }
        bytes.extend(encoder.end());
        bytes
    }

    fn read(bytes: &[u8], salt: u32) -> Result<Vec<(Key, Bytes)>, SpoolError> {
        let mut decoder = Decoder::new(bytes, salt)?;
        assert_eq!(decoder.position(), AT);
        let mut all = Vec::new();
        while let Some(chunk) = decoder.next()? {
            all.extend(chunk);
        }
        Ok(all)
    }

    fn chunks() -> impl Strategy<Value = Vec<Vec<(Key, Bytes)>>> {
        let content = proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
        let all = proptest::collection::btree_map(10..99_u8, content, 0..12);
        (all, 1..4_usize).prop_map(|(all, size)| {
            let key = |n: u8| Key::parse(&format!("k/{n}")).unwrap();
            let all: Vec<_> = all.into_iter().map(|(n, content)| (key(n), content)).collect();
            all.chunks(size).map(<[_]>::to_vec).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_spooled_is_read_and_nothing_else_is(
            chunks in chunks(),
            at in any::<proptest::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let bytes = spool(&chunks);
            prop_assert_eq!(read(&bytes, SALT).unwrap(), chunks.concat());
            prop_assert!(read(&bytes, SALT + 1).is_err());
            let at = at.index(bytes.len());
            prop_assert!(read(&bytes[..at], SALT).is_err());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            prop_assert!(read(&flipped, SALT).is_err());
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(read(&longer, SALT).is_err());
        }

        #[test]
        fn reading_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&bytes, SALT).is_err());
        }
    }

    #[test]
    fn keys_come_in_the_order_of_a_walk() {
        let row = |text: &str| (Key::parse(text).unwrap(), Bytes::new());
        let mut encoder = Encoder::new(SALT);
        encoder.puts(&[row("b"), row("a/b")]).unwrap();
        assert_eq!(encoder.puts(&[row("a/a")]), Err(row("a/a").0));
        assert_eq!(encoder.puts(&[row("a/b")]), Err(row("a/b").0));
    }
}
