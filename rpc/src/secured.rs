//! Connections whose ends know each other: TLS over TCP. In a simulation they are streams of its
//! network, which says who is at the other end; all that is above them is the same.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client, server};

use model::enrol::Fingerprint;

mod listener;

pub use listener::Listener;
pub(crate) use listener::{Arrived, linger};

#[cfg(any(test, feature = "simulation"))]
use crate::shown::Shown;
#[cfg(any(test, feature = "simulation"))]
use crate::simulation::{Host, Stream};

/// A connection; `T` is one by TLS.
#[derive(Debug)]
pub(crate) enum Secured<T> {
    /// TLS over TCP.
    Tls(T),
    /// One of a simulated network.
    #[cfg(any(test, feature = "simulation"))]
    Simulated(Stream),
}

/// As the calling side has it.
pub(crate) type Called = Secured<client::TlsStream<TcpStream>>;

/// As the side has it that was called.
pub(crate) type Answered = Secured<server::TlsStream<TcpStream>>;

impl Called {
    /// The protocol that both sides chose.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(stream) => Some(stream.protocol()),
        }
    }

    /// The certificate of who answers.
    pub(crate) fn peer(&self) -> Option<Fingerprint> {
        match self {
            Self::Tls(stream) => {
                let chain = stream.get_ref().1.peer_certificates()?;
                chain.first().map(|certificate| Fingerprint::of(certificate))
            }
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(_) => None,
        }
    }
}

impl Answered {
    /// The protocol that both sides chose.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(stream) => Some(stream.protocol()),
        }
    }

    /// The certificate of who called, if it showed one.
    pub(crate) fn peer(&self) -> Option<Fingerprint> {
        match self {
            Self::Tls(stream) => {
                let chain = stream.get_ref().1.peer_certificates()?;
                chain.first().map(|certificate| Fingerprint::of(certificate))
            }
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(stream) => stream.caller(),
        }
    }
}

/// How a node makes connections.
#[derive(Debug, Clone, Default)]
pub(crate) enum Dialer {
    /// By TLS over TCP.
    #[default]
    Tls,
    /// From this host of a simulated network, showing this.
    #[cfg(any(test, feature = "simulation"))]
    Simulated(Host, Shown),
}

impl Dialer {
    /// A connection to whom `config` accepts as `server` at `address`. No time is limited here.
    ///
    /// # Errors
    /// The system's, or the TLS library's within it.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        config: Arc<ClientConfig>,
        server: ServerName<'static>,
    ) -> io::Result<Called> {
        match self {
            Self::Tls => {
                let stream = TcpStream::connect(address).await?;
                // A question is one write, and its answer is waited for.
                stream.set_nodelay(true)?;
                TlsConnector::from(config).connect(server, stream).await.map(Secured::Tls)
            }
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(host, shown) => {
                let protocol = config.alpn_protocols.first().cloned().unwrap_or_default();
                host.dial(address, shown.fingerprint(), protocol).await.map(Secured::Simulated)
            }
        }
    }
}

/// Does the same to whichever connection it is.
macro_rules! whichever {
    ($stream:expr, $inner:ident => $work:expr) => {
        match $stream.get_mut() {
            Secured::Tls($inner) => $work,
            #[cfg(any(test, feature = "simulation"))]
            Secured::Simulated($inner) => $work,
        }
    };
}

impl<T: AsyncRead + Unpin> AsyncRead for Secured<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        whichever!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl<T: AsyncBufRead + Unpin> AsyncBufRead for Secured<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        whichever!(self, stream => Pin::new(stream).poll_fill_buf(context))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        whichever!(self, stream => Pin::new(stream).consume(bytes));
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Secured<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        whichever!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        whichever!(self, stream => Pin::new(stream).poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tls(stream) => stream.is_write_vectored(),
            #[cfg(any(test, feature = "simulation"))]
            Self::Simulated(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        whichever!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        whichever!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
