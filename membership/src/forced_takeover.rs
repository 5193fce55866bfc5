//! Core: what an override does (`--no-voting --yes-do-it`, docs/failover.md).
//!
//! One node assumes that it has the right data (Ganeti's 2.0 design, "Master startup/failover"). Others
//! may have gone on without it, unseen; so everything that must never be used twice starts again far
//! above what anyone can have reached.

use model::NodeName;
use queue_format::{Epoch, Position};

/// Distance of the new term from the highest that was seen. Those who are not seen have had elections
/// since: a million is one every 100 ms, the engine's shortest pause, for more than a day.
pub const TERM_STEP: u64 = 1_000_000;

/// Job ids that another member may have given out of which nobody here knows: it did not answer, leads,
/// or holds more than this node. At the highest measured rate (25,000/s) that is 40 s of jobs, at the
/// usual rate of a large cluster (1/s) more than a week.
pub const JOB_IDS_UNSEEN: u64 = 1_000_000;

/// Job ids that the other members may have given out since they answered. By their answers, they hold no
/// more than this node, and none of them leads. At the highest measured rate that is 4 s of jobs.
pub const JOB_IDS_MEANWHILE: u64 = 100_000;

/// Distance of the next node id, which members and nodes have: more than a cluster adds in the life of
/// a master that it has lost sight of.
pub const NODE_ID_STEP: u64 = 10_000;

/// The node that overrides, as it knows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taker {
    pub node: NodeName,
    /// Its member id.
    pub member: u64,
    /// Its last durable entry.
    pub last: Position,
    /// The highest vote that it gave.
    pub vote: Epoch,
    /// The last job id that it knows of.
    pub job_id: u64,
    /// The id that the next node would get.
    pub next_node_id: u64,
}

/// Another node, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    pub node: NodeName,
    /// Its member id, if it is a member.
    pub member: Option<u64>,
    /// Its last entry, if it answered as a member and is believed.
    pub last: Option<Position>,
    /// It answered that it leads.
    pub leads: bool,
    /// The newest epoch of which it tells, as far as it is believed: an absurd term must not carry the
    /// new one to the end of numbers.
    pub newest: Option<Epoch>,
}

/// A member that starts again, since its entries may contradict the new master's. Its store is kept
/// aside, and it gets a new one, under a new id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejoin {
    pub node: NodeName,
    /// The id that ends.
    pub was: u64,
    /// The id that begins.
    pub becomes: u64,
}

/// A history that is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The node that holds it.
    pub node: NodeName,
    /// The end of the new master's log.
    pub after: Position,
    /// The end of that node's log; none where it did not answer, or claimed what cannot be, and may hold
    /// anything.
    pub to: Option<Position>,
    /// It leads, and may go on until it hears of the new master.
    pub leads: bool,
}

impl Cut {
    /// The cut of `node` by a master whose log ends at `after`, if anything may be cut; `known` is the
    /// end of that node's log and whether it leads, if it answered.
    pub fn of(node: &NodeName, after: Position, known: Option<(Position, bool)>) -> Option<Self> {
        let (to, leads) = known.unzip();
        let leads = leads.unwrap_or(false);
        let has_nothing = !leads && to.is_some_and(|to| to <= after);
        (!has_nothing).then(|| Self { node: node.clone(), after, to, leads })
    }
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { node, after, to, leads } = self;
        match to {
            Some(to) if *leads => write!(
                f,
                "{node} leads, and held entries up to {to}: what it took after {after}, until it \
                 heard of this, is cut"
            ),
            Some(to) => write!(f, "what {node} holds up to {to} is cut; this node ends at {after}"),
            None => write!(
                f,
                "{node} gave no answer that counts: what it may hold after {after} is cut"
            ),
        }
    }
}

/// The effects of an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The epoch of the new leadership.
    pub epoch: Epoch,
    /// The only voter: the taker.
    pub voter: u64,
    /// The last job id from now on; the next job gets a higher one.
    pub job_id: u64,
    /// The id that the next node or member gets, after those of `rejoin`.
    pub next_node_id: u64,
    /// The other members, each under a new id.
    pub rejoin: Vec<Rejoin>,
    /// The losses, certain or possible: told, and raised as an alarm.
    pub cut: Vec<Cut>,
}

impl Override {
    /// Computes an override by `taker`, by what the others said, if they said anything.
    pub fn of(taker: &Taker, others: &[Other]) -> Self {
        let told = |other: &Other| [other.newest, other.last.map(|last| last.epoch)];
        let epochs = others.iter().flat_map(told).flatten();
        let own = taker.last.epoch.term.max(taker.vote.term);
        let term = epochs.map(|epoch| epoch.term).fold(own, u64::max);
        let mut next_node_id = taker.next_node_id.saturating_add(NODE_ID_STEP);
        let mut rejoin = Vec::new();
        for other in others {
            let Some(was) = other.member else { continue };
            rejoin.push(Rejoin { node: other.node.clone(), was, becomes: next_node_id });
            next_node_id = next_node_id.saturating_add(1);
        }
        let members = others.iter().filter(|other| other.member.is_some());
        let cut = members.filter_map(|other| {
            Cut::of(&other.node, taker.last, other.last.map(|last| (last, other.leads)))
        });
        let given = others.iter().map(|other| job_ids_given(taker, other)).max();
        Self {
            epoch: Epoch { term: term.saturating_add(TERM_STEP), node: taker.member },
            voter: taker.member,
            job_id: taker.job_id.saturating_add(given.unwrap_or_default()),
            next_node_id,
            cut: cut.collect(),
            rejoin,
        }
    }
}

