//! Core: what an HTTP client is told where no master answered, in the form and with the codes of
//! Ganeti's RAPI (`lib/rapi/baserlib.py`, `lib/http/__init__.py`), and with who is master.

use std::net::IpAddr;

use luxi::ClientError;
use luxi::response::Unserved;
use model::NodeName;
use serde::Serialize;

/// The body of such an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The status.
    pub code: u16,
    /// Its words, RFC 9110 section 15.
    pub message: &'static str,
    /// What happened, and what to do.
    pub explain: String,
    /// The master, as far as this node knows.
    pub master: Option<NodeName>,
    /// Where that is reached, if it is known.
    pub address: Option<IpAddr>,
}

impl Refusal {
    /// What a failure to reach the master comes to. None where a master answered, with a failure:
    /// that is the route's to tell.
    #[must_use]
    pub fn of(error: &ClientError) -> Option<Self> {
        let about = error.not_master();
        let (code, message) = match error {
            ClientError::TimedOut { .. } => (504, "Gateway Timeout"),
            ClientError::Permission { .. } | ClientError::Frame { .. } => {
                (500, "Internal Server Error")
            }
            ClientError::NoSocket { .. }
            | ClientError::Refused { .. }
            | ClientError::Connect { .. }
            | ClientError::Closed { .. }
            | ClientError::Io { .. } => (502, "Bad Gateway"),
            ClientError::Failure(_) => match about.map(|about| about.outcome) {
                Some(Unserved::Again) => (503, "Service Unavailable"),
                Some(Unserved::Elsewhere | Unserved::Unknown) => (502, "Bad Gateway"),
                None if error.is_away() => (503, "Service Unavailable"),
                None => return None,
            },
        };
        let explain = stdx::daemon::chain(error);
        let master = about.and_then(|about| about.master.clone());
        let address = about.and_then(|about| about.address);
        Some(Self { code, message, explain, master, address })
    }
}

#[cfg(test)]
mod tests {
    use luxi::response::{Failure, NotMaster};
    use model::Exception;

    use super::*;

    fn not_master(outcome: Unserved) -> ClientError {
        let about = NotMaster {
            outcome,
            master: Some("n1.example".parse().unwrap()),
            address: Some("10.0.0.1".parse().unwrap()),
        };
        let exception = Exception::exec("This node is no candidate");
        ClientError::Failure(Failure::NotMaster { exception, about })
    }

    #[test]
    fn the_master_is_named() {
        let refusal = Refusal::of(&not_master(Unserved::Elsewhere)).unwrap();
        assert_eq!(
            serde_json::to_string(&refusal).unwrap(),
            r#"{"code":502,"message":"Bad Gateway","explain":"This node is no candidate","master":"n1.example","address":"10.0.0.1"}"#
        );
    }

    #[test]
    fn codes() {
        let code = |error: &ClientError| Refusal::of(error).map(|refusal| refusal.code);
        let method = "Query";
        assert_eq!(code(&not_master(Unserved::Again)), Some(503));
        assert_eq!(code(&not_master(Unserved::Unknown)), Some(502));
        assert_eq!(code(&ClientError::NoSocket { path: "s".into() }), Some(502));
        assert_eq!(code(&ClientError::TimedOut { method }), Some(504));
        let answered = Failure::Exception(Exception::exec("no such job"));
        assert_eq!(code(&ClientError::Failure(answered)), None);
    }
}
