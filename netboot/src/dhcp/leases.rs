//! Core: who holds which address.
//!
//! An address is *offered* (for a moment, known in memory only), *bound*, *released* or *declined*.
//! The expiry of a binding is not a state but a comparison with the clock. Whatever has ended stays as a
//! memory: its client gets the same address again as long as nobody else needed it.
//!
//! In a rack with several agents one of them gives an address to clients, and the others only renew it
//! for the client that holds it. The giver gives it to another client when that one returned it, or when
//! every agent that might have renewed its lease says that it is over.
//!
//! `record` is what is durable, `table` finds it, `guests` keeps addresses for machines, and `news`
//! says whose word counts. Times are microseconds since the epoch.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::{MacAddress, NodeName};

use super::config::{Giver, RANGE_ADDRESSES_MAX, RANGES_MAX, ServedRange};
use super::packet::Identity;
use entry::{Entry, Offer, State};
pub use guests::{Guest, RangeUse};
pub use news::{Learned, LeaseClash, Teller};
pub use record::{LeaseRecord, LeaseState};
use table::Table;

mod entry;
mod guests;
mod news;
mod record;
mod table;

/// How long an offer keeps its address from others. Clients answer within seconds, the slowest firmware
/// after some twenty; a flood of discoveries must not hold a rack's few addresses longer.
pub const OFFER_HOLD_US: i64 = 30 * 1_000_000;
/// How long an address stays unused after a client found it in use by another. The time is enough to
/// look for the culprit, and too short for one broken interface to eat a rack's range for good.
pub const QUARANTINE_US: i64 = 3_600 * 1_000_000;
/// Addresses that one client keeps in quarantine: a second interface may clash once more, but no client
/// takes a rack's range from the others.
pub const DECLINES_MAX: usize = 2;
/// Offers held at a time, all ranges together: all machines of the largest range may wake at once.
pub const OFFERS_MAX: usize = RANGE_ADDRESSES_MAX as usize;
/// How far the clocks of two agents may differ: those that ask for the time differ by less than a second.
pub const CLOCKS_DIFFER_US: i64 = 60 * 1_000_000;
/// How long an address rests after its lease where an agent that may have renewed it is silent, and no
/// host can be asked. By then somebody has mended the agent, or marked it offline.
pub const UNHEARD_REST_US: i64 = 24 * 3_600 * 1_000_000;
/// Offers that nobody took, of which the lowest is offered again: what more of them wait in line costs
/// the same.
const ENDED_OFFERS_MAX: usize = 64;
/// How long a lease lasted of which nobody wrote down when it began.
const LEASE_US: i64 = 3_600 * 1_000_000;
/// Addresses remembered: every address of every range. Each takes about 100 bytes.
pub const ADDRESSES_MAX: usize = RANGES_MAX * RANGE_ADDRESSES_MAX as usize;

/// The standing of a client to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It holds the address by a lease.
    Bound,
    /// The same, but another agent gives the address: here it is renewed only.
    Lent,
    /// The address was offered to it, and is still kept for it.
    Offered,
    /// It was the last to hold the address or to be offered it, and nobody else came since.
    Lapsed,
    /// It is known here by another address of the range.
    Elsewhere,
    /// It holds a lease, but the address is no longer to be leased.
    Revoked,
    /// The address is in quarantine.
    Quarantined,
    /// It is unknown here, and another client holds the address.
    Taken,
    /// It is unknown here, and nobody holds the address.
    Stranger,
    /// The address is not ours to lease.
    Foreign,
}

/// The addresses of one agent.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    table: Table,
    /// The lowest address of a range that nobody had when one was searched last, by the first address
    /// of the range.
    unused: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// For each other agent the time up to which all that it did is known here.
    heard: BTreeMap<NodeName, i64>,
    /// When this agent began to look at what goes on.
    began_us: i64,
}

impl Leases {
    /// The leases that were durable when the agent started. Records beyond [`ADDRESSES_MAX`] are left
    /// out.
    pub fn restore(records: impl IntoIterator<Item = LeaseRecord>) -> Self {
        let mut leases = Self::default();
        for record in records.into_iter().take(ADDRESSES_MAX) {
            leases.put(record);
        }
        leases
    }

    /// The durable states that are known, by address.
    pub fn records(&self) -> impl Iterator<Item = LeaseRecord> {
        self.table.iter().filter_map(|(address, entry)| match entry.state {
            State::Durable(state) => {
                let (client, since_us) = (entry.client.clone(), Some(entry.since_us));
                Some(LeaseRecord { address, client, state, since_us })
            }
            State::Offered(_) => None,
        })
    }

