//! Core: messages in a stream of bytes. A message ends with ETX, which valid JSON cannot contain.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::limits::SMALL_MESSAGE_BYTES;

/// The byte that ends a message (ASCII 3, "end of text").
pub const ETX: u8 = 3;

/// A stream of bytes that is no sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No ETX within the limit.
    #[error("message is longer than {limit} bytes")]
    TooLong {
        /// Most bytes that a message may have, ETX not counted.
        limit: usize,
    },
    /// The payload to send contains ETX.
    #[error("message to send contains the byte that ends messages, at offset {at}")]
    Etx {
        /// Where.
        at: usize,
    },
}

/// Cuts a stream of bytes into messages, however the bytes arrive.
#[derive(Debug)]
pub struct Splitter {
    buffer: BytesMut,
    /// No ETX before this offset.
    searched: usize,
    limit: usize,
}

impl Splitter {
    /// A splitter for messages of at most `limit` bytes, ETX not counted.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit }
    }

    /// The buffer to which the next bytes of the stream are to be appended; nothing else may be done to
    /// it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Bytes that are held and belong to no complete message yet, or to one not yet taken.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Gives the memory back, if nothing is held.
    pub fn release(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// Whether the stream stands between two messages; white space does not count.
    pub fn is_between(&self) -> bool {
        self.buffer.iter().all(u8::is_ascii_whitespace)
    }

    /// Takes the next complete message, without its ETX.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as the message is known to exceed the limit; the stream is
    /// of no use after that.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, FrameError> {
        let fresh = self.buffer.get(self.searched..).unwrap_or_default();
        let end = memchr::memchr(ETX, fresh).map(|at| self.searched + at);
        if end.unwrap_or(self.buffer.len()) > self.limit {
            return Err(FrameError::TooLong { limit: self.limit });
        }
        let Some(end) = end else {
            self.searched = self.buffer.len();
            return Ok(None);
        };
        self.searched = 0;
        if end <= SMALL_MESSAGE_BYTES {
            // The buffer stays whole, and need not be made anew for each message.
            let message = Bytes::copy_from_slice(self.buffer.get(..end).unwrap_or_default());
            self.buffer.advance(end + 1);
            return Ok(Some(message));
        }
        let mut message = self.buffer.split_to(end + 1);
        message.truncate(end);
        // Else the memory of the longest message would stay with the connection.
        self.buffer = BytesMut::from(self.buffer.as_ref());
        Ok(Some(message.freeze()))
    }
}

/// Ends the message that `buffer` holds from its beginning.
///
/// # Errors
/// [`FrameError::Etx`] if it contains the byte that ends messages.
pub fn finish(buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    if let Some(at) = memchr::memchr(ETX, buffer) {
        return Err(FrameError::Etx { at });
    }
    buffer.push(ETX);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn messages(splitter: &mut Splitter, chunk: &[u8]) -> Vec<Vec<u8>> {
        splitter.buffer().extend_from_slice(chunk);
        let mut taken = Vec::new();
        while let Some(message) = splitter.next_message().unwrap() {
            taken.push(message.to_vec());
        }
        taken
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            sent in vec(vec(4_u8..=255, 0..40), 0..12),
            cuts in vec(1_usize..20, 1..60),
        ) {
            let mut stream = Vec::new();
            for message in &sent {
                stream.extend_from_slice(message);
                stream.push(ETX);
            }
            let mut splitter = Splitter::new(40);
            let mut got = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                let (chunk, tail) = rest.split_at((*cut).min(rest.len()));
                got.extend(messages(&mut splitter, chunk));
                rest = tail;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, sent);
            prop_assert_eq!(splitter.held(), 0);
        }

        #[test]
        fn what_was_finished_is_read_back(payload in vec(any::<u8>(), 0..60)) {
            let mut buffer = payload.clone();
            match finish(&mut buffer) {
                Ok(()) => prop_assert_eq!(
                    messages(&mut Splitter::new(60), &buffer),
                    vec![payload]
                ),
                Err(FrameError::Etx { at }) => prop_assert_eq!(payload.get(at), Some(&ETX)),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn the_limit_is_exact() {
        let mut splitter = Splitter::new(4);
        assert_eq!(messages(&mut splitter, b"1234\x03"), [b"1234"]);
        splitter.buffer().extend_from_slice(b"12345");
        assert_eq!(splitter.next_message(), Err(FrameError::TooLong { limit: 4 }));
        let mut splitter = Splitter::new(4);
        splitter.buffer().extend_from_slice(b"12345\x03");
        assert_eq!(splitter.next_message(), Err(FrameError::TooLong { limit: 4 }));
    }

    #[test]
    fn memory_of_a_long_message_is_given_back() {
        let mut splitter = Splitter::new(1 << 20);
        splitter.buffer().resize(1 << 20, b' ');
        splitter.buffer().extend_from_slice(b"\x03[");
        assert_eq!(splitter.next_message().unwrap().unwrap().len(), 1 << 20);
        assert_eq!(splitter.buffer().as_ref(), b"[");
        assert!(splitter.buffer().capacity() < SMALL_MESSAGE_BYTES);
    }

    #[test]
    fn what_follows_a_message_is_kept() {
        let mut splitter = Splitter::new(10);
        splitter.buffer().extend_from_slice(b"{}\n\x03 \n");
        assert_eq!(splitter.next_message().unwrap().unwrap(), &b"{}\n"[..]);
        assert!(splitter.is_between());
        splitter.buffer().extend_from_slice(b"[");
        assert!(!splitter.is_between());
    }
}
