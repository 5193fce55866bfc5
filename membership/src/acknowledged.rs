//! Core: up to where members are known to hold the log (docs/replication.md).
//!
//! Only committed entries count: a later leader may cut the rest, and a member without those has then
//! forgotten nothing.

use std::collections::BTreeMap;

use model::node::{self, Member};
use queue_format::{Epoch, Position};

/// Up to where the configuration says that a member holds the log.
pub fn recorded(member: &Member) -> Position {
    member.acknowledged.map_or(Position::default(), |at| Position {
        epoch: Epoch { term: at.term, node: at.node },
        index: at.index,
    })
}

/// The position to record of a member that has fallen silent, and is known to hold this much. None where
/// that is recorded.
pub fn to_record(member: &Member, known: Position) -> Option<node::Acknowledged> {
    let Position { epoch, index } = known;
    let at = node::Acknowledged { term: epoch.term, node: epoch.node, index };
    (known > recorded(member)).then_some(at)
}

/// The known logs of all members. This knowledge never goes back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// The leadership whose answers are counted at the moment.
    leadership: Epoch,
    /// The newest entry that is committed, as that leader says.
    committed: Position,
    /// The last entry of its log that each member has made durable.
    matched: BTreeMap<u64, Position>,
    /// The last committed entry that each member has made durable.
    known: BTreeMap<u64, Position>,
}

impl Acknowledged {
    /// Notes that the leader of `leadership` heard from `member`, which has all up to `matched`; none
    /// where it only is there. The leader knows that all up to `committed` is committed.
    pub fn heard(
        &mut self,
        leadership: Epoch,
        member: u64,
        matched: Option<Position>,
        committed: Position,
    ) {
        if leadership < self.leadership {
            return;
        }
        if leadership > self.leadership {
            // The next leader may have cut entries that the former one was told of.
            self.leadership = leadership;
            self.matched.clear();
        }
        self.committed = self.committed.max(committed);
        if let Some(matched) = matched {
            let known = self.matched.entry(member).or_default();
            *known = matched.max(*known);
        }
        if let Some(matched) = self.matched.get(&member) {
            self.told(member, (*matched).min(self.committed));
        }
    }

    /// The configuration says that a member has made this durable, which is committed.
    pub fn told(&mut self, member: u64, acknowledged: Position) {
        if acknowledged > Position::default() {
            let known = self.known.entry(member).or_default();
            *known = acknowledged.max(*known);
        }
    }

    /// The last committed entry that a member has made durable, as far as is known.
    pub fn of(&self, member: u64) -> Position {
        self.known.get(&member).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn epoch(term: u64) -> Epoch {
        Epoch { term, node: 1 }
    }

    fn at(term: u64, index: u64) -> Position {
        Position { epoch: epoch(term), index }
    }

    #[test]
    fn what_is_recorded_is_read_again_and_recorded_once() {
        let mut member = Member { id: 2, incarnation: None, acknowledged: None };
        assert_eq!(recorded(&member), Position::default());
        assert_eq!(to_record(&member, Position::default()), None);
        member.acknowledged = to_record(&member, at(3, 7));
        assert_eq!(recorded(&member), at(3, 7));
        assert_eq!(to_record(&member, at(3, 7)), None);
        assert_eq!(to_record(&member, at(2, 9)), None);
        assert!(to_record(&member, at(3, 8)).is_some());
    }

    #[test]
    fn only_what_is_committed_counts() {
        let mut known = Acknowledged::default();
        assert_eq!(known.of(2), Position::default());
        known.heard(epoch(1), 2, Some(at(1, 9)), at(1, 5));
        assert_eq!(known.of(2), at(1, 5));
        known.heard(epoch(1), 2, None, at(1, 7));
        assert_eq!(known.of(2), at(1, 7));
        known.heard(epoch(1), 2, None, at(1, 12));
        assert_eq!(known.of(2), at(1, 9));
        assert_eq!(known.of(3), Position::default());
    }

    #[test]
    fn what_a_later_leader_cut_was_never_known() {
        let mut known = Acknowledged::default();
        known.heard(epoch(1), 2, Some(at(1, 9)), at(1, 5));
        // It writes its own entry 6.
        known.heard(epoch(2), 3, Some(at(2, 6)), at(2, 6));
        known.heard(epoch(2), 2, None, at(2, 6));
        assert_eq!(known.of(2), at(1, 5));
        // The leader of before does not know yet that it is none.
        known.heard(epoch(1), 2, Some(at(1, 10)), at(1, 5));
        assert_eq!(known.of(2), at(1, 5));
        known.heard(epoch(2), 2, Some(at(2, 6)), at(2, 6));
        assert_eq!(known.of(2), at(2, 6));
    }

    proptest! {
        /// Whatever is heard in whichever order: nothing is known that was not committed and heard.
        #[test]
        fn nothing_is_known_that_was_not_heard(
            words in prop::collection::vec((1_u64..4, 2_u64..4, prop::option::of(1_u64..9), 0_u64..9), 0..40),
        ) {
            let mut known = Acknowledged::default();
            let mut newest = 0;
            for (term, member, matched, committed) in words {
                let before = known.of(member);
                known.heard(epoch(term), member, matched.map(|index| at(term, index)), at(term, committed));
                let now = known.of(member);
                prop_assert!(now >= before);
                if term < newest {
                    prop_assert_eq!(now, before);
                }
                newest = newest.max(term);
            }
        }
    }
}
