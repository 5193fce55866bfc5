//! The seats of the model's nodes, as the real membership policy gives and takes them.

use std::cell::RefCell;
use std::collections::HashMap;

use model::node::NodeRole;

use super::super::pool::{Pool, PoolNode, Step, Voting, next_seat};
use super::world::{ALL, Kind, NODES};

/// The input of the policy, in sets of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Seats {
    pub(super) master: usize,
    /// The nodes that vote.
    pub(super) voters: u8,
    /// The nodes that are members, or would be if they did not vote.
    pub(super) seated: u8,
    /// The nodes that have all that the master has.
    pub(super) current: u8,
    /// The nodes that answer.
    pub(super) reached: u8,
    /// The nodes that are to be members.
    pub(super) candidates: u8,
    /// Whether everyone has been waited for long enough.
    pub(super) late: bool,
}

/// Asks [`next_seat`], once for each question.
#[derive(Default)]
pub(super) struct Policy(RefCell<HashMap<Seats, Option<Kind>, foldhash::fast::FixedState>>);

impl Policy {
    /// The entry that the next step writes; none if all is well, or the step changes no seat that the
    /// model has.
    pub(super) fn next(&self, seats: Seats) -> Option<Kind> {
        *self.0.borrow_mut().entry(seats).or_insert_with(|| {
            let bit = |id: u64| 1 << (id - 1);
            match next_seat(&seats.pool())? {
                Step::Admit(id) => Some(Kind::Admitted(u8::try_from(id - 1).expect("it is small"))),
                Step::MakeVoter(id) => Some(Kind::Voters(seats.voters | bit(id))),
                Step::MakeLearner(id) => Some(Kind::Voters(seats.voters & !bit(id))),
                // A learner's word does not count, and is not asked for.
                Step::Dismiss(_) | Step::Promote(_) | Step::Demote(_) => None,
            }
        })
    }
}

impl Seats {
    fn pool(&self) -> Pool {
        let is_in = |set: u8, node: usize| set & (1 << node) != 0;
        let id = |node: usize| u64::try_from(node).expect("there are three nodes") + 1;
        let node = |node: usize| PoolNode {
            id: id(node),
            role: match is_in(self.candidates, node) {
                true => NodeRole::Candidate,
                false => NodeRole::Regular,
            },
            master_capable: true,
            witness: false,
            rack: None,
            reachable: is_in(self.reached, node),
            late: self.late,
            seat: match (is_in(self.voters, node), is_in(self.seated, node)) {
                (true, _) => Some(Voting::Voter),
                (false, true) => Some(Voting::Learner { current: is_in(self.current, node) }),
                (false, false) => None,
            },
        };
        let size = usize::try_from(ALL.count_ones()).expect("there are three nodes");
        Pool { nodes: (0..NODES).map(node).collect(), master: id(self.master), size }
    }
}