/// How many job ids another node can have given out beyond those that the taker knows of.
fn job_ids_given(taker: &Taker, other: &Other) -> u64 {
    match (other.member, other.last) {
        (None, _) => 0,
        (Some(_), Some(last)) if last <= taker.last && !other.leads => JOB_IDS_MEANWHILE,
        (Some(_), _) => JOB_IDS_UNSEEN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn at(term: u64, index: u64) -> Position {
        Position { epoch: Epoch { term, node: 1 }, index }
    }

    fn name(number: usize) -> NodeName {
        format!("n{number}.example").parse().unwrap()
    }

    fn taker(last: Position) -> Taker {
        let vote = Epoch { term: last.epoch.term, node: 1 };
        Taker { node: name(3), member: 3, last, vote, job_id: 41, next_node_id: 5 }
    }

    fn other(number: usize, last: Option<Position>, newest: Option<u64>) -> Other {
        Other {
            node: name(number),
            member: Some(number as u64),
            last,
            leads: false,
            newest: newest.map(|term| Epoch { term, node: 1 }),
        }
    }

    #[test]
    fn what_is_cut_is_said() {
        let others = [
            other(1, Some(at(4, 20)), Some(4)),
            other(2, None, None),
            other(4, Some(at(2, 5)), None),
            Other { leads: true, ..other(5, Some(at(3, 8)), None) },
        ];
        let taken = Override::of(&taker(at(3, 9)), &others);
        assert_eq!(taken.epoch, Epoch { term: 1_000_004, node: 3 });
        assert_eq!((taken.voter, taken.job_id), (3, 1_000_041));
        let ids: Vec<_> = taken.rejoin.iter().map(|again| (again.was, again.becomes)).collect();
        assert_eq!(ids, [(1, 10_005), (2, 10_006), (4, 10_007), (5, 10_008)]);
        assert_eq!(taken.next_node_id, 10_009);
        let told: Vec<_> = taken.cut.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "what n1.example holds up to 4.1/20 is cut; this node ends at 3.1/9",
                "n2.example gave no answer that counts: what it may hold after 3.1/9 is cut",
                "n5.example leads, and held entries up to 3.1/8: what it took after 3.1/9, until it \
                 heard of this, is cut",
            ]
        );
    }

    #[test]
    fn job_ids_move_by_what_can_have_been_given_out() {
        let known = other(1, Some(at(3, 9)), None);
        let no_member = Other { member: None, ..other(2, None, None) };
        let moved = |others: &[Other]| Override::of(&taker(at(3, 9)), others).job_id - 41;
        assert_eq!(moved(&[]), 0);
        assert_eq!(moved(std::slice::from_ref(&no_member)), 0);
        assert_eq!(moved(&[known.clone(), no_member]), JOB_IDS_MEANWHILE);
        for more in [
            other(4, None, None),
            other(4, Some(at(3, 10)), None),
            other(4, Some(at(4, 1)), None),
            Other { leads: true, ..known.clone() },
        ] {
            assert_eq!(moved(&[known.clone(), more.clone()]), JOB_IDS_UNSEEN, "{more:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_used_twice(
            own in 0_u64..50,
            stores in proptest::collection::vec(
                (proptest::option::of(0_u64..50), proptest::option::of(0_u64..50)), 0..5),
        ) {
            let others: Vec<_> = stores
                .iter()
                .enumerate()
                .map(|(n, (last, obeys))| other(n + 10, last.map(|term| at(term, 1)), *obeys))
                .collect();
            let taker = taker(at(own, 3));
            let taken = Override::of(&taker, &others);
            let seen = stores.iter().flat_map(|(last, obeys)| [*last, *obeys]).flatten();
            prop_assert!(seen.chain([own]).all(|term| taken.epoch.term >= term + TERM_STEP));
            let given = others.iter().map(|other| job_ids_given(&taker, other)).max();
            prop_assert!(taken.job_id >= taker.job_id + given.unwrap_or(0));
            prop_assert!(others.is_empty() || taken.job_id > taker.job_id);
            let ids: BTreeSet<_> = taken.rejoin.iter().map(|again| again.becomes).collect();
            prop_assert_eq!(ids.len(), others.len());
            prop_assert!(ids.iter().all(|id| (taker.next_node_id..taken.next_node_id).contains(id)));
        }
    }
}
