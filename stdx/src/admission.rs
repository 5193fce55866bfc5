//! Which connections a listener keeps, in all and of each peer, and which one is shed where
//! another has no room.
//!
//! [`turns`] does that for what can wait, and [`unread`] for answers in memory.

pub mod turns;
pub mod unread;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many connections a listener keeps at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub total: usize,
    pub of_peer: usize,
}

/// Why a connection is refused: all others are busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// There are too many.
    #[error("{max} connections are open, which is the limit")]
    Total {
        /// The limit.
        max: usize,
    },
    /// The peer has too many.
    #[error("this peer has {max} connections, which is the limit")]
    Peer {
        /// The limit.
        max: usize,
    },
}

/// The connections of one listener, counted by peers: addresses or users.
///
/// A peer at its limit sheds the connection of its own that has been idle longest, of those first that
/// were never served. The peer with most connections does so where all places are taken. So no peer can
/// keep another one out.
#[derive(Debug)]
pub struct Admission<P>(Arc<Mutex<Table<P>>>);

impl<P> Clone for Admission<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Table<P> {
    limits: Limits,
    total: usize,
    next: u64,
    of: HashMap<P, HashMap<u64, Arc<Entry>>>,
    /// Counts signs of life: who has an older one has been idle longer.
    signs: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The last sign of life.
    last: AtomicU64,
    is_busy: AtomicBool,
    was_served: AtomicBool,
    shed: Notify,
}

/// The place of a connection; free again when it is dropped.
#[derive(Debug)]
pub struct Slot<P: Hash + Eq + Copy> {
    table: Arc<Mutex<Table<P>>>,
    peer: P,
    number: u64,
    entry: Arc<Entry>,
    signs: Arc<AtomicU64>,
}

impl<P: Hash + Eq + Copy> Admission<P> {
    /// No connections yet.
    pub fn new(limits: Limits) -> Self {
        let (of, signs) = (HashMap::new(), Arc::default());
        Self(Arc::new(Mutex::new(Table { limits, total: 0, next: 0, of, signs })))
    }

    /// A place for a new connection of `peer`. Another one may have to go for it.
    ///
    /// # Errors
    /// None of those that could go is idle.
    pub fn admit(&self, peer: P) -> Result<Slot<P>, Full> {
        let mut table = self.0.lock();
        let Limits { total, of_peer } = table.limits;
        let own = table.of.get(&peer).map_or(0, HashMap::len);
        if own >= of_peer && !table.shed(peer) {
            return Err(Full::Peer { max: of_peer });
        }
        if table.total >= total && !table.shed_of_crowd(peer, own) {
            return Err(Full::Total { max: total });
        }
        let (number, entry, signs) =
            (table.next, Arc::<Entry>::default(), Arc::clone(&table.signs));
        table.next += 1;
        table.total += 1;
        table.of.entry(peer).or_default().insert(number, Arc::clone(&entry));
        let place = Slot { table: Arc::clone(&self.0), peer, number, entry, signs };
        place.touch();
        Ok(place)
    }
}

impl<P: Hash + Eq + Copy> Table<P> {
    /// Sheds a connection of the peer that has most and an idle one among them. Of those that have no more
    /// than the `own` ones of `peer`, only `peer` itself gives one up.
    fn shed_of_crowd(&mut self, peer: P, own: usize) -> bool {
        let with_more = self.of.iter().filter(|(_, held)| held.len() > own);
        let mut crowd: Vec<(usize, P)> =
            with_more.map(|(peer, held)| (held.len(), *peer)).collect();
        crowd.sort_unstable_by_key(|(held, _)| std::cmp::Reverse(*held));
        crowd.into_iter().map(|(_, peer)| peer).chain([peer]).any(|peer| self.shed(peer))
    }

    /// Sheds the connection of `peer` that has been idle longest, if one is idle.
    fn shed(&mut self, peer: P) -> bool {
        let idle = self.of.get(&peer).into_iter().flatten();
        let idle = idle.filter(|(_, entry)| !entry.is_busy.load(Ordering::Relaxed));
        let oldest = idle.min_by_key(|(_, entry)| {
            (entry.was_served.load(Ordering::Relaxed), entry.last.load(Ordering::Relaxed))
        });
        let Some((&number, entry)) = oldest else { return false };
        entry.shed.notify_one();
        self.forget(peer, number);
        true
    }

    fn forget(&mut self, peer: P, number: u64) {
        let Some(held) = self.of.get_mut(&peer) else { return };
        // A connection that was shed is forgotten already.
        self.total -= usize::from(held.remove(&number).is_some());
        if held.is_empty() {
            self.of.remove(&peer);
        }
    }
}

