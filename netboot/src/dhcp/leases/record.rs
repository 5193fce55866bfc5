//! Core: what is durable of an address.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{Identity, QUARANTINE_US};

/// The durable state of one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The address; there is one record for each.
    pub address: Ipv4Addr,
    /// The client that holds it, or held it last.
    pub client: Identity,
    #[serde(flatten)]
    pub state: LeaseState,
    /// When it came to that; agents that did not write it down gave leases of one length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_us: Option<i64>,
}

/// The state of an address.
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

impl LeaseState {
    /// When the address became free, or will.
    pub(super) fn ends(self) -> i64 {
        match self {
            Self::Bound { until_us } | Self::Declined { until_us } => until_us,
            Self::Released { at_us } => at_us,
        }
    }

    /// Whether it keeps the address from others. A release ends at once, also when the clock was set
    /// back since.
    pub(super) fn is_live(self, now: i64) -> bool {
        !matches!(self, Self::Released { .. }) && self.ends() > now
    }

    pub(super) fn is_bound(self) -> bool {
        matches!(self, Self::Bound { .. })
    }

    pub(super) fn is_declined(self) -> bool {
        matches!(self, Self::Declined { .. })
    }

    /// The same, no longer than one that begins now: a clock may have been ahead when it was given.
    pub(super) fn capped(self, lease_us: i64, now: i64) -> Self {
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
    pub fn bound_until_us(&self) -> Option<i64> {
        match self.state {
            LeaseState::Bound { until_us } => Some(until_us),
            LeaseState::Released { .. } | LeaseState::Declined { .. } => None,
        }
    }

    /// When the address came to this, where leases last `lease_us` of whoever did not write it down.
    pub(super) fn since_us(&self, lease_us: i64) -> i64 {
        self.since_us.unwrap_or_else(|| match self.state {
            LeaseState::Bound { until_us } => until_us.saturating_sub(lease_us),
            LeaseState::Declined { until_us } => until_us.saturating_sub(QUARANTINE_US),
            LeaseState::Released { at_us } => at_us,
        })
    }
}
