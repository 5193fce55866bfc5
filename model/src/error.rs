//! Core: how an operation fails, in the names that Ganeti's clients know.
//!
//! An [`Exception`] is what a LUXI response carries as `result` when `success` is false, and what
//! a failed opcode keeps as its result in the job file: `[name, [arguments…]]`.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::code::Code;

macro_rules! exception_kinds {
    ($($(#[$doc:meta])* $kind:ident,)+) => {
        /// The class of a failure; the variant's name is the name on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ExceptionKind { $($(#[$doc])* $kind,)+ }

        impl ExceptionKind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)+ }
            }
        }
    };
}

exception_kinds! {
    /// Anything that has no class of its own.
    GenericError,
    /// A lock could not be had, or was removed.
    LockError,
    /// A bug of ours: an invariant did not hold.
    ProgrammerError,
    /// The configuration contradicts itself.
    ConfigurationError,
    /// A parameter is missing, unknown, or out of its range.
    ParameterError,
    /// The operation cannot begin: `(message, error code)`.
    OpPrereqError,
    /// The operation began and failed: `(message)`.
    OpExecError,
    /// The server knows no such opcode.
    OpCodeUnknown,
    /// The job is not, or no longer, in the queue.
    JobLost,
    JobCanceled,
    /// The job's file cannot be read.
    JobFileCorrupted,
    /// The queue refuses: `(message)`.
    JobQueueError,
    /// The queue is drained: no new job is taken.
    JobQueueDrainError,
    /// The queue holds as many jobs as it may.
    JobQueueFull,
    /// A name has no address.
    ResolverError,
    /// A value has the wrong type.
    TypeEnforcementError,
    /// A certificate is wrong.
    X509CertError,
    /// A tag is malformed.
    TagError,
    /// The request itself is malformed.
    LuxiError,
    /// A query's filter is malformed.
    QueryFilterParseError,
}

impl ExceptionKind {
    /// The code that every exception of this kind has, if any.
    const fn code(self) -> Option<Code> {
        match self {
            Self::JobQueueDrainError => Some(Code::Drained),
            Self::JobQueueFull => Some(Code::QueueFull),
            Self::ConfigurationError | Self::JobFileCorrupted => Some(Code::DocumentDamaged),
            Self::ProgrammerError => Some(Code::Fault),
            Self::GenericError
            | Self::LockError
            | Self::ParameterError
            | Self::OpPrereqError
            | Self::OpExecError
            | Self::OpCodeUnknown
            | Self::JobLost
            | Self::JobCanceled
            | Self::JobQueueError
            | Self::ResolverError
            | Self::TypeEnforcementError
            | Self::X509CertError
            | Self::TagError
            | Self::LuxiError
            | Self::QueryFilterParseError => None,
        }
    }
}

crate::words! {
    /// Second argument of an `OpPrereqError`: what kind of obstacle it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    ErrorCode {
        /// A name has no address.
        ResolverError = "resolver_error",
        /// There is not enough of something.
        InsufficientResources = "insufficient_resources",
        /// There is not enough of something at the moment.
        TempInsufficientResources = "temp_insufficient_resources",
        /// The request makes no sense.
        WrongInput = "wrong_input",
        /// The object is in a state that forbids it.
        WrongState = "wrong_state",
        /// There is no such object.
        UnknownEntity = "unknown_entity",
        /// There is one already.
        AlreadyExists = "already_exists",
        /// Something that must be unique is taken.
        ResourceNotUnique = "resource_not_unique",
        /// A bug of ours.
        InternalError = "internal_error",
        /// The surroundings of the cluster are at fault.
        EnvironmentError = "environment_error",
    }
}

/// A failure as clients see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    /// Its class.
    pub kind: ExceptionKind,
    /// Its arguments, the message first.
    pub args: Vec<Value>,
    /// The code for the operator, where its kind does not imply one. It travels beside the exception,
    /// never in it: Ganeti's clients print all that is in there.
    pub code: Option<Code>,
}

impl Exception {
    /// A failure of `kind` with one message.
    pub fn new(kind: ExceptionKind, message: impl Into<String>) -> Self {
        Self { kind, args: vec![Value::String(message.into())], code: None }
    }

    /// A failed precondition.
    pub fn prereq(message: impl Into<String>, code: ErrorCode) -> Self {
        Self {
            kind: ExceptionKind::OpPrereqError,
            args: vec![Value::String(message.into()), Value::from(code.as_str())],
            code: None,
        }
    }

    /// A failed execution.
    pub fn exec(message: impl Into<String>) -> Self {
        Self::new(ExceptionKind::OpExecError, message)
    }

    /// The same with a code, if there is one.
    pub fn coded(self, code: impl Into<Option<Code>>) -> Self {
        Self { code: code.into().or(self.code), ..self }
    }

    /// Its code, or that of its kind.
    pub fn code(&self) -> Option<Code> {
        self.code.or(self.kind.code())
    }

    /// The message, or nothing where there is none.
    pub fn message(&self) -> &str {
        self.args.first().and_then(Value::as_str).unwrap_or_default()
    }

    /// The `[name, arguments]` form as a value, for an opcode's result.
    pub fn to_value(&self) -> Value {
        Value::Array(vec![Value::from(self.kind.name()), Value::Array(self.args.clone())])
    }

    /// Reads the `[name, arguments]` form; `None` where `value` is something else.
    pub fn from_value(value: &Value) -> Option<Self> {
        let [Value::String(name), Value::Array(args)] = value.as_array()?.as_slice() else {
            return None;
        };
        let kind = *ExceptionKind::ALL.iter().find(|kind| kind.name() == name)?;
        Some(Self { kind, args: args.clone(), code: None })
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            "" => f.write_str(self.kind.name()),
            message => f.write_str(message),
        }
    }
}

impl std::error::Error for Exception {}

impl Serialize for Exception {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.kind.name(), &self.args).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Exception {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).ok_or_else(|| D::Error::custom("no encoded exception"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_form() {
        let e = Exception::prereq("no node `n9`", ErrorCode::UnknownEntity);
        let text = serde_json::to_string(&e).unwrap();
        assert_eq!(text, r#"["OpPrereqError",["no node `n9`","unknown_entity"]]"#);
        assert_eq!(serde_json::from_str::<Exception>(&text).unwrap(), e);
        assert_eq!(Exception::from_value(&e.to_value()).unwrap(), e);
        assert_eq!(e.to_string(), "no node `n9`");
    }

    #[test]
    fn every_kind_reads_back() {
        for &kind in ExceptionKind::ALL {
            let e = Exception::new(kind, "x");
            assert_eq!(Exception::from_value(&e.to_value()).unwrap().kind, kind);
        }
    }

    #[test]
    fn a_code_is_never_in_the_wire_form() {
        let plain = Exception::exec("x");
        let coded = plain.clone().coded(Code::Agent);
        assert_eq!((plain.code(), coded.code()), (None, Some(Code::Agent)));
        assert_eq!(coded.to_value(), plain.to_value());
        assert_eq!(coded.clone().coded(None), coded);
        assert_eq!(Exception::new(ExceptionKind::JobQueueFull, "x").code(), Some(Code::QueueFull));
    }
}
