//! Keeps the TLS library's last word: the HTTP library passes on its text, but not its type.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Refusal;
use super::connect::refusal;

/// The meaning of an end of the connection without TLS's own farewell.
const CUT_OFF: &str = "the agent ended, or the network broke";

/// A connection that remembers why it was refused. With TLS 1.3 the caller learns only behind the
/// handshake, at its first read, that its certificate is not accepted.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    stream: T,
    word: LastWord,
}

/// The memory of a [`Watched`] connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWord(Arc<OnceLock<Refusal>>);

impl LastWord {
    /// Why the connection was refused, if it was.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.0.get().cloned()
    }
}

impl<T> Watched<T> {
    pub(crate) fn new(stream: T) -> (Self, LastWord) {
        let word = LastWord::default();
        (Self { stream, word: word.clone() }, word)
    }

    /// The connection itself.
    pub(crate) const fn inner(&self) -> &T {
        &self.stream
    }

    fn listen<R>(&self, result: io::Result<R>) -> io::Result<R> {
        result.map_err(|error| {
            if let Some(refusal) = refusal(&error) {
                self.word.0.get_or_init(|| refusal);
            }
            match error.kind() {
                // The TLS library tells of its own documentation here.
                io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), CUT_OFF),
                _ => error,
            }
        })
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        Poll::Ready(self.listen(result))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(self.listen(result))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(self.listen(result))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rustls::AlertDescription;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A connection of which every read fails so.
    struct Failing(fn() -> io::Error);

    impl AsyncRead for Failing {
        fn poll_read(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            _buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err((self.0)()))
        }
    }

    #[tokio::test]
    async fn an_end_without_farewell_is_told_in_our_words() {
        let (mut stream, word) = Watched::new(Failing(|| {
            io::Error::new(io::ErrorKind::UnexpectedEof, "see the manual")
        }));
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::UnexpectedEof, CUT_OFF.into())
        );
        assert!(word.refusal().is_none());
    }

    #[tokio::test]
    async fn a_refused_certificate_is_remembered() {
        let alert = || {
            let alert = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
            io::Error::new(io::ErrorKind::InvalidData, alert)
        };
        let (mut stream, word) = Watched::new(Failing(alert));
        let _error = stream.read_u8().await.unwrap_err();
        assert!(word.refusal().is_some());
        assert!(word.clone().refusal().is_some());
    }
}
