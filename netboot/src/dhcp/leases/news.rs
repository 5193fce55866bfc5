//! Core: which word on an address counts, where agents differ.
//!
//! One agent gives an address to clients, the *giver*; the others only renew it for the client that
//! holds it. So the giver knows best who the client is, and its word stands against any other. It takes
//! from others that its client's lease is longer than it knew. It believes news that would free an
//! address of its own only when no difference of clocks can explain them.

use super::{CLOCKS_DIFFER_US, Identity, LeaseRecord, LeaseState, Leases};

/// The outcome of another agent's word on a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learned {
    /// It is taken, and has to be made durable.
    Taken(LeaseRecord),
    /// This agent knows as much, or more.
    Known,
    /// Two clients have the address, and each was told so of late: this agent gives the address, and
    /// keeps its own client.
    Kept(LeaseClash),
    /// The same, but the other agent gives the address: its client is taken, and has to be made durable.
    Yielded(LeaseClash),
}

impl Learned {
    /// The record that has to be made durable.
    pub fn taken(&self) -> Option<&LeaseRecord> {
        match self {
            Self::Taken(record) => Some(record),
            Self::Yielded(clash) => Some(&clash.told),
            Self::Known | Self::Kept(_) => None,
        }
    }
}

/// Two clients that hold one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseClash {
    /// The record that the other agent told.
    pub told: LeaseRecord,
    /// The client that has it by what was known here.
    pub client: Identity,
}

/// The agent that tells, as far as it matters for one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// This agent gives the address, the one that tells does not.
    NotGiver,
    /// The agent that tells gives the address.
    Giver,
    /// A third one does, or nobody at the moment.
    Bystander,
}

/// Whether a time of one agent's clock is later than that of another's, however much they differ.
fn is_surely_after(one_us: i64, other_us: i64) -> bool {
    one_us > other_us.saturating_add(CLOCKS_DIFFER_US)
}

/// The facts that are known here of an address, beside those that are told.
struct Known<'a> {
    client: &'a Identity,
    state: LeaseState,
    since_us: i64,
}

impl Leases {
    /// Takes what another agent of the rack told, where that is better than what is known here.
    pub fn learn(&mut self, told: LeaseRecord, teller: Teller, lease_us: i64, now: i64) -> Learned {
        // A clock that was ahead must not make what is known the last word for years. A clock that is
        // behind must not mix up what came first.
        let soon = now.saturating_add(CLOCKS_DIFFER_US);
        let since_us = told.since_us(lease_us).min(soon);
        let state = told.state.capped(lease_us, now);
        let told = LeaseRecord { state, since_us: Some(since_us), ..told };
        let Some(entry) = self.table.get(told.address) else {
            return match self.has_room() {
                true => Learned::Taken(self.put(told)),
                false => Learned::Known,
            };
        };
        let Some(state) = entry.state.durable() else {
            // It is offered to somebody, who is refused if the address turns out to be in use.
            return match told.state.is_live(now) {
                true => Learned::Taken(self.put(told)),
                false => Learned::Known,
            };
        };
        let known = Known { client: &entry.client, state, since_us: entry.since_us.min(soon) };
        let live = |state: LeaseState| state.is_bound() && state.is_live(now);
        let clash = LeaseClash { told: told.clone(), client: known.client.clone() };
        let is_clash = known.client != &told.client && live(known.state) && live(told.state);
        match known.is_worse_than(&told, since_us, teller, now) {
            true if is_clash
                && teller == Teller::Giver
                && is_surely_after(known.since_us, since_us) =>
            {
                self.put(told);
                Learned::Yielded(clash)
            }
            true => Learned::Taken(self.put(told)),
            false
                if is_clash
                    && teller == Teller::NotGiver
                    && is_surely_after(since_us, known.since_us) =>
            {
                Learned::Kept(clash)
            }
            false => Learned::Known,
        }
    }
}

impl Known<'_> {
    /// Whether what is told takes its place.
    fn is_worse_than(&self, told: &LeaseRecord, since_us: i64, teller: Teller, now: i64) -> bool {
        if (self.client, self.state) == (&told.client, told.state) {
            return false;
        }
        let is_later = since_us > self.since_us;
        let (here, there) = (self.state.is_live(now), told.state.is_live(now));
        if *self.client == told.client {
            return match (self.state, told.state) {
                (LeaseState::Bound { until_us: ours }, LeaseState::Bound { until_us: theirs }) => {
                    theirs > ours
                }
                // The giver's word always counts that a lease has ended, or lives again.
                _ if teller == Teller::Giver => true,
                _ if teller == Teller::NotGiver && here && self.state.is_bound() => {
                    is_surely_after(since_us, self.since_us)
                }
                _ => is_later,
            };
        }
        match teller {
            Teller::Giver => true,
            Teller::NotGiver if here => self.state.is_declined() && there && is_later,
            Teller::NotGiver | Teller::Bystander => is_later,
        }
    }
}
