//! The client: blocking, one request at a time, for programs that start, ask and end. [`AsyncClient`] is
//! for those that ask for many.
//!
//! The caller decides what to do when a call fails. Nothing is sent twice by itself, since a submission
//! without a stamp that is sent twice is two jobs.

mod awaited;
mod away;
mod wait;

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Code, Coded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::frame::{FrameError, Splitter};
use crate::limits::{ANSWER_BYTES_MAX, CLIENT_GRACE, CONNECT_TIME, Limits};
use crate::method::Method;
use crate::request::{self, Principal};
use crate::response::{self, Failure};
pub use awaited::AsyncClient;
pub use wait::{JobOutcome, Observer};

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// A call that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no socket: no master was started here.
    #[error("there is no socket `{path}`")]
    NoSocket {
        /// The path where it should be.
        path: PathBuf,
    },
    /// Nobody listens: the master that made the socket has ended.
    #[error("nobody listens on the socket `{path}`")]
    Refused {
        /// The socket.
        path: PathBuf,
    },
    /// The socket, or a directory on the way, may not be used.
    #[error("no permission to use the socket `{path}`")]
    Permission {
        /// The socket.
        path: PathBuf,
    },
    /// The socket cannot be used for another reason.
    #[error("cannot connect to the socket `{path}`")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// Nothing came in time. A change may have happened nevertheless.
    #[error("the master did not answer {method} in time")]
    TimedOut {
        /// The method that was called.
        method: &'static str,
    },
    /// The master closed the connection. A change may have happened nevertheless.
    #[error("the master closed the connection before it answered {method}")]
    Closed {
        /// The method that was called.
        method: &'static str,
    },
    /// The connection failed. A change may have happened nevertheless.
    #[error("the connection failed during {method}")]
    Io {
        /// The method that was called.
        method: &'static str,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The request cannot be sent, or what came is no sequence of messages.
    #[error("{method} cannot be exchanged")]
    Frame {
        /// The method that was called.
        method: &'static str,
        /// Why not.
        #[source]
        error: FrameError,
    },
    /// The master answered with a failure.
    #[error(transparent)]
    Failure(Failure),
}

impl ClientError {
    /// The exception, if the master answered with one.
    pub fn exception(&self) -> Option<&model::Exception> {
        match self {
            Self::Failure(Failure::Exception(exception) | Failure::NotMaster { exception, .. }) => {
                Some(exception)
            }
            _ => None,
        }
    }
}

impl Coded for ClientError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::NoSocket { .. } | Self::Refused { .. } | Self::Connect { .. } => {
                Some(Code::MasterUnreached)
            }
            Self::Permission { .. } => Some(Code::SocketPermission),
            Self::TimedOut { .. } => Some(Code::MasterSilent),
            Self::Closed { .. } | Self::Io { .. } => Some(Code::OutcomeUnknown),
            Self::Frame { .. } => Some(Code::ChangeTooLarge),
            Self::Failure(failure) => failure.code(),
        }
    }
}

/// A connection to the master.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    splitter: Splitter,
    request: Vec<u8>,
    chunk: Box<[u8]>,
    limits: Limits,
    patience: Option<Duration>,
    when_stale: Option<fn(Duration)>,
    principal: Option<Principal>,
}

impl Client {
    /// Connects to the master's socket.
    ///
    /// # Errors
    /// The variants of [`ClientError`] about the socket.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = connect(path).map_err(|error| at_connect(path, error))?;
        Ok(Self {
            stream,
            splitter: Splitter::new(ANSWER_BYTES_MAX),
            request: Vec::new(),
            chunk: vec![0; READ_BYTES].into(),
            limits: Limits::default(),
            patience: None,
            when_stale: None,
            principal: None,
        })
    }

    /// Sends `call` and waits for its result, somewhat longer than the server takes at most.
    ///
    /// # Errors
    /// Those variants of [`ClientError`] that are not about the socket. After any of them but
    /// [`ClientError::Failure`] the connection is of no more use.
    pub fn call<M: Method>(&mut self, call: &M) -> Result<M::Reply, ClientError> {
        let method = M::NAME;
        request::write_for(self.principal.as_ref(), call, &mut self.request)
            .map_err(|error| ClientError::Frame { method, error })?;
        if let Err(error) = self.stream.write_all(&self.request)
            && !is_closed(&error)
        {
            return Err(at_io(method, error));
        }
        // A master that turns clients away answers and closes before it reads, so that there may
        // be an answer although the request could not be sent.
        let usual = M::CLASS.deadline(&self.limits) + CLIENT_GRACE;
        let answer = self.receive(method, self.patience.unwrap_or(usual))?;
        let told = response::read::<M>(&answer).map_err(ClientError::Failure)?;
        if let Some(silence) = told.stale
            && let Some(tell) = self.when_stale.take()
        {
            tell(silence);
        }
        Ok(told.reply)
    }

    /// Whether it may be used for another call: the master has neither closed it, nor sent what nobody
    /// asked for. It may close it the next moment all the same.
    pub fn is_open(&self) -> bool {
        let waiting = readable(&self.stream, Duration::ZERO);
        waiting.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    /// Waits for answers no longer than `patience`, whatever the server's deadlines are: for who wants
    /// to know whether it answers at all.
    pub fn answered_within(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Has `tell` called once, with the first reply that may be old: with the time for which the
    /// master has heard no majority of the voters.
    pub fn when_stale(self, tell: fn(Duration)) -> Self {
        Self { when_stale: Some(tell), ..self }
    }

    /// Says for whom the next calls are made: the front door's word counts, that of others does not.
    pub fn ask_for(&mut self, principal: Option<Principal>) {
        self.principal = principal;
    }

    /// The next message; each piece of it may take as long as `patience`.
    fn receive(
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
            let read =
                readable(&self.stream, patience).and_then(|()| self.stream.read(&mut self.chunk));
            match read {
                Ok(0) => return Err(ClientError::Closed { method }),
                Ok(n) => {
                    let fresh = self.chunk.get(..n).unwrap_or_default();
                    self.splitter.buffer().extend_from_slice(fresh);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(at_io(method, error)),
            }
        }
    }
}

/// Waits until there is something to read. A read that waits by itself would be woken, too,
/// whenever the other side has read what was sent, and that at the other side's expense.
///
/// # Errors
/// `TimedOut` if nothing has come.
fn readable(stream: &UnixStream, patience: Duration) -> io::Result<()> {
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&patience))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// On a Unix socket the time to send is also the time to wait for a place in the queue of
/// connections.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(CONNECT_TIME))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
}

fn at_connect(path: &Path, error: io::Error) -> ClientError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ClientError::NoSocket { path },
        io::ErrorKind::ConnectionRefused => ClientError::Refused { path },
        io::ErrorKind::PermissionDenied => ClientError::Permission { path },
        _ => ClientError::Connect { path, error },
    }
}

fn at_io(method: &'static str, error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::TimedOut { method },
        _ if is_closed(&error) => ClientError::Closed { method },
        _ => ClientError::Io { method, error },
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
