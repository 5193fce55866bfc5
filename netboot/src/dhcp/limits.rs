//! Core: how many messages clients, circuits and links may send.
//!
//! Each client, each circuit (a port of a switch) and each link has a limit. Messages beyond it are
//! dropped before they cost an address or a flush, and nobody else notices. A client is known by its
//! place and its identity, so that nobody uses up the messages of a client elsewhere.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::packet::{Circuit, Identity, Packet};

/// A client: firmware, iPXE and operating system of one boot send about a dozen messages, and
/// retry after seconds.
const CLIENT: Limit = Limit { burst: 32, per_second: 8 };
/// A circuit, as a rule a port of a switch: a host with tens of machines behind it that wake at once.
const CIRCUIT: Limit = Limit { burst: 256, per_second: 64 };
/// A link: above what the disk makes durable, and a storm of thousands of machines that wake at once
/// fits in the burst. It keeps a flood of made-up clients to part of one processor.
const LINK: Limit = Limit { burst: 50_000, per_second: 50_000 };
/// Clients and circuits that are remembered, each in two generations: more than the machines of a row.
/// An attacker that makes up clients pushes others out, and they begin anew with a whole burst.
const REMEMBERED_MAX: usize = 4_096;

/// So many at once, so many a second after that.
#[derive(Debug, Clone, Copy)]
struct Limit {
    burst: i64,
    per_second: i64,
}

/// Messages that came too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limited {
    Client,
    /// Through one relay's circuit.
    Circuit,
    Link,
}

/// When the messages that were taken would all be allowed at the plain rate.
#[derive(Debug, Clone, Copy, Default)]
struct Taken(i64);

impl Taken {
    /// Whether `limit` allows one more at `now`, which is then taken.
    fn one(&mut self, limit: Limit, now: i64) -> bool {
        let each_us = 1_000_000 / limit.per_second;
        let most_us = limit.burst * each_us;
        // Further ahead than it can be: the clock went back.
        if self.0 < now || self.0 > now.saturating_add(most_us) {
            self.0 = now;
        }
        let allowed = self.0.saturating_add(each_us) <= now.saturating_add(most_us);
        if allowed {
            self.0 = self.0.saturating_add(each_us);
        }
        allowed
    }
}

/// A bounded memory: when one generation is full, the one before it is forgotten.
#[derive(Debug)]
struct Table<K> {
    limit: Limit,
    young: BTreeMap<K, Taken>,
    old: BTreeMap<K, Taken>,
}

