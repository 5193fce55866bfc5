//! Core: what clients may hold that are in no inventory, so that they take no address from machines.
//!
//! Addresses that a guest is offered, leases or has in quarantine count, whoever it says it is.

use std::net::Ipv4Addr;

use super::{Entry, Identity, Leases, ServedRange, State};
use crate::dhcp::packet::Circuit;

/// A client that is in no inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// By which port its message came, as far as relays told.
    pub circuit: Option<Circuit>,
}

/// How the addresses of a range are used that this agent gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeUse {
    /// First address of the range, those of other agents among them.
    pub first: Ipv4Addr,
    /// Last address of the range.
    pub last: Ipv4Addr,
    /// How many this agent gives.
    pub addresses: usize,
    /// How many of these are leased.
    pub leased: usize,
    /// How many are offered.
    pub offered: usize,
    /// How many are in quarantine.
    pub quarantined: usize,
}

impl Leases {
    /// Notes whether the client of an address is a guest.
    pub fn mark(&mut self, address: Ipv4Addr, guest: Option<Guest>) {
        let Some(entry) = self.table.get(address).cloned() else { return };
        let before = entry.guest.as_ref().and_then(|before| before.circuit.clone());
        // A client that renews writes to us directly.
        let guest = guest.map(|guest| Guest { circuit: guest.circuit.or(before) });
        if guest != entry.guest {
            self.table.insert(address, Entry { guest, ..entry });
        }
    }

    /// Finds the guests anew among all clients, where the inventory changed.
    pub fn find_guests(&mut self, ranges: &[ServedRange]) {
        let is_guest = |address: Ipv4Addr, client: &Identity| {
            let range = ranges.iter().find(|range| range.on_network(address));
            range.is_some_and(|range| range.is_guest(client))
        };
        let all = self.table.iter();
        let guests: Vec<_> =
            all.map(|(address, entry)| (address, is_guest(address, &entry.client))).collect();
        for (address, is_guest) in guests {
            self.mark(address, is_guest.then_some(Guest { circuit: None }));
        }
    }

    /// Whether a guest may have an address of this agent, beside those that others have: not more than
    /// guests may have together, and by one circuit.
    pub fn has_room_for(
        &self,
        range: &ServedRange,
        client: &Identity,
        guest: &Guest,
        now: i64,
    ) -> bool {
        let Some(rules) = &range.guests else { return true };
        let (mut all, mut here) = (0, 0);
        for (address, entry) in self.table.live_guests(now) {
            if entry.client == *client && !entry.is_declined() {
                continue;
            }
            if range.leases(address) && range.is_ours(address, now) {
                let circuit = entry.guest.as_ref().and_then(|other| other.circuit.as_ref());
                let is_here = circuit.is_some() && circuit == guest.circuit.as_ref();
                (all, here) = (all + 1, here + usize::from(is_here));
            }
        }
        all < rules.addresses_max && here < rules.of_circuit_max()
    }

    /// How the addresses of a range are used.
    pub fn use_of(&self, range: &ServedRange, now: i64) -> RangeUse {
        let (first, last) = (range.first, range.last);
        let is_ours = |address: &Ipv4Addr| range.is_ours(*address, now);
        let addresses = range.addresses().filter(is_ours).count();
        let (mut leased, mut offered, mut quarantined) = (0, 0, 0);
        for (address, entry) in self.table.range(first..=last) {
            if entry.is_live(now) && range.leases(address) && is_ours(&address) {
                match entry.state {
                    State::Offered(_) => offered += 1,
                    State::Durable(_) if entry.is_declined() => quarantined += 1,
                    State::Durable(_) => leased += 1,
                }
            }
        }
        RangeUse { first, last, addresses, leased, offered, quarantined }
    }
}
