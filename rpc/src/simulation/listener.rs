//! A listener on the simulated network.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use super::state::{Door, Waiting};
use super::{Network, Stream};

/// A port that is listened on, until this is dropped.
#[derive(Debug)]
pub struct Listener {
    network: Network,
    address: SocketAddr,
}

impl Listener {
    pub(super) fn new(network: Network, address: SocketAddr) -> Self {
        let before = network.0.lock().doors.insert(address, Door::default());
        assert!(before.is_none(), "something listens at {address}");
        Self { network, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a call.
    pub(crate) async fn accept(&self) -> Knock {
        let waiting = poll_fn(|context| {
            let mut state = self.network.0.lock();
            let Some(door) = state.doors.get_mut(&self.address) else { return Poll::Pending };
            match door.waiting.pop_front() {
                Some(waiting) => Poll::Ready(waiting),
                None => {
                    door.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        Knock { waiting: waiting.await, network: self.network.clone() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.network.0.lock();
        let door = state.doors.remove(&self.address);
        // Callers of a dead machine wait in vain.
        if let Some(door) = door
            && state.powerless
        {
            state.unheard.extend(door.waiting.into_iter().map(|waiting| waiting.tell));
        }
    }
}

/// A call that waits to be answered. Dropped, it is refused.
pub struct Knock {
    waiting: Waiting,
    network: Network,
}

impl fmt::Debug for Knock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Knock").field("from", &self.from()).finish()
    }
}

impl Knock {
    /// The machine that calls.
    pub(crate) fn from(&self) -> SocketAddr {
        self.waiting.from
    }

    /// Answers it.
    pub(crate) fn open(self) -> Stream {
        let Waiting { end, tell, .. } = self.waiting;
        self.network.0.lock().open(&end, tell);
        Stream::new(self.network, end)
    }
}
