//! Core: what becomes of a node's role (Ganeti's 2.0 design, "Node flags"; Ganeti's `OP_NODE_SET_PARAMS`).
//!
//! One total function, [`Standing::next`]: where a node stands, what happens, and what matters around
//! it. A test prints the whole table.

use super::NodeRole;

crate::words! {
    /// The role of a node in the cluster, that of the master included.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    Standing {
        /// The master, which is a candidate too.
        Master = "master",
        /// See [`NodeRole::Candidate`].
        Candidate = "candidate",
        /// See [`NodeRole::Regular`].
        Regular = "regular",
        /// See [`NodeRole::Drained`].
        Drained = "drained",
        /// See [`NodeRole::Offline`].
        Offline = "offline",
    }
}

/// An event of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// It is asked to be a candidate, or the pool promotes it.
    Promote,
    /// It is asked to be a candidate no more, or the pool demotes it.
    Demote,
    /// It is to be emptied.
    Drain,
    /// It need not be emptied any more.
    Undrain,
    /// It is not to be called any more.
    GoOffline,
    /// It may be called again.
    ComeOnline,
    /// It takes the master role, confirmed by votes.
    TakeMaster,
    /// Another node took the master role.
    LoseMaster,
}

/// What else decides. The default forbids nothing and gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Around {
    /// Whether the node may become the master.
    pub master_capable: bool,
    /// Whether the pool has room, and the node may take it, when it comes back.
    pub pool_has_room: bool,
    /// Candidates that would be left without this one, and are wanted, where these are fewer and
    /// nobody makes up for it (`auto_promote`, `force`).
    pub gap: Option<Gap>,
    /// Instances of which it is the primary node.
    pub primary_instances: u32,
}

impl Default for Around {
    fn default() -> Self {
        Self { master_capable: true, pool_has_room: false, gap: None, primary_instances: 0 }
    }
}

/// Too few candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gap {
    /// As many would be left.
    pub left: usize,
    /// As many should be.
    pub wanted: usize,
}

impl Gap {
    /// The gap that `left` candidates make, if they do, where `possible` nodes could be candidates and
    /// `pool_size` are wanted (Ganeti: desired = min(possible, pool size)).
    pub fn of(left: usize, possible: usize, pool_size: usize) -> Option<Self> {
        let wanted = possible.min(pool_size);
        (left < wanted).then_some(Self { left, wanted })
    }
}

/// A change that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The master keeps its role until another node takes it.
    #[error("The master role can be changed only via master-failover")]
    IsMaster,
    /// It may not become the master.
    #[error("it is not master capable")]
    NotMasterCapable,
    /// Too few candidates would be left.
    #[error(
        "{} master candidates would remain where {} are wanted; let other nodes take its place \
         (--auto-promote), or use --force", .0.left, .0.wanted
    )]
    TooFewCandidates(Gap),
    /// Instances live on it.
    #[error(
        "it is the primary node of {0} instances; move them first (`gnt node evacuate`, `gnt node \
         failover`)"
    )]
    HasPrimaryInstances(u32),
    /// Only a candidate has what a master needs.
    #[error("a node that is {0} cannot become the master; only a master candidate can")]
    NoCandidate(Standing),
    /// It does not happen in this standing.
    #[error("a node that is {0} cannot take the event {1:?}")]
    Never(Standing, Event),
}

/// More than one role was asked for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Can't set the node into more than one state at the same time")]
pub struct SeveralAtOnce;

/// The three flags of a request; what is none stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// `master_candidate`.
    pub candidate: Option<bool>,
    /// `drained`.
    pub drained: Option<bool>,
    /// `offline`.
    pub offline: Option<bool>,
}

