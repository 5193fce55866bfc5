//! Core: why a node may not take the role, or an answer does not count, and what to do about it.

use model::NodeName;
use queue_format::{Epoch, Position};

mod remedy;

use super::{Count, RoleEntry};
use crate::amnesia::Memory;
use crate::job_ids::Forgotten;

/// A claim that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Claim {
    /// The epoch is of a member that never was.
    #[error("epoch {0} is of a member that never was")]
    UnknownMember(Epoch),
    /// The log ends before what it says is committed.
    #[error("it ends at {last}, before {committed}, which it says is committed")]
    BehindCommitted {
        /// Where it ends.
        last: Position,
        /// The position that it says is committed.
        committed: Position,
    },
    /// The log has an entry of a term in which the member has not voted yet.
    #[error("it ends at {last}, and has voted in term {vote} at most")]
    AheadOfVote {
        /// Where it ends.
        last: Position,
        /// The term of its vote.
        vote: u64,
    },
    /// It leads in an epoch that is not its own.
    #[error("it says that it leads, and is member {member}, whose vote is for epoch {vote}")]
    LeadsForAnother {
        /// Its id as a member.
        member: u64,
        vote: Epoch,
    },
    /// It leads in an epoch before that of its last entry.
    #[error("it says that it leads in epoch {vote}, and ends at {last}")]
    LeadsBehind {
        /// Where it ends.
        last: Position,
        vote: Epoch,
    },
    /// The term is further ahead than any number of elections and overrides leads.
    #[error("term {term} is absurdly far ahead of {known}")]
    TermAhead {
        /// What it claims.
        term: u64,
        /// The highest term that the taker knows.
        known: u64,
    },
}

/// A reason against taking the role, or something to be said of one node's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No answer.
    #[error("{node} cannot be reached: {why}")]
    Unreachable {
        node: NodeName,
        /// The network's error.
        why: String,
    },
    /// It is there, and says nothing that can be used.
    #[error("{node} does not answer: {why}")]
    NoAnswer {
        node: NodeName,
        /// What it said.
        why: String,
    },
    /// The answer is another cluster's.
    #[error("{node} belongs to another cluster, {which}")]
    AnotherCluster {
        node: NodeName,
        /// The other cluster's UUID, or another mark by which it is told from this one.
        which: String,
    },
    /// The answer cannot be true.
    #[error("{node} makes no sense: {claim}")]
    Nonsense {
        node: NodeName,
        /// What it claims.
        claim: Claim,
    },
    /// Its store is not the one that made its promises.
    #[error("{node} {memory}")]
    Forgetful {
        node: NodeName,
        /// The state of its memory.
        memory: Memory,
    },
    /// It can promise nothing that it cannot write down.
    #[error("{node} has no room on its disk")]
    DiskFull { node: NodeName },
    /// The operator said to ignore it.
    #[error("{node} is ignored, as asked for")]
    Ignored { node: NodeName },
    /// It knows of committed entries that the taker neither has nor can fetch: voters forgot them.
    #[error("{node} holds entries up to {last}; this node has and can fetch only up to {reach}")]
    Newer {
        node: NodeName,
        /// Where it ends.
        last: Position,
        /// The position that the taker has or can fetch.
        reach: Position,
    },
    /// The same of the taker, which has no vote, and cannot be elected with what the voters have.
    #[error(
        "{taker} holds entries up to {last}, and no voter that answers has more than {reach}: older \
         copies of their stores were put back"
    )]
    VotersForgot {
        taker: NodeName,
        /// Where it ends.
        last: Position,
        /// The newest position of the voters.
        reach: Position,
    },
    /// The files of the taker are not those that its log tells of.
    #[error("{taker} cannot be the master with the queue that it has: {forgotten}")]
    JobsForgotten {
        taker: NodeName,
        /// The job ids that they do not know of.
        forgotten: Forgotten,
    },
    /// Its agent obeys an epoch of which no store that answers knows.
    #[error("{node} obeys epoch {obeys}; the newest that any store here knows is {known}")]
    ObeysHigher {
        node: NodeName,
        /// The epoch that its agent obeys.
        obeys: Epoch,
        /// The newest epoch of any position.
        known: Epoch,
    },
    /// A store told of a leadership that none of those that answer now knows.
    #[error(
        "{taker} was told by {node} what was committed in epoch {epoch}; the newest that any store here \
         knows is {known}"
    )]
    LaterLeadership {
        taker: NodeName,
        /// Who told it.
        node: NodeName,
        /// The epoch of that leadership.
        epoch: Epoch,
        /// The newest epoch of any position.
        known: Epoch,
    },
    /// Its agent knows another master, of a later epoch than the newest role entry.
    #[error("{node} knows {master} as master, under the later epoch {epoch}")]
    KnowsAnother {
        node: NodeName,
        /// Whom it knows.
        master: NodeName,
        /// The epoch that it obeys.
        epoch: Epoch,
    },
    /// The taker is not among the configured nodes.
    #[error("{taker} is not a node of this cluster's configuration")]
    NotConfigured { taker: NodeName },
    /// The taker has no copy of queue and configuration.
    #[error("{taker} is no master candidate: it has no copy of queue and configuration")]
    NoCandidate { taker: NodeName },
    /// The taker has a copy still, and was told to be none that may be master.
    #[error("{taker} is no master candidate any more: agents refuse it")]
    Demoted { taker: NodeName },
    /// The taker is there to vote.
    #[error("{taker} is a witness: it votes and is never master")]
    Witness { taker: NodeName },
    /// Others vote, and the taker does not yet.
    #[error("{taker} does not vote: it became a candidate a moment ago")]
    NoVote { taker: NodeName },
    /// The taker is marked offline.
    #[error("{taker} is marked offline")]
    TakerOffline { taker: NodeName },
    /// Nobody asked for it, and the role is not to move by itself.
    #[error("the role is not to move by itself to {taker}: auto_failover was switched off")]
    NotByItself { taker: NodeName },
    /// The taker leads already.
    #[error("{taker} is the master already")]
    AlreadyMaster { taker: NodeName },
    /// There is a leader, and no operator told the taker to take the role.
    #[error("{node} leads; only an operator's failover takes the role from it")]
    AnotherLeads {
        /// Who leads.
        node: NodeName,
    },
    /// Too few nodes answered.
    #[error("{count} nodes answered, which is not more than half")]
    TooFewNodes {
        /// The nodes that answered, of those that are not offline.
        count: Count,
    },
    /// Too few voters answered.
    #[error("{count} voters answered, which is not more than half")]
    TooFewVoters {
        /// The voters that answered, of all.
        count: Count,
    },
    /// A voter was ignored without which there is no majority.
    #[error("without the nodes to be ignored {count} voters answered, which is not more than half")]
    IgnoredIsNeeded {
        /// The voters that answered, of all, ignored ones among these.
        count: Count,
    },
    /// The voters can still decide, so nobody may decide without them.
    #[error("{count} voters answered, which is a majority: there is nothing to override")]
    NothingToOverride {
        /// The voters that answered, of all.
        count: Count,
    },
    /// A node to be ignored does not exist.
    #[error("{node}, which is to be ignored, is not a node of this cluster's configuration")]
    IgnoredUnknown { node: NodeName },
    /// The taker is to ignore itself.
    #[error("{taker} cannot ignore itself")]
    IgnoredSelf { taker: NodeName },
    /// A mere start, and the newest role entry names another node, or there is none.
    #[error("{}", not_designated(taker, entry.as_ref()))]
    NotDesignated {
        taker: NodeName,
        /// The newest role entry.
        entry: Option<RoleEntry>,
    },
    /// A mere start, and most nodes have another master.
    #[error("{count} nodes know another master, under a later epoch than {taker}'s last one")]
    MajorityKnowsAnother {
        taker: NodeName,
        /// How many do.
        count: Count,
    },
    /// A mere start of who votes alone, since an override, and another member of before leads without
    /// it.
    #[error(
        "{node} is master apart, in epoch {epoch}, with a store that does not know of the override after \
         which {taker} votes alone: what it acknowledged would be put aside"
    )]
    LeadsApart {
        taker: NodeName,
        /// Who leads.
        node: NodeName,
        epoch: Epoch,
    },
    /// `--no-voting` without the word that it is meant.
    #[error("--no-voting may lose what was acknowledged, so it needs --yes-do-it too")]
    NeedsYesDoIt,
}

