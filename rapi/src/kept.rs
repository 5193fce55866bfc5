//! Answers in memory: a long one has room until its client has read it, in pieces, each of which is a sign that
//! it reads on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use model::Code;
use stdx::admission::unread::Room;
use tokio::time::Instant;

use crate::refusal::Refusal;
use crate::server::Running;
use crate::shares::{Holder, Shares, reader};

/// Answers up to this many bytes are not counted: most fit the buffers of their connection.
const SHORT_BYTES: usize = 64 << 10;
/// Bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Marks an answer whose body is read from a file as it is sent.
#[derive(Debug, Clone, Copy)]
pub struct OfFile;

/// Keeps an answer until it is read, where it is a long one in memory.
///
/// # Errors
/// Answers of the same client, or of all, leave no room for it.
pub fn hold(
    shares: &Shares,
    holder: &Holder,
    running: Option<&Running>,
    response: Response,
) -> Result<Response, Refusal> {
    let bytes = response.body().size_hint().exact();
    let bytes = bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if bytes <= SHORT_BYTES || response.extensions().get::<OfFile>().is_some() {
        return Ok(response);
    }
    let cut_off = running.map_or_else(Arc::default, |running| Arc::clone(running.cut_off()));
    let room = shares.answers.hold(&reader(holder), bytes, Instant::now(), &cut_off);
    let room = room.map_err(|no_room| {
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, no_room.to_string());
        Refusal { see: Some(Code::Overloaded), ..refusal }
    })?;
    Ok(response.map(|body| Body::new(Kept { body, left: Bytes::new(), room })))
}

struct Kept {
    body: Body,
    left: Bytes,
    room: Room<Holder>,
}

impl hyper::body::Body for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.left.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.left = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        self.room.note_progress(Instant::now());
        let length = self.left.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = u64::try_from(self.left.len()).unwrap_or(u64::MAX);
        self.body
            .size_hint()
            .exact()
            .map_or_else(SizeHint::default, |more| SizeHint::with_exact(more.saturating_add(left)))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use luxi::limits::ANSWER_BYTES_MAX;

    use super::*;
    use crate::shares::own;

    #[tokio::test]
    async fn a_long_answer_has_room_until_it_is_read_and_a_file_needs_none() {
        let shares = Shares::default();
        let held = |body: Body| hold(&shares, &own(), None, Response::new(body));
        let long: Vec<u8> = (0_u8..250).cycle().take(3 * PIECE_BYTES + 5).collect();
        let mut answer = held(Body::from(long.clone())).unwrap().into_body();
        assert_eq!(answer.size_hint().exact(), u64::try_from(long.len()).ok());
        let first = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), PIECE_BYTES);
        assert!(held(Body::from(vec![0; SHORT_BYTES])).is_ok());
        let longest = || Body::from(vec![0; ANSWER_BYTES_MAX - long.len() + 1]);
        let full = held(longest()).unwrap_err();
        assert_eq!((full.code, full.see), (503, Some(Code::Overloaded)));
        let mut of_file = Response::new(longest());
        of_file.extensions_mut().insert(OfFile);
        assert!(hold(&shares, &own(), None, of_file).is_ok());
        let rest = answer.collect().await.unwrap().to_bytes();
        assert_eq!([first, rest].concat(), long);
        assert!(held(longest()).is_ok(), "what was read makes room");
    }
}
