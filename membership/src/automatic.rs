//! Core: when a standby tries to take the role by itself (`auto_failover`, docs/failover.md).
//!
//! Nothing here makes a master: who tries asks everyone first, as an operator's failover does, and is
//! then elected by those who hear no leader either. This only says who tries when, so that mostly one
//! does.

use std::collections::BTreeSet;

/// Silence of a leader that was heard before, after which the first of the others tries. Until then
/// voters keep to it.
pub const SILENCE_MS: u64 = jobs::majority::contact::REFUSE_AFTER_MS;

/// The same for who has heard no leader since it began to follow: where a whole cluster starts, the
/// master of before is the first to try.
pub const SILENCE_FROM_START_MS: u64 = 15_000;

/// How much later the next one tries: longer than asking those who answer, and an election.
pub const TURN_MS: u64 = 500;

/// How long before its turn whoever is first begins to read the jobs, which takes longer than all else
/// where there are many.
pub const AHEAD_MS: u64 = 600;

/// A standby that hears no leader.
#[derive(Debug, Clone, Copy)]
pub struct Standby<'a> {
    /// Its member id.
    pub member: u64,
    /// Those who vote.
    pub voters: &'a BTreeSet<u64>,
    /// The member that was heard as leader last, or led last; 0 if none was.
    pub led: u64,
    /// Milliseconds since a leader was heard; none if none was since it began to follow.
    pub heard_ms: Option<u64>,
    /// Milliseconds since it began to follow.
    pub follows_ms: u64,
}

impl Standby<'_> {
    /// Whether it is to try now: it votes, and the leader has been silent until its turn. Turns go by
    /// member id, so who has been one for longer is first.
    pub fn tries(&self) -> bool {
        let (silence_ms, least_ms) = match self.heard_ms {
            Some(heard_ms) => (heard_ms, SILENCE_MS),
            None => (self.follows_ms, SILENCE_FROM_START_MS),
        };
        let due_ms = self.turn().saturating_mul(TURN_MS).saturating_add(least_ms);
        self.voters.contains(&self.member) && silence_ms > due_ms
    }

    /// Whether it is to prepare for that: it is the first to try, soon, and a leader that was heard
    /// went silent.
    pub fn prepares(&self) -> bool {
        let is_first = self.turn() == 0 && self.voters.contains(&self.member);
        is_first && self.heard_ms.is_some_and(|silence_ms| silence_ms > SILENCE_MS - AHEAD_MS)
    }

    fn turn(&self) -> u64 {
        let others = self.voters.iter().filter(|id| **id != self.led);
        let turn = others.take_while(|id| **id != self.member).count();
        u64::try_from(turn).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standby(member: u64, led: u64, heard_ms: Option<u64>, follows_ms: u64) -> (bool, bool) {
        let voters = &BTreeSet::from([1, 2, 3]);
        let standby = Standby { member, voters, led, heard_ms, follows_ms };
        (standby.tries(), standby.prepares())
    }

    fn tries(member: u64, led: u64, heard_ms: Option<u64>, follows_ms: u64) -> bool {
        standby(member, led, heard_ms, follows_ms).0
    }

    #[test]
    fn one_after_the_other_tries() {
        let day = 86_400_000;
        for (member, led, silent_ms, expected) in [
            (2, 1, SILENCE_MS, false),
            (2, 1, SILENCE_MS + 1, true),
            (3, 1, SILENCE_MS + TURN_MS, false),
            (3, 1, SILENCE_MS + TURN_MS + 1, true),
            (1, 2, SILENCE_MS + 1, true),
            // Nobody is known to have led.
            (3, 0, SILENCE_MS + TURN_MS + 1, false),
            (3, 0, SILENCE_MS + 2 * TURN_MS + 1, true),
            // It led itself.
            (1, 1, SILENCE_MS + 2 * TURN_MS + 1, true),
            // A member that does not vote never tries.
            (4, 1, day, false),
        ] {
            let found = tries(member, led, Some(silent_ms), day);
            assert_eq!(found, expected, "{member} after {led} and {silent_ms} ms");
        }
    }

    #[test]
    fn only_the_first_prepares_and_soon_before_it_tries() {
        let day = 86_400_000;
        let least = SILENCE_MS - AHEAD_MS;
        for (member, led, heard_ms, expected) in [
            (2, 1, Some(least), false),
            (2, 1, Some(least + 1), true),
            (1, 2, Some(least + 1), true),
            (3, 1, Some(day), false),
            (4, 1, Some(day), false),
            (2, 1, None, false),
        ] {
            let found = standby(member, led, heard_ms, day).1;
            assert_eq!(found, expected, "{member} after {led} and {heard_ms:?} ms");
        }
    }

    #[test]
    fn the_master_of_before_is_first_after_a_start() {
        assert!(!tries(2, 1, None, SILENCE_FROM_START_MS));
        assert!(tries(2, 1, None, SILENCE_FROM_START_MS + 1));
        assert!(!tries(3, 1, None, SILENCE_FROM_START_MS + 1));
    }
}