impl<P: Hash + Eq + Copy> Slot<P> {
    /// Notes a sign of life.
    pub fn touch(&self) {
        self.entry.last.store(self.signs.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Says whether the connection is being served: then it is not shed.
    pub fn set_busy(&self, is_busy: bool) {
        self.touch();
        self.entry.was_served.fetch_or(is_busy, Ordering::Relaxed);
        self.entry.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// Ends when the connection is shed.
    pub async fn shed(&self) {
        self.entry.shed.notified().await;
    }
}

impl<P: Hash + Eq + Copy> Drop for Slot<P> {
    fn drop(&mut self) {
        self.table.lock().forget(self.peer, self.number);
    }
}

/// The network that counts as one peer: an IPv4 address, or the /64 of an IPv6 address, since a host has
/// all of it.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_shed(place: &Slot<u8>) -> bool {
        let mut shed = Box::pin(place.shed());
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        shed.as_mut().poll(&mut nobody).is_ready()
    }

    #[test]
    fn a_peer_at_its_limit_sheds_its_own_oldest_idle_connection() {
        let admission = Admission::new(Limits { total: 10, of_peer: 2 });
        let first = admission.admit(1).unwrap();
        let second = admission.admit(1).unwrap();
        let other = admission.admit(2).unwrap();
        first.touch();
        let third = admission.admit(1).unwrap();
        assert!(is_shed(&second) && !is_shed(&first) && !is_shed(&other));
        first.set_busy(true);
        third.set_busy(true);
        assert_eq!(admission.admit(1).unwrap_err(), Full::Peer { max: 2 });
        drop(first);
        assert!(admission.admit(1).is_ok(), "a place is used again");
        drop(second);
        assert_eq!(admission.0.lock().total, 2, "who was shed is counted once");
    }

    #[test]
    fn whoever_was_served_stays_longer() {
        let admission = Admission::new(Limits { total: 2, of_peer: 2 });
        let served = admission.admit(1).unwrap();
        served.set_busy(true);
        served.set_busy(false);
        let silent = admission.admit(1).unwrap();
        let _another = admission.admit(1).unwrap();
        assert!(is_shed(&silent) && !is_shed(&served));
    }

    #[test]
    fn where_all_places_are_taken_whoever_has_most_makes_room() {
        let admission = Admission::new(Limits { total: 3, of_peer: 3 });
        let crowd = [(); 3].map(|()| admission.admit(1).unwrap());
        let one = admission.admit(2).unwrap();
        assert!(is_shed(&crowd[0]) && !is_shed(&crowd[1]));
        crowd[1].set_busy(true);
        crowd[2].set_busy(true);
        // The crowd has none to spare; the next one has.
        let other = admission.admit(3).unwrap();
        assert!(is_shed(&one));
        other.set_busy(true);
        assert_eq!(admission.admit(4).unwrap_err(), Full::Total { max: 3 });
    }

    #[test]
    fn a_host_with_many_ipv6_addresses_is_one_peer() {
        let network = |address: &str| network(address.parse().unwrap());
        assert_eq!(network("fd00::1:2:3:4"), network("fd00::9"));
        assert_ne!(network("fd00:0:0:1::1"), network("fd00::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    proptest! {
        /// Whatever comes and goes, the counts are those of the places, and a peer that has less than
        /// its fair part is admitted while somebody is idle.
        #[test]
        fn counts_hold(steps in prop::collection::vec((0..4u8, 0..4u8, any::<bool>()), 0..200)) {
            let limits = Limits { total: 6, of_peer: 4 };
            let admission = Admission::new(limits);
            let mut held: Vec<Slot<u8>> = Vec::new();
            for (what, peer, busy) in steps {
                match what {
                    0 => drop((!held.is_empty()).then(|| held.swap_remove(usize::from(peer) % held.len()))),
                    1 => if let Some(place) = held.last() { place.set_busy(busy) },
                    _ => {
                        let idle = |place: &Slot<u8>| !place.entry.is_busy.load(Ordering::Relaxed);
                        let anyone_idle = held.iter().all(idle);
                        let admitted = admission.admit(peer);
                        prop_assert!(admitted.is_ok() || !anyone_idle);
                        held.retain(|place| !is_shed(place));
                        held.extend(admitted);
                    }
                }
                let table = admission.0.lock();
                prop_assert_eq!(table.total, held.len());
                prop_assert!(table.total <= limits.total);
                for (peer, of) in &table.of {
                    prop_assert_eq!(of.len(), held.iter().filter(|place| place.peer == *peer).count());
                    prop_assert!(of.len() <= limits.of_peer);
                }
            }
        }
    }
}
