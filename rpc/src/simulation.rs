//! A network of streams, in memory: late, held back by cuts, broken by the end of a process, as a
//! seed says.
//!
//! Nothing arrives but by [`Network::arrive`], which the simulation calls between the turns of its
//! nodes. So a node whose runtime rests hears nothing, and no thread decides an order. Bytes of one
//! direction stay in their order and none is lost for good, as with TCP; a cut holds them back. The
//! identity of the other end is known without TLS.

mod listener;
mod state;
mod stream;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use model::enrol::Fingerprint;
use queue_format::simulation::Chance;

pub use listener::{Knock, Listener};
use state::{Call, State};
pub use stream::Stream;

/// The network; clones are the same one.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}

/// A machine on the network, which calls others.
#[derive(Debug, Clone)]
pub struct Host {
    network: Network,
    address: IpAddr,
}

impl Network {
    /// One in which nothing is cut or slow beyond the usual.
    pub fn new(chance: Chance) -> Self {
        Self(Arc::new(Mutex::new(State::new(chance))))
    }

    /// The machine with this address.
    pub fn host(&self, address: IpAddr) -> Host {
        Host { network: self.clone(), address }
    }

    /// Moves on to this time: what is due arrives, and who waits for it is woken.
    pub fn arrive(&self, now_ms: u64) {
        let arrivals = self.0.lock().arrive(now_ms);
        for (end, tell) in arrivals.opened {
            // The caller may have given up: then this is the end of the stream.
            drop(tell.send(Ok(Stream::new(self.clone(), end))));
        }
        for tell in arrivals.refused {
            drop(tell.send(Err(io::ErrorKind::ConnectionRefused.into())));
        }
        for waker in arrivals.wakers {
            waker.wake();
        }
    }

    /// Lets nothing through from one machine to the other until [`Self::heal`].
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        self.0.lock().cut.insert((from, to));
    }

    /// Has one piece in so many sent again, which takes a while; none if zero.
    pub fn lose(&self, one_in: usize) {
        self.0.lock().loss_one_in = one_in;
    }

    /// Lets everything through again, what was held back some time later.
    pub fn heal(&self) {
        self.0.lock().heal();
    }

    /// Whether a process that ends from here on does so with its machine: its peers hear nothing, and
    /// nobody answers any more on its open connections.
    pub fn set_powerless(&self, powerless: bool) {
        self.0.lock().powerless = powerless;
    }
}

impl Host {
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Listens on a port of it.
    ///
    /// # Panics
    /// Something listens there.
    pub fn listen(&self, port: u16) -> Listener {
        Listener::new(self.network.clone(), SocketAddr::new(self.address, port))
    }

    /// Calls whoever listens at `to`, and shows this certificate; waits until it has answered.
    pub(crate) async fn dial(
        &self,
        to: SocketAddr,
        shown: Fingerprint,
        protocol: Vec<u8>,
    ) -> io::Result<Stream> {
        let (tell, told) = oneshot::channel();
        let call = Call { from: self.address, to, shown, protocol, tell };
        self.network.0.lock().call(call);
        told.await.unwrap_or_else(|_dropped| Err(io::ErrorKind::ConnectionReset.into()))
    }
}

#[cfg(test)]
mod tests;
