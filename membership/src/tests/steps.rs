//! The steps of the model: Raft in few words, and our rules around it.
//!
//! A question and its answer are one step. A loss, a delay or a node that is down is a step that is not
//! taken: so a node that crashes is there again at once. Calls to agents are on their way between two
//! steps, since being late is what fencing is for.

use jobs::majority::contact::{Contact, REFUSE_AFTER_MS};
use queue_format::Epoch;
use rpc::fence::{Entry as Fenced, Obeyed, Table};

use super::super::amnesia::Memory;
use super::super::confirm::{Attempt, still_designated};
use super::super::forced_takeover::{Override, Taker};
use super::explore::Model;
use super::seats::Seats;
use super::world::{ALL, Entry, Kind, Log, NODES, Node, World, is_majority, members};
use super::{Leadership, Rule, ask, epoch_of, name};

/// A step.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "what is in it is read where a counterexample is printed")]
pub(super) enum Step {
    Confirm { node: usize, attempt: Attempt, heard: u8 },
    Elect { node: usize, attempt: Attempt, by: u8 },
    Propose(usize),
    Flush(usize),
    Replicate { from: usize, to: usize },
    Silence { node: usize, to: usize },
    Crash { node: usize, keeps_unflushed: bool },
    Empty(usize),
    Change { node: usize, kind: Kind },
    Override(usize),
    Call { from: usize, to: usize },
    Deliver(usize),
    End { node: usize, call: usize },
}

impl Leadership {
    fn entry(node: usize, term: u32, kind: Kind) -> Entry {
        let leader = u8::try_from(node).expect("there are three nodes");
        Entry { term, leader, kind }
    }

    /// Whether a leader is master: its role entry is committed.
    pub(super) fn is_master(&self, node: usize, world: &World) -> bool {
        let member = &world.nodes[node];
        let committed = member.log.iter().take(member.committed.into());
        let mine = |entry: Entry| {
            entry.term == member.term
                && usize::from(entry.leader) == node
                && matches!(entry.kind, Kind::Role { .. })
        };
        member.leading && (self.off(Rule::RoleEntryFirst) || committed.into_iter().any(mine))
    }

    /// Whether it takes changes and starts calls.
    pub(super) fn acts(&self, node: usize, world: &World) -> bool {
        let member = &world.nodes[node];
        let hears = is_majority(member.heard | 1 << node, member.log.voters());
        let silence_ms = if hears { 0 } else { REFUSE_AFTER_MS + 1 };
        let contact = Contact::after(silence_ms);
        let may = contact.takes_changes() && contact.starts_calls();
        self.is_master(node, world) && (may || self.off(Rule::CutOff))
    }

    /// Whether a member's word counts, its vote and its acknowledgement, for who has this log.
    fn remembers(&self, node: usize, world: &World, judge: &Log) -> bool {
        self.off(Rule::Incarnation) || ask::memory(node, world, judge).may_vote()
    }

    /// The vote check, by whom the node hears; where it lets go, more answers change nothing.
    fn check(&self, node: usize, attempt: Attempt, world: &World) -> Option<u8> {
        let mut heard = (0..=ALL).filter(|heard| heard & (1 << node) != 0);
        let lets_go = |heard: &u8| self.asked.lets_go(node, attempt, *heard, world);
        heard.find(|heard| self.off(Rule::VoteCheck) || lets_go(heard))
    }

    fn confirm(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let member = &world.nodes[node];
        if member.leading || world.left.elections == 0 || member.confirmed.is_some() {
            return;
        }
        for attempt in [Attempt::Start, Attempt::Failover] {
            let Some(heard) = self.check(node, attempt, world) else { continue };
            let mut next = *world;
            next.nodes[node].confirmed = Some(attempt);
            if world.left.apart {
                found.push((Step::Confirm { node, attempt, heard }, next));
            } else {
                self.elect(node, &next, found);
            }
        }
    }

    fn elect(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let member = &world.nodes[node];
        let Some(attempt) = member.confirmed else { return };
        let (term, voters) = (member.term + 1, member.log.voters());
        if voters & (1 << node) == 0 || world.left.elections == 0 {
            return;
        }
        for by in (0..=ALL).filter(|by| by & (1 << node) != 0 && by & !voters == 0) {
            let grants = |voter: usize| self.grants(voter, node, term, world);
            if !is_majority(by, voters) || !members(by).all(grants) {
                continue;
            }
            let mut next = *world;
            next.left.elections -= 1;
            for voter in members(by) {
                forget(&mut next.nodes[voter]);
                next.nodes[voter].term = term;
            }
            self.lead(node, attempt, by & !(1 << node), &mut next);
            found.push((Step::Elect { node, attempt, by }, next));
        }
    }

