//! Core: addresses, and indices by client and by the end of offers. A message costs the same in a range
//! of thousands as in one of ten.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use super::{Entry, Identity, LeaseState, Offer, State};

/// The known addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    entries: BTreeMap<Ipv4Addr, Entry>,
    clients: BTreeSet<(Identity, Ipv4Addr)>,
    /// Offers by their end.
    offers: BTreeSet<(i64, Ipv4Addr)>,
    /// Addresses of guests, by the end of their entries.
    guests: BTreeSet<(i64, Ipv4Addr)>,
}

impl Table {
    pub(super) fn get(&self, address: Ipv4Addr) -> Option<&Entry> {
        self.entries.get(&address)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ipv4Addr, &Entry)> {
        self.entries.iter().map(|(address, entry)| (*address, entry))
    }

    pub(super) fn range(
        &self,
        range: RangeInclusive<Ipv4Addr>,
    ) -> impl Iterator<Item = (Ipv4Addr, &Entry)> {
        self.entries.range(range).map(|(address, entry)| (*address, entry))
    }

    /// The addresses of one client, in whatever state.
    pub(super) fn of<'a>(
        &'a self,
        client: &Identity,
    ) -> impl Iterator<Item = (Ipv4Addr, &'a Entry)> + use<'a> {
        let first = (client.clone(), Ipv4Addr::UNSPECIFIED);
        let last = (client.clone(), Ipv4Addr::BROADCAST);
        let addresses = self.clients.range(first..=last).map(|(_, address)| *address);
        addresses.filter_map(|address| Some((address, self.entries.get(&address)?)))
    }

    pub(super) fn insert(&mut self, address: Ipv4Addr, entry: Entry) {
        self.remove(address);
        self.clients.insert((entry.client.clone(), address));
        if let State::Offered(Offer { until_us, .. }) = entry.state {
            self.offers.insert((until_us, address));
        }
        if entry.guest.is_some() {
            self.guests.insert((entry.ends(), address));
        }
        self.entries.insert(address, entry);
    }

    pub(super) fn remove(&mut self, address: Ipv4Addr) {
        let Some(entry) = self.entries.remove(&address) else { return };
        if let State::Offered(Offer { until_us, .. }) = entry.state {
            self.offers.remove(&(until_us, address));
        }
        self.guests.remove(&(entry.ends(), address));
        self.clients.remove(&(entry.client, address));
    }

    /// Changes the durable states, and since when they are.
    pub(super) fn change_durable(&mut self, mut change: impl FnMut(&mut LeaseState, &mut i64)) {
        for entry in self.entries.values_mut() {
            if let State::Durable(state) = &mut entry.state {
                change(state, &mut entry.since_us);
            }
        }
        let guests = self.iter().filter(|(_, entry)| entry.guest.is_some());
        self.guests = guests.map(|(address, entry)| (entry.ends(), address)).collect();
    }

    /// The entries that guests hold at `now`.
    pub(super) fn live_guests(&self, now: i64) -> impl Iterator<Item = (Ipv4Addr, &Entry)> {
        let later = self.guests.range((now, Ipv4Addr::BROADCAST)..);
        later.filter_map(|(_, address)| Some((*address, self.entries.get(address)?)))
    }

    /// The number of offers that hold at `now`.
    pub(super) fn live_offers(&self, now: i64) -> usize {
        self.offers.range((now, Ipv4Addr::BROADCAST)..).count()
    }

    /// The addresses of offers that nobody took, those that ended first before others.
    pub(super) fn ended_offers(&self, now: i64) -> impl Iterator<Item = Ipv4Addr> {
        self.offers.range(..=(now, Ipv4Addr::BROADCAST)).map(|(_, address)| *address)
    }
}
