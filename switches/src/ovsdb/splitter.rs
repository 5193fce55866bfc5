//! Core: JSON values in a stream of bytes. JSON-RPC of OVSDB (RFC 7047 section 4.1) puts nothing between them.

use bytes::{Buf as _, Bytes, BytesMut};

/// Longest message, in bytes: all ports of the largest switch with all VLANs each, told one by one.
pub(super) const MESSAGE_MAX: usize = 64 * 1024 * 1024;
/// Deepest nesting: an update of a row has eight levels.
const DEPTH_MAX: u32 = 64;

/// Bytes that make no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    #[error("a message does not begin with `{{`")]
    Begin,
    #[error("a message has more than {DEPTH_MAX} levels")]
    Deep,
    #[error("a message has more than {MESSAGE_MAX} bytes")]
    Long,
}

/// Cuts messages, which are objects. Whether they are sound is for whoever reads them.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    bytes: BytesMut,
    /// How many of the bytes were looked at.
    looked: usize,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Splitter {
    /// The place for further bytes.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// The next whole message.
    ///
    /// # Errors
    /// No message can come of the bytes.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, SplitError> {
        while self.looked < self.bytes.len() {
            let byte = self.bytes[self.looked];
            if self.depth == 0 {
                if byte.is_ascii_whitespace() {
                    self.bytes.advance(1);
                    continue;
                }
                if byte != b'{' {
                    return Err(SplitError::Begin);
                }
            }
            self.looked += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            if self.depth > DEPTH_MAX {
                return Err(SplitError::Deep);
            }
            if self.depth == 0 {
                let whole = self.bytes.split_to(self.looked).freeze();
                self.looked = 0;
                return Ok(Some(whole));
            }
        }
        if self.bytes.len() > MESSAGE_MAX { Err(SplitError::Long) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn all(pieces: &[&[u8]]) -> Result<Vec<Value>, SplitError> {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for piece in pieces {
            splitter.buffer().extend_from_slice(piece);
            while let Some(message) = splitter.next()? {
                found.push(serde_json::from_slice(&message).unwrap());
            }
        }
        Ok(found)
    }

    #[test]
    fn what_is_no_message() {
        assert_eq!(all(&[b"[1]"]), Err(SplitError::Begin));
        assert_eq!(all(&[b"x"]), Err(SplitError::Begin));
        assert_eq!(all(&[b"}"]), Err(SplitError::Begin));
        let deep = format!("{{\"a\": {}", "[".repeat(100));
        assert_eq!(all(&[deep.as_bytes()]), Err(SplitError::Deep));
    }

    proptest! {
        #[test]
        fn messages_are_cut_wherever_the_bytes_are(
            texts in prop::collection::vec("[\\\\\"{}\\[\\]a ]{0,12}", 1..5),
            cut in 1_usize..9,
        ) {
            let told: Vec<Value> = texts.iter().map(|text| json!({"a": [text, {text.as_str(): {}}]})).collect();
            let bytes: Vec<u8> = told.iter().flat_map(|value| value.to_string().into_bytes()).collect();
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            prop_assert_eq!(all(&pieces).unwrap(), told);
        }

        #[test]
        fn any_bytes_end_well(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut splitter = Splitter::default();
            splitter.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_message)) = splitter.next() {}
        }
    }
}
