//! A TCP listener that keeps a bounded number of connections, in all and of each address.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::Throttle;
use crate::admission::{Admission, Limits, Slot, network};

/// Pause after a failed accept, which as a rule means that file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections within limits ([`Admission`]).
#[derive(Debug)]
pub struct Places {
    listener: TcpListener,
    /// The name of the service, for the log.
    what: &'static str,
    admission: Admission<IpAddr>,
    refused: Throttle,
}

/// A connection with its place. Whatever it reads or writes is a sign of life.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    place: Arc<Slot<IpAddr>>,
}

impl Places {
    /// Takes connections on `listener` within `limits`; `what` is served, a word for the log.
    pub fn new(listener: TcpListener, what: &'static str, limits: Limits) -> Self {
        Self { listener, what, admission: Admission::new(limits), refused: Throttle::new() }
    }

    /// The next connection. `None` once `stopped` is true, or its sender gone.
    pub async fn accept(&self, stopped: &mut watch::Receiver<bool>) -> Option<Connection> {
        let what = self.what;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => return None,
            };
            match accepted {
                Ok((stream, from)) => match self.admission.admit(network(from.ip())) {
                    Ok(place) => return Some(Connection { stream, place: Arc::new(place) }),
                    Err(full) => {
                        if let Some(withheld) = self.refused.pass() {
                            tracing::warn!(what, %from, %full, withheld, "connection is refused");
                        }
                    }
                },
                Err(error) => {
                    tracing::warn!(what, %error, "connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Connection {
    /// The connection below.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Its place, which tells when the connection is shed.
    pub fn place(&self) -> Arc<Slot<IpAddr>> {
        Arc::clone(&self.place)
    }

    /// Notes a sign of life where something was read or written.
    fn note<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.place.touch();
        }
        polled
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(polled)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_crowd_from_one_address_sheds_its_own_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, mut stopped) = watch::channel(false);
        let places = Places::new(listener, "test", Limits { total: 2, of_peer: 1 });
        let _client = TcpStream::connect(address).await.unwrap();
        let first = places.accept(&mut stopped).await.unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let _second = places.accept(&mut stopped).await.unwrap();
        first.place().shed().await;
        stop.send_replace(true);
        assert!(places.accept(&mut stopped).await.is_none());
    }
}
