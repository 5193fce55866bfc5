//! Core: whether a node may take the master role (Ganeti's 2.0 design, "Master startup/failover",
//! docs/failover.md).
//!
//! Everyone is asked, and each answer becomes a [`Row`]; all rows together make the [`Decision`]. Every
//! reason there is, with its remedy, is in [`reason`]; `weigh` judges one answer; `decide` all of them.
//!
//! This check does not replace the engine's election, which comes after it and keeps what is
//! committed. It keeps the role where it belongs, and tells an operator beforehand what an election
//! would only fail at.

use std::collections::BTreeSet;
use std::fmt;

use model::NodeName;
use model::node::{Node, NodeRole};
use queue_format::{Epoch, Position};
use serde::{Deserialize, Serialize};

use super::amnesia::{Expected, Found};
use super::forced_takeover::Cut;
use super::job_ids::{self, Forgotten, LastJob};

mod decide;
pub mod reason;
mod weigh;

pub use reason::{Claim, Reason};
pub use weigh::TERM_AHEAD_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// The previous master goes on: it merely starts again.
    Start,
    /// The role moves to this node, by an operator's will.
    Failover,
    /// The role moves to this node by itself, since the master is silent: never away from who leads.
    Automatic,
}

/// The operator's waivers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waivers {
    /// `--candidates-only`: the majority of nodes, never that of voters.
    pub candidates_only: bool,
    /// `--no-voting`: everything, with `yes_do_it` only.
    pub no_voting: bool,
    /// `--yes-do-it`.
    pub yes_do_it: bool,
    /// `--ignore-node`: nodes that are not counted, and nothing is fetched from them. Their seats as
    /// voters still count, and so does what their stores know to be committed.
    pub ignored: BTreeSet<NodeName>,
}

/// A member's part in majorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Voting {
    /// Its word counts.
    Voter,
    /// It only follows.
    Learner,
}

impl Voting {
    /// Whether its word counts for a majority.
    pub fn votes(self) -> bool {
        self == Self::Voter
    }
}

/// A node's place among the members, by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its part in majorities.
    pub seat: Voting,
    /// It is never master, whether it votes or, where that would make votes even, does not.
    pub witness: bool,
    /// The store that it should have.
    pub expected: Expected,
}

/// The entry with which a leadership begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleEntry {
    pub master: NodeName,
    /// The epoch of the leadership.
    pub epoch: Epoch,
}

/// A leadership of which this node was told, and that its own store does not know: another store has
/// entries that were committed in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// Who told it.
    pub node: NodeName,
    /// The epoch of the newest of these entries.
    pub epoch: Epoch,
}

/// Why a door gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// No answer in time.
    Unreachable {
        /// The network's error.
        why: String,
    },
    /// It is there, and does not answer this node, or not with an answer.
    Refused {
        /// What it said.
        why: String,
    },
    /// It belongs to another cluster.
    AnotherCluster {
        /// The other cluster's UUID, or another mark by which it is told from this one.
        which: String,
    },
}

/// The answer of a node's agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSays {
    /// The epoch that it obeys; the default if none has called it.
    pub obeys: Epoch,
    /// The master that it knows.
    pub master: Option<NodeName>,
}

/// The answer of a member's `masterd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSays {
    /// Its store, and where that ends.
    pub found: Found,
    /// Up to where it knows entries to be committed.
    pub committed: Position,
    /// The highest vote that it gave.
    pub vote: Epoch,
    /// The newest role entry in its log, committed or not.
    pub role: Option<RoleEntry>,
    /// Whether it leads now.
    pub leads: bool,
    /// Whether its disk takes nothing more.
    pub disk_full: bool,
    /// The last job id that was given, by its files, where they tell.
    pub last_job: Option<LastJob>,
}

/// A configured node, and what it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub name: NodeName,
    /// Its role; who is offline is asked and not counted.
    pub role: NodeRole,
    /// Its place among the members, if it has one.
    pub member: Option<Member>,
    /// Its agent's answer.
    pub agent: Result<AgentSays, Silence>,
    /// Its `masterd`'s answer; none where that was not asked, since the node is no member.
    pub store: Option<Result<StoreSays, Silence>>,
}

