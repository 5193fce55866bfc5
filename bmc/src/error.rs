//! How asking a controller fails.

use std::time::Duration;

use model::bmc::{PowerAction, PowerState};
use model::code::{Code, Coded};

/// A controller did not do, or not tell, what was wanted.
#[derive(Debug, thiserror::Error)]
pub enum BmcError {
    /// There is no connection.
    #[error("the controller at {url} is not reached: {reason}; check its cable, address and power")]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// It shows a certificate that is not accepted.
    #[error(
        "the controller at {url} shows another certificate than it should: {reason}; if it was changed \
         on purpose, set it anew with `gnt machine bmc`"
    )]
    Certificate {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// It is connected and does not answer.
    #[error("the controller at {url} did not answer {request} within {} s", limit.as_secs())]
    Silent {
        /// Where.
        url: String,
        /// What it was asked.
        request: String,
        /// For how long it was waited.
        limit: Duration,
    },
    /// User or password are wrong.
    #[error(
        "the controller at {url} refuses the user or the password; set them with `gnt machine bmc`"
    )]
    Login {
        /// Where.
        url: String,
    },
    /// It refuses.
    #[error("the controller at {url} refuses {request}: {reason}")]
    Refused {
        /// Where.
        url: String,
        /// What it was asked.
        request: String,
        /// Its own words.
        reason: String,
    },
    /// What it answers does not read.
    #[error("the controller at {url} answers {request} with nonsense: {reason}")]
    Nonsense {
        /// Where.
        url: String,
        /// What it was asked.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is that of another machine.
    #[error("the controller at {url} is that of another machine: {told}; wanted is {wanted}")]
    OtherMachine {
        /// Where.
        url: String,
        /// What it tells of itself.
        told: String,
        /// Which is wanted.
        wanted: String,
    },
    /// It took an action, and nothing came of it.
    #[error(
        "the controller at {url} took {action}, but after {} s the machine is still {seen}",
        waited.as_secs()
    )]
    NotDone {
        /// Where.
        url: String,
        /// What it took.
        action: PowerAction,
        /// How the machine was seen last.
        seen: PowerState,
        /// For how long it was waited.
        waited: Duration,
    },
    /// It cannot do that.
    #[error("the controller at {url} cannot do this: {what}")]
    Unsupported {
        /// Where.
        url: String,
        /// What.
        what: String,
    },
    /// The program that speaks to it does not start.
    #[error(
        "`{program}` does not start: {error}; install the package ipmitool on the master candidates"
    )]
    Program {
        /// Which.
        program: String,
        /// Why not.
        error: std::io::Error,
    },
}

impl BmcError {
    /// Whether trying again may help: nothing is known to be wrong with what was asked.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Silent { .. } | Self::NotDone { .. })
    }
}

impl Coded for BmcError {
    fn code(&self) -> Option<Code> {
        Some(Code::BmcFailed)
    }
}
