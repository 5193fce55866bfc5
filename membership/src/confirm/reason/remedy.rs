//! Core: what an operator does about each reason, and its code.

use model::Code;

use super::Reason;

/// The remedy for a node that gives no answer that can be used.
const READ_ITS_LOG: &str = "read its log: it must run the same version or the one before. If it does not accept \
                            this node's certificate, this node was removed, or made offline or regular, meanwhile \
                            (`gnt node list` on the master), or became a candidate while its agent was away, which is told \
                            when the master reaches it; if this node was offline while others were renewed, `noded enroll \
                            --again` here and `gnt node add --readd` on the master; else fail over to a candidate that it \
                            lists";

impl Reason {
    /// The remedy for an operator; empty where there is nothing to do.
    pub fn remedy(&self) -> String {
        match self {
            Self::Forgetful { memory, .. } => return memory.remedy().to_owned(),
            Self::JobsForgotten { forgotten, .. } => return forgotten.remedy(),
            Self::Unreachable { node, .. } => {
                return format!(
                    "start it or mend its network; if it is gone for good, --ignore-node {node}"
                );
            }
            Self::Newer { node, .. } => {
                return format!(
                    "have {node} take the role, unless it is a witness, or bring voters back that have it; \
                     if there are none: --no-voting --yes-do-it, which cuts what only {node} holds"
                );
            }
            Self::ObeysHigher { node, .. } => {
                return format!(
                    "a master of that epoch is or was there: find and start its candidates; \
                     --ignore-node {node} if it comes from elsewhere"
                );
            }
            Self::LaterLeadership { node, .. } => {
                return format!(
                    "start {node}, or who was master then, and have that one go on; if they are lost: \
                     --no-voting --yes-do-it, which cuts what was done in that epoch"
                );
            }
            Self::LeadsApart { taker, node, .. } => {
                return format!(
                    "say which one goes on. This one: `gnt cluster master-failover` here, and {node} begins \
                     anew and keeps aside what it has. The other one: stop masterd here, `noded enroll \
                     --again`, and `gnt node add --readd {taker}` on {node}"
                );
            }
            Self::NotDesignated { entry: Some(entry), .. } => {
                return format!(
                    "start {} instead, if it is not the master already, or move the role: `gnt cluster \
                     master-failover`",
                    entry.master
                );
            }
            _ => {}
        }
        self.fixed_remedy().to_owned()
    }

    fn fixed_remedy(&self) -> &'static str {
        match self {
            Self::NoAnswer { .. } => READ_ITS_LOG,
            Self::AnotherCluster { .. } => {
                "another machine has its address: remove it, or add it again under the address that it has. \
                 If all others say so, it is this machine that has another cluster's certificates"
            }
            Self::Nonsense { .. } => {
                "trust neither its disk nor its package; put its store aside: \"A candidate gets a new \
                 store\" in the runbook"
            }
            Self::DiskFull { .. } => "make room below its data directory",
            Self::KnowsAnother { .. } | Self::AnotherLeads { .. } | Self::NotByItself { .. } => {
                "if the role is to move here: `gnt cluster master-failover`"
            }
            Self::MajorityKnowsAnother { .. } => {
                "start that master instead, or move the role: `gnt cluster master-failover`"
            }
            Self::NotConfigured { .. } => "run this on a master candidate",
            Self::Witness { .. } => {
                "run this on a master candidate; while there is a master, `gnt node modify --witness no \
                 -C yes` makes one of it"
            }
            Self::NoCandidate { .. } => {
                "run this on a master candidate; `gnt node modify -C yes` makes one while there is a \
                 master"
            }
            Self::TakerOffline { .. } => {
                "take another candidate; if no other store is left, stop masterd here and restore the \
                 cluster from `gnt cluster export` of this one"
            }
            Self::Demoted { .. } => "take another candidate",
            Self::NoVote { .. } => "take another candidate, or wait until it is a voter",
            Self::TooFewNodes { .. } => {
                "start more nodes; --ignore-node names those that are gone, --candidates-only asks for \
                 voters alone"
            }
            Self::TooFewVoters { .. } => {
                "start more voters; if they are lost: --no-voting --yes-do-it, which may lose what was \
                 acknowledged"
            }
            Self::IgnoredIsNeeded { .. } => {
                "start more voters: an ignored one still counts as one of them; if they are lost: \
                 --no-voting --yes-do-it, which may lose what was acknowledged"
            }
            Self::NothingToOverride { .. } => {
                "leave out --no-voting; --candidates-only asks for voters alone. If it is not elected then, the \
                 log of a voter is newer: have that one take the role, or --ignore-node cuts what only it has"
            }
            Self::IgnoredUnknown { .. } => "write its name as `gnt node list` does",
            Self::IgnoredSelf { .. } => "leave it out",
            Self::NotDesignated { .. } => "move the role here: `gnt cluster master-failover`",
            Self::VotersForgot { .. } => {
                "bring voters back that have it; if there are none: --no-voting --yes-do-it here, which \
                 keeps what this node has"
            }
            Self::NeedsYesDoIt => "add --yes-do-it if the others are lost",
            Self::AlreadyMaster { .. }
            | Self::Ignored { .. }
            | Self::Unreachable { .. }
            | Self::Forgetful { .. }
            | Self::JobsForgotten { .. }
            | Self::Newer { .. }
            | Self::LaterLeadership { .. }
            | Self::LeadsApart { .. }
            | Self::ObeysHigher { .. } => "",
        }
    }

    /// The code of a fault that needs an operator; none where there is nothing to do, or the command
    /// line was wrong.
    pub const fn code(&self) -> Option<Code> {
        Some(match self {
            Self::Unreachable { .. } | Self::TooFewNodes { .. } => Code::TooFewNodes,
            Self::NoAnswer { .. } => Code::NotAccepted,
            Self::AnotherCluster { .. } => Code::OtherCluster,
            Self::Nonsense { .. } => Code::StoreDamaged,
            Self::Forgetful { memory, .. } => memory.code(),
            Self::JobsForgotten { .. } => Code::CandidateForgot,
            Self::DiskFull { .. } => Code::CandidateFull,
            Self::Newer { .. } | Self::VotersForgot { .. } => Code::NewerLog,
            Self::ObeysHigher { .. } | Self::LaterLeadership { .. } => Code::LaterMaster,
            Self::LeadsApart { .. } => Code::Diverged,
            Self::TooFewVoters { .. } | Self::IgnoredIsNeeded { .. } => Code::TooFewVoters,
            Self::NotConfigured { .. }
            | Self::NoCandidate { .. }
            | Self::Demoted { .. }
            | Self::Witness { .. }
            | Self::NoVote { .. }
            | Self::TakerOffline { .. } => Code::NotEligible,
            Self::KnowsAnother { .. }
            | Self::AnotherLeads { .. }
            | Self::NotDesignated { .. }
            | Self::MajorityKnowsAnother { .. }
            | Self::NotByItself { .. } => Code::MasterElsewhere,
            Self::Ignored { .. }
            | Self::AlreadyMaster { .. }
            | Self::NothingToOverride { .. }
            | Self::IgnoredUnknown { .. }
            | Self::IgnoredSelf { .. }
            | Self::NeedsYesDoIt => return None,
        })
    }
}