/// The attempt of a node, and all answers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub attempt: Attempt,
    /// The operator's waivers.
    pub waivers: Waivers,
    /// The node that wants the role.
    pub taker: NodeName,
    /// The lowest member id that was not given yet, by the taker's configuration.
    pub next_member: u64,
    /// The sets of voters of the taker's log, a majority of each of which is needed: one, or both while
    /// one is changed for the other. Empty where it has none, and the seats alone tell.
    pub voters: Vec<BTreeSet<u64>>,
    /// A later leadership of which the taker was told before, and that its store does not know.
    pub later: Option<Later>,
    /// Every configured node, the taker among them, whose own answers come from its own doors.
    pub nodes: Vec<Asked>,
}

impl Question {
    /// The same, where the taker's files were read once more since the others answered: these may speak
    /// of entries that came meanwhile.
    pub fn with_own_jobs(mut self, last_job: Option<LastJob>) -> Self {
        let own = self.nodes.iter_mut().find(|node| node.name == self.taker);
        if let Some(Ok(says)) = own.and_then(|own| own.store.as_mut()) {
            says.last_job = last_job;
        }
        self
    }

    /// The same, asked once more behind `before`: what each knew to be committed then, and all else as
    /// it is now. Answers are not of one moment, so a late answer may know of more than a majority had.
    /// An entry that was committed before anybody was asked again is on some voter by then.
    pub fn knowing_what_it_knew(mut self, before: &Self) -> Self {
        for node in &mut self.nodes {
            let Some(Ok(says)) = &mut node.store else { continue };
            let then = before.nodes.iter().find(|then| then.name == node.name);
            let then = then.and_then(|then| then.store.as_ref()?.as_ref().ok());
            let known = then.map(|then| then.committed).unwrap_or_default();
            says.committed = says.committed.min(known);
        }
        self
    }
}

/// Which doors gave an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// All that were asked.
    Full,
    /// The agent, but not `masterd`.
    AgentOnly,
    /// `masterd`, but not the agent.
    StoreOnly,
    /// None.
    Nothing,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Full => "yes",
            Self::AgentOnly => "agent only",
            Self::StoreOnly => "masterd only",
            Self::Nothing => "no",
        })
    }
}

/// One line of the table that an operator is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub node: NodeName,
    pub role: NodeRole,
    /// Which of its doors answered.
    pub answer: Reached,
    /// The end of its store, if that is believed.
    pub position: Option<Position>,
    /// The newest epoch of which its answers tell, as far as they are believed.
    pub newest: Option<Epoch>,
    /// The master that its agent knows.
    pub master: Option<NodeName>,
    /// Whether it counts among the nodes that answered.
    pub counts_as_node: bool,
    /// Whether it counts among the voters that answered.
    pub counts_as_voter: bool,
    /// Whether it is one of the voters that do not count, where those that do are too few.
    pub vote_is_missed: bool,
    /// The reason that the row shows.
    pub reason: Option<Reason>,
}

impl Row {
    /// The remedy for an operator; empty where there is nothing to do.
    pub fn remedy(&self) -> String {
        if self.vote_is_missed && matches!(self.reason, Some(Reason::Unreachable { .. })) {
            return "start it or mend its network: too few voters answer, and to ignore one does not \
                    take its vote away"
                .to_owned();
        }
        self.reason.as_ref().map(Reason::remedy).unwrap_or_default()
    }
}

/// The number of answers, out of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Those whose answer counts.
    pub answered: usize,
    /// All that are counted.
    pub of: usize,
}

impl Count {
    /// Whether more than half answered.
    pub fn is_majority(self) -> bool {
        self.answered.saturating_mul(2) > self.of
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.answered, self.of)
    }
}

/// The outcome of all answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The taker may have itself elected.
    Go,
    /// This member holds more, or leads: it is asked to lead and to hand over to the taker.
    GoAfterFetching {
        /// Its member id.
        from: u64,
    },
    /// The taker becomes the only voter, whatever the others hold.
    Override {
        /// The reasons against it.
        waived: Vec<Reason>,
        /// The entries that may be lost.
        may_lose: Vec<Cut>,
    },
    /// The taker stays what it is.
    Refuse {
        /// All that stands against it; never empty.
        reasons: Vec<Reason>,
    },
}

impl Decision {
    /// Whether the taker goes on, with the others' consent.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Go | Self::GoAfterFetching { .. })
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// A row for each node, in the order in which they were given.
    pub rows: Vec<Row>,
    /// Nodes that answered.
    pub nodes: Count,
    /// Voters that answered.
    pub voters: Count,
    /// What follows.
    pub decision: Decision,
}

/// Judges all answers.
pub fn confirm(question: &Question) -> Verdict {
    decide::decide(question, &weigh::hear(question))
}