    /// Begins at `now`: nothing is known of what happened before, but what was durable.
    pub fn begin(&mut self, now: i64) {
        self.began_us = now;
    }

    /// Notes that all is known here which another agent did up to a time of this agent's clock.
    pub fn hear(&mut self, agent: NodeName, upto_us: i64) {
        self.heard.insert(agent, upto_us);
    }

    /// The time up to which all is known here which another agent did.
    pub fn heard(&self, agent: &NodeName) -> Option<i64> {
        self.heard.get(agent).copied()
    }

    /// The agent which gives the address that `client` holds or held last; none where this one does.
    pub fn home_of<'a>(
        &self,
        range: &'a ServedRange,
        client: &Identity,
        now: i64,
    ) -> Option<&'a NodeName> {
        match range.giver(self.last_of(range, client, now)?, now) {
            Giver::Agent(agent) => Some(agent),
            Giver::Us | Giver::Nobody => None,
        }
    }

    /// The standing of `client` to `address`, which is on the network of `range`.
    pub fn standing(
        &self,
        range: &ServedRange,
        client: &Identity,
        address: Ipv4Addr,
        now: i64,
    ) -> Standing {
        let entry = self.table.get(address);
        if !range.leases(address) {
            let own = entry.is_some_and(|entry| entry.is_of(client) && entry.is_live(now));
            return if own { Standing::Revoked } else { Standing::Foreign };
        }
        let own = self.last_of(range, client, now);
        let is_ours = range.is_ours(address, now);
        match entry {
            Some(entry) if entry.is_declined() && entry.is_live(now) => Standing::Quarantined,
            Some(entry) if entry.is_of(client) && own == Some(address) => match entry.state {
                _ if !entry.is_live(now) && !is_ours => Standing::Foreign,
                _ if !entry.is_live(now) => Standing::Lapsed,
                _ if range.seconds_of(address, now).is_none() => Standing::Foreign,
                State::Offered(_) => Standing::Offered,
                State::Durable(_) if is_ours => Standing::Bound,
                State::Durable(_) => Standing::Lent,
            },
            _ if !is_ours => Standing::Foreign,
            _ if own.is_some() => Standing::Elsewhere,
            Some(entry) if entry.is_live(now) => Standing::Taken,
            _ => Standing::Stranger,
        }
    }

    /// Keeps an address of `range` for `client` until it asks for it. The order is: the one it holds,
    /// held last, or wishes for, the lowest that nobody has had, the one that is unused for longest.
    /// `None` if none is free. Addresses that other agents give are none of these.
    pub fn offer(
        &mut self,
        range: &ServedRange,
        client: &Identity,
        wish: Option<Ipv4Addr>,
        now: i64,
    ) -> Option<Ipv4Addr> {
        let own = self.last_where(client, now, |address| {
            range.leases(address) && range.is_ours(address, now)
        });
        let declines = self.declined_by(client, now) >= DECLINES_MAX;
        let held =
            own.and_then(|address| self.table.get(address)).filter(|entry| entry.is_live(now));
        match held.map(|entry| entry.state) {
            Some(State::Durable(_)) => return own,
            Some(State::Offered(_)) => {}
            None if self.table.live_offers(now) >= OFFERS_MAX => return None,
            None => {}
        }
        let wish = wish.filter(|wish| {
            range.leases(*wish) && range.is_ours(*wish, now) && self.is_unused(range, *wish, now)
        });
        let address = own
            // Its last address is one that it declined, and that is in no quarantine.
            .filter(|_| !declines)
            .or(wish.filter(|_| !declines))
            .or_else(|| self.first_unused(range, now))
            .or_else(|| self.longest_free(range, now))?;
        if self.table.get(address).is_none() && !self.has_room() {
            return None;
        }
        let before = self.table.get(address);
        let again = before.is_some_and(|entry| match entry.state {
            State::Offered(offer) => offer.again,
            State::Durable(_) => entry.client != *client || declines,
        });
        let ended_us = before.and_then(|entry| entry.state.lease_ends());
        let until_us = now.saturating_add(OFFER_HOLD_US);
        let again = again || !self.is_agreed(range, address, now);
        let offer = Offer { until_us, again, ended_us };
        let state = State::Offered(offer);
        let entry = Entry { client: client.clone(), state, since_us: now, guest: None };
        self.table.insert(address, entry);
        Some(address)
    }

    /// Whether an address that is offered was another client's before, which may use it still.
    pub fn is_offered_again(&self, address: Ipv4Addr) -> bool {
        let entry = self.table.get(address);
        entry.is_some_and(|entry| matches!(entry.state, State::Offered(Offer { again: true, .. })))
    }

    /// Quarantines an address that a host uses without a lease.
    pub fn occupy(&mut self, address: Ipv4Addr, host: MacAddress, now: i64) -> LeaseRecord {
        let until_us = now.saturating_add(QUARANTINE_US);
        self.set(&Identity::Ethernet(host), address, LeaseState::Declined { until_us }, now)
    }

    /// Forgets what is kept for `client` by an offer: it took another server's.
    pub fn withdraw(&mut self, client: &Identity) {
        let all = self.table.of(client);
        let offered = all.filter_map(|(address, entry)| match entry.state {
            State::Offered(offer) => Some((address, entry.clone(), offer)),
            State::Durable(_) => None,
        });
        let offered: Vec<_> = offered.collect();
        for (address, entry, offer) in offered {
            self.table.remove(address);
            if offer.again || offer.ended_us.is_some() {
                // It stays known that a client had it before, whose lease another agent may have renewed.
                let state = State::Offered(Offer { until_us: i64::MIN, ..offer });
                self.table.insert(address, Entry { state, ..entry });
            }
            // It is the lowest again, perhaps: the next search begins anew.
            self.unused.clear();
        }
    }

    /// Gives `address` to `client`, which must stand to it as [`Standing::Bound`], `Lent`, `Offered` or
    /// `Lapsed`, from `now` on.
    pub fn bind(
        &mut self,
        client: &Identity,
        address: Ipv4Addr,
        now: i64,
        until_us: i64,
    ) -> LeaseRecord {
        self.set(client, address, LeaseState::Bound { until_us }, now)
    }

    /// Ends the lease of `address`. `None` if `client` does not hold it.
    pub fn release(
        &mut self,
        client: &Identity,
        address: Ipv4Addr,
        now: i64,
    ) -> Option<LeaseRecord> {
        let entry = self.table.get(address)?;
        (entry.is_of(client) && entry.is_memory() && entry.is_live(now))
            .then(|| self.set(client, address, LeaseState::Released { at_us: now }, now))
    }

    /// Ends the lease of `address`, whoever has it. `None` if nobody does.
    pub fn end(&mut self, address: Ipv4Addr, now: i64) -> Option<LeaseRecord> {
        let entry = self.table.get(address)?;
        let is_bound = entry.state.durable().is_some_and(LeaseState::is_bound);
        let client = entry.client.clone();
        (is_bound && entry.is_live(now))
            .then(|| self.set(&client, address, LeaseState::Released { at_us: now }, now))
    }

    /// Puts `address` into quarantine, or only ends its lease if the client has [`DECLINES_MAX`] there.
    /// `None` if it is not kept for `client`.
    pub fn decline(
        &mut self,
        client: &Identity,
        address: Ipv4Addr,
        now: i64,
    ) -> Option<LeaseRecord> {
        let state = match self.declined_by(client, now) {
            ..DECLINES_MAX => LeaseState::Declined { until_us: now.saturating_add(QUARANTINE_US) },
            _ => LeaseState::Released { at_us: now },
        };
        let entry = self.table.get(address)?;
        (entry.is_of(client) && entry.is_live(now)).then(|| self.set(client, address, state, now))
    }

    /// How many addresses are in quarantine by this client.
    fn declined_by(&self, client: &Identity, now: i64) -> usize {
        let all = self.table.of(client);
        all.filter(|(_, entry)| entry.is_declined() && entry.is_live(now)).count()
    }

    /// Takes back what was noted while the clock was ahead. Nothing lasts longer from `now` on than a
    /// lease of `lease_us`, or a quarantine, and nothing is known of a time that is still to come.
    pub fn shorten(&mut self, lease_us: i64, now: i64) {
        self.table.change_durable(|state, since_us| {
            *state = state.capped(lease_us, now);
            *since_us = (*since_us).min(now);
        });
        self.heard.clear();
    }

    fn has_room(&self) -> bool {
        self.table.len() < ADDRESSES_MAX
    }

    fn put(&mut self, record: LeaseRecord) -> LeaseRecord {
        let LeaseRecord { address, client, state, .. } = &record;
        let since_us = record.since_us(LEASE_US);
        self.set(client, *address, *state, since_us)
    }

    fn set(
        &mut self,
        client: &Identity,
        address: Ipv4Addr,
        state: LeaseState,
        since_us: i64,
    ) -> LeaseRecord {
        let client = client.clone();
        let before = self.table.get(address).filter(|entry| entry.client == client);
        let guest = before.and_then(|entry| entry.guest.clone());
        let entry = Entry { client: client.clone(), state: State::Durable(state), since_us, guest };
        self.table.insert(address, entry);
        LeaseRecord { address, client, state, since_us: Some(since_us) }
    }

    /// The address of `range` that `client` holds, or else held last.
    fn last_of(&self, range: &ServedRange, client: &Identity, now: i64) -> Option<Ipv4Addr> {
        self.last_where(client, now, |address| range.leases(address))
    }

    /// The address that `client` holds, or else held last, of those that are right.
    fn last_where(
        &self,
        client: &Identity,
        now: i64,
        is_right: impl Fn(Ipv4Addr) -> bool,
    ) -> Option<Ipv4Addr> {
        self.table
            .of(client)
            .filter(|(address, entry)| entry.is_of(client) && is_right(*address))
            .max_by_key(|(_, entry)| (entry.is_live(now), entry.ends()))
            .map(|(address, _)| address)
    }

    /// An address of `range` that nobody holds or remembers: the lowest one, as a rule. The search
    /// begins where it ended last, and from the beginning only where nothing lies behind.
    fn first_unused(&mut self, range: &ServedRange, now: i64) -> Option<Ipv4Addr> {
        let is_free = |address: &Ipv4Addr| {
            range.is_ours(*address, now) && self.is_unused(range, *address, now)
        };
        let ended = self.table.ended_offers(now).take(ENDED_OFFERS_MAX);
        let ended = ended.filter(|address| range.leases(*address) && is_free(address)).min();
        let from = self.unused.get(&range.first).copied().unwrap_or(range.first);
        let next = range.addresses_from(from).find(is_free);
        let next = next.or_else(|| range.addresses().find(is_free));
        if let Some(next) = next {
            self.unused.insert(range.first, next);
        }
        ended.into_iter().chain(next).min()
    }

    /// Whether nobody holds `address` or remembers it.
    fn is_unused(&self, range: &ServedRange, address: Ipv4Addr, now: i64) -> bool {
        let entry = self.table.get(address);
        entry.is_none_or(|entry| !entry.is_live(now) && !entry.is_memory())
            && self.may_be_given(range, address, now)
    }

    /// The address that is free for longest, those first that are free by the word of all agents.
    fn longest_free(&self, range: &ServedRange, now: i64) -> Option<Ipv4Addr> {
        self.table
            .range(range.first..=range.last)
            .filter(|(address, entry)| !entry.is_live(now) && range.leases(*address))
            .filter(|(address, _)| range.is_ours(*address, now))
            .filter(|(address, _)| self.may_be_given(range, *address, now))
            .min_by_key(|(address, entry)| (!self.is_agreed(range, *address, now), entry.ends()))
            .map(|(address, _)| address)
    }

    /// Whether an address that is not held, for all that is known here, may go to another client. All
    /// agents say so, or its host can be asked, or it rested for long.
    fn may_be_given(&self, range: &ServedRange, address: Ipv4Addr, now: i64) -> bool {
        let lease = self.lease_ended(address).map(|ended| ended.max(self.began_us));
        let rested = |ended: i64| ended.saturating_add(UNHEARD_REST_US) <= now;
        let has_rested = || lease.into_iter().chain(self.taken_over(range, address)).all(rested);
        !range.relays_only || self.is_agreed(range, address, now) || has_rested()
    }

    /// Whether all agents say that no lease of the address lives which this agent does not know. Each
    /// was heard after its last lease ended, and after this agent took it over. An agent that left the
    /// rack did so long ago, so that no lease lives which it renewed.
    fn is_agreed(&self, range: &ServedRange, address: Ipv4Addr, now: i64) -> bool {
        let lease = self.lease_ended(address);
        let lease = lease.map(|ended| ended.saturating_add(CLOCKS_DIFFER_US));
        let mut ends = lease.into_iter().chain(self.taken_over(range, address));
        let all_heard =
            |end| range.peers.iter().all(|peer| self.heard(peer).is_some_and(|at| at >= end));
        ends.all(|end| range.settled_us <= now && all_heard(end))
    }

    /// When the last lease of an address ended, unless its client returned it.
    fn lease_ended(&self, address: Ipv4Addr) -> Option<i64> {
        self.table.get(address)?.state.lease_ends()
    }

    /// When this agent took an address over, if it did not give it to anybody since.
    fn taken_over(&self, range: &ServedRange, address: Ipv4Addr) -> Option<i64> {
        let from = range.later.get(&address).copied();
        let given = self.table.get(address).map(|entry| entry.since_us);
        from.filter(|from| given.is_none_or(|given| given < *from))
    }
}

#[cfg(test)]
mod tests;