    /// Whether a member votes for another, or for itself.
    fn grants(&self, voter: usize, node: usize, term: u32, world: &World) -> bool {
        let (member, taker) = (&world.nodes[voter], &world.nodes[node]);
        // A member that hears a leader keeps to it, the taker too; the leader falls silent before they
        // give up.
        let keeps_to = |leader: &Node| {
            let is_heard = leader.heard & (1 << voter) != 0 && !member.unbound;
            leader.leading && leader.term == member.term && is_heard
        };
        let free = member.term < term && !world.nodes.iter().any(keeps_to);
        let remembers = self.remembers(voter, world, &taker.log);
        free && remembers && taker.log.last() >= member.log.last()
    }

    /// The elected leader looks once more, and begins its leadership.
    fn lead(&self, node: usize, attempt: Attempt, heard: u8, world: &mut World) {
        let member = &mut world.nodes[node];
        let newest = member.log.role().map(ask::role_entry);
        let again = still_designated(attempt, &name(node), newest.as_ref());
        if again.is_err() && !self.off(Rule::LookAgain) && !self.off(Rule::VoteCheck) {
            return;
        }
        (member.leading, member.heard) = (true, heard);
        let kind = Kind::Role { start: attempt == Attempt::Start };
        member.log.push(Self::entry(node, member.term, kind));
    }

    fn propose(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        if world.left.batches == 0 || !self.acts(node, world) {
            return;
        }
        let mut next = *world;
        next.left.batches -= 1;
        let member = &mut next.nodes[node];
        let id = member.log.job_id() + 1;
        member.log.push(Self::entry(node, member.term, Kind::Batch(id)));
        found.push((Step::Propose(node), next));
    }

    fn flush(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let mut next = *world;
        let member = &mut next.nodes[node];
        member.flushed = member.log.len();
        if member.leading {
            member.matched[node] = member.flushed;
            commit(node, &mut next);
        }
        if next != *world {
            found.push((Step::Flush(node), next));
        }
    }

    fn replicate(&self, from: usize, to: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let (leader, member) = (&world.nodes[from], &world.nodes[to]);
        if !leader.leading || from == to || !self.remembers(to, world, &leader.log) {
            return;
        }
        let mut next = *world;
        if member.term > leader.term {
            forget(&mut next.nodes[from]);
        } else {
            let follower = &mut next.nodes[to];
            if member.term < leader.term {
                forget(follower);
            }
            (follower.term, follower.unbound) = (leader.term, false);
            follower.flushed = follower.flushed.min(member.log.common(&leader.log));
            follower.log = leader.log;
            if !self.off(Rule::FlushFirst) {
                follower.flushed = follower.log.len();
            }
            let leader = &mut next.nodes[from];
            leader.matched[to] = leader.log.len();
            leader.heard |= 1 << to;
            commit(from, &mut next);
        }
        if next != *world {
            found.push((Step::Replicate { from, to }, next));
        }
    }

    fn faults(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let member = &world.nodes[node];
        for to in members(member.heard) {
            let mut next = *world;
            next.nodes[node].heard &= !(1 << to);
            found.push((Step::Silence { node, to }, next));
        }
        if world.left.crashes > 0 {
            for keeps_unflushed in [true, false] {
                let mut next = *world;
                next.left.crashes -= 1;
                let member = &mut next.nodes[node];
                forget(member);
                if !keeps_unflushed {
                    member.log.cut(member.flushed);
                }
                // Recovery flushes what it found before any answer.
                member.flushed = member.log.len();
                member.unbound = self.off(Rule::WaitAfterRestart);
                found.push((Step::Crash { node, keeps_unflushed }, next));
            }
        }
        if world.left.emptied > 0 {
            let mut next = *world;
            next.left.emptied -= 1;
            let member = &mut next.nodes[node];
            forget(member);
            (member.term, member.emptied) = (0, true);
            (member.log, member.flushed) = (Log::EMPTY, 0);
            found.push((Step::Empty(node), next));
        }
    }

