//! Core: what one node's answers are worth, taken for themselves.

use std::collections::BTreeMap;

pub use engine::TERM_AHEAD_MAX;
use queue_format::{Epoch, Position};

use super::{AgentSays, Asked, Claim, Member, Question, Reason, Silence, StoreSays};
use crate::amnesia::{Found, Memory};
use crate::forced_takeover::TERM_STEP;

// Terms further ahead than this of what the taker knows are nonsense.
const _: () = assert!(TERM_AHEAD_MAX >= 1000 * TERM_STEP, "a thousand overrides make sense");

/// A store whose answer is believed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store<'a> {
    pub(super) member: &'a Member,
    pub(super) last: Position,
    pub(super) says: &'a StoreSays,
}

impl Store<'_> {
    /// Whether its vote counts.
    pub(super) fn votes(&self) -> bool {
        self.member.seat.votes() && !self.says.disk_full
    }

    /// Whether its entries can be fetched: it can be elected, or leads. Serving takes no room on its
    /// disk.
    pub(super) fn serves(&self) -> bool {
        self.votes() || self.says.leads
    }
}

/// A node's answers, without those that cannot be used.
#[derive(Debug, Clone)]
pub(super) struct Heard<'a> {
    pub(super) node: &'a Asked,
    pub(super) ignored: bool,
    pub(super) agent: Option<&'a AgentSays>,
    pub(super) store: Option<Store<'a>>,
    /// The store of an ignored node: it neither counts nor is fetched from, and yet nobody cuts what it
    /// knows to be committed.
    pub(super) ignored_store: Option<Store<'a>>,
    /// Why something is not used, if anything is not.
    pub(super) reason: Option<Reason>,
}

impl<'a> Heard<'a> {
    /// Its store, whether that counts or not.
    pub(super) fn holds(&self) -> Option<Store<'a>> {
        self.store.or(self.ignored_store)
    }

    /// The newest epoch of which it tells, where that counts.
    pub(super) fn newest(&self) -> Option<Epoch> {
        let obeys = self.agent.map(|agent| agent.obeys);
        let vote = self.store.map(|store| store.says.vote);
        let role = self.store.and_then(|store| Some(store.says.role.as_ref()?.epoch));
        [obeys, vote, role].into_iter().flatten().max()
    }
}

/// Takes every node's answers for themselves.
pub(super) fn hear(question: &Question) -> Vec<Heard<'_>> {
    let limits = Limits::of(question);
    let ignored = &question.waivers.ignored;
    question.nodes.iter().map(|node| limits.hear(node, ignored.contains(&node.name))).collect()
}

/// By what a claim is measured.
struct Limits {
    /// The highest term that the taker knows.
    term: u64,
    /// Member ids from here on were never given, as far as the taker knows.
    next_member: u64,
    /// How many nodes speak of a member id.
    speakers: BTreeMap<u64, usize>,
    /// The highest term of an entry that a member made, as others have it.
    led: BTreeMap<u64, u64>,
}

impl Limits {
    fn of(question: &Question) -> Self {
        let mut speakers = BTreeMap::<u64, usize>::new();
        let mut term = 0;
        for node in &question.nodes {
            let store = node.store.as_ref().and_then(|store| store.as_ref().ok());
            let last = store.and_then(|says| last(&says.found));
            let agent = node.agent.as_ref().ok().map(|says| says.obeys);
            let epochs = [last.map(|last| last.epoch), agent].into_iter().flatten();
            let ids: std::collections::BTreeSet<u64> = epochs.map(|epoch| epoch.node).collect();
            for id in ids {
                *speakers.entry(id).or_default() += 1;
            }
            if node.name == question.taker {
                let vote = store.map_or(0, |says| says.vote.term);
                term = vote.max(last.map_or(0, |last| last.epoch.term));
            }
        }
        let led = BTreeMap::new();
        let mut limits = Self { term, next_member: question.next_member, speakers, led };
        for node in &question.nodes {
            let says = node.store.as_ref().and_then(|store| store.as_ref().ok());
            let ends = says.and_then(|says| Some((last(&says.found)?, says)));
            let Some((last, says)) = ends else { continue };
            if limits.position(last, says).is_ok() {
                let term = limits.led.entry(last.epoch.node).or_default();
                *term = last.epoch.term.max(*term);
            }
        }
        limits
    }

