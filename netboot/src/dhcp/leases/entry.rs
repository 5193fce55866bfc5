//! Core: what is known of one address, in memory.

use super::{Guest, Identity, LeaseState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) client: Identity,
    pub(super) state: State,
    pub(super) since_us: i64,
    /// Its client is in no inventory.
    pub(super) guest: Option<Guest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Offered(Offer),
    Durable(LeaseState),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) until_us: i64,
    /// Another client had the address before.
    pub(super) again: bool,
    /// When the last lease of the address ended, unless its client returned it.
    pub(super) ended_us: Option<i64>,
}

impl State {
    pub(super) fn durable(self) -> Option<LeaseState> {
        match self {
            Self::Offered(_) => None,
            Self::Durable(state) => Some(state),
        }
    }

    /// When the lease of the last holder ended, or will, unless it returned the address.
    pub(super) fn lease_ends(self) -> Option<i64> {
        match self {
            Self::Offered(offer) => offer.ended_us,
            Self::Durable(LeaseState::Bound { until_us }) => Some(until_us),
            Self::Durable(LeaseState::Released { .. } | LeaseState::Declined { .. }) => None,
        }
    }
}

impl Entry {
    /// When the address becomes, or became, free.
    pub(super) fn ends(&self) -> i64 {
        match self.state {
            State::Offered(offer) => offer.until_us,
            State::Durable(state) => state.ends(),
        }
    }

    pub(super) fn is_live(&self, now: i64) -> bool {
        match self.state {
            State::Offered(offer) => offer.until_us > now,
            State::Durable(state) => state.is_live(now),
        }
    }

    pub(super) fn is_declined(&self) -> bool {
        self.state.durable().is_some_and(LeaseState::is_declined)
    }

    /// Whether its client may come back to it: not after it found another host there.
    pub(super) fn is_of(&self, client: &Identity) -> bool {
        self.client == *client && !self.is_declined()
    }

    /// Whether somebody once used the address, and may hope to get it again.
    pub(super) fn is_memory(&self) -> bool {
        self.state.durable().is_some_and(|state| !state.is_declined())
    }
}