    fn change(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let member = &world.nodes[node];
        let later = member.log.iter().skip(member.committed.into());
        let is_of_seats = |entry: Entry| matches!(entry.kind, Kind::Voters(_) | Kind::Admitted(_));
        // Each is committed before the policy is asked again.
        let is_under_way = !self.off(Rule::OneChange) && later.into_iter().any(is_of_seats);
        if world.left.changes == 0 || is_under_way || !self.acts(node, world) {
            return;
        }
        for kind in self.next_seats(node, world) {
            let mut next = *world;
            next.left.changes -= 1;
            let member = &mut next.nodes[node];
            member.log.push(Self::entry(node, member.term, kind));
            found.push((Step::Change { node, kind }, next));
        }
    }

    /// The policy's next step about seats, whatever roles there are; or any change of voters, without
    /// the policy.
    fn next_seats(&self, node: usize, world: &World) -> Vec<Kind> {
        let log = &world.nodes[node].log;
        let voters = log.voters();
        if self.off(Rule::Policy) {
            let others = (0..=ALL).filter(|set| set & (1 << node) != 0 && *set != voters);
            return others.map(Kind::Voters).collect();
        }
        let lost = members(voters & !(1 << node))
            .filter(|&other| ask::memory(other, world, log) != Memory::Known);
        if let Some(lost) = lost.map(|lost| Kind::Voters(voters & !(1 << lost))).next() {
            return vec![lost];
        }
        let has_seat = |other: &usize| ask::memory(*other, world, log) == Memory::Known;
        let set = |is: &dyn Fn(&usize) -> bool| {
            (0..NODES).filter(is).fold(0, |set, other| set | 1 << other)
        };
        let is_current = |other: &usize| world.nodes[*other].log == *log;
        let mut seats = Seats {
            master: node,
            voters,
            seated: set(&has_seat),
            current: set(&is_current),
            reached: ALL,
            candidates: ALL,
            late: self.off(Rule::WaitsForCopies),
        };
        if !world.left.roles {
            return self.policy.next(seats).into_iter().collect();
        }
        seats.reached = world.nodes[node].heard | 1 << node;
        let mut found = Vec::new();
        for candidates in (0..=ALL).filter(|set| set & (1 << node) != 0) {
            for late in [false, true] {
                found.extend(self.policy.next(Seats { candidates, late, ..seats }));
            }
        }
        found.dedup();
        found
    }

    fn overrides(&self, node: usize, world: &World, found: &mut Vec<(Step, World)>) {
        let member = &world.nodes[node];
        let remembers = self.remembers(node, world, &member.log);
        if world.left.overrides == 0 || member.leading || !remembers {
            return;
        }
        let vote = Epoch { term: member.term.into(), node: 0 };
        // The worst case: nobody else answers.
        let taken = Override::of(
            &Taker {
                node: name(node),
                member: epoch_of(node, 0).node,
                last: member.log.last(),
                vote,
                job_id: member.log.job_id().into(),
                next_node_id: 4,
            },
            &ask::silent_others(node),
        );
        let far = u32::try_from(taken.epoch.term).expect("few overrides");
        let ahead = u32::try_from(taken.job_id).expect("few overrides");
        let term = if self.off(Rule::TermJump) { member.term + 1 } else { far };
        let job_id = if self.off(Rule::IdJump) { member.log.job_id() } else { ahead };
        let says_so = !taken.cut.is_empty() && !self.off(Rule::SaysWhatIsCut);
        let mut next = *world;
        next.left.overrides -= 1;
        next.overridden = Some((epoch_of(node, term), says_so));
        let member = &mut next.nodes[node];
        forget(member);
        member.term = term;
        member.log.push(Self::entry(node, term, Kind::Cut(job_id)));
        member.log.push(Self::entry(node, term, Kind::Voters(1 << node)));
        member.flushed = member.log.len();
        self.lead(node, Attempt::Failover, 0, &mut next);
        found.push((Step::Override(node), next));
    }

