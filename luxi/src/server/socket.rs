//! A client's socket, registered with the runtime for reading alone.
//!
//! Registered for writing, too, as the runtime's own type is, each socket would wake a thread
//! whenever its client has read an answer, which tells nobody anything. Only that of a client which
//! is slow to read comes to be so.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Most that is read at once.
pub(super) const READ_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer for bytes that were just read, so that no idle client holds room for them.
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into());
}

/// A client's socket.
pub(super) struct Socket {
    /// None once it could not be registered again.
    stream: Option<AsyncFd<UnixStream>>,
    /// It is registered for writing, too, as its client was slow to read.
    writes: bool,
}

impl Socket {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn new(stream: tokio::net::UnixStream) -> io::Result<Self> {
        let stream = register(stream.into_std()?, Interest::READABLE)?;
        Ok(Self { stream: Some(stream), writes: false })
    }

    fn stream(&self) -> io::Result<&AsyncFd<UnixStream>> {
        self.stream.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Ends when there may be something to read, or the client sends no more.
    ///
    /// # Errors
    /// The runtime is ending.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.stream()?.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Appends what has come to `buffer`, at most `most` bytes and [`READ_BYTES_MAX`]; gives how
    /// many, zero if the client sends no more.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has come; or what the system says.
    pub(super) fn try_read(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        let stream = self.stream()?;
        CHUNK.with_borrow_mut(|chunk| {
            let most = most.min(chunk.len());
            let chunk = chunk.get_mut(..most).unwrap_or_default();
            let read = stream.try_io(Interest::READABLE, |mut stream| stream.read(chunk))?;
            buffer.extend_from_slice(chunk.get(..read).unwrap_or_default());
            Ok(read)
        })
    }

    /// Sends as much as there is room for now.
    ///
    /// # Errors
    /// What the system says; a lack of room is none.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream()?.get_ref().write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    /// Sends all of `bytes`, as fast as the client reads them.
    ///
    /// # Errors
    /// What the system says.
    pub(super) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.writes
            && let Some(stream) = self.stream.take()
        {
            let both = Interest::READABLE | Interest::WRITABLE;
            self.stream = Some(register(stream.into_inner(), both)?);
            self.writes = true;
        }
        let stream = self.stream()?;
        while !bytes.is_empty() {
            let mut guard = stream.writable().await?;
            if let Ok(sent) = guard.try_io(|stream| stream.get_ref().write(bytes)) {
                bytes = bytes.get(sent?..).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Ends when the client sends no more; tells whether it has left, and does not just wait.
    ///
    /// # Errors
    /// The runtime is ending.
    pub(super) async fn hung_up(&self) -> io::Result<bool> {
        // Nobody sends out of band: this is an interest in the end alone.
        let end = Interest::PRIORITY;
        let stream = self.stream()?;
        drop(stream.ready(end).await?);
        // An answer tells only of what was asked for, and this one is there at once.
        let both = stream.ready(end | Interest::WRITABLE).await?;
        Ok(both.ready().is_write_closed())
    }
}

#[expect(deprecated, reason = "what replaces it is unsafe, for types unlike this one")]
fn register(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}
