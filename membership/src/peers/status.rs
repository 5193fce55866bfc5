//! Core: what members said last of their stores and disks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rpc::peer::{PeerError, RefusalReason};

/// Why a member does not follow whose `masterd` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Its words.
    pub why: String,
    /// The store in the place of its own.
    pub has: Instead,
}

/// The store that a member has in the place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    OlderCopy,
    /// None, or the one of another member.
    NotItsStore,
}

/// How long a word counts that is not said again. A member that is asked several times a second says it
/// again by then, also where some of the connections fail.
const COUNTS_FOR: Duration = Duration::from_secs(5);

/// The last word of each member, and when it was said, in time of the process.
#[derive(Debug, Default)]
pub(super) struct PeerStatuses {
    strays: BTreeMap<u64, (Stray, Duration)>,
    full: BTreeSet<u64>,
}

/// The word of an answer on a member's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing: nobody was heard, or who refuses for another reason may have its store or not.
    Nothing,
    Follows,
    /// It cannot follow.
    Stray(Stray),
}

impl Word {
    pub(super) fn of<T>(answer: &Result<T, PeerError>) -> Self {
        let refusal = match answer {
            Ok(_) => return Self::Follows,
            Err(PeerError::Refused { refusal, .. }) => refusal,
            Err(_) => return Self::Nothing,
        };
        let has = match refusal.reason {
            RefusalReason::Reverted { .. } => Instead::OlderCopy,
            RefusalReason::NotMeant { .. } => Instead::NotItsStore,
            _ => return Self::Nothing,
        };
        Self::Stray(Stray { why: refusal.message.clone(), has })
    }
}

impl PeerStatuses {
    /// Takes in what a member says of its store at the time `now`; true where it says that it cannot
    /// follow, and did not before.
    pub(super) fn store(&mut self, member: u64, word: Word, now: Duration) -> bool {
        match word {
            Word::Nothing => false,
            Word::Follows => {
                self.strays.remove(&member);
                false
            }
            Word::Stray(stray) => {
                let before = self.strays.insert(member, (stray.clone(), now));
                before.is_none_or(|(before, at)| before != stray || !counts(at, now))
            }
        }
    }

    /// Whether the word changes nothing, as nearly all do.
    pub(super) fn is_idle(&self, member: u64, word: &Word) -> bool {
        match word {
            Word::Nothing => true,
            Word::Follows => !self.strays.contains_key(&member),
            Word::Stray(_) => false,
        }
    }

    /// Takes in whether a member's disk takes nothing.
    pub(super) fn disk(&mut self, member: u64, is_full: bool) {
        match is_full {
            true => drop(self.full.insert(member)),
            false => drop(self.full.remove(&member)),
        }
    }

    /// Forgets what members said who are none any more.
    pub(super) fn keep(&mut self, is_member: impl Fn(u64) -> bool) {
        self.strays.retain(|member, _| is_member(*member));
        self.full.retain(|member| is_member(*member));
    }

    /// Members that cannot follow, by words that count at the time `now`.
    pub(super) fn strays(&self, now: Duration) -> BTreeMap<u64, Stray> {
        let strays = self.strays.iter().filter(|(_, (_, at))| counts(*at, now));
        strays.map(|(member, (stray, _))| (*member, stray.clone())).collect()
    }

    pub(super) fn full(&self) -> &BTreeSet<u64> {
        &self.full
    }
}

fn counts(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) <= COUNTS_FOR
}

#[cfg(test)]
mod tests {
    use std::io;

    use queue_format::Position;
    use rpc::peer::{PeerRefusal, StoreId};

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn refused(reason: RefusalReason) -> Word {
        let refusal = PeerRefusal::new(reason, "so it is");
        Word::of::<()>(&Err(PeerError::Refused { node: "n2.example".parse().unwrap(), refusal }))
    }

    fn silent() -> Word {
        Word::of::<()>(&Err(PeerError::Unreachable {
            node: "n2.example".parse().unwrap(),
            address: "192.0.2.2:1817".parse().unwrap(),
            error: io::ErrorKind::ConnectionRefused.into(),
        }))
    }

    #[test]
    fn the_last_word_counts() {
        let not_meant = || refused(RefusalReason::NotMeant { here: StoreId::NONE });
        let reverted = || refused(RefusalReason::Reverted { last: Position::default() });
        for (words, left) in [
            (vec![not_meant()], Some(Instead::NotItsStore)),
            (vec![reverted()], Some(Instead::OlderCopy)),
            (vec![not_meant(), reverted()], Some(Instead::OlderCopy)),
            (vec![not_meant(), refused(RefusalReason::Busy)], Some(Instead::NotItsStore)),
            (vec![refused(RefusalReason::Stopping)], None),
            (vec![not_meant(), Word::of(&Ok(()))], None),
            // A connection that fails in between says nothing.
            (vec![not_meant(), silent()], Some(Instead::NotItsStore)),
        ] {
            let mut said = PeerStatuses::default();
            for word in words.clone() {
                let was = said.strays(NOW);
                let idle = said.is_idle(2, &word);
                said.store(2, word, NOW);
                assert!(!idle || was == said.strays(NOW), "{words:?}");
            }
            assert_eq!(said.strays(NOW).get(&2).map(|stray| stray.has), left, "{words:?}");
        }
    }

    /// A machine that is off has its store for all that is known.
    #[test]
    fn a_word_counts_for_a_while_and_is_told_once() {
        let not_meant = || refused(RefusalReason::NotMeant { here: StoreId::NONE });
        let mut said = PeerStatuses::default();
        let at = |seconds: u64| NOW + Duration::from_secs(seconds);
        assert!(said.store(2, not_meant(), at(0)));
        assert!(!said.store(2, not_meant(), at(4)));
        assert!(!said.store(2, silent(), at(5)));
        assert_eq!((said.strays(at(9)).len(), said.strays(at(10)).len()), (1, 0));
        assert!(said.store(2, not_meant(), at(10)));
    }

    #[test]
    fn who_is_no_member_any_more_said_nothing() {
        let mut said = PeerStatuses::default();
        for member in [2, 3] {
            said.disk(member, true);
            said.store(member, refused(RefusalReason::NotMeant { here: StoreId::NONE }), NOW);
        }
        said.keep(|member| member == 3);
        assert_eq!(said.full(), &BTreeSet::from([3]));
        assert_eq!(said.strays(NOW).into_keys().collect::<Vec<_>>(), [3]);
        said.disk(3, false);
        assert!(said.full().is_empty());
    }
}
