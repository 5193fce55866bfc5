//! Core: an export byte by byte. Behind [`MAGIC`] come frames: a letter, the length of the body as
//! four bytes, the most significant first, and the body. The last one has the SHA-256 of all bytes
//! before it.
//!
//! | letter | body |
//! |---|---|
//! | `M` | the manifest, JSON; once, first |
//! | `D` | documents: of each the length of its key (2 bytes), of its content (4 bytes), key, content |
//! | `S` | documents of the same form, sealed |
//! | `T` | the totals, JSON; once, behind all documents |
//! | `E` | the SHA-256, 32 bytes |

use bytes::Bytes;
use queue_format::Key;

/// How every export begins.
pub const MAGIC: &[u8] = b"gantry export\n";
/// Bytes of a frame before its body.
pub const HEAD_BYTES: usize = 5;
/// Documents in one frame, unless a single one has more: what is in memory at a time.
pub const FRAME_BYTES: usize = 1 << 20;
/// Longest body that is read: more than the largest segment of a journal takes in one document.
pub const BODY_BYTES_MAX: u32 = 3 << 30;

/// The kind of a frame's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Manifest,
    Documents,
    /// Documents, sealed.
    Sealed,
    Totals,
    /// The checksum.
    End,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Manifest, Self::Documents, Self::Sealed, Self::Totals, Self::End];

    const fn letter(self) -> u8 {
        match self {
            Self::Manifest => b'M',
            Self::Documents => b'D',
            Self::Sealed => b'S',
            Self::Totals => b'T',
            Self::End => b'E',
        }
    }
}

/// Bytes that are no frame, or no documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No frame begins so.
    #[error("there is no part of the kind {0:#04x}")]
    Kind(u8),
    /// No frame is so long.
    #[error("a part claims to have {0} bytes")]
    Length(u32),
    /// The documents end before their lengths say so.
    #[error("a document is cut off")]
    Cut,
    /// No document has this key.
    #[error("a document has a key that is none")]
    Key,
}

/// A frame. The body must not be longer than [`BODY_BYTES_MAX`].
pub fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a document is smaller than a journal's segment");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.push(kind.letter());
    bytes.extend(length.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The kind and the length of the body that follows the head of a frame.
///
/// # Errors
/// It is no head.
pub fn head(bytes: [u8; HEAD_BYTES]) -> Result<(Kind, u32), Malformed> {
    let [letter, length @ ..] = bytes;
    let kind = Kind::ALL.into_iter().find(|kind| kind.letter() == letter);
    let length = u32::from_be_bytes(length);
    match kind {
        None => Err(Malformed::Kind(letter)),
        Some(_) if length > BODY_BYTES_MAX => Err(Malformed::Length(length)),
        Some(kind) => Ok((kind, length)),
    }
}

/// The body of a frame of documents.
pub fn pack(documents: &[(Key, Bytes)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, content) in documents {
        let key = key.as_str().as_bytes();
        let key_length = u16::try_from(key.len()).expect("a key has 1,607 bytes at most");
        let length =
            u32::try_from(content.len()).expect("a document is smaller than a journal's segment");
        bytes.extend(key_length.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(key);
        bytes.extend(content);
    }
    bytes
}

/// The documents of a body.
///
/// # Errors
/// It is no such body.
pub fn unpack(body: Vec<u8>) -> Result<Vec<(Key, Bytes)>, Malformed> {
    let mut rest = Bytes::from(body);
    let mut documents = Vec::new();
    while !rest.is_empty() {
        let key_length = u16::from_be_bytes(number(&mut rest)?);
        let length = u32::from_be_bytes(number(&mut rest)?);
        let key = part(&mut rest, usize::from(key_length))?;
        let content = part(&mut rest, usize::try_from(length).unwrap_or(usize::MAX))?;
        let key = std::str::from_utf8(&key).ok().and_then(|text| Key::parse(text).ok());
        documents.push((key.ok_or(Malformed::Key)?, content));
    }
    Ok(documents)
}

fn number<const N: usize>(rest: &mut Bytes) -> Result<[u8; N], Malformed> {
    let bytes = part(rest, N)?;
    <[u8; N]>::try_from(&bytes[..]).map_err(|_length| Malformed::Cut)
}

fn part(rest: &mut Bytes, length: usize) -> Result<Bytes, Malformed> {
    if rest.len() < length { Err(Malformed::Cut) } else { Ok(rest.split_to(length)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heads_are_read_or_refused() {
        let [a, b, c, d, e, ..] = frame(Kind::Sealed, b"xyz")[..] else { panic!() };
        assert_eq!(head([a, b, c, d, e]), Ok((Kind::Sealed, 3)));
        assert_eq!(head(*b"Zabcd"), Err(Malformed::Kind(b'Z')));
        assert_eq!(head([b'D', 255, 0, 0, 0]), Err(Malformed::Length(255 << 24)));
    }

    proptest! {
        #[test]
        fn documents_come_back(
            found in proptest::collection::vec(("[a-z]{1,9}(/[a-z]{1,9}){0,3}", any::<Vec<u8>>()), 0..9)
        ) {
            let documents: Vec<_> = found
                .into_iter()
                .map(|(key, content)| (Key::parse(&key).unwrap(), Bytes::from(content)))
                .collect();
            let body = pack(&documents);
            prop_assert_eq!(unpack(body.clone()), Ok(documents.clone()));
            if let Some(short) = body.len().checked_sub(1) {
                prop_assert!(unpack(body[..short].to_vec()) != Ok(documents));
            }
        }

        #[test]
        fn decoding_is_total(body in any::<Vec<u8>>()) {
            drop(unpack(body));
        }
    }
}
