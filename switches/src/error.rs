//! Why a switch did not do what was asked.

use std::io;
use std::time::Duration;

/// Characters of a switch's own words that an error repeats.
const TOLD_MAX: usize = 500;

/// A failure of a switch as a whole; a port has its own outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// There is no connection.
    #[error("{at} is not reached: {why}")]
    Unreached { at: String, why: String },
    /// It shows no certificate that counts, or takes none of ours.
    #[error(
        "{at}: TLS fails: {why}; see `gnt switch modify --authority-file`, `--certificate-file` and `--key-file`"
    )]
    Tls { at: String, why: String },
    /// It stopped to answer.
    #[error("{at} did not answer within {} s to {what}", .within.as_secs())]
    Silent { at: String, what: &'static str, within: Duration },
    /// It says what it must not.
    #[error("{at} breaks its protocol: {why}")]
    Protocol { at: String, why: String },
    /// It says no.
    #[error("{at} refuses {what}: {why}")]
    Refused { at: String, what: &'static str, why: String },
    /// It is not what the switch's entry says.
    #[error("{at} {why}")]
    Other { at: String, why: String },
    /// Too much waits for it already.
    #[error("switch {switch} has {waiting} questions waiting, which is the limit; it may hang")]
    Busy { switch: String, waiting: usize },
    /// It is slow to tell its ports for the first time.
    #[error("switch {0} has not told its ports yet")]
    Unread(String),
    /// The agent ends.
    #[error("the agent ends")]
    Ends,
}

impl SwitchError {
    pub(crate) fn unreached(at: &str, error: &io::Error) -> Self {
        Self::Unreached { at: at.to_owned(), why: error.to_string() }
    }

    pub(crate) fn protocol(at: &str, why: impl Into<String>) -> Self {
        Self::Protocol { at: at.to_owned(), why: why.into() }
    }

    /// Whether the same may succeed soon, on another connection.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreached { .. }
            | Self::Silent { .. }
            | Self::Busy { .. }
            | Self::Unread(_)
            | Self::Ends => true,
            Self::Tls { .. }
            | Self::Protocol { .. }
            | Self::Refused { .. }
            | Self::Other { .. } => false,
        }
    }
}

/// Words of a switch, fit to be repeated.
pub(crate) fn told(text: &str) -> String {
    let text = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    text.take(TOLD_MAX).collect()
}
