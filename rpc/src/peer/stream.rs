//! Frames on a connection.

use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::frame::{FrameError, HEADER_BYTES, header, read_header};

/// Room that is made for a body before its first byte is there: what most have. A length alone
/// takes no more memory than this.
const ROOM_BYTES: usize = 256 * 1024;

/// Pieces of a body that are offered to the TLS library at once: it looks at all of them for each
/// 64 KiB that it takes.
const PIECES_AT_ONCE: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) mark: u8,
    pub(super) body: Bytes,
}

/// Why there is no frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error("the connection broke")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads a frame of at most `max` bytes, mark and body.
pub(super) async fn read<T>(stream: &mut T, max: usize) -> Result<Frame, StreamError>
where
    T: AsyncBufRead + Unpin,
{
    let mut start = [0; HEADER_BYTES];
    stream.read_exact(&mut start).await?;
    let (mark, bytes) = read_header(start, max)?;
    let mut body = BytesMut::with_capacity(bytes.min(ROOM_BYTES));
    while body.len() < bytes {
        let found = stream.fill_buf().await?;
        if found.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let taken = found.len().min(bytes - body.len());
        body.extend_from_slice(&found[..taken]);
        stream.consume(taken);
    }
    Ok(Frame { mark, body: body.freeze() })
}

/// Writes a frame whose body is `pieces` one behind the other, header and all at once.
pub(super) async fn write<T>(stream: &mut T, mark: u8, pieces: &[&[u8]]) -> Result<(), StreamError>
where
    T: AsyncWrite + Unpin,
{
    let body_bytes = pieces.iter().map(|piece| piece.len()).sum();
    let start = header(mark, body_bytes)?;
    let mut slices = Vec::with_capacity(pieces.len() + 1);
    slices.push(IoSlice::new(&start));
    slices.extend(pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| IoSlice::new(piece)));
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        let offered = left.len().min(PIECES_AT_ONCE);
        let written = stream.write_vectored(&left[..offered]).await?;
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        IoSlice::advance_slices(&mut left, written);
    }
    Ok(stream.flush().await?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{BufReader, DuplexStream};

    use super::*;
    use crate::peer::frame::FRAME_BYTES_MAX;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    /// Both ends of a pipe that holds `room` bytes.
    fn pipe(room: usize) -> (DuplexStream, BufReader<DuplexStream>) {
        let (near, far) = tokio::io::duplex(room);
        (near, BufReader::with_capacity(room, far))
    }

    async fn read_bytes(bytes: &[u8], max: usize) -> Result<Frame, StreamError> {
        read(&mut BufReader::new(bytes), max).await
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            frames in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<Vec<u8>>(), 0..70)), 0..4),
            room in 1_usize..300,
        ) {
            let (mut near, mut far) = pipe(room);
            let writing = async {
                for (mark, pieces) in &frames {
                    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
                    write(&mut near, *mark, &pieces).await.unwrap();
                }
            };
            let reading = async {
                for (mark, pieces) in &frames {
                    let frame = read(&mut far, FRAME_BYTES_MAX).await.unwrap();
                    assert_eq!((frame.mark, &frame.body[..]), (*mark, &pieces.concat()[..]));
                }
            };
            run(async { tokio::join!(writing, reading) });
        }

        #[test]
        fn reading_is_total(bytes: Vec<u8>, max in 1_usize..64) {
            if let Ok(frame) = run(read_bytes(&bytes, max)) {
                prop_assert_eq!(&bytes[HEADER_BYTES..HEADER_BYTES + frame.body.len()], &frame.body[..]);
                prop_assert!(frame.body.len() < max);
            }
        }
    }

    #[test]
    fn a_length_alone_takes_no_memory_and_a_torn_frame_is_an_end() {
        let mut bytes = header(3, FRAME_BYTES_MAX - 1).unwrap().to_vec();
        bytes.extend_from_slice(b"and no more");
        for cut in 0..bytes.len() {
            let error = run(read_bytes(&bytes[..cut], FRAME_BYTES_MAX)).unwrap_err();
            let StreamError::Io(error) = error else { panic!("{error}") };
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_not_begun() {
        let (mut near, _far) = pipe(64);
        let body = vec![0; FRAME_BYTES_MAX];
        let error = run(write(&mut near, 0, &[&body])).unwrap_err();
        assert!(matches!(error, StreamError::Frame(FrameError::TooLong { .. })));
    }
}