    fn calls(&self, world: &World, found: &mut Vec<(Step, World)>) {
        let free = world.calls.iter().position(Option::is_none);
        for from in (0..NODES).filter(|&from| world.left.calls > 0 && self.acts(from, world)) {
            // One agent stands for all: each keeps what it runs to itself.
            let (Some(slot), to) = (free, NODES - 1) else { break };
            let mut next = *world;
            next.left.calls -= 1;
            next.calls[slot] = Some((epoch_of(from, world.nodes[from].term), 2));
            found.push((Step::Call { from, to }, next));
        }
        for (slot, call) in world.calls.iter().enumerate() {
            let Some((epoch, to)) = *call else { continue };
            let mut next = *world;
            if self.arrives(&mut next.nodes[usize::from(to)], epoch) {
                next.calls[slot] = None;
                next.calls.sort_unstable();
            }
            // A call that waits has made the agent obey its epoch, and stays.
            if next != *world {
                found.push((Step::Deliver(slot), next));
            }
        }
        for node in 0..NODES {
            for call in 0..world.nodes[node].running.len() {
                if world.nodes[node].running[call].is_some() {
                    let mut next = *world;
                    next.nodes[node].running[call] = None;
                    next.nodes[node].running.sort_unstable();
                    found.push((Step::End { node, call }, next));
                }
            }
        }
    }

    /// A call arrives at an agent; false while it has to wait there.
    fn arrives(&self, agent: &mut Node, epoch: Epoch) -> bool {
        let older = agent.running.iter().flatten().next().copied();
        let mut table = Table::new(obeyed(older.unwrap_or(agent.obeys)));
        for epoch in agent.running.iter().flatten() {
            table.enter(*epoch, &());
        }
        table.rise(obeyed(agent.obeys));
        let entry = match table.enter(epoch, &()) {
            Fenced::Rise => {
                table.rise(obeyed(epoch));
                agent.obeys = epoch;
                table.enter(epoch, &())
            }
            entry => entry,
        };
        let runs = match entry {
            Fenced::Granted { .. } => true,
            Fenced::Refused { .. } | Fenced::Stopping => self.off(Rule::Fencing),
            Fenced::Wait if self.off(Rule::Fencing) => true,
            Fenced::Wait | Fenced::Rise => return false,
        };
        if let Some(place) = agent.running.iter_mut().find(|place| runs && place.is_none()) {
            *place = Some(epoch);
            agent.running.sort_unstable();
        }
        true
    }
}

/// The model tells masters apart by the epoch: the name does not matter here.
fn obeyed(epoch: Epoch) -> Obeyed {
    Obeyed { epoch, master: Some(name(0)) }
}

impl Model for Leadership {
    type State = World;
    type Step = Step;

    fn start(&self) -> World {
        World::new(self.bounds)
    }

    fn steps(&self, world: &World, found: &mut Vec<(Step, World)>) {
        for node in 0..NODES {
            self.confirm(node, world, found);
            self.elect(node, world, found);
            self.propose(node, world, found);
            self.flush(node, world, found);
            self.faults(node, world, found);
            self.change(node, world, found);
            self.overrides(node, world, found);
            for to in 0..NODES {
                self.replicate(node, to, world, found);
            }
        }
        self.calls(world, found);
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        self.broken_property(world)
    }
}

/// Clears what a member loses in a crash, or once it hears of a later term.
fn forget(member: &mut Node) {
    (member.leading, member.confirmed) = (false, None);
    (member.committed, member.matched, member.heard) = (0, [0; NODES], 0);
}

/// Commits what a majority of voters acknowledged in the leader's term, and tells clients.
fn commit(node: usize, world: &mut World) {
    let member = &mut world.nodes[node];
    let voters = member.log.voters();
    let mut committed = member.committed;
    for len in member.committed + 1..=member.log.len() {
        let own_term = member.log.get(len - 1).is_some_and(|entry| entry.term == member.term);
        let have = members(ALL).filter(|&other| member.matched[other] >= len);
        let have = have.fold(0, |set, other| set | 1 << other);
        if own_term && is_majority(have, voters) {
            committed = len;
        }
    }
    for index in member.committed..committed {
        let entry = member.log.get(index).expect("what is committed is there");
        let is_told = entry.term == member.term && matches!(entry.kind, Kind::Batch(_));
        let have = members(ALL).filter(|&other| member.matched[other] > index).count();
        world.on_one_disk |= is_told && have == 1;
        let place = world.acknowledged.iter_mut().find(|place| place.is_none());
        if let (true, Some(place)) = (is_told, place) {
            *place = Some((index, entry));
        }
    }
    member.committed = committed;
    // Committed entries need no acknowledgement any more: states that differ in that are one.
    for matched in member.matched.iter_mut().filter(|matched| **matched <= committed) {
        *matched = 0;
    }
}
