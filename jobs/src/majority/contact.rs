//! Core: what a master may still do that does not hear a majority (docs/failover.md).

/// Silence of the majority after which a master refuses, in milliseconds. Voters keep another from being
/// elected for the same time, counted from later moments. So an elected master meets no other master
/// that still starts calls.
pub const REFUSE_AFTER_MS: u64 = 1000;

/// Silence after which it gives the master address up: three times as long, since a short break of
/// the network should not move an address.
pub const DROP_ADDRESS_AFTER_MS: u64 = 3 * REFUSE_AFTER_MS;

/// How a master stands with the majority of voters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contact {
    /// It hears them.
    Heard,
    /// It has not heard them for [`REFUSE_AFTER_MS`].
    Refusing,
    /// Nor for [`DROP_ADDRESS_AFTER_MS`].
    AddressDropped,
}

/// An action that a change of contact asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Refuse changes, start no call, mark answers as stale.
    Refuse,
    /// Take the master address away from this machine.
    DropAddress,
    /// Take the master address again.
    RaiseAddress,
    /// Take changes and start calls again.
    Resume,
}

impl Contact {
    /// The contact of a master that heard the last acknowledgement of a majority so long ago, in
    /// milliseconds. A lone voter is its own majority: 0.
    pub fn after(silence_ms: u64) -> Self {
        if silence_ms <= REFUSE_AFTER_MS {
            Self::Heard
        } else if silence_ms <= DROP_ADDRESS_AFTER_MS {
            Self::Refusing
        } else {
            Self::AddressDropped
        }
    }

    /// Whether changes are appended; otherwise they are *refused*: nothing happened.
    pub fn takes_changes(self) -> bool {
        self == Self::Heard
    }

    /// Whether calls to agents are started. Calls that run go on: agents end them when they obey
    /// another.
    pub fn starts_calls(self) -> bool {
        self == Self::Heard
    }

    /// Whether answers to queries must say that they may be old.
    pub fn answers_are_stale(self) -> bool {
        self != Self::Heard
    }

    /// The actions, in order, when `self` becomes `next`.
    pub fn turns(self, next: Self) -> &'static [Turn] {
        match (self, next) {
            (Self::Heard, Self::Refusing) => &[Turn::Refuse],
            (Self::Heard, Self::AddressDropped) => &[Turn::Refuse, Turn::DropAddress],
            (Self::Refusing, Self::AddressDropped) => &[Turn::DropAddress],
            (Self::Refusing, Self::Heard) => &[Turn::Resume],
            (Self::AddressDropped, Self::Heard) => &[Turn::RaiseAddress, Turn::Resume],
            // Only being heard gives the address back, so that it does not come and go.
            (Self::AddressDropped, Self::Refusing)
            | (Self::Heard, Self::Heard)
            | (Self::Refusing, Self::Refusing)
            | (Self::AddressDropped, Self::AddressDropped) => &[],
        }
    }

    /// The contact that counts after `self`, when the silence is so long now: once dropped, the
    /// address stays away until the majority is heard.
    pub fn then(self, silence_ms: u64) -> Self {
        match (self, Self::after(silence_ms)) {
            (Self::AddressDropped, Self::Refusing) => Self::AddressDropped,
            (_, next) => next,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_limits_are_where_they_are_said_to_be() {
        use Contact::{AddressDropped, Heard, Refusing};
        for (silence_ms, contact) in [
            (0, Heard),
            (1000, Heard),
            (1001, Refusing),
            (3000, Refusing),
            (3001, AddressDropped),
            (u64::MAX, AddressDropped),
        ] {
            assert_eq!(Contact::after(silence_ms), contact, "{silence_ms}");
        }
    }

    proptest! {
        /// The turns, done one after another, lead to what each contact allows.
        #[test]
        fn turns_lead_to_what_is_allowed(silences in proptest::collection::vec(0_u64..5000, 0..30)) {
            let (mut contact, mut takes, mut address) = (Contact::Heard, true, true);
            for silence_ms in silences {
                let next = contact.then(silence_ms);
                for turn in contact.turns(next) {
                    match turn {
                        Turn::Refuse => takes = false,
                        Turn::Resume => takes = true,
                        Turn::DropAddress => address = false,
                        Turn::RaiseAddress => address = true,
                    }
                }
                contact = next;
                prop_assert_eq!(takes, contact.takes_changes());
                prop_assert_eq!(takes, contact.starts_calls());
                prop_assert_eq!(takes, !contact.answers_are_stale());
                prop_assert_eq!(address, contact != Contact::AddressDropped);
                prop_assert!(address || silence_ms > REFUSE_AFTER_MS);
                prop_assert!(!takes || silence_ms <= REFUSE_AFTER_MS);
            }
        }
    }
}
