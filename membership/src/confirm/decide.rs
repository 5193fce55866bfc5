//! Core: what all answers say together.

use std::collections::BTreeSet;

use model::NodeName;
use model::node::NodeRole;
use queue_format::{Epoch, Position};

use super::weigh::{Heard, Store};
use super::{
    Attempt, Count, Decision, Question, Reached, Reason, RoleEntry, Row, Verdict, given,
    knows_all_jobs, still_designated,
};
use crate::amnesia::Memory;
use crate::forced_takeover::Cut;

/// The facts from all answers that are believed.
struct Facts<'a> {
    taker: Option<&'a Heard<'a>>,
    /// The newest position that the taker has or can fetch.
    reach: Position,
    /// The newest position of those by whose votes it would be elected.
    served: Position,
    /// The newest epoch in which anyone leads.
    leads: Option<Epoch>,
    /// The newest epoch of any position.
    epoch: Epoch,
    /// The newest role entry in any log.
    role: Option<&'a RoleEntry>,
}

impl<'a> Facts<'a> {
    fn of(question: &Question, heard: &'a [Heard<'a>]) -> Self {
        let taker = heard.iter().find(|heard| heard.node.name == question.taker);
        let own = taker.and_then(|heard| heard.store).map(|store| store.last).unwrap_or_default();
        let stores = || heard.iter().filter_map(|heard| heard.store);
        let served = stores().filter(Store::serves).map(|store| store.last).max();
        let served = served.unwrap_or_default();
        let reach = own.max(served);
        let leads = stores().filter(|store| store.says.leads).map(|store| store.says.vote).max();
        let epoch = stores().map(|store| store.last.epoch).max().unwrap_or_default();
        let roles = heard.iter().filter_map(|heard| heard.store.as_ref()?.says.role.as_ref());
        Self { taker, reach, served, leads, epoch, role: roles.max_by_key(|entry| entry.epoch) }
    }

    /// The reason in one node's answers against anyone's taking the role.
    fn obstacle(&self, heard: &Heard<'_>) -> Option<Reason> {
        let node = || heard.node.name.clone();
        // A committed entry is in the reach of a majority of voters, unless these forgot it. Entries
        // beyond that, which only others hold, were never acknowledged, and are cut. A leader has every
        // committed entry, though it may have answered a moment before the commit.
        let is_led = |at: Position| self.leads.is_some_and(|leads| at.epoch <= leads);
        let beyond =
            |store: &Store<'_>| store.says.committed > self.reach && !is_led(store.says.committed);
        if let Some(store) = heard.holds().filter(beyond) {
            return Some(Reason::Newer { node: node(), last: store.last, reach: self.reach });
        }
        let obeys = heard.agent?.obeys;
        let known = self.epoch;
        (obeys > known).then(|| Reason::ObeysHigher { node: node(), obeys, known })
    }

    /// The reason that the row of one node shows: first an obstacle, then what does not count.
    fn reason(&self, heard: &Heard<'_>) -> Option<Reason> {
        let other = || {
            let (node, epoch) = (heard.node.name.clone(), heard.agent?.obeys);
            let master = self.another_master(heard)?.clone();
            Some(Reason::KnowsAnother { node, master, epoch })
        };
        self.obstacle(heard).or_else(|| heard.reason.clone()).or_else(other)
    }

    /// Another master that the node knows, of a later epoch than the newest role entry.
    fn another_master<'b>(&self, heard: &'b Heard<'_>) -> Option<&'b NodeName> {
        let agent = heard.agent?;
        let is_later = self.role.is_none_or(|entry| agent.obeys > entry.epoch);
        let taker = self.taker.map(|taker| &taker.node.name);
        agent.master.as_ref().filter(|master| is_later && Some(*master) != taker)
    }
}

