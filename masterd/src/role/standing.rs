//! Core: the candidates and the quorum, as the process that tells knows them.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use engine::{Engine, EngineStatus, Follower, LEASE_MS, Members};
use model::Timestamp;
use model::cluster_status::{
    CandidateState, CandidateStatus, HEARD_WITHIN_MS, QuorumStatus, StandbyStatus,
};
use model::node::{Node, NodeRole};
use queue_format::Refusal;

use crate::agents::contacts::{Contact, Contacts};
use crate::config::Config;
use membership::peers::{Instead, PeerBook};

const MICROS_PER_MS: i64 = 1_000;

/// The moment `ms` milliseconds before `now`.
pub fn before(now: Timestamp, ms: u64) -> Timestamp {
    let micros = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(MICROS_PER_MS);
    Timestamp::from_micros(now.micros().saturating_sub(micros))
}

fn is_heard(ms: Option<u64>) -> bool {
    ms.is_some_and(|ms| ms <= HEARD_WITHIN_MS)
}

/// The nodes that hold the store of a master, or should.
pub(crate) fn all_candidates(
    (config, engine, contacts): (&Config, Option<&Engine>, &Contacts),
    book: &PeerBook,
    now: Timestamp,
) -> Vec<CandidateStatus> {
    let status = engine.map(Engine::status);
    let mut candidates = candidates(config, status.as_ref(), &contacts.all(), now);
    let (strays, full) = (book.strays(), book.full());
    for candidate in &mut candidates {
        let node = config.nodes.get(candidate.node.as_str());
        let Some(member) = node.and_then(|node| node.member.as_ref()) else { continue };
        let stray = strays.get(&member.id);
        candidate.forgot = stray.map(|stray| stray.why.clone());
        candidate.older_copy = stray.is_some_and(|stray| stray.has == Instead::OlderCopy);
        candidate.disk_full = full.contains(&member.id);
    }
    candidates
}

/// The nodes that hold the store of the master's cluster, or should; `status` is none where the master
/// is alone.
pub fn candidates(
    config: &Config,
    status: Option<&EngineStatus>,
    contacts: &HashMap<model::NodeName, Contact>,
    now: Timestamp,
) -> Vec<CandidateStatus> {
    let is_member = |node: &Node| {
        let ids = node.member.as_ref().map(|member| member.id).zip(status);
        ids.is_some_and(|(id, status)| status.members.nodes.contains_key(&id))
    };
    let is_witness = |node: &Node| node.witness && node.role == NodeRole::Regular;
    let belongs = |node: &Node| {
        let is_candidate = config.is_master(node) || node.role == NodeRole::Candidate;
        is_candidate || is_witness(node) || is_member(node)
    };
    let nodes = config.nodes.values().filter(|node| belongs(node));
    let of = |node| match config.is_master(node) {
        true => own(node),
        false => candidate(node, status, contacts.get(&node.name), now),
    };
    nodes.map(|node| of(node)).collect()
}

/// Why other candidates cannot ask the master, whose `masterd` listens at `listens`, or for nobody.
pub fn not_listening(node: &Node, listens: Option<SocketAddr>) -> Option<String> {
    let wanted = node.peer_address();
    let is_there = |at: SocketAddr| {
        at.port() == wanted.port() && (at.ip().is_unspecified() || at.ip() == wanted.ip())
    };
    match listens {
        None => {
            Some(format!("its masterd has no `--peers`, and other candidates ask it at {wanted}"))
        }
        Some(at) if is_there(at) => None,
        Some(at) => {
            Some(format!("its masterd listens at {at}, and other candidates ask it at {wanted}"))
        }
    }
}

/// The master, which lacks nothing and need not be heard.
fn own(node: &Node) -> CandidateStatus {
    CandidateStatus {
        node: node.name.to_string(),
        state: CandidateState::Voter,
        master: true,
        behind: Some(0),
        heard_ms: None,
        unreachable: false,
        since: None,
        disk_full: false,
        forgot: None,
        older_copy: false,
        not_listening: None,
    }
}

fn candidate(
    node: &Node,
    status: Option<&EngineStatus>,
    contact: Option<&Contact>,
    now: Timestamp,
) -> CandidateStatus {
    let id = node.member.as_ref().map(|member| member.id);
    let state = id.zip(status).and_then(|(id, status)| state(&status.members, id));
    let Some((id, state)) = state else {
        return CandidateStatus {
            node: node.name.to_string(),
            state: CandidateState::NotYet,
            master: false,
            behind: None,
            heard_ms: None,
            unreachable: contact.is_some_and(|contact| contact.failure.is_some()),
            since: Some(node.mtime),
            disk_full: false,
            forgot: None,
            older_copy: false,
            not_listening: None,
        };
    };
    let state = shown(state, node.may_be_master());
    let follower = status.and_then(|status| status.followers.get(&id).copied());
    let Follower { heard_ms, behind, .. } = follower.unwrap_or_default();
    let unreachable = !is_heard(heard_ms);
    CandidateStatus {
        node: node.name.to_string(),
        state,
        master: false,
        behind: follower.map(|_| behind),
        heard_ms,
        unreachable,
        since: heard_ms.filter(|_| unreachable).map(|ms| before(now, ms)),
        disk_full: false,
        forgot: None,
        older_copy: false,
        not_listening: None,
    }
}

/// A state as it is told: who votes and can never be master is there for nothing else.
fn shown(state: CandidateState, may_be_master: bool) -> CandidateState {
    match state {
        CandidateState::Voter if !may_be_master => CandidateState::Witness,
        state => state,
    }
}

