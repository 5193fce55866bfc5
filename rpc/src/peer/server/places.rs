//! The number of connections that each peer holds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use model::enrol::Fingerprint;

use crate::peer::hello::{PeerRefusal, RefusalReason};

/// The connections that were admitted.
#[derive(Debug)]
pub(super) struct Places {
    total_max: usize,
    per_peer_max: usize,
    taken: Arc<Mutex<HashMap<Fingerprint, usize>>>,
}

/// A connection's place, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    peer: Fingerprint,
    taken: Arc<Mutex<HashMap<Fingerprint, usize>>>,
}

impl Places {
    pub(super) fn new(total_max: usize, per_peer_max: usize) -> Self {
        Self { total_max, per_peer_max, taken: Arc::default() }
    }

    /// A place for `peer`.
    pub(super) fn take(&self, peer: Fingerprint) -> Result<Slot, PeerRefusal> {
        let busy = |who, max| {
            let message = format!("{who} has {max} connections here already, which is the limit");
            Err(PeerRefusal::new(RefusalReason::Busy, message))
        };
        let mut taken = self.taken.lock();
        if taken.values().sum::<usize>() >= self.total_max {
            return busy("the cluster", self.total_max);
        }
        let of_peer = taken.entry(peer).or_default();
        if *of_peer >= self.per_peer_max {
            return busy("this peer", self.per_peer_max);
        }
        *of_peer += 1;
        Ok(Slot { peer, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(of_peer) = taken.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_places_come_back() {
        let places = Places::new(3, 2);
        let [a, b, c] = [1, 2, 3].map(|byte| Fingerprint::from_bytes([byte; 32]));
        let first = places.take(a).unwrap();
        let second = places.take(a).unwrap();
        assert!(places.take(a).unwrap_err().message.contains("this peer"));
        let third = places.take(b).unwrap();
        assert!(places.take(c).unwrap_err().message.contains("the cluster"));
        drop(first);
        drop(places.take(c).unwrap());
        let again = places.take(a).unwrap();
        drop((second, third, again));
        assert!(places.taken.lock().is_empty());
    }
}
