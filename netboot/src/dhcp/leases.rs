//! Core: who holds which address.
//!
//! An address is *offered* (for a moment, known in memory only), *bound*, *released* or *declined*.
//! That a binding has expired is not a state but a comparison with the clock. Whatever has ended
//! stays as a memory: its client gets the same address again as long as nobody else needed it.
//!
//! Times are microseconds since the epoch.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::MacAddress;
use serde::{Deserialize, Serialize};

use super::config::{RANGE_ADDRESSES_MAX, RANGES_MAX, ServedRange};
use super::packet::Identity;
use table::Table;

mod table;

/// How long an offer keeps its address from others: clients answer within seconds, the slowest
/// firmware after some twenty; a flood of discoveries must not hold a rack's few addresses longer.
pub const OFFER_HOLD_US: i64 = 30 * 1_000_000;
/// How long an address stays unused after a client found it in use by another: time to look for
/// the culprit, but short enough that one broken interface does not eat a rack's range for good.
pub const QUARANTINE_US: i64 = 3_600 * 1_000_000;
/// Addresses that one client keeps in quarantine: a second interface may clash once more, but no client
/// takes a rack's range from the others.
pub const DECLINES_MAX: usize = 2;
/// Offers held at a time, all ranges together: all machines of the largest range may wake at once.
pub const OFFERS_MAX: usize = RANGE_ADDRESSES_MAX as usize;
/// Offers that nobody took, of which the lowest is offered again: what more of them wait in line costs
/// the same.
const ENDED_OFFERS_MAX: usize = 64;
/// Addresses remembered: every address of every range. Each takes about 100 bytes.
pub const ADDRESSES_MAX: usize = RANGES_MAX * RANGE_ADDRESSES_MAX as usize;

/// The durable state of one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The address; there is one record for each.
    pub address: Ipv4Addr,
    /// Who holds it, or held it last.
    pub client: Identity,
    /// What became of it.
    #[serde(flatten)]
    pub state: LeaseState,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum LeaseState {
    /// In use until then; `i64::MAX` for ever.
    Bound {
        /// End of the lease.
        until_us: i64,
    },
    /// Given back by its client.
    Released {
        /// When.
        at_us: i64,
    },
    /// Found in use by another than the client; not leased until then.
    Declined {
        /// End of the quarantine.
        until_us: i64,
    },
}

/// What another agent told of a lease, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learned {
    /// It is newer than what was known here, and has to be made durable.
    Taken(LeaseRecord),
    /// This agent knows as much, or more.
    Known,
    /// Another client holds the address by a lease of this agent.
    Contradicted(LeaseRecord),
}

impl LeaseState {
    /// When it came to this, where leases last `lease_us`.
    fn since_us(self, lease_us: i64) -> i64 {
        match self {
            Self::Bound { until_us } => until_us.saturating_sub(lease_us),
            Self::Declined { until_us } => until_us.saturating_sub(QUARANTINE_US),
            Self::Released { at_us } => at_us,
        }
    }

    /// The same, no longer than one that began now: the clock of the one that told it may be ahead.
    fn capped(self, lease_us: i64, now: i64) -> Self {
        let cap = |until_us: i64, longest: i64| until_us.min(now.saturating_add(longest));
        match self {
            Self::Bound { until_us } => Self::Bound { until_us: cap(until_us, lease_us) },
            Self::Declined { until_us } => {
                Self::Declined { until_us: cap(until_us, QUARANTINE_US) }
            }
            Self::Released { at_us } => Self::Released { at_us: at_us.min(now) },
        }
    }
}

impl LeaseRecord {
    /// When the lease ends, if it is one.
    #[must_use]
    pub fn bound_until_us(&self) -> Option<i64> {
        match self.state {
            LeaseState::Bound { until_us } => Some(until_us),
            LeaseState::Released { .. } | LeaseState::Declined { .. } => None,
        }
    }
}

/// What a client is to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It holds the address by a lease.
    Bound,
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    client: Identity,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// `again` where another client had the address before.
    Offered {
        until_us: i64,
        again: bool,
    },
    Durable(LeaseState),
}

impl Entry {
    /// When the address becomes, or became, free.
    fn ends(&self) -> i64 {
        match self.state {
            State::Offered { until_us, .. }
            | State::Durable(LeaseState::Bound { until_us } | LeaseState::Declined { until_us }) => {
                until_us
            }
            State::Durable(LeaseState::Released { at_us }) => at_us,
        }
    }

    fn is_live(&self, now: i64) -> bool {
        // A release ends at once, also when the clock was set back since.
        !matches!(self.state, State::Durable(LeaseState::Released { .. })) && self.ends() > now
    }

