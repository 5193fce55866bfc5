//! Core: which nodes are candidates, and which of them vote (Ganeti's 2.0 design, "Node flags",
//! docs/failover.md).
//!
//! [`next_step`] says the one thing to do next; each is done and committed before it is asked again.
//! Everything is a function of what is there, so a new master goes on where the old one stopped.
//!
//! - The pool has as many candidates as `candidate_pool_size` says, as far as there are nodes for it.
//! - Three candidates or more all vote. One or two do not: with two voters either one's end stops
//!   the cluster, so the master votes alone, and the other follows.
//! - A node that is getting its copy is waited for, for a while. A lack of candidates for just that long
//!   makes no candidate give its vote back. Two voters stop where either one does, but what they
//!   acknowledged is on two disks.
//! - A witness votes where that makes an odd number: two candidates and a witness bear the loss of
//!   one, four and a witness the loss of two. Without a witness an even number is as safe as the odd
//!   one below it, so no candidate is kept from voting for the number's sake.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use model::node::NodeRole;

/// Voters from which on a majority bears the loss of one.
pub const VOTERS_MIN: usize = 3;

/// A node's seat among the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Voting {
    /// Its word counts.
    Voter,
    /// It only follows.
    Learner {
        /// It has all that is committed, or nearly: as a voter it would hold nothing up.
        current: bool,
    },
}

/// A node, as the policy sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolNode {
    /// Its id; lower ones were added earlier.
    pub id: u64,
    /// Its role; the master's is `Candidate`.
    pub role: NodeRole,
    /// Whether it may become the master.
    pub master_capable: bool,
    /// Whether it is to vote without data to serve. Such a node is no candidate.
    pub witness: bool,
    /// Its rack, where that is known.
    pub rack: Option<u32>,
    /// Whether it answers, or there was no time for that yet.
    pub reachable: bool,
    /// Whether it has had no copy for so long that it is waited for no longer.
    pub late: bool,
    /// Its seat, if it is a member.
    pub seat: Option<Voting>,
}

impl PoolNode {
    fn is_candidate(&self) -> bool {
        self.role == NodeRole::Candidate && !self.witness
    }

    /// Whether it is to be a member at all.
    pub fn belongs(&self) -> bool {
        match self.witness {
            true => !matches!(self.role, NodeRole::Offline | NodeRole::Drained),
            false => self.role == NodeRole::Candidate,
        }
    }

    fn may_be_promoted(&self) -> bool {
        self.role == NodeRole::Regular && self.master_capable && !self.witness && self.reachable
    }

    /// Whether its vote counts.
    pub fn votes(&self) -> bool {
        self.seat == Some(Voting::Voter)
    }

    /// Whether it has a copy of the store, or is getting one.
    pub fn holds(&self) -> bool {
        self.seat.is_some()
    }

    /// Whether it is getting its copy, or about to be invited to.
    fn is_coming(&self) -> bool {
        let comes = match self.seat {
            None => self.belongs(),
            Some(Voting::Learner { current }) => self.reachable && !current,
            Some(Voting::Voter) => false,
        };
        comes && !self.late
    }

    /// Whether it votes, or could from one moment to the next.
    fn can_vote(&self) -> bool {
        self.votes() || self.seat == Some(Voting::Learner { current: true }) && self.reachable
    }
}

/// All that the policy looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Every node, in any order.
    pub nodes: Vec<PoolNode>,
    /// Id of the master.
    pub master: u64,
    /// `candidate_pool_size`.
    pub size: usize,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A regular node becomes a candidate.
    Promote(u64),
    /// A candidate too many becomes a regular node.
    Demote(u64),
    /// A node is invited as a learner, under a new member id.
    Admit(u64),
    /// A learner becomes a voter.
    MakeVoter(u64),
    /// A voter becomes a learner.
    MakeLearner(u64),
    /// A learner is a member no more.
    Dismiss(u64),
}

impl Step {
    /// The id of the node that it is about.
    pub fn node(self) -> u64 {
        match self {
            Self::Promote(id) | Self::Demote(id) => id,
            Self::Admit(id) | Self::MakeVoter(id) | Self::MakeLearner(id) | Self::Dismiss(id) => id,
        }
    }
}

/// The next step; none when all is as it should be, or has to wait for a node.
///
/// Seats are given before seats are taken, so that a voter is replaced while it still counts.
pub fn next_step(pool: &Pool) -> Option<Step> {
    roles(pool).or_else(|| next_seat(pool))
}