/// Looks once more, as the elected leader and before the role entry: the log that won the election may
/// hold a role entry that came after the check.
///
/// # Errors
/// The role moved meanwhile, and this was a mere start.
pub fn still_designated(
    attempt: Attempt,
    taker: &NodeName,
    newest: Option<&RoleEntry>,
) -> Result<(), Reason> {
    match (attempt, newest) {
        (Attempt::Failover | Attempt::Automatic, _) => Ok(()),
        (Attempt::Start, Some(entry)) if entry.master == *taker => Ok(()),
        (Attempt::Start, entry) => {
            Err(Reason::NotDesignated { taker: taker.clone(), entry: entry.cloned() })
        }
    }
}

/// The newest leadership that a believed store knows, if the taker's own store and memory know none as
/// late. Entries that were committed in it are missing here, also once nobody tells of it.
pub fn later_leadership(question: &Question) -> Option<Later> {
    let heard = weigh::hear(question);
    let stores = || heard.iter().filter_map(|heard| Some((&heard.node.name, heard.holds()?)));
    let own = stores().find(|(node, _)| **node == question.taker);
    let own = own.map(|(_, store)| store.last.epoch).unwrap_or_default();
    let known = question.later.as_ref().map_or(own, |later| later.epoch.max(own));
    let told = stores().map(|(node, store)| (store.says.committed.epoch, node));
    let (epoch, node) = told.filter(|(epoch, _)| *epoch > known).max()?;
    Some(Later { node: node.clone(), epoch })
}

/// The last job ids that were given, by the files of others than the taker whose answers are believed.
pub fn given_jobs(question: &Question) -> Vec<(NodeName, LastJob)> {
    given(question, &weigh::hear(question))
}

fn given(question: &Question, heard: &[weigh::Heard<'_>]) -> Vec<(NodeName, LastJob)> {
    let others = heard.iter().filter(|heard| heard.node.name != question.taker);
    let told = others.filter_map(|heard| Some((heard.node.name.clone(), heard.holds()?)));
    told.filter_map(|(node, store)| Some((node, store.says.last_job?))).collect()
}

/// Whether the files of the taker, of which `own` is read, know of all job ids that were `given`.
///
/// # Errors
/// They do not.
pub fn knows_all_jobs(
    taker: &NodeName,
    own: LastJob,
    given: &[(NodeName, LastJob)],
) -> Result<(), Reason> {
    let forgotten =
        |forgotten: Forgotten| Reason::JobsForgotten { taker: taker.clone(), forgotten };
    job_ids::forgotten(own, given).map(forgotten).map_or(Ok(()), Err)
}

/// Looks once more at the taker, by the log with which it won the election. The log may hold an entry
/// that nobody knew to be committed when everyone was asked.
///
/// # Errors
/// It is not to be the master.
pub fn still_able(
    attempt: Attempt,
    taker: &NodeName,
    node: Option<&Node>,
    auto_failover: bool,
) -> Result<(), Reason> {
    let taker = taker.clone();
    match node {
        None => Err(Reason::NotConfigured { taker }),
        Some(node) if node.role == NodeRole::Offline => Err(Reason::TakerOffline { taker }),
        Some(node) if node.witness => Err(Reason::Witness { taker }),
        Some(node) if attempt != Attempt::Start && node.role != NodeRole::Candidate => {
            Err(Reason::Demoted { taker })
        }
        Some(_) if attempt == Attempt::Automatic && !auto_failover => {
            Err(Reason::NotByItself { taker })
        }
        Some(_) => Ok(()),
    }
}

/// A node whose agent obeys another master than the taker, under a term after `first`; with that master
/// and epoch. `newest` is the last epoch that the taker's store knows.
///
/// For a store that no other node ever had, and whose history begins with the term `first`: nobody else
/// was ever master in it. Membership does not matter: an older copy of the configuration does not know
/// members that came since.
pub fn obeys_another(
    question: &Question,
    first: u64,
    newest: Epoch,
) -> Option<(NodeName, NodeName, Epoch)> {
    let last = newest.term.saturating_add(TERM_AHEAD_MAX);
    let another = |node: &Asked| {
        let AgentSays { obeys, master } = node.agent.as_ref().ok()?;
        let master = master.clone().filter(|master| *master != question.taker)?;
        let is_of_this_history = first < obeys.term && obeys.term <= last;
        is_of_this_history.then(|| (node.name.clone(), master, *obeys))
    };
    question.nodes.iter().filter_map(another).max_by_key(|(.., obeys)| *obeys)
}

#[cfg(test)]
mod tests;
