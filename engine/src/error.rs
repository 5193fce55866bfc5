//! The errors of the engine, which say whether anything happened.

use std::io;
use std::time::Duration;

use queue_format::{Epoch, FileError, StartError};

use crate::MembersError;

/// A member that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] queue_format::OpenError),
    /// The store cannot be started.
    #[error("cannot start the store")]
    Start(#[from] StartError),
    /// The state that the engine had remembered is not understood.
    #[error("cannot read what the engine remembered")]
    Remembered(#[source] io::Error),
    /// Only the lone voter of this store goes on leading without an election.
    #[error("the store does not belong to the lone voter of epoch {epoch}, who would go on in it")]
    GoesOn {
        /// The epoch in which it was to go on.
        epoch: Epoch,
    },
    /// The engine cannot be started.
    #[error("cannot start the engine: {reason}")]
    Engine {
        /// What it said.
        reason: String,
    },
}

/// This member does not lead.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The engine has stopped.
    #[error("the engine has stopped: {reason}")]
    Stopped {
        /// What it said.
        reason: String,
    },
    /// This member leads already, for a leadership that has ended: the next one needs an epoch of its own.
    #[error("this member leads in epoch {epoch} still; it has to be closed and opened first")]
    Leads { epoch: Epoch },
    /// Another member was elected meanwhile, and is heard.
    #[error("member {} was elected meanwhile, in epoch {epoch}", epoch.node)]
    Another {
        /// The epoch in which it leads.
        epoch: Epoch,
    },
    /// The earlier leader leads on.
    #[error("member {} leads in epoch {epoch}, and is heard again", epoch.node)]
    Back { epoch: Epoch },
    /// Not elected in time: somebody else leads, or no majority answers.
    #[error("not elected within {waited:?}: somebody else leads, or no majority answers")]
    Deadline {
        /// How long it was tried.
        waited: Duration,
    },
}

/// A batch that was not committed, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// Nothing happened: this member does not lead in that epoch, or hears no majority.
    #[error("refused: this member does not lead in that epoch, or hears no majority")]
    Refused,
    /// It was appended, and its outcome is not known. It may still be committed.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// The engine's message.
        reason: String,
    },
    /// It can never be appended.
    #[error("a batch of {bytes} bytes is larger than {limit}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The most that an entry may have.
        limit: usize,
    },
    /// A file that a move needs cannot be read. Nothing happened.
    #[error("cannot resolve a move")]
    Move(#[from] FileError),
}

/// Leadership that was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// Nothing happened: this member does not lead.
    #[error("this member does not lead")]
    NotLeading,
    /// Nothing happened: the other one does not vote.
    #[error("member {to} does not vote")]
    NoVoter {
        /// The member that was to lead.
        to: u64,
    },
    /// Nothing happened: the other one was to vote first.
    #[error("member {to} does not come to vote")]
    NoVote {
        /// The member that was to lead.
        to: u64,
        /// Why not.
        #[source]
        error: MembersError,
    },
    /// Nothing happened: the other one does not answer.
    #[error("member {to} does not answer")]
    Silent {
        /// The member that was to lead.
        to: u64,
    },
    /// Nothing happened: the other one is to vote first, and answered so late that it might not come to
    /// that in time.
    #[error("member {to} answers too slowly to be given a vote; try again")]
    Slow {
        /// The member that was to lead.
        to: u64,
    },
    /// Nothing happened: the other one lacks entries.
    #[error("member {to} lacks {entries} entries; try again")]
    Behind {
        /// The member that was to lead.
        to: u64,
        /// How many.
        entries: u64,
    },
    /// It was begun, and nobody is known to lead: this engine must be opened again.
    #[error("leadership was offered to member {to}, but {reason}")]
    Stuck {
        /// The member that was to lead.
        to: u64,
        /// The state that was seen instead.
        reason: String,
    },
}