    fn hear<'a>(&self, node: &'a Asked, ignored: bool) -> Heard<'a> {
        let mut heard =
            Heard { node, ignored, agent: None, store: None, ignored_store: None, reason: None };
        if ignored {
            heard.ignored_store = self.store(node).ok().flatten();
            heard.reason = Some(Reason::Ignored { node: node.name.clone() });
            return heard;
        }
        match self.agent(node) {
            Ok(agent) => heard.agent = Some(agent),
            Err(reason) => heard.reason = Some(reason),
        }
        match self.store(node) {
            Ok(store) => heard.store = store,
            // A fault of its store says more than the silence of its agent.
            Err(reason) => heard.reason = Some(reason),
        }
        let disk_full = heard.store.is_some_and(|store| store.says.disk_full);
        if disk_full && heard.reason.is_none() {
            heard.reason = Some(Reason::DiskFull { node: node.name.clone() });
        }
        heard
    }

    fn agent<'a>(&self, node: &'a Asked) -> Result<&'a AgentSays, Reason> {
        let says = node.agent.as_ref().map_err(|silence| silent(node, silence))?;
        self.epoch(says.obeys).map_err(|claim| nonsense(node, claim))?;
        Ok(says)
    }

    /// The answer of a member's store. Another node has none that counts.
    fn store<'a>(&self, node: &'a Asked) -> Result<Option<Store<'a>>, Reason> {
        let (Some(member), Some(store)) = (&node.member, &node.store) else { return Ok(None) };
        let says = store.as_ref().map_err(|silence| silent(node, silence))?;
        let memory = Memory::of(&member.expected, &says.found);
        let (true, Some(last)) = (memory.may_vote(), last(&says.found)) else {
            return Err(Reason::Forgetful { node: node.name.clone(), memory });
        };
        self.position(last, says).map_err(|claim| nonsense(node, claim))?;
        let (id, voted) = (member.expected.member, says.vote.term);
        if let Some(&term) = self.led.get(&id).filter(|&&term| term > voted) {
            let memory = Memory::ForgotLeadership { led: Epoch { term, node: id }, voted };
            return Err(Reason::Forgetful { node: node.name.clone(), memory });
        }
        leads(member.expected.member, last, says).map_err(|claim| nonsense(node, claim))?;
        Ok(Some(Store { member, last, says }))
    }

    fn position(&self, last: Position, says: &StoreSays) -> Result<(), Claim> {
        let committed = says.committed;
        if last < committed || last.index < committed.index {
            return Err(Claim::BehindCommitted { last, committed });
        }
        self.epoch(last.epoch)?;
        self.term(says.vote.term)?;
        self.term(says.role.as_ref().map_or(0, |role| role.epoch.term))?;
        if last.epoch.term > says.vote.term {
            return Err(Claim::AheadOfVote { last, vote: says.vote.term });
        }
        Ok(())
    }

    /// Whether there can be such an epoch. A member that the taker has not heard of may have been
    /// added since; then more than one node speaks of it.
    fn epoch(&self, epoch: Epoch) -> Result<(), Claim> {
        if epoch == Epoch::default() {
            return Ok(());
        }
        self.term(epoch.term)?;
        let given = (1..self.next_member).contains(&epoch.node);
        let spoken_of = self.speakers.get(&epoch.node).is_some_and(|&nodes| nodes > 1);
        if given || spoken_of && epoch.node > 0 { Ok(()) } else { Err(Claim::UnknownMember(epoch)) }
    }

    fn term(&self, term: u64) -> Result<(), Claim> {
        let known = self.term;
        if term > known.saturating_add(TERM_AHEAD_MAX) {
            return Err(Claim::TermAhead { term, known });
        }
        Ok(())
    }
}

/// Whether a member that says so can lead: it voted for itself, and nothing in its log is of a later
/// epoch.
fn leads(member: u64, last: Position, says: &StoreSays) -> Result<(), Claim> {
    let vote = says.vote;
    if says.leads && vote.node != member {
        return Err(Claim::LeadsForAnother { member, vote });
    }
    if says.leads && last.epoch > vote {
        return Err(Claim::LeadsBehind { last, vote });
    }
    Ok(())
}

fn last(found: &Found) -> Option<Position> {
    match found {
        Found::Store { last, .. } => Some(*last),
        Found::Nothing | Found::Broken { .. } => None,
    }
}

fn silent(node: &Asked, silence: &Silence) -> Reason {
    let node = node.name.clone();
    match silence {
        Silence::Unreachable { why } => Reason::Unreachable { node, why: why.clone() },
        Silence::Refused { why } => Reason::NoAnswer { node, why: why.clone() },
        Silence::AnotherCluster { which } => Reason::AnotherCluster { node, which: which.clone() },
    }
}

fn nonsense(node: &Asked, claim: Claim) -> Reason {
    Reason::Nonsense { node: node.name.clone(), claim }
}
