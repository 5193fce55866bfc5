//! The client for programs that ask for many at a time: calls that are awaited.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::{ClientError, READ_BYTES, at_connect, at_io, is_closed};
use crate::frame::Splitter;
use crate::limits::{ANSWER_BYTES_MAX, CLIENT_GRACE, CONNECT_TIME, Limits};
use crate::method::Method;
use crate::request::{self, Principal};
use crate::response;

/// Between two looks for a place in the queue of connections, which tells nobody that it has one.
const PLACE_PAUSE: Duration = Duration::from_millis(10);
/// Answers from this size on are read where that stops no other call: some 2 ms.
const LONG_ANSWER_BYTES: usize = 256 << 10;

/// A connection to the master. A call that is dropped before its end leaves it of no use.
#[derive(Debug)]
pub struct AsyncClient {
    stream: UnixStream,
    splitter: Splitter,
    request: Vec<u8>,
    principal: Option<Principal>,
}

impl AsyncClient {
    /// Connects to the master's socket.
    ///
    /// # Errors
    /// The variants of [`ClientError`] about the socket.
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = connected(path).await.map_err(|error| at_connect(path, error))?;
        let splitter = Splitter::new(ANSWER_BYTES_MAX);
        Ok(Self { stream, splitter, request: Vec::new(), principal: None })
    }

    /// Says for whom the next calls are made, as [`super::Client::ask_for`].
    pub fn ask_for(&mut self, principal: Option<Principal>) {
        self.principal = principal;
    }

    /// Whether it may be used for another call, as [`super::Client::is_open`].
    pub fn is_open(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends `call` and waits for its result, as [`super::Client::call`].
    ///
    /// # Errors
    /// As that.
    pub async fn call<M: Method>(&mut self, call: &M) -> Result<M::Reply, ClientError> {
        let method = M::NAME;
        request::write_for(self.principal.as_ref(), call, &mut self.request)
            .map_err(|error| ClientError::Frame { method, error })?;
        if let Err(error) = self.stream.write_all(&self.request).await
            && !is_closed(&error)
        {
            return Err(at_io(method, error));
        }
        // As there: there may be an answer although the request could not be sent.
        let patience = M::CLASS.deadline(&Limits::default()) + CLIENT_GRACE;
        let answer = self.receive(method, patience).await?;
        let read = || response::read::<M>(&answer).map_err(ClientError::Failure);
        let is_long = answer.len() >= LONG_ANSWER_BYTES;
        Ok(if is_long { stdx::aside(read) } else { read() }?.reply)
    }

    /// The next message; each piece of it may take as long as `patience`.
    async fn receive(
        &mut self,
        method: &'static str,
        patience: Duration,
    ) -> Result<bytes::Bytes, ClientError> {
        loop {
            let message = self.splitter.next_message();
            let message = message.map_err(|error| ClientError::Frame { method, error })?;
            if let Some(message) = message {
                return Ok(message);
            }
            let buffer = self.splitter.buffer();
            buffer.reserve(READ_BYTES);
            match timeout(patience, self.stream.read_buf(buffer)).await {
                Ok(Ok(0)) => return Err(ClientError::Closed { method }),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(at_io(method, error)),
                Err(_elapsed) => return Err(ClientError::TimedOut { method }),
            }
        }
    }
}

async fn connected(path: &Path) -> io::Result<UnixStream> {
    let until = Instant::now() + CONNECT_TIME;
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                sleep(PLACE_PAUSE).await;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use socket2::{Domain, SockAddr, Socket, Type};

    use super::*;

    #[tokio::test]
    async fn a_full_queue_of_connections_is_waited_for_and_a_closed_one_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        let first = AsyncClient::connect(&path).await.unwrap();
        let mut second = pin!(AsyncClient::connect(&path));
        let at_once = timeout(Duration::ZERO, &mut second).await;
        assert!(at_once.is_err(), "the queue has one place");
        let (accepted, _) = socket.accept().unwrap();
        let second = second.await.unwrap();
        assert!(first.is_open() && second.is_open());
        drop(accepted);
        first.stream.readable().await.unwrap();
        assert!(!first.is_open() && second.is_open());
    }
}