/// Makes the table, counts, and decides.
pub(super) fn decide(question: &Question, heard: &[Heard<'_>]) -> Verdict {
    let facts = Facts::of(question, heard);
    let mut rows: Vec<Row> = heard.iter().map(|heard| row(question, &facts, heard)).collect();
    let counted = |heard: &&Heard<'_>| heard.node.role != NodeRole::Offline && !heard.ignored;
    let nodes = Count {
        answered: rows.iter().filter(|row| row.counts_as_node).count(),
        of: heard.iter().filter(counted).count(),
    };
    let has_vote = |heard: &&Heard<'_>| heard.node.member.is_some_and(|m| m.seat.votes());
    let voters = votes(question, heard, &rows);
    for (row, heard) in rows.iter_mut().zip(heard).filter(|_| !voters.is_majority()) {
        row.vote_is_missed = has_vote(&heard) && !row.counts_as_voter;
    }
    let mut reasons = about_taker(question, &facts, voters);
    let own = facts.taker.and_then(|taker| taker.holds()?.says.last_job);
    let counts = own.map(|own| knows_all_jobs(&question.taker, own, &given(question, heard)));
    reasons.extend(counts.and_then(Result::err));
    reasons.extend(majorities(question, heard, nodes, voters));
    reasons.extend(match question.attempt {
        Attempt::Start => about_start(question, &facts, heard, nodes.of),
        Attempt::Automatic => leaders(question, heard).collect(),
        Attempt::Failover => Vec::new(),
    });
    reasons.extend(heard.iter().filter_map(|heard| facts.obstacle(heard)));
    reasons.extend(missing(question, &facts));
    let decision = match reasons.is_empty() {
        true => go(question, &facts, heard),
        false => against(question, &facts, heard, (voters, reasons)),
    };
    Verdict { rows, nodes, voters, decision }
}

/// How many voters answer: of the set that lacks most, where there are two.
fn votes(question: &Question, heard: &[Heard<'_>], rows: &[Row]) -> Count {
    let members = || rows.iter().zip(heard).filter_map(|(row, h)| Some((row, h.node.member?)));
    let by_seats = || members().filter(|(_, m)| m.seat.votes()).map(|(_, m)| m.expected.member);
    let answer = members().filter(|(row, _)| row.counts_as_voter);
    let answer: BTreeSet<u64> = answer.map(|(_, member)| member.expected.member).collect();
    // A voter whose node is gone is one that does not answer.
    let count =
        |set: &BTreeSet<u64>| Count { answered: set.intersection(&answer).count(), of: set.len() };
    let lacks = |count: &Count| (count.of / 2 + 1).saturating_sub(count.answered);
    let all = question.voters.iter().map(count).max_by_key(lacks);
    all.unwrap_or_else(|| count(&by_seats().collect()))
}

fn row(question: &Question, facts: &Facts<'_>, heard: &Heard<'_>) -> Row {
    let node = heard.node;
    let store_answers = node.store.as_ref().map(Result::is_ok);
    let answer = match (node.agent.is_ok(), store_answers) {
        (true, Some(true) | None) => Reached::Full,
        (true, Some(false)) => Reached::AgentOnly,
        (false, Some(true)) => Reached::StoreOnly,
        (false, Some(false) | None) => Reached::Nothing,
    };
    let is_taker = node.name == question.taker;
    let makes_sense = !matches!(heard.reason, Some(Reason::Nonsense { .. }));
    let answers = heard.agent.is_some() && makes_sense || is_taker;
    let votes = heard.store.is_some_and(|store| store.votes()) && makes_sense;
    Row {
        node: node.name.clone(),
        role: node.role,
        answer,
        position: heard.holds().map(|store| store.last),
        newest: heard.newest(),
        master: heard.agent.and_then(|agent| agent.master.clone()),
        counts_as_node: answers && node.role != NodeRole::Offline && !heard.ignored,
        counts_as_voter: votes,
        vote_is_missed: false,
        reason: facts.reason(heard),
    }
}

/// A leadership of which the taker was told once, and no store that answers now knows: whoever was
/// master in it may have acknowledged what would be cut.
fn missing(question: &Question, facts: &Facts<'_>) -> Option<Reason> {
    let later = question.later.as_ref().filter(|later| later.epoch > facts.epoch)?;
    let (taker, node) = (question.taker.clone(), later.node.clone());
    Some(Reason::LaterLeadership { taker, node, epoch: later.epoch, known: facts.epoch })
}

/// The reasons against the taker itself.
fn about_taker(question: &Question, facts: &Facts<'_>, voters: Count) -> Vec<Reason> {
    let taker = question.taker.clone();
    let Some(heard) = facts.taker else { return vec![Reason::NotConfigured { taker }] };
    if heard.ignored {
        return vec![Reason::IgnoredSelf { taker }];
    }
    if heard.node.role == NodeRole::Offline {
        return vec![Reason::TakerOffline { taker }];
    }
    match (heard.node.member, heard.store) {
        (None, _) => vec![Reason::NoCandidate { taker }],
        (Some(member), _) if member.witness => vec![Reason::Witness { taker }],
        (Some(_), Some(store)) if store.says.leads => vec![Reason::AlreadyMaster { taker }],
        (Some(_), Some(_)) if is_demoted(question, heard) => vec![Reason::Demoted { taker }],
        (Some(_), Some(store)) if store.says.disk_full => vec![Reason::DiskFull { node: taker }],
        // It would be elected by who does not have that, whose first entry in its place would cut it.
        (Some(member), Some(store))
            if !member.seat.votes()
                && voters.is_majority()
                && store.says.committed > facts.served =>
        {
            vec![Reason::VotersForgot { taker, last: store.last, reach: facts.served }]
        }
        // A lone voter gives the other one a vote with the role.
        (Some(member), Some(_)) if !member.seat.votes() && voters.of > 1 => {
            vec![Reason::NoVote { taker }]
        }
        (Some(_), Some(_)) => Vec::new(),
        // Without a store that is believed, its reason says why; `masterd` that was not asked is no
        // candidate's.
        (Some(_), None) => {
            vec![heard.reason.clone().unwrap_or(Reason::NoCandidate { taker })]
        }
    }
}

/// Whether the taker is a candidate no more, though its store is there still. A mere start is held
/// against the role entry instead.
fn is_demoted(question: &Question, taker: &Heard<'_>) -> bool {
    question.attempt != Attempt::Start && taker.node.role != NodeRole::Candidate
}

fn majorities(
    question: &Question,
    heard: &[Heard<'_>],
    nodes: Count,
    voters: Count,
) -> Vec<Reason> {
    let waivers = &question.waivers;
    let is_node = |name: &&NodeName| heard.iter().any(|heard| heard.node.name == **name);
    let strangers = waivers.ignored.iter().filter(|name| !is_node(name));
    let mut reasons: Vec<Reason> =
        strangers.map(|node| Reason::IgnoredUnknown { node: node.clone() }).collect();
    if !nodes.is_majority() && !waivers.candidates_only {
        reasons.push(Reason::TooFewNodes { count: nodes });
    }
    if !voters.is_majority() {
        let has_vote =
            |heard: &Heard<'_>| heard.node.member.is_some_and(|member| member.seat.votes());
        let ignores_voter = heard.iter().any(|heard| heard.ignored && has_vote(heard));
        reasons.push(match ignores_voter {
            true => Reason::IgnoredIsNeeded { count: voters },
            false => Reason::TooFewVoters { count: voters },
        });
    }
    reasons
}

/// Others that lead: none of them is to lose the role but by an operator's will.
fn leaders(question: &Question, heard: &[Heard<'_>]) -> impl Iterator<Item = Reason> {
    let leads = |heard: &&Heard<'_>| {
        heard.node.name != question.taker && heard.store.is_some_and(|store| store.says.leads)
    };
    let reason = |heard: &Heard<'_>| Reason::AnotherLeads { node: heard.node.name.clone() };
    heard.iter().filter(leads).map(reason)
}

/// Others that lead stores which do not count here, since there was an override that they never heard
/// of. A majority of before may have confirmed them, and what it acknowledged is on its disks.
fn apart(question: &Question, heard: &[Heard<'_>]) -> impl Iterator<Item = Reason> {
    let votes_alone = |voters: &BTreeSet<u64>| voters.len() == 1;
    let alone = !question.voters.is_empty() && question.voters.iter().all(votes_alone);
    let leads = move |heard: &Heard<'_>| {
        let says = heard.node.store.as_ref()?.as_ref().ok().filter(|says| alone && says.leads)?;
        // It is yet to come as the member that it is to be, or has come and went back since.
        let is_another = heard.node.member.is_none_or(|member| {
            matches!(Memory::of(&member.expected, &says.found), Memory::WrongIncarnation { .. })
        });
        let (taker, node) = (question.taker.clone(), heard.node.name.clone());
        is_another.then_some(Reason::LeadsApart { taker, node, epoch: says.vote })
    };
    heard.iter().filter_map(leads)
}

/// The reasons against a mere start.
fn about_start(
    question: &Question,
    facts: &Facts<'_>,
    heard: &[Heard<'_>],
    of: usize,
) -> Vec<Reason> {
    let taker = question.taker.clone();
    let mut reasons = Vec::new();
    reasons.extend(still_designated(question.attempt, &taker, facts.role).err());
    reasons.extend(leaders(question, heard));
    reasons.extend(apart(question, heard));
    let counted = heard.iter().filter(|heard| heard.node.role != NodeRole::Offline);
    let count =
        Count { answered: counted.filter(|h| facts.another_master(h).is_some()).count(), of };
    if count.is_majority() {
        reasons.push(Reason::MajorityKnowsAnother { taker, count });
    }
    reasons
}

/// Nothing stands against it: whether something is to be fetched first.
fn go(question: &Question, facts: &Facts<'_>, heard: &[Heard<'_>]) -> Decision {
    let own = facts.taker.and_then(|taker| taker.store);
    let complete = own.is_some_and(|own| own.last >= facts.reach && own.votes());
    let sources = heard.iter().filter(|heard| heard.node.name != question.taker);
    let sources = sources.filter_map(|heard| heard.store).filter(Store::serves);
    // A leader is asked even by who has everything: with it there, nobody else is elected. Then the
    // newest; among equals one with data to serve, then the lowest id.
    let best = sources.max_by_key(|store| {
        let has_data = !store.member.witness;
        (store.says.leads, store.last, has_data, std::cmp::Reverse(store.member.expected.member))
    });
    match best {
        Some(best) if best.says.leads || !complete => {
            Decision::GoAfterFetching { from: best.member.expected.member }
        }
        Some(_) | None => Decision::Go,
    }
}

fn against(
    question: &Question,
    facts: &Facts<'_>,
    heard: &[Heard<'_>],
    (voters, mut reasons): (Count, Vec<Reason>),
) -> Decision {
    let waivers = &question.waivers;
    if !waivers.no_voting {
        return Decision::Refuse { reasons };
    }
    let forgot = |reason: &Reason| {
        use Reason::{JobsForgotten, LaterLeadership, Newer, VotersForgot};
        let of_log = matches!(reason, Newer { .. } | VotersForgot { .. } | LaterLeadership { .. });
        of_log || matches!(reason, JobsForgotten { .. })
    };
    let leads = |heard: &Heard<'_>| heard.holds().is_some_and(|store| store.says.leads);
    let have_forgotten = reasons.iter().any(forgot) && !heard.iter().any(leads);
    if voters.is_majority() && !have_forgotten {
        reasons.push(Reason::NothingToOverride { count: voters });
    } else if !waivers.yes_do_it {
        reasons.push(Reason::NeedsYesDoIt);
    }
    if reasons.iter().any(|reason| !reason.can_be_overridden(&question.taker)) {
        return Decision::Refuse { reasons };
    }
    let after = facts.taker.and_then(|taker| taker.store).map(|store| store.last);
    let after = after.unwrap_or_default();
    let members = heard.iter().filter(|heard| heard.node.member.is_some());
    let others = members.filter(|heard| heard.node.name != question.taker);
    let may_lose = others.filter_map(|heard| {
        let known = heard.holds().map(|store| (store.last, store.says.leads));
        Cut::of(&heard.node.name, after, known)
    });
    Decision::Override { waived: reasons, may_lose: may_lose.collect() }
}