fn roles(pool: &Pool) -> Option<Step> {
    let candidates = || pool.nodes.iter().filter(|node| node.is_candidate());
    let count = candidates().count();
    if count < pool.size {
        let taken: BTreeSet<u32> = candidates().filter_map(|node| node.rack).collect();
        // Only who answers: a place for who does not helps nobody. Another rack, since racks fail as
        // a whole; then who was added first, for the sake of a choice that can be foretold.
        let is_same_rack = |node: &PoolNode| node.rack.is_some_and(|rack| taken.contains(&rack));
        let able = pool.nodes.iter().filter(|node| node.may_be_promoted());
        return able.min_by_key(|node| (is_same_rack(node), node.id)).map(|n| Step::Promote(n.id));
    }
    if count > pool.size {
        // A node that does not answer goes first, then a node without a copy, then the newest. A node
        // that is getting its copy is waited for: a voter that goes before leaves too few.
        let others = || candidates().filter(|node| node.id != pool.master);
        let least = others().min_by_key(|node| (node.reachable, node.holds(), Reverse(node.id)))?;
        let comes = |node: &PoolNode| node.id != least.id && node.holds() && node.is_coming();
        let is_waited_for = least.holds() && others().any(comes);
        return (!is_waited_for).then_some(Step::Demote(least.id));
    }
    None
}

/// The next step about seats alone, whatever the roles are, or will be.
pub fn next_seat(pool: &Pool) -> Option<Step> {
    let nodes = || pool.nodes.iter();
    let lowest = |step: fn(u64) -> Step, is_meant: &dyn Fn(&PoolNode) -> bool| {
        nodes().filter(|node| is_meant(node)).map(|node| node.id).min().map(step)
    };
    let voters = voters(pool, PoolNode::can_vote);
    let soon = self::voters(pool, |node| node.can_vote() || node.is_coming());
    let waits = voters.len() < VOTERS_MIN && soon.len() >= VOTERS_MIN;
    let is_voter = |node: &PoolNode| voters.contains(&node.id);
    let is_ready = |node: &PoolNode| node.seat == Some(Voting::Learner { current: true });
    let admitted = lowest(Step::Admit, &|node: &PoolNode| {
        node.belongs() && node.seat.is_none() && node.reachable
    });
    let raised = || lowest(Step::MakeVoter, &|n: &PoolNode| is_voter(n) && is_ready(n));
    let lowered = || {
        // A voter that does not answer goes first, so that those who do are a majority of the rest. Next
        // goes a voter that is no candidate any more: others still help.
        let helps = |node: &PoolNode| waits && node.reachable && node.belongs();
        let stays = |node: &PoolNode| is_voter(node) || helps(node);
        let surplus = nodes().filter(|node| node.votes() && !stays(node));
        let first = surplus.min_by_key(|node| (node.reachable, node.belongs(), Reverse(node.id)));
        first.map(|node| Step::MakeLearner(node.id))
    };
    let dismissed = || {
        lowest(Step::Dismiss, &|node: &PoolNode| {
            !node.belongs() && node.seat.is_some() && !node.votes() && node.id != pool.master
        })
    };
    admitted.or_else(raised).or_else(lowered).or_else(dismissed)
}

/// Makes candidates of regular nodes, as far as there is room; gives their ids.
pub fn refill(pool: &mut Pool) -> Vec<u64> {
    let mut promoted = Vec::new();
    while let Some(Step::Promote(id)) = next_step(pool) {
        for node in pool.nodes.iter_mut().filter(|node| node.id == id) {
            node.role = NodeRole::Candidate;
        }
        promoted.push(id);
    }
    promoted
}

/// Makes the pool as large as it is to be; seats are not looked at.
pub fn settle(pool: &mut Pool) {
    refill(pool);
    while let Some(Step::Demote(id)) = next_step(pool) {
        for node in pool.nodes.iter_mut().filter(|node| node.id == id) {
            node.role = NodeRole::Regular;
        }
    }
}

/// How many vote once all have the seats that they are to have: the master alone, or three and more.
pub fn votes_at_rest(pool: &Pool) -> usize {
    voters(pool, |_| true).len()
}

/// The way out where a master is lost that voted alone; of candidates, those count that `could` take the
/// role.
pub fn if_lost(pool: &Pool, could: fn(&PoolNode) -> bool) -> &'static str {
    let is_heir = |node: &PoolNode| node.id != pool.master && node.is_candidate() && could(node);
    match pool.nodes.iter().any(is_heir) {
        true => {
            "the role moves by an override alone (--no-voting), which may lose what was acknowledged"
        }
        false => "no other node can take the role",
    }
}

fn voters(pool: &Pool, can_vote: fn(&PoolNode) -> bool) -> BTreeSet<u64> {
    let nodes = || pool.nodes.iter();
    let candidates: BTreeSet<u64> = nodes()
        .filter(|node| node.is_candidate() && (can_vote(node) || node.id == pool.master))
        .map(|node| node.id)
        .collect();
    let witness = nodes().filter(|node| node.witness && node.belongs() && can_vote(node));
    let witness = witness.map(|node| node.id).min();
    let mut voters = candidates;
    if voters.len() >= 2 && voters.len().is_multiple_of(2) {
        voters.extend(witness);
    }
    if voters.len() < VOTERS_MIN {
        voters = BTreeSet::new();
    }
    // Whatever its role: the configuration may be on its way to saying that it is a candidate.
    voters.insert(pool.master);
    voters
}

#[cfg(test)]
mod tests;