    fn is_declined(&self) -> bool {
        matches!(self.state, State::Durable(LeaseState::Declined { .. }))
    }

    /// Whether its client may come back to it: not after it found another host there.
    fn is_of(&self, client: &Identity) -> bool {
        self.client == *client && !self.is_declined()
    }

    /// Whether somebody once used the address, and may hope to get it again.
    fn is_memory(&self) -> bool {
        matches!(self.state, State::Durable(LeaseState::Bound { .. } | LeaseState::Released { .. }))
    }
}

/// The addresses of one agent.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    table: Table,
    /// The lowest address of a range that nobody had when one was searched last, by the first address
    /// of the range.
    unused: BTreeMap<Ipv4Addr, Ipv4Addr>,
}

impl Leases {
    /// What was durable when the agent started. Records beyond [`ADDRESSES_MAX`] are left out.
    pub fn restore(records: impl IntoIterator<Item = LeaseRecord>) -> Self {
        let entry = |record: LeaseRecord| {
            let state = State::Durable(record.state);
            (record.address, Entry { client: record.client, state })
        };
        let table = records.into_iter().take(ADDRESSES_MAX).map(entry).collect();
        Self { table, unused: BTreeMap::new() }
    }

    /// The durable states that are known, by address.
    pub fn records(&self) -> impl Iterator<Item = LeaseRecord> {
        self.table.iter().filter_map(|(address, entry)| match entry.state {
            State::Durable(state) => {
                Some(LeaseRecord { address, client: entry.client.clone(), state })
            }
            State::Offered { .. } => None,
        })
    }