fn not_designated(taker: &NodeName, entry: Option<&RoleEntry>) -> String {
    match entry {
        Some(RoleEntry { master, epoch }) => {
            format!("the newest role entry names {master} (epoch {epoch}), not {taker}")
        }
        None => format!("no store that answers has a role entry, so none names {taker}"),
    }
}

impl Reason {
    /// Whether an override goes past it. An override does not go past a fault of the taker itself, which
    /// has nothing to override with, or nothing to override.
    pub fn can_be_overridden(&self, taker: &NodeName) -> bool {
        match self {
            Self::NotConfigured { .. }
            | Self::NoCandidate { .. }
            | Self::Witness { .. }
            | Self::TakerOffline { .. }
            | Self::AlreadyMaster { .. }
            | Self::IgnoredUnknown { .. }
            | Self::IgnoredSelf { .. }
            | Self::NotByItself { .. }
            | Self::NothingToOverride { .. }
            | Self::NeedsYesDoIt => false,
            Self::Unreachable { node, .. }
            | Self::NoAnswer { node, .. }
            | Self::AnotherCluster { node, .. }
            | Self::Nonsense { node, .. }
            | Self::DiskFull { node } => node != taker,
            Self::Forgetful { node, memory } => {
                node != taker || !matches!(memory, Memory::NoStore | Memory::Damaged { .. })
            }
            Self::Ignored { .. }
            | Self::Demoted { .. }
            | Self::NoVote { .. }
            | Self::Newer { .. }
            | Self::VotersForgot { .. }
            | Self::JobsForgotten { .. }
            | Self::ObeysHigher { .. }
            | Self::LaterLeadership { .. }
            | Self::LeadsApart { .. }
            | Self::KnowsAnother { .. }
            | Self::AnotherLeads { .. }
            | Self::TooFewNodes { .. }
            | Self::TooFewVoters { .. }
            | Self::IgnoredIsNeeded { .. }
            | Self::NotDesignated { .. }
            | Self::MajorityKnowsAnother { .. } => true,
        }
    }
}