fn state(members: &Members, id: u64) -> Option<(u64, CandidateState)> {
    match (members.voters.contains(&id), members.nodes.contains_key(&id)) {
        (true, _) => Some((id, CandidateState::Voter)),
        (false, true) => Some((id, CandidateState::Learner)),
        (false, false) => None,
    }
}

fn voters(members: &Members) -> Vec<String> {
    let name = |id: &u64| members.nodes.get(id).cloned().unwrap_or_else(|| format!("member {id}"));
    let mut voters: Vec<String> = members.voters.iter().map(name).collect();
    voters.sort();
    voters
}

fn majority_of(voters: usize) -> usize {
    voters / 2 + 1
}

/// The quorum for the commits of a master whose member is `own`; `admitted` is the answer of its store
/// to new work.
pub fn quorum(status: &EngineStatus, own: u64, admitted: Result<(), Refusal>) -> QuorumStatus {
    let members = &status.members;
    let follows = |id: &u64| status.followers.get(id).and_then(|follower| follower.heard_ms);
    let majority = status.takes_proposals().is_some();
    // A majority is lost when a lease ends, sooner than a member counts as unreachable. The members that
    // answered since then are left.
    let within = if majority { HEARD_WITHIN_MS } else { LEASE_MS };
    let is_heard = |id: &u64| *id == own || follows(id).is_some_and(|ms| ms <= within);
    // Of two sets, while one is changed for the other, the one that lacks most.
    let count = |set: &BTreeSet<u64>| {
        (majority_of(set.len()), set.iter().filter(|id| is_heard(id)).count())
    };
    let lacks = |(needed, heard): &(usize, usize)| needed.saturating_sub(*heard);
    let (needed, heard) = members.sets().iter().map(count).max_by_key(lacks).unwrap_or_default();
    let lost = "no majority of the voters answers".to_owned();
    QuorumStatus {
        voters: voters(members),
        needed,
        heard: Some(heard),
        majority: Some(majority),
        heard_ms: status.heard_ms,
        refusing: match admitted {
            Err(Refusal::CutOff) => Some(lost),
            admitted => refusing(admitted),
        },
    }
}

/// Why new work is refused. Work that only has to wait for its turn is not refused.
fn refusing(admitted: Result<(), Refusal>) -> Option<String> {
    admitted.err().filter(|refusal| *refusal != Refusal::Busy).map(|refusal| refusal.to_string())
}

/// The quorum of a master whose store no other node has: itself.
pub fn lone_quorum(node: &str, admitted: Result<(), Refusal>) -> QuorumStatus {
    QuorumStatus {
        voters: vec![node.to_owned()],
        needed: 1,
        heard: Some(1),
        majority: Some(true),
        heard_ms: Some(0),
        refusing: refusing(admitted),
    }
}

/// The other members, as a member that follows knows them; `never_master` are nodes that may not become
/// it.
pub fn followed(
    status: &EngineStatus,
    master: Option<&str>,
    never_master: &BTreeSet<String>,
) -> (QuorumStatus, Vec<CandidateStatus>) {
    let members = &status.members;
    let voters = voters(members);
    let quorum = QuorumStatus {
        needed: majority_of(voters.len()),
        voters,
        heard: None,
        majority: None,
        heard_ms: None,
        refusing: None,
    };
    let leader = leader(status);
    let candidates = members.nodes.iter().map(|(id, node)| {
        let state = state(members, *id).map_or(CandidateState::NotYet, |(_, state)| state);
        let state = shown(state, !never_master.contains(node));
        let leads = leader.as_ref() == Some(node);
        CandidateStatus {
            node: node.clone(),
            state,
            master: master == Some(node.as_str()),
            behind: None,
            heard_ms: status.heard_ms.filter(|_| leads),
            unreachable: leads && !is_heard(status.heard_ms),
            since: None,
            disk_full: false,
            forgot: None,
            older_copy: false,
            not_listening: None,
        }
    });
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by(|a, b| a.node.cmp(&b.node));
    (quorum, candidates)
}

/// The node that a member follows, as far as it knows.
fn leader(status: &EngineStatus) -> Option<String> {
    let elected = status.elected.then_some(status.vote.node)?;
    status.members.nodes.get(&elected).cloned()
}

/// The knowledge of a member that is not master. `starting` says that it was the master last.
pub fn standby(
    status: &EngineStatus,
    me: &str,
    master: Option<&str>,
    starting: bool,
) -> StandbyStatus {
    let leader = leader(status);
    let follows = leader.as_deref().filter(|node| *node != me && is_heard(status.heard_ms));
    let why = match (master, follows) {
        _ if status.stopped.is_some() => "its replication engine has stopped".to_owned(),
        _ if starting => {
            "it was the master last, and is not confirmed yet: it asks everyone every \
                          few seconds, and goes on when enough answer"
                .to_owned()
        }
        (Some(master), Some(leader)) if master == leader => format!("the master is {master}"),
        (Some(master), Some(leader)) => {
            format!("{leader} leads, and has not taken the role from {master}")
        }
        (Some(master), None) => format!("{master} has the role, and is not heard"),
        (None, Some(leader)) => format!("{leader} leads, and nobody has the role"),
        (None, None) => "it has no role entry yet, and hears nobody".to_owned(),
    };
    StandbyStatus {
        leader: follows.map(str::to_owned),
        heard_ms: status.heard_ms,
        last: status.last.to_string(),
        applied: status.applied.to_string(),
        why,
        forgot: None,
        offline: false,
        attempt: None,
    }
}

#[cfg(test)]
mod tests;
