//! The model's states in the words of the real cores.

use std::cell::RefCell;
use std::collections::HashMap;

use model::NodeName;
use model::node::NodeRole;
use queue_format::{Epoch, Position};
use uuid::Uuid;

use super::super::amnesia::{Expected, Found, Memory};
use super::super::confirm::{
    AgentSays, Asked, Attempt, Decision, Member, Question, RoleEntry, Silence, StoreSays, Voting,
    Waivers, confirm,
};
use super::super::forced_takeover::Other;
use super::world::{Entry, Log, NODES, Node, World, members};

/// The epoch of a leader; member ids begin with 1.
pub(super) fn epoch_of(node: usize, term: u32) -> Epoch {
    let node = u64::try_from(node).expect("there are three nodes");
    Epoch { term: term.into(), node: node + 1 }
}

pub(super) fn name(node: usize) -> NodeName {
    format!("n{}", node + 1).parse().expect("it is a name")
}

pub(super) fn role_entry(entry: Entry) -> RoleEntry {
    RoleEntry { master: name(entry.leader.into()), epoch: entry.epoch() }
}

/// The other members for an override that nobody answers.
pub(super) fn silent_others(node: usize) -> Vec<Other> {
    let others = (0..NODES).filter(|&other| other != node);
    let silent = |other: usize| Other {
        node: name(other),
        member: Some(epoch_of(other, 0).node),
        last: None,
        leads: false,
        newest: None,
    };
    others.map(silent).collect()
}

/// How far the holder of this log can rely on a node's memory. Its id does not matter here: the store of
/// each is known.
pub(super) fn memory(node: usize, world: &World, judge: &Log) -> Memory {
    Memory::of(&expected(node, judge), &found(node, &world.nodes[node]))
}

/// The store of a node after its disk was emptied, and before.
fn incarnation(is_another: bool) -> Uuid {
    if is_another { Uuid::max() } else { Uuid::nil() }
}

fn expected(node: usize, judge: &Log) -> Expected {
    Expected {
        member: epoch_of(node, 0).node,
        incarnation: incarnation(judge.admitted() & (1 << node) != 0),
        acknowledged: Position::default(),
    }
}

fn found(node: usize, has: &Node) -> Found {
    Found::Store {
        member: epoch_of(node, 0).node,
        incarnation: incarnation(has.emptied),
        last: has.log.position(has.flushed),
    }
}

/// All that an answer depends on, in numbers.
type Key = (usize, Attempt, u8, [[u32; 6]; NODES]);

/// Asks [`confirm`], once for each question.
#[derive(Default)]
pub(super) struct Asking(RefCell<HashMap<Key, bool, foldhash::fast::FixedState>>);

impl Asking {
    /// Whether the check lets the node go on that hears these nodes.
    pub(super) fn lets_go(&self, node: usize, attempt: Attempt, heard: u8, world: &World) -> bool {
        let key = (node, attempt, heard, world.nodes.map(|node| relevant(&node)));
        *self.0.borrow_mut().entry(key).or_insert_with(|| {
            let verdict = confirm(&question(node, attempt, heard, world));
            matches!(verdict.decision, Decision::Go | Decision::GoAfterFetching { .. })
        })
    }
}

fn relevant(node: &Node) -> [u32; 6] {
    let durable = |len: u8| len.checked_sub(1).and_then(|last| node.log.get(last));
    let last = durable(node.flushed).map_or(0, |entry| entry.term << 2 | u32::from(entry.leader));
    let role = node.log.iter().take(node.flushed.into()).filter(is_role).last();
    let role = role.map_or(0, |entry| entry.term << 2 | u32::from(entry.leader));
    let flags = u32::from(node.emptied) << 1 | u32::from(node.leading);
    let small = u32::from(node.flushed) << 16 | u32::from(node.committed) << 8 | flags;
    let number = |number: u64| u32::try_from(number).expect("numbers of the model are small");
    let obeys = number(node.obeys.term) << 2 | number(node.obeys.node);
    let seats = u32::from(node.log.admitted()) << 8 | u32::from(node.log.voters());
    [node.term, last, role, small, obeys, seats]
}

fn is_role(entry: &Entry) -> bool {
    matches!(entry.kind, super::Kind::Role { .. })
}

fn question(taker: usize, attempt: Attempt, heard: u8, world: &World) -> Question {
    let voters = world.nodes[taker].log.voters();
    let asked = |node: usize| {
        let seat = if voters & (1 << node) == 0 { Voting::Learner } else { Voting::Voter };
        let expected = expected(node, &world.nodes[taker].log);
        let answers = members(heard).any(|other| other == node);
        let silence = || Silence::Unreachable { why: "no answer".to_owned() };
        Asked {
            name: name(node),
            role: NodeRole::Candidate,
            member: Some(Member { seat, witness: false, expected }),
            agent: if answers { Ok(agent(&world.nodes[node])) } else { Err(silence()) },
            store: Some(if answers { Ok(store(node, world)) } else { Err(silence()) }),
        }
    };
    Question {
        attempt,
        waivers: Waivers::default(),
        taker: name(taker),
        next_member: epoch_of(NODES, 0).node,
        voters: vec![members(voters).map(|node| epoch_of(node, 0).node).collect()],
        later: None,
        nodes: (0..NODES).map(asked).collect(),
    }
}

fn agent(node: &Node) -> AgentSays {
    let master = node.obeys.node.checked_sub(1).and_then(|master| usize::try_from(master).ok());
    AgentSays { obeys: node.obeys, master: master.map(name) }
}

fn store(node: usize, world: &World) -> StoreSays {
    let member = &world.nodes[node];
    let durable = member.log.iter().take(member.flushed.into());
    let role = durable.filter(is_role).last();
    StoreSays {
        found: found(node, member),
        committed: member.log.position(member.committed.min(member.flushed)),
        // For whom a follower voted does not matter; who leads voted for itself.
        vote: epoch_of(if member.leading { node } else { 0 }, member.term),
        role: role.map(role_entry),
        leads: member.leading,
        disk_full: false,
        last_job: None,
    }
}