    /// What `client` is to `address`, which is on the network of `range`.
    #[must_use]
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
                State::Offered { .. } => Standing::Offered,
                State::Durable(_) => Standing::Bound,
            },
            _ if !is_ours => Standing::Foreign,
            _ if own.is_some() => Standing::Elsewhere,
            Some(entry) if entry.is_live(now) => Standing::Taken,
            _ => Standing::Stranger,
        }
    }

    /// Keeps an address of `range` for `client` until it asks for it: the one it holds, or held
    /// last, or wishes for, or the lowest that nobody has had, or the one that is unused for
    /// longest. `None` if none is free.
    pub fn offer(
        &mut self,
        range: &ServedRange,
        client: &Identity,
        wish: Option<Ipv4Addr>,
        now: i64,
    ) -> Option<Ipv4Addr> {
        let own = self.last_of(range, client, now);
        let own = own.filter(|address| range.seconds_of(*address, now).is_some());
        let declines = self.declined_by(client, now) >= DECLINES_MAX;
        let held =
            own.and_then(|address| self.table.get(address)).filter(|entry| entry.is_live(now));
        match held.map(|entry| entry.state) {
            Some(State::Durable(_)) => return own,
            Some(State::Offered { .. }) => {}
            None if self.table.live_offers(now) >= OFFERS_MAX => return None,
            None => {}
        }
        let is_ours = |address: &Ipv4Addr| range.is_ours(*address, now);
        let wish =
            wish.filter(|wish| range.leases(*wish) && is_ours(wish) && self.is_unused(*wish, now));
        let address = own
            // Its last address is one that it declined, and that is in no quarantine.
            .filter(|own| is_ours(own) && !declines)
            .or(wish.filter(|_| !declines))
            .or_else(|| self.first_unused(range, now))
            .or_else(|| self.longest_free(range, now))?;
        if self.table.len() >= ADDRESSES_MAX && self.table.get(address).is_none() {
            return None;
        }
        let again = self.table.get(address).is_some_and(|entry| match entry.state {
            State::Offered { again, .. } => again,
            State::Durable(_) => entry.client != *client || declines,
        });
        let state = State::Offered { until_us: now.saturating_add(OFFER_HOLD_US), again };
        self.table.insert(address, Entry { client: client.clone(), state });
        Some(address)
    }

    /// Whether an address that is offered was another client's before, which may use it still.
    #[must_use]
    pub fn is_offered_again(&self, address: Ipv4Addr) -> bool {
        let entry = self.table.get(address);
        entry.is_some_and(|entry| matches!(entry.state, State::Offered { again: true, .. }))
    }

    /// Quarantines an address that a host uses without a lease.
    pub fn occupy(&mut self, address: Ipv4Addr, host: MacAddress, now: i64) -> LeaseRecord {
        let until_us = now.saturating_add(QUARANTINE_US);
        self.set(&Identity::Ethernet(host), address, LeaseState::Declined { until_us })
    }

    /// Forgets what is kept for `client` by an offer: it took another server's.
    pub fn withdraw(&mut self, client: &Identity) {
        let all = self.table.of(client);
        let offered = all.filter(|(_, entry)| matches!(entry.state, State::Offered { .. }));
        let offered: Vec<_> = offered.map(|(address, _)| address).collect();
        for address in offered {
            self.table.remove(address);
            // It is the lowest again, perhaps: the next search begins anew.
            self.unused.clear();
        }
    }

    /// Gives `address` to `client`, which must stand to it as [`Standing::Bound`], `Offered` or
    /// `Lapsed`.
    pub fn bind(&mut self, client: &Identity, address: Ipv4Addr, until_us: i64) -> LeaseRecord {
        self.set(client, address, LeaseState::Bound { until_us })
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
            .then(|| self.set(client, address, LeaseState::Released { at_us: now }))
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
        (entry.is_of(client) && entry.is_live(now)).then(|| self.set(client, address, state))
    }

    /// How many addresses are in quarantine by this client.
    fn declined_by(&self, client: &Identity, now: i64) -> usize {
        let all = self.table.of(client);
        all.filter(|(_, entry)| entry.is_declined() && entry.is_live(now)).count()
    }

    /// Shortens what was given while the clock was ahead: nothing lasts longer from `now` on than a lease
    /// of `lease_us`, or a quarantine.
    pub fn shorten(&mut self, lease_us: i64, now: i64) {
        self.table.change_durable(|state| {
            let (until_us, longest) = match state {
                LeaseState::Bound { until_us } => (until_us, lease_us),
                LeaseState::Declined { until_us } => (until_us, QUARANTINE_US),
                LeaseState::Released { .. } => return,
            };
            *until_us = (*until_us).min(now.saturating_add(longest));
        });
    }

    /// Takes what another agent of the rack told, where that is newer than what is known here. The
    /// later one of two is right: agents speak of one client's lease, except where an address was
    /// given twice.
    pub fn learn(&mut self, told: LeaseRecord, lease_us: i64, now: i64) -> Learned {
        let told = LeaseRecord { state: told.state.capped(lease_us, now), ..told };
        if let Some(entry) = self.table.get(told.address)
            && let State::Durable(state) = entry.state
        {
            if state.since_us(lease_us) >= told.state.since_us(lease_us) {
                return Learned::Known;
            }
            let another = entry.client != told.client && entry.is_live(now) && !entry.is_declined();
            if another && matches!(told.state, LeaseState::Bound { .. }) {
                return Learned::Contradicted(told);
            }
            if another {
                return Learned::Known;
            }
        }
        if self.table.len() >= ADDRESSES_MAX && self.table.get(told.address).is_none() {
            return Learned::Known;
        }
        Learned::Taken(self.set(&told.client, told.address, told.state))
    }

    fn set(&mut self, client: &Identity, address: Ipv4Addr, state: LeaseState) -> LeaseRecord {
        let client = client.clone();
        let entry = Entry { client: client.clone(), state: State::Durable(state) };
        self.table.insert(address, entry);
        LeaseRecord { address, client, state }
    }

    /// The address of `range` that `client` holds, or else held last.
    fn last_of(&self, range: &ServedRange, client: &Identity, now: i64) -> Option<Ipv4Addr> {
        self.table
            .of(client)
            .filter(|(address, entry)| entry.is_of(client) && range.leases(*address))
            .max_by_key(|(_, entry)| (entry.is_live(now), entry.ends()))
            .map(|(address, _)| address)
    }

    /// An address of `range` that nobody holds or remembers: the lowest one, as a rule. The search
    /// begins where it ended last, and from the beginning only where nothing lies behind.
    fn first_unused(&mut self, range: &ServedRange, now: i64) -> Option<Ipv4Addr> {
        let is_free =
            |address: &Ipv4Addr| range.is_ours(*address, now) && self.is_unused(*address, now);
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
    fn is_unused(&self, address: Ipv4Addr, now: i64) -> bool {
        self.table.get(address).is_none_or(|entry| !entry.is_live(now) && !entry.is_memory())
    }

    fn longest_free(&self, range: &ServedRange, now: i64) -> Option<Ipv4Addr> {
        self.table
            .range(range.first..=range.last)
            .filter(|(address, entry)| !entry.is_live(now) && range.leases(*address))
            .filter(|(address, _)| range.is_ours(*address, now))
            .min_by_key(|(_, entry)| entry.ends())
            .map(|(address, _)| address)
    }
}

#[cfg(test)]
mod tests;
