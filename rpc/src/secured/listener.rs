//! The socket at which connections arrive.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::Throttle;
use stdx::admission::{Admission, Limits, Slot, network};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::{Answered, Secured};
#[cfg(any(test, feature = "simulation"))]
use crate::simulation;

/// Bytes that are read from a refused caller: what fits into its first flight.
const LINGER_BYTES_MAX: u64 = 128 * 1024;

/// Pause after a failed accept, which as a rule means that file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bounds the lines about callers whose handshake did not succeed, whatever they want here.
static HANDSHAKES: Throttle = Throttle::new();

/// The socket of a server: TCP, or in a simulation a port of its network.
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    #[cfg(any(test, feature = "simulation"))]
    Simulated(simulation::Listener),
}

/// A connection before its handshake.
#[derive(Debug)]
pub(crate) enum Arrived {
    Tcp(TcpStream),
    #[cfg(any(test, feature = "simulation"))]
    Simulated(simulation::Knock),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self(Kind::Tcp(listener))
    }
}

#[cfg(any(test, feature = "simulation"))]
impl From<simulation::Listener> for Listener {
    fn from(listener: simulation::Listener) -> Self {
        Self(Kind::Simulated(listener))
    }
}

impl Listener {
    /// The address on which it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Kind::Tcp(listener) => listener.local_addr(),
            #[cfg(any(test, feature = "simulation"))]
            Kind::Simulated(listener) => Ok(listener.address()),
        }
    }

    /// Takes callers until stopped, as many at the same time as `limits` allow, counted by their
    /// addresses before any handshake; `what` they are is a word for the log. `begin` must not wait. It
    /// keeps the place for as long as it is taken, and ends where the place is shed.
    pub(crate) async fn take(
        self,
        (limits, what): (Limits, &'static str),
        mut stopped: watch::Receiver<bool>,
        begin: impl Fn(Arrived, SocketAddr, Slot<IpAddr>),
    ) {
        let (admission, refused) = (Admission::new(limits), Throttle::new());
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                accepted = self.accept() => accepted,
            };
            let (arrived, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match admission.admit(network(from.ip())) {
                Ok(place) => begin(arrived, from, place),
                Err(full) => {
                    if let Some(withheld) = refused.pass() {
                        tracing::warn!(%from, %full, withheld, "too many {what}");
                    }
                }
            }
        }
    }

    /// Waits for a caller. May be dropped at its await.
    async fn accept(&self) -> io::Result<(Arrived, SocketAddr)> {
        match &self.0 {
            Kind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Arrived::Tcp(stream), from))
            }
            #[cfg(any(test, feature = "simulation"))]
            Kind::Simulated(listener) => {
                let knock = listener.accept().await;
                let from = knock.from();
                Ok((Arrived::Simulated(knock), from))
            }
        }
    }
}

impl Arrived {
    /// Shakes hands within `limit`; none where that failed, as the log tells.
    pub(crate) async fn shake_hands(
        self,
        acceptor: &TlsAcceptor,
        limit: Duration,
    ) -> Option<Answered> {
        let stream = match self {
            Self::Tcp(stream) => stream,
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(knock) => return Some(Secured::Simulated(knock.open())),
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was not set");
        }
        let accepting = acceptor.accept(stream).into_fallible();
        match tokio::time::timeout(limit, accepting).await {
            Ok(Ok(stream)) => Some(Secured::Tls(stream)),
            Ok(Err((error, stream))) => {
                if let Some(withheld) = HANDSHAKES.pass() {
                    tracing::info!(%error, withheld, "handshake failed");
                }
                linger(stream, limit).await;
                None
            }
            Err(_elapsed) => {
                if let Some(withheld) = HANDSHAKES.pass() {
                    tracing::info!(withheld, "handshake took too long");
                }
                None
            }
        }
    }
}

/// Reads what the caller sent behind its handshake: closing over unread bytes would reset the
/// connection, and the caller might never read why it was refused.
pub(crate) async fn linger<T>(mut stream: T, limit: Duration)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let reading = async {
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(LINGER_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    if !matches!(tokio::time::timeout(limit, reading).await, Ok(Ok(_))) {
        tracing::debug!("refused caller did not close");
    }
}
