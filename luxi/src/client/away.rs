//! Core: what a failure says of the master: whether it is only away, and whether it did something.
//! One rule for all programs that follow the master.

use super::ClientError;
use crate::response::{CUT_OFF, ENDED, ENDING, Failure, NotMaster, UNCONFIRMED, Unserved};

impl ClientError {
    /// The answer of a server that is no master, and passed the request on to none.
    pub const fn not_master(&self) -> Option<&NotMaster> {
        match self {
            Self::Failure(Failure::NotMaster { about, .. }) => Some(about),
            _ => None,
        }
    }

    /// Whether it says nothing but that the master is away, or no longer the master. A client that asks
    /// again, over a new connection, may be answered by the next one. A request that is sent again must
    /// do no harm by that, unless it was [certainly not done](Self::certainly_not_done).
    pub fn is_away(&self) -> bool {
        match self {
            Self::NoSocket { .. }
            | Self::Refused { .. }
            | Self::Permission { .. }
            | Self::Connect { .. }
            | Self::TimedOut { .. }
            | Self::Closed { .. }
            | Self::Io { .. } => true,
            Self::Failure(Failure::NotMaster { about, .. }) => match about.outcome {
                Unserved::Again | Unserved::Unknown => true,
                Unserved::Elsewhere => false,
            },
            Self::Failure(_) => self.refused_for_now(),
            Self::Frame { .. } => false,
        }
    }

    /// Whether no master has done, or will do, what was asked for.
    pub fn certainly_not_done(&self) -> bool {
        match self {
            Self::NoSocket { .. }
            | Self::Refused { .. }
            | Self::Permission { .. }
            | Self::Connect { .. } => true,
            Self::Failure(Failure::NotMaster { about, .. }) => match about.outcome {
                Unserved::Again | Unserved::Elsewhere => true,
                Unserved::Unknown => false,
            },
            Self::Failure(_) => self.says(CUT_OFF) || self.says(ENDING),
            Self::TimedOut { .. } | Self::Closed { .. } | Self::Io { .. } | Self::Frame { .. } => {
                false
            }
        }
    }

    fn refused_for_now(&self) -> bool {
        [ENDING, ENDED, CUT_OFF, UNCONFIRMED].iter().any(|known| self.says(known))
    }

    fn says(&self, beginning: &str) -> bool {
        self.exception().is_some_and(|exception| exception.message().starts_with(beginning))
    }
}

#[cfg(test)]
mod tests {
    use model::Exception;
    use model::error::ExceptionKind;

    use super::*;

    fn told(text: &str, outcome: Option<Unserved>) -> ClientError {
        let exception = Exception::new(ExceptionKind::GenericError, text);
        ClientError::Failure(match outcome {
            Some(outcome) => {
                let about = NotMaster { outcome, master: None, address: None };
                Failure::NotMaster { exception, about }
            }
            None => Failure::Exception(exception),
        })
    }

    #[test]
    fn what_failures_say() {
        let method = "SubmitJob";
        for (error, away, not_done) in [
            (ClientError::NoSocket { path: "s".into() }, true, true),
            (ClientError::Closed { method }, true, false),
            (ClientError::TimedOut { method }, true, false),
            (told("The queue is full", None), false, false),
            (told(&format!("{ENDING}; try again"), None), true, true),
            (told(&format!("{ENDED}; look"), None), true, false),
            (told(CUT_OFF, None), true, true),
            (told(UNCONFIRMED, None), true, false),
            (told("x", Some(Unserved::Again)), true, true),
            (told("x", Some(Unserved::Elsewhere)), false, true),
            (told("x", Some(Unserved::Unknown)), true, false),
        ] {
            assert_eq!(error.is_away(), away, "{error:?}");
            assert_eq!(error.certainly_not_done(), not_done, "{error:?}");
        }
    }
}
