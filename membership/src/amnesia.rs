//! Core: whether a member remembers what it said (docs/replication.md).
//!
//! A vote and an acknowledgement are promises. A member that comes back with an emptied, older or other
//! disk does not know its promises. It must not promise again under the same id.

use model::Code;
use queue_format::{Epoch, Position};
use uuid::Uuid;

/// The store that the configuration says a member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Its id as a member; never used twice.
    pub member: u64,
    /// The store that was made for it when it was invited.
    pub incarnation: Uuid,
    /// The last entry that it is known to have acknowledged; the default where nothing is known.
    pub acknowledged: Position,
}

/// The store that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// None: the directory is empty or new.
    Nothing,
    /// A store that cannot be read to its end.
    Broken {
        /// The fault, with the file's name.
        why: String,
    },
    /// A store that can be read.
    Store {
        /// The member id in it.
        member: u64,
        incarnation: Uuid,
        /// Its last durable entry.
        last: Position,
    },
}

/// How far a member's memory can be relied on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Memory {
    /// It has what it promised.
    #[error("remembers what it acknowledged")]
    Known,
    /// It is another store than the one that was invited.
    #[error(
        "has store {incarnation} of member {member}, where store {expected_incarnation} of member \
         {expected_member} was invited"
    )]
    WrongIncarnation {
        /// The member whose store it is.
        member: u64,
        /// Which store it is.
        incarnation: Uuid,
        /// The member whose store it should be.
        expected_member: u64,
        /// Which it should be.
        expected_incarnation: Uuid,
    },
    /// There is no store.
    #[error("has no store: its disk was replaced or emptied, or it is no candidate any more")]
    NoStore,
    /// The store cannot be read to its end.
    #[error("has a damaged store: {why}")]
    Damaged {
        /// The fault.
        why: String,
    },
    /// It ends before an entry that it acknowledged: an older copy was put back.
    #[error("went back in time: it ends at {last}, and had acknowledged {acknowledged}")]
    Reverted {
        /// Where it ends.
        last: Position,
        /// The position that it must at least reach.
        acknowledged: Position,
    },
    /// It does not know that it led: a vote is durable before its leader adds an entry.
    #[error(
        "went back in time: others have entries that it made in epoch {led}, and it has voted in term \
         {voted} at most"
    )]
    ForgotLeadership {
        led: Epoch,
        /// The highest term in which it knows of a vote.
        voted: u64,
    },
}

impl Memory {
    /// Judges the store that is there by the one that should be.
    pub fn of(expected: &Expected, found: &Found) -> Self {
        let (member, incarnation, last) = match found {
            Found::Nothing => return Self::NoStore,
            Found::Broken { why } => return Self::Damaged { why: why.clone() },
            Found::Store { member, incarnation, last } => (*member, *incarnation, *last),
        };
        if (member, incarnation) != (expected.member, expected.incarnation) {
            return Self::WrongIncarnation {
                member,
                incarnation,
                expected_member: expected.member,
                expected_incarnation: expected.incarnation,
            };
        }
        // A later leader may have cut entries behind the acknowledged one and written its own, so a
        // smaller index under a later epoch is no step back.
        if last < expected.acknowledged {
            return Self::Reverted { last, acknowledged: expected.acknowledged };
        }
        Self::Known
    }

    /// Whether its vote counts, and what it acknowledges.
    pub fn may_vote(&self) -> bool {
        matches!(self, Self::Known)
    }

    /// The code of what an operator does about it.
    pub const fn code(&self) -> Code {
        match self {
            Self::Damaged { .. } => Code::StoreDamaged,
            Self::NoStore => Code::StoreMissing,
            Self::Known
            | Self::WrongIncarnation { .. }
            | Self::Reverted { .. }
            | Self::ForgotLeadership { .. } => Code::CandidateForgot,
        }
    }

    /// The remedy for an operator; empty where there is nothing to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Known => "",
            Self::WrongIncarnation { .. } | Self::NoStore => {
                "if its disk is only not mounted, mount it; else the next master makes it another \
                 member, which fetches everything"
            }
            Self::Damaged { .. } => {
                "check its disk, put its store aside, and start its masterd: \"A candidate gets a new \
                 store\" in the runbook"
            }
            Self::Reverted { .. } | Self::ForgotLeadership { .. } => {
                "put no old copies back below a cluster; put that one aside, and start its masterd: \
                 \"A candidate gets a new store\" in the runbook"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(term: u64, index: u64) -> Position {
        Position { epoch: Epoch { term, node: 1 }, index }
    }

    fn expected(acknowledged: Position) -> Expected {
        Expected { member: 4, incarnation: Uuid::from_u128(7), acknowledged }
    }

    fn store(member: u64, incarnation: u128, last: Position) -> Found {
        Found::Store { member, incarnation: Uuid::from_u128(incarnation), last }
    }

    #[test]
    fn only_its_own_whole_store_votes() {
        let broken = Found::Broken { why: "journal/3: bad record before valid ones".to_owned() };
        for (found, told) in [
            (store(4, 7, at(2, 9)), "remembers"),
            (store(4, 7, at(2, 10)), "remembers"),
            (store(4, 7, at(3, 5)), "remembers"),
            (store(4, 7, at(2, 8)), "ends at 2.1/8, and had acknowledged 2.1/9"),
            (store(4, 7, Position::default()), "went back in time"),
            (store(4, 8, at(2, 9)), "of member 4 was invited"),
            (store(5, 7, at(2, 9)), "of member 5"),
            (Found::Nothing, "no store"),
            (broken, "bad record"),
        ] {
            let memory = Memory::of(&expected(at(2, 9)), &found);
            assert!(memory.to_string().contains(told), "{found:?}: {memory}");
            let well = told == "remembers";
            assert_eq!(memory.may_vote(), well, "{found:?}");
            assert_eq!(memory.remedy().is_empty(), well, "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn who_votes_has_all_it_acknowledged(
            member in 3_u64..6, incarnation in 6_u128..9,
            last in (0_u64..4, 0_u64..6), acknowledged in (0_u64..4, 0_u64..6),
        ) {
            let (last, acknowledged) = (at(last.0, last.1), at(acknowledged.0, acknowledged.1));
            let memory = Memory::of(&expected(acknowledged), &store(member, incarnation, last));
            let whole = member == 4 && incarnation == 7 && last >= acknowledged;
            prop_assert_eq!(memory.may_vote(), whole);
        }
    }
}