impl<K: Ord> Table<K> {
    fn new(limit: Limit) -> Self {
        Self { limit, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    fn one(&mut self, key: K, now: i64) -> bool {
        if let Some(taken) = self.young.get_mut(&key) {
            return taken.one(self.limit, now);
        }
        if self.young.len() >= REMEMBERED_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let mut taken = self.old.remove(&key).unwrap_or(Taken(now));
        let allowed = taken.one(self.limit, now);
        self.young.insert(key, taken);
        allowed
    }
}

/// The way of a message into the network: our link, the relay, its circuit.
type Way = (usize, Ipv4Addr, Option<Circuit>);

/// The recent messages of links, circuits and clients.
#[derive(Debug)]
pub struct Limits {
    links: BTreeMap<usize, Taken>,
    circuits: Table<Way>,
    clients: Table<(Way, Identity)>,
}

impl Default for Limits {
    fn default() -> Self {
        let (circuits, clients) = (Table::new(CIRCUIT), Table::new(CLIENT));
        Self { links: BTreeMap::new(), circuits, clients }
    }
}

impl Limits {
    /// Takes any bytes that came by `link`, a number of a few.
    ///
    /// # Errors
    /// There are too many.
    pub fn datagram(&mut self, link: usize, now: i64) -> Result<(), Limited> {
        let taken = self.links.entry(link).or_insert(Taken(now));
        if taken.one(LINK, now) { Ok(()) } else { Err(Limited::Link) }
    }

    /// Takes a message that came by `link`. A client beyond its own limit does not use up that of
    /// its circuit. A relay that names no circuit stands for a whole network, and has no limit but
    /// the link's.
    ///
    /// # Errors
    /// There are too many of its client, or of its circuit.
    pub fn message(&mut self, link: usize, packet: &Packet, now: i64) -> Result<(), Limited> {
        let way: Way = (link, packet.header.giaddr, packet.circuit());
        if let Some(client) = Identity::of(packet)
            && !self.clients.one((way.clone(), client), now)
        {
            return Err(Limited::Client);
        }
        if way.2.is_some() && !self.circuits.one(way, now) {
            return Err(Limited::Circuit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp::packet::MessageType;
    use crate::dhcp::packet::vectors::{MAC, Request};

    const SECOND: i64 = 1_000_000;

    fn mac(number: u32) -> [u8; 6] {
        let [a, b, c, d] = number.to_be_bytes();
        [2, 0, a, b, c, d]
    }

    fn discover(mac: [u8; 6]) -> Request {
        Request::new(MessageType::Discover, mac)
    }

    fn at_port(mac: [u8; 6], port: u8) -> Packet {
        discover(mac).giaddr(Ipv4Addr::new(10, 69, 0, 1)).option(82, &[1, 1, port]).decode()
    }

    /// So many of `asked` messages, one each `gap`, are allowed.
    #[test]
    fn rates() {
        let few = Limit { burst: 4, per_second: 2 };
        for (gap, asked, allowed) in [
            (0, 9, 4),
            (SECOND / 2, 100, 100),
            (SECOND / 4, 16, 11),
            (SECOND, 100, 100),
            // A clock that goes back, a little or far, keeps nobody out for longer than the burst.
            (-1, 3, 3),
            (-100 * SECOND, 50, 50),
        ] {
            let mut taken = Taken::default();
            let at = |number: i64| 1_000 * SECOND + number * gap;
            let count = (0..asked).filter(|number| taken.one(few, at(*number))).count();
            assert_eq!(count, allowed, "gap {gap}");
        }
    }

    #[test]
    fn a_client_in_a_loop_costs_itself_only() {
        let mut limits = Limits::default();
        let (looping, other) = (discover(mac(1)).decode(), discover(mac(2)).decode());
        let mut passed = 0;
        for number in 0..10_000_i64 {
            let now = number * SECOND / 1_000;
            passed += i64::from(limits.message(0, &looping, now).is_ok());
            if number % 1_000 == 0 {
                assert_eq!(limits.message(0, &other, now), Ok(()));
            }
        }
        assert_eq!(passed, CLIENT.burst + 10 * CLIENT.per_second - 1);
        assert_eq!(limits.message(0, &looping, 10 * SECOND), Ok(()));
        assert_eq!(limits.message(0, &looping, 10 * SECOND), Err(Limited::Client));
        // Its name used elsewhere is another client.
        assert_eq!(limits.message(1, &looping, 10 * SECOND), Ok(()));
        assert_eq!(limits.message(0, &at_port(mac(1), 7), 10 * SECOND), Ok(()));
    }

    #[test]
    fn a_circuit_with_made_up_clients_costs_itself_only() {
        let mut limits = Limits::default();
        let passed = (0..10_000).filter(|n| limits.message(0, &at_port(mac(*n), 1), 0).is_ok());
        assert_eq!(i64::try_from(passed.count()), Ok(CIRCUIT.burst));
        assert_eq!(limits.message(0, &at_port(mac(1), 1), 0), Err(Limited::Circuit));
        assert_eq!(limits.message(0, &at_port(mac(1), 2), 0), Ok(()));
        // One client in a loop leaves the rest of its circuit alone.
        for _ in 0..10_000 {
            let _limited = limits.message(0, &at_port(mac(3), 3), 0);
        }
        assert_eq!(limits.message(0, &at_port(mac(4), 3), 0), Ok(()));
    }

    #[test]
    fn a_relay_without_circuits_is_a_whole_network() {
        let mut limits = Limits::default();
        let relayed = |n| discover(mac(n)).giaddr(Ipv4Addr::new(10, 69, 0, 1)).decode();
        assert!((0..10_000).all(|n| limits.message(0, &relayed(n), 0).is_ok()));
    }

    #[test]
    fn a_link_has_a_limit_for_everything() {
        let mut limits = Limits::default();
        let passed = (0..60_000).filter(|_| limits.datagram(0, 0).is_ok()).count();
        assert_eq!(i64::try_from(passed), Ok(LINK.burst));
        assert_eq!(limits.datagram(0, 0), Err(Limited::Link));
        assert_eq!(limits.datagram(1, 0), Ok(()));
        assert_eq!(limits.datagram(0, SECOND), Ok(()));
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_those_that_ask() {
        let mut limits = Limits::default();
        let looping = discover(MAC).decode();
        let mut passed = 0;
        for number in 0..100_000 {
            let _allowed = limits.message(0, &discover(mac(number)).decode(), 0);
            passed += i64::from(limits.message(0, &looping, 0).is_ok());
        }
        assert_eq!(passed, CLIENT.burst);
        let remembered = limits.clients.young.len() + limits.clients.old.len();
        assert!(remembered <= 2 * REMEMBERED_MAX, "{remembered}");
        assert!(limits.circuits.young.is_empty());
        let long = at_port(MAC, 1);
        assert_eq!(limits.message(0, &long, 0), Ok(()));
        let named = discover(MAC).giaddr(Ipv4Addr::new(10, 69, 0, 1)).option(82, &long_circuit());
        assert_eq!(limits.message(0, &named.decode(), 0), Ok(()));
        let (_, _, circuit) = limits.circuits.young.last_key_value().unwrap().0;
        let longer = [&[1, 201][..], &[9; 201]].concat();
        let longer = discover(MAC).giaddr(Ipv4Addr::new(10, 69, 0, 1)).option(82, &longer);
        assert_eq!(*circuit, longer.decode().circuit(), "a name counts up to its 64th byte");
    }

    fn long_circuit() -> Vec<u8> {
        [&[1, 200][..], &[9; 200]].concat()
    }
}
