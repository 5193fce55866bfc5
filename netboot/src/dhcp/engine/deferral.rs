//! Core: clients that are left to the agent which has their address.
//!
//! All agents of a link hear a client that boots. If each offered an address of its own, a machine would
//! have another one in each stage of its boot. So only the agent of its address answers at first. A
//! client that asks again was not answered, and then others answer it.

use std::collections::BTreeMap;

use crate::dhcp::packet::Identity;

/// How long after it was heard an agent is expected to answer clients: longer than the waits of two
/// questions for its leases.
const HEARD_LATELY_US: i64 = 60 * 1_000_000;
/// A question that comes sooner is the same one by another relay: clients wait a second or more for an
/// answer.
const SAME_QUESTION_US: i64 = 500_000;
/// A question that comes later is another attempt to boot.
const ATTEMPT_US: i64 = 60 * 1_000_000;
/// Clients that are left to others at a time: more than the machines of a row. Those beyond are
/// answered at once.
const CLIENTS_MAX: usize = 1_024;

/// When each client that is left to another agent asked first.
#[derive(Debug, Clone, Default)]
pub(super) struct Deferrals(BTreeMap<Identity, i64>);

impl Deferrals {
    /// Whether a client waits for the agent of its address, all of which is known up to `heard_us`.
    pub(super) fn waits(&mut self, client: &Identity, heard_us: i64, now: i64) -> bool {
        if now.saturating_sub(heard_us) > HEARD_LATELY_US {
            return false;
        }
        // A clock that went back begins another attempt.
        let is_old = |first: i64| !(0..ATTEMPT_US).contains(&now.saturating_sub(first));
        if let Some(first) = self.0.get(client).filter(|first| !is_old(**first)) {
            return now.saturating_sub(*first) < SAME_QUESTION_US;
        }
        if self.0.len() >= CLIENTS_MAX {
            self.0.retain(|_, first| !is_old(*first));
        }
        let has_room = self.0.len() < CLIENTS_MAX;
        if has_room {
            self.0.insert(client.clone(), now);
        }
        has_room
    }

    /// Notes that another agent answered a client.
    pub(super) fn end(&mut self, client: &Identity) {
        self.0.remove(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn client(number: usize) -> Identity {
        Identity::ClientId(number.to_be_bytes().to_vec())
    }

    #[test]
    fn who_asks_again_was_not_answered() {
        let mut deferrals = Deferrals::default();
        let mut waits = |heard, now| deferrals.waits(&client(1), heard * SECOND, now);
        for (heard, now, expected) in [
            (100, 100 * SECOND, true),
            (100, 100 * SECOND + SAME_QUESTION_US - 1, true),
            (100, 101 * SECOND, false),
            (100, 108 * SECOND, false),
            (150, 160 * SECOND, true),
            (150, 161 * SECOND, false),
            (150, 20 * SECOND, true),
        ] {
            assert_eq!(waits(heard, now), expected, "{now}");
        }
        assert!(!waits(100, 100 * SECOND + HEARD_LATELY_US + 1), "that agent is silent");
        assert!(deferrals.waits(&client(2), 0, 0));
        deferrals.end(&client(2));
        assert!(deferrals.waits(&client(2), 0, 10 * SECOND), "it was answered before");
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut deferrals = Deferrals::default();
        let waiting = (0..9_999).filter(|n| deferrals.waits(&client(*n), 0, 0)).count();
        assert_eq!((waiting, deferrals.0.len()), (CLIENTS_MAX, CLIENTS_MAX));
        assert!(deferrals.waits(&client(9_999), ATTEMPT_US, ATTEMPT_US));
    }
}
