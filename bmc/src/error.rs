//! How asking a controller fails.

use std::time::Duration;

use model::bmc::{BmcUrl, BootOnce, PowerAction, PowerState};
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
    /// There is a connection, and no TLS on it.
    #[error("the controller at {url} does not complete a TLS handshake: {reason}")]
    Tls {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// It speaks another protocol at this port.
    #[error(
        "the controller does not speak at {url} as that says, but is reached as {instead}; set that with `gnt \
         machine bmc set`{}", if instead.is_secured() { "" } else { "; the password then crosses the network in the clear" }
    )]
    Scheme {
        /// Where.
        url: String,
        /// As what it is reached.
        instead: BmcUrl,
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
    /// The user may not do this.
    #[error(
        "the controller at {url} does not let the user do this: {reason}; give the user the role of an \
         operator or administrator there{}", if *has_levels {
            ", or name the level that it has: `gnt machine bmc set --privilege operator`"
        } else { "" }
    )]
    Privilege {
        /// Where.
        url: String,
        /// Its own words.
        reason: String,
        /// Whether the level of the user is asked for with each request.
        has_levels: bool,
    },
    /// It says that it will do this later.
    #[error("the controller at {url} is not ready for {request}: {reason}")]
    NotReady {
        /// Where.
        url: String,
        request: String,
        /// Its own words.
        reason: String,
    },
    /// It fails, for a reason that may pass.
    #[error("the controller at {url} fails at {request}: {reason}")]
    Failed {
        /// Where.
        url: String,
        request: String,
        /// Its own words.
        reason: String,
    },
    #[error("the controller at {url} refuses {request}: {reason}")]
    Refused {
        /// Where.
        url: String,
        request: String,
        /// Its own words.
        reason: String,
    },
    /// Its answer cannot be read.
    #[error("the controller at {url} answers {request} with nonsense: {reason}")]
    Nonsense {
        /// Where.
        url: String,
        request: String,
        /// The fault of the answer.
        reason: String,
    },
    /// It shows no machine at all.
    #[error(
        "the controller at {url} shows no machine, which some do while they start or their machine is off; \
         reset the controller if that lasts"
    )]
    NoSystem {
        /// Where.
        url: String,
    },
    /// It shows several machines, and which one is meant is not certain.
    #[error(
        "the controller at {url} shows several systems that may be {wanted}: {told}; exactly one of them must \
         have a boot order and actions on its power"
    )]
    Ambiguous {
        /// Where.
        url: String,
        /// The systems that may be the machine.
        told: String,
        wanted: String,
    },
    /// It is that of another machine.
    #[error("the controller at {url} is that of another machine: {told}; wanted is {wanted}")]
    OtherMachine {
        /// Where.
        url: String,
        /// The identity that it tells.
        told: String,
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
    /// It took where the next boot comes from, and did not keep it.
    #[error(
        "the controller at {url} took boot once from {}, but shows {shown} instead; set the boot order by hand",
        from.as_str()
    )]
    NotKept {
        /// Where.
        url: String,
        /// What it took.
        from: BootOnce,
        /// What it shows.
        shown: String,
    },
    /// It cannot do that.
    #[error("the controller at {url} cannot do this: {what}")]
    Unsupported {
        /// Where.
        url: String,
        what: String,
    },
    /// The program that speaks to it does not start.
    #[error(
        "`{program}` does not start: {error}; install the package ipmitool on the master candidates"
    )]
    Program {
        program: String,
        /// Why not.
        error: std::io::Error,
    },
}

impl BmcError {
    /// Whether trying again may help. One odd answer means nothing; only what the controller says clearly, and
    /// what no answer can change, is the end.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Tls { .. }
            | Self::Silent { .. }
            | Self::NotReady { .. }
            | Self::Failed { .. }
            | Self::Nonsense { .. }
            | Self::NoSystem { .. }
            | Self::Ambiguous { .. }
            | Self::NotDone { .. } => true,
            Self::Scheme { .. }
            | Self::Certificate { .. }
            | Self::Login { .. }
            | Self::Privilege { .. }
            | Self::Refused { .. }
            | Self::OtherMachine { .. }
            | Self::NotKept { .. }
            | Self::Unsupported { .. }
            | Self::Program { .. } => false,
        }
    }

    /// Whether the controller says that it needs more time, which may be minutes.
    pub const fn is_not_ready(&self) -> bool {
        matches!(self, Self::NotReady { .. } | Self::NoSystem { .. })
    }
}

impl Coded for BmcError {
    fn code(&self) -> Option<Code> {
        Some(Code::BmcFailed)
    }
}