impl Flags {
    /// The event that a request's flags ask of a node with this standing; at most one of them may be
    /// set. A flag that is taken away where it is not set asks for nothing.
    ///
    /// # Errors
    /// Several are set.
    pub fn event(self, standing: Standing) -> Result<Option<Event>, SeveralAtOnce> {
        let set = [
            (self.candidate, Event::Promote),
            (self.drained, Event::Drain),
            (self.offline, Event::GoOffline),
        ];
        let mut asked = set.iter().filter(|(flag, _)| *flag == Some(true)).map(|(_, event)| *event);
        match (asked.next(), asked.next()) {
            (Some(_), Some(_)) => return Err(SeveralAtOnce),
            (Some(event), None) => return Ok(Some(event)),
            (None, _) => {}
        }
        let taken_away = match standing {
            Standing::Master | Standing::Candidate => (self.candidate, Event::Demote),
            Standing::Drained => (self.drained, Event::Undrain),
            Standing::Offline => (self.offline, Event::ComeOnline),
            Standing::Regular => (None, Event::Demote),
        };
        Ok((taken_away.0 == Some(false)).then_some(taken_away.1))
    }
}

impl Standing {
    /// The standing of a node by its document and by who is master.
    pub fn of(role: NodeRole, is_master: bool) -> Self {
        match role {
            _ if is_master => Self::Master,
            NodeRole::Candidate => Self::Candidate,
            NodeRole::Regular => Self::Regular,
            NodeRole::Drained => Self::Drained,
            NodeRole::Offline => Self::Offline,
        }
    }

    /// The role in the node's document.
    pub fn role(self) -> NodeRole {
        match self {
            Self::Master | Self::Candidate => NodeRole::Candidate,
            Self::Regular => NodeRole::Regular,
            Self::Drained => NodeRole::Drained,
            Self::Offline => NodeRole::Offline,
        }
    }

    /// Whether its agent is called. For a vote it is asked all the same.
    pub fn is_called(self) -> bool {
        self != Self::Offline
    }

    /// The standing after `event`.
    ///
    /// # Errors
    /// [`Illegal`]: the event cannot happen in this standing, or something around it forbids it.
    pub fn next(self, event: Event, around: &Around) -> Result<Self, Illegal> {
        use Event as E;
        match (self, event) {
            (Self::Master, E::LoseMaster) => Ok(Self::Candidate),
            (Self::Master, E::TakeMaster) => Ok(Self::Master),
            (
                Self::Master,
                E::Promote | E::Demote | E::Drain | E::Undrain | E::GoOffline | E::ComeOnline,
            ) => Err(Illegal::IsMaster),
            (Self::Candidate, E::TakeMaster) => Ok(Self::Master),
            (_, E::TakeMaster) => Err(Illegal::NoCandidate(self)),
            (_, E::Promote) if !around.master_capable => Err(Illegal::NotMasterCapable),
            (_, E::Promote) => Ok(Self::Candidate),
            (_, E::GoOffline) if self != Self::Offline && around.primary_instances > 0 => {
                Err(Illegal::HasPrimaryInstances(around.primary_instances))
            }
            (Self::Candidate, E::Demote | E::Drain | E::GoOffline) => match (around.gap, event) {
                (Some(gap), _) => Err(Illegal::TooFewCandidates(gap)),
                (None, E::Drain) => Ok(Self::Drained),
                (None, E::GoOffline) => Ok(Self::Offline),
                (None, _) => Ok(Self::Regular),
            },
            (_, E::Drain) => Ok(Self::Drained),
            (_, E::GoOffline) => Ok(Self::Offline),
            (Self::Drained, E::Undrain) | (Self::Offline, E::ComeOnline) => {
                let promoted = around.pool_has_room && around.master_capable;
                Ok(if promoted { Self::Candidate } else { Self::Regular })
            }
            (
                Self::Candidate | Self::Regular | Self::Drained | Self::Offline,
                E::Demote | E::Undrain | E::ComeOnline | E::LoseMaster,
            ) => Err(Illegal::Never(self, event)),
        }
    }
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 8] = [
        Self::Promote,
        Self::Demote,
        Self::Drain,
        Self::Undrain,
        Self::GoOffline,
        Self::ComeOnline,
        Self::TakeMaster,
        Self::LoseMaster,
    ];
}

#[cfg(test)]
mod tests;
