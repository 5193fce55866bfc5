//! Core: the refusal that an HTTP client gets. It has the form and the codes of Ganeti's RAPI
//! (`lib/rapi/baserlib.py`, `lib/http/__init__.py`), or of sabakan's API.

use std::net::IpAddr;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use luxi::ClientError;
use luxi::response::Unserved;
use model::access::Denied;
use model::error::ExceptionKind;
use model::opcode::common::CHANGED_MEANWHILE;
use model::{Code, Coded as _, Exception, NodeName};
use serde::Serialize;
use serde_json::{Value, json};

/// The body of such an answer, as Ganeti has it; what stands behind `explain` is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The status.
    pub code: u16,
    /// Its words, RFC 9110 section 15.
    pub message: &'static str,
    /// The failure and its remedy.
    pub explain: String,
    /// The section of the runbook, which `gnt explain` prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<Code>,
    /// The master, as far as this node knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<NodeName>,
    /// The address of the master, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(status: StatusCode, explain: impl Into<String>) -> Self {
        Self {
            code: status.as_u16(),
            message: status.canonical_reason().unwrap_or("Error"),
            explain: explain.into(),
            see: None,
            master: None,
            address: None,
        }
    }

    /// A request that makes no sense.
    pub fn bad(explain: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, explain)
    }

    /// There is no such thing.
    pub fn not_found(explain: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, explain)
    }

    /// A fault of this program, which the log has.
    pub fn fault(explain: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::INTERNAL_SERVER_ERROR, explain);
        Self { see: Some(Code::Fault), ..refusal }
    }

    /// The same with another status.
    pub fn with_status(self, status: StatusCode) -> Self {
        let Self { code, message, .. } = Self::new(status, "");
        Self { code, message, ..self }
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body as sabakan has it.
    pub fn sabakan(&self) -> Value {
        json!({"status": self.code, "error": self.explain, "see": self.see})
    }

    /// The refusal for a failure to reach the master. None where a master answered, with a failure.
    fn of_unreached(error: &ClientError) -> Option<Self> {
        let about = error.not_master();
        let status = match error {
            ClientError::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
            ClientError::Permission { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            // It was longer than the master takes.
            ClientError::Frame { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            ClientError::NoSocket { .. }
            | ClientError::Refused { .. }
            | ClientError::Connect { .. }
            | ClientError::Closed { .. }
            | ClientError::Io { .. } => StatusCode::BAD_GATEWAY,
            ClientError::Failure(_) => match about.map(|about| about.outcome) {
                Some(Unserved::Again) => StatusCode::SERVICE_UNAVAILABLE,
                Some(Unserved::Elsewhere | Unserved::Unknown) => StatusCode::BAD_GATEWAY,
                None if error.is_away() => StatusCode::SERVICE_UNAVAILABLE,
                None => return None,
            },
        };
        let refusal = Self::new(status, stdx::daemon::chain(error));
        let master = about.and_then(|about| about.master.clone());
        let address = about.and_then(|about| about.address);
        Some(Self { see: error.code(), master, address, ..refusal })
    }
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        if let Some(refusal) = Self::of_unreached(&error) {
            return refusal;
        }
        match error.exception() {
            Some(exception) => exception.into(),
            None => Self::new(StatusCode::BAD_GATEWAY, stdx::daemon::chain(&error)),
        }
    }
}

impl From<&Exception> for Refusal {
    fn from(exception: &Exception) -> Self {
        let refusal = Self::new(status(exception), exception.to_string());
        Self { see: exception.code(), ..refusal }
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let refusal = Self::new(StatusCode::FORBIDDEN, denied.to_string());
        Self { see: Some(Code::PermissionDenied), ..refusal }
    }
}

/// The status of a failure that the master answered with.
fn status(exception: &Exception) -> StatusCode {
    match exception.code() {
        Some(Code::PermissionDenied) => return StatusCode::FORBIDDEN,
        Some(Code::Overloaded) => return StatusCode::SERVICE_UNAVAILABLE,
        _ => {}
    }
    if exception.message().ends_with(CHANGED_MEANWHILE) {
        return StatusCode::PRECONDITION_FAILED;
    }
    match exception.kind {
        ExceptionKind::JobQueueFull | ExceptionKind::JobQueueDrainError => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        ExceptionKind::ParameterError
        | ExceptionKind::TypeEnforcementError
        | ExceptionKind::TagError
        | ExceptionKind::LuxiError
        | ExceptionKind::OpCodeUnknown
        | ExceptionKind::QueryFilterParseError => StatusCode::BAD_REQUEST,
        ExceptionKind::JobLost => StatusCode::NOT_FOUND,
        ExceptionKind::JobCanceled | ExceptionKind::JobQueueError => StatusCode::CONFLICT,
        ExceptionKind::OpPrereqError => match exception.args.get(1).and_then(Value::as_str) {
            Some("unknown_entity") => StatusCode::NOT_FOUND,
            Some(
                "already_exists" | "resource_not_unique" | "wrong_state" | "insufficient_resources",
            ) => StatusCode::CONFLICT,
            Some("wrong_input") => StatusCode::BAD_REQUEST,
            Some("temp_insufficient_resources") => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        },
        ExceptionKind::GenericError
        | ExceptionKind::LockError
        | ExceptionKind::ProgrammerError
        | ExceptionKind::ConfigurationError
        | ExceptionKind::OpExecError
        | ExceptionKind::JobFileCorrupted
        | ExceptionKind::ResolverError
        | ExceptionKind::X509CertError => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The status, and the refusal beside it: [`crate::front`] writes the body, in the form of the interface.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use luxi::response::{Failure, NotMaster};
    use model::error::ErrorCode;

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
        let refusal = Refusal::from(not_master(Unserved::Elsewhere));
        assert_eq!(
            serde_json::to_string(&refusal).unwrap(),
            r#"{"code":502,"message":"Bad Gateway","explain":"This node is no candidate","see":"wrong-node","master":"n1.example","address":"10.0.0.1"}"#
        );
        assert_eq!(
            refusal.sabakan().to_string(),
            r#"{"error":"This node is no candidate","see":"wrong-node","status":502}"#
        );
    }

    #[test]
    fn codes() {
        let code = |error: ClientError| Refusal::from(error).code;
        let method = "Query";
        assert_eq!(code(not_master(Unserved::Again)), 503);
        assert_eq!(code(not_master(Unserved::Unknown)), 502);
        assert_eq!(code(ClientError::NoSocket { path: "s".into() }), 502);
        assert_eq!(code(ClientError::TimedOut { method }), 504);
        for (exception, status) in [
            (Exception::exec("it broke"), 500),
            (Exception::prereq("no node `n9`", ErrorCode::UnknownEntity), 404),
            (Exception::prereq("there is one", ErrorCode::AlreadyExists), 409),
            (Exception::prereq("nonsense", ErrorCode::WrongInput), 400),
            (Exception::prereq(format!("x {CHANGED_MEANWHILE}"), ErrorCode::WrongState), 412),
            (Exception::new(ExceptionKind::JobQueueFull, "full"), 503),
            (Exception::exec("no room").coded(Code::Overloaded), 503),
            (Exception::new(ExceptionKind::TagError, "Tags cannot be empty"), 400),
        ] {
            assert_eq!(code(ClientError::Failure(Failure::Exception(exception))), status);
        }
    }
}
