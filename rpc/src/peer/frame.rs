//! Core: the form of all that travels between members.
//!
//! `length u32 LE | mark u8 | body`: the length counts mark and body. The mark of a question is its
//! kind, which the service knows. The mark of an answer is its status (`docs/replication.md`), and the
//! mark of a hello is 0.

/// Longest frame of a question or an answer, in bytes. An append holds at most what one frame of the
/// journal does, 16 MiB, and the rest is for what surrounds it.
pub const FRAME_BYTES_MAX: usize = 17 * 1024 * 1024;
/// Longest hello, and longest answer to it, in bytes: names and numbers, and one sentence.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;

/// Bytes before the body.
pub(super) const HEADER_BYTES: usize = LENGTH_BYTES + MARK_BYTES;
const LENGTH_BYTES: usize = 4;
const MARK_BYTES: usize = 1;

/// Mark of a hello.
pub(super) const HELLO_MARK: u8 = 0;

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// The service's own bytes.
    Answer,
    /// JSON of a [`super::PeerFailure`].
    Failure,
    /// JSON of a [`super::PeerRefusal`]; the connection ends behind it.
    Refusal,
}

impl Status {
    pub(super) const fn mark(self) -> u8 {
        match self {
            Self::Answer => 0,
            Self::Failure => 1,
            Self::Refusal => 2,
        }
    }

    /// What `mark` says.
    pub(super) const fn from_mark(mark: u8) -> Result<Self, FrameError> {
        match mark {
            0 => Ok(Self::Answer),
            1 => Ok(Self::Failure),
            2 => Ok(Self::Refusal),
            mark => Err(FrameError::Mark { mark }),
        }
    }
}

/// Bytes that are no frame of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than allowed.
    #[error("a frame of {bytes} bytes, of which at most {max} are taken here")]
    TooLong {
        /// Its length, mark and body.
        bytes: u64,
        /// The limit.
        max: usize,
    },
    /// The length says that there is not even a mark.
    #[error("a frame without a mark")]
    Empty,
    /// The mark of an answer is none that is known.
    #[error("mark {mark}, which this program does not know")]
    Mark { mark: u8 },
}

/// The header of a frame whose body has `body_bytes` bytes.
pub(super) fn header(mark: u8, body_bytes: usize) -> Result<[u8; HEADER_BYTES], FrameError> {
    let bytes = body_bytes.saturating_add(MARK_BYTES);
    let too_long = FrameError::TooLong {
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        max: FRAME_BYTES_MAX,
    };
    if bytes > FRAME_BYTES_MAX {
        return Err(too_long);
    }
    let [a, b, c, d] = u32::try_from(bytes).map_err(|_too_long| too_long)?.to_le_bytes();
    Ok([a, b, c, d, mark])
}

/// The mark, and the length of the body that follows, of a frame that may have `max` bytes.
pub(super) fn read_header(
    header: [u8; HEADER_BYTES],
    max: usize,
) -> Result<(u8, usize), FrameError> {
    let [a, b, c, d, mark] = header;
    let length = u32::from_le_bytes([a, b, c, d]);
    match usize::try_from(length) {
        Ok(0) => Err(FrameError::Empty),
        Ok(bytes) if bytes <= max => Ok((mark, bytes - MARK_BYTES)),
        Ok(_) | Err(_) => Err(FrameError::TooLong { bytes: u64::from(length), max }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(mark: u8, body in 0..FRAME_BYTES_MAX) {
            let header = header(mark, body).unwrap();
            prop_assert_eq!(read_header(header, FRAME_BYTES_MAX), Ok((mark, body)));
        }

        #[test]
        fn decoding_is_total(bytes: [u8; HEADER_BYTES], max in 1..FRAME_BYTES_MAX) {
            if let Ok((mark, body)) = read_header(bytes, max) {
                prop_assert!(body < max);
                prop_assert_eq!(header(mark, body), Ok(bytes));
            }
        }
    }

    #[test]
    fn limits_are_kept_at_both_ends() {
        let longest = FRAME_BYTES_MAX - MARK_BYTES;
        assert!(header(0, longest).is_ok());
        assert!(matches!(header(0, longest + 1), Err(FrameError::TooLong { .. })));
        assert!(matches!(header(0, usize::MAX), Err(FrameError::TooLong { .. })));
        assert_eq!(read_header([0; HEADER_BYTES], 10), Err(FrameError::Empty));
        assert_eq!(read_header([10, 0, 0, 0, 7], 10), Ok((7, 9)));
        let too_long = FrameError::TooLong { bytes: 11, max: 10 };
        assert_eq!(read_header([11, 0, 0, 0, 7], 10), Err(too_long));
    }

    #[test]
    fn every_mark_of_an_answer_is_known_or_refused() {
        for mark in 0..=u8::MAX {
            match Status::from_mark(mark) {
                Ok(status) => assert_eq!(status.mark(), mark),
                Err(error) => assert_eq!(error, FrameError::Mark { mark }),
            }
        }
    }
}
