//! Core: what members said last of their stores and disks.

use std::collections::{BTreeMap, BTreeSet};

use rpc::peer::{PeerError, RefusalReason};

/// Why a member does not follow whose `masterd` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Its words.
    pub why: String,
    /// What is in the place of its store.
    pub has: Instead,
}

/// What a member has in the place of its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    /// An older copy of it.
    OlderCopy,
    /// None, or the one of another member.
    NotItsStore,
}

/// The last word of each member.
#[derive(Debug, Default)]
pub(super) struct Said {
    strays: BTreeMap<u64, Stray>,
    full: BTreeSet<u64>,
}

/// What an answer says of a member's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing: who refuses for another reason may have its store or not.
    Nothing,
    /// It follows, or nobody was heard there: what it said before counts no more.
    Well,
    /// It cannot follow.
    Stray(Stray),
}

impl Word {
    pub(super) fn of<T>(answer: &Result<T, PeerError>) -> Self {
        let Err(PeerError::Refused { refusal, .. }) = answer else { return Self::Well };
        let has = match refusal.reason {
            RefusalReason::Reverted { .. } => Instead::OlderCopy,
            RefusalReason::NotMeant { .. } => Instead::NotItsStore,
            _ => return Self::Nothing,
        };
        Self::Stray(Stray { why: refusal.message.clone(), has })
    }
}

impl Said {
    /// Takes in what a member said of its store.
    pub(super) fn store(&mut self, member: u64, word: Word) {
        match word {
            Word::Nothing => {}
            Word::Well => drop(self.strays.remove(&member)),
            Word::Stray(stray) => drop(self.strays.insert(member, stray)),
        }
    }

    /// Whether the word changes anything.
    pub(super) fn is_news(&self, member: u64, word: &Word) -> bool {
        match word {
            Word::Nothing => false,
            Word::Well => self.strays.contains_key(&member),
            Word::Stray(stray) => self.strays.get(&member) != Some(stray),
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

    pub(super) fn strays(&self) -> &BTreeMap<u64, Stray> {
        &self.strays
    }

    pub(super) fn full(&self) -> &BTreeSet<u64> {
        &self.full
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use queue_format::Position;
    use rpc::peer::{PeerRefusal, StoreId};

    use super::*;

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
    fn what_a_member_said_counts_as_long_as_it_answers() {
        let not_meant = || refused(RefusalReason::NotMeant { here: StoreId::NONE });
        let reverted = || refused(RefusalReason::Reverted { last: Position::default() });
        for (words, left) in [
            (vec![not_meant()], Some(Instead::NotItsStore)),
            (vec![reverted()], Some(Instead::OlderCopy)),
            (vec![not_meant(), reverted()], Some(Instead::OlderCopy)),
            (vec![not_meant(), refused(RefusalReason::Busy)], Some(Instead::NotItsStore)),
            (vec![refused(RefusalReason::Stopping)], None),
            (vec![not_meant(), Word::of(&Ok(()))], None),
            // A machine that is off has its store for all that is known.
            (vec![not_meant(), silent()], None),
        ] {
            let mut said = Said::default();
            for word in words.clone() {
                let (was, news) = (said.strays().clone(), said.is_news(2, &word));
                said.store(2, word);
                assert_eq!(news, was != *said.strays(), "{words:?}");
            }
            assert_eq!(said.strays().get(&2).map(|stray| stray.has), left, "{words:?}");
        }
    }

    #[test]
    fn who_is_no_member_any_more_said_nothing() {
        let mut said = Said::default();
        for member in [2, 3] {
            said.disk(member, true);
            said.store(member, refused(RefusalReason::NotMeant { here: StoreId::NONE }));
        }
        said.keep(|member| member == 3);
        assert_eq!(said.full(), &BTreeSet::from([3]));
        assert_eq!(said.strays().keys().collect::<Vec<_>>(), [&3]);
        said.disk(3, false);
        assert!(said.full().is_empty());
    }
}
