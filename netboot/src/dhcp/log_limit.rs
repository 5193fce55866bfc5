//! Core: which clients the log told of, so that it tells of each now and then only.

use std::collections::BTreeMap;

use super::packet::Identity;

/// Between two lines of one client: a machine that tries again for ever is seen, and the log stays
/// readable.
const INTERVAL_US: i64 = 3_600 * 1_000_000;
/// Clients that are remembered: more than the machines of a row. An attacker that makes up clients fills
/// the table, and then gets no more lines than this an hour.
const CLIENTS_MAX: usize = 1_024;

/// When the log last told of which client.
#[derive(Debug, Clone, Default)]
pub(super) struct LogLimit(BTreeMap<Identity, i64>);

impl LogLimit {
    /// Whether to tell of `client` at `now`, which is then remembered.
    pub(super) fn may_tell(&mut self, client: &Identity, now: i64) -> bool {
        // A clock that went back must not silence it.
        let soon = |last: &i64| (0..INTERVAL_US).contains(&now.saturating_sub(*last));
        if self.0.get(client).is_some_and(soon) {
            return false;
        }
        if self.0.len() >= CLIENTS_MAX {
            self.0.retain(|_, last| soon(last));
        }
        let room = self.0.len() < CLIENTS_MAX;
        if room {
            self.0.insert(client.clone(), now);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> Identity {
        Identity::ClientId(number.to_be_bytes().to_vec())
    }

    #[test]
    fn each_client_is_told_of_once_an_hour() {
        let mut told = LogLimit::default();
        assert!(told.may_tell(&client(1), 0));
        assert!(!told.may_tell(&client(1), INTERVAL_US - 1));
        assert!(told.may_tell(&client(2), INTERVAL_US - 1));
        assert!(told.may_tell(&client(1), INTERVAL_US));
        assert!(told.may_tell(&client(1), 5), "the clock went back");
    }

    #[test]
    fn made_up_clients_cannot_fill_the_log() {
        let mut told = LogLimit::default();
        let lines = |told: &mut LogLimit, now| {
            (0..3 * CLIENTS_MAX).filter(|number| told.may_tell(&client(*number), now)).count()
        };
        assert_eq!(lines(&mut told, 0), CLIENTS_MAX);
        assert_eq!(lines(&mut told, INTERVAL_US - 1), 0);
        assert_eq!(lines(&mut told, INTERVAL_US), CLIENTS_MAX);
        assert_eq!(told.0.len(), CLIENTS_MAX);
    }
}
