//! Core: a response as bytes: `{"success": …, "result": …}`.
//!
//! There is never a `version`: clients of Ganeti compare it with their own when they see one.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use model::error::ExceptionKind;
use model::{Code, Coded, Exception, NodeName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::frame::ETX;
use crate::limits::{ANSWER_BYTES_MAX, SMALL_ANSWER_BYTES};
use crate::method::Method;
use crate::request::ParseError;

/// The beginning of what a master says that refuses what comes while it ends. Clients know it again:
/// nothing was done, and the master is only away.
pub const ENDING: &str = "The master daemon is ending";

/// The beginning of what a master says that ended before it could tell what came of a change. Clients
/// know it again: the next master may have it, or none.
pub const ENDED: &str = "The master daemon ended before the outcome was known";

/// The answer of a master that refuses a change since it hears no majority of the voters. Clients know
/// it again: nothing was done, and it may be asked again.
pub const CUT_OFF: &str = "This master hears no majority of the voters: nothing was done; try again, \
                           here when they are back, or on the new master";

/// The answer of a master that has heard no majority of the voters for a while, to a change that was
/// under way before. Clients know it again: another master may have it, or none.
pub const UNCONFIRMED: &str = "This master hears no majority of the voters any more: whether this was \
                               done is not known; look before you try again";

/// Ganeti's words; its clients know by them that the request itself was wrong.
const PARSE_FAILED: &str = "Failed to parse request: ";

/// A response ready to be sent, ETX included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response(Vec<u8>);

impl Response {
    /// Success with `result`; a failure if it is longer than [`ANSWER_BYTES_MAX`].
    pub fn success(result: &impl Serialize) -> Self {
        let mut bytes = Bounded(br#"{"success":true,"result":"#.to_vec());
        match serde_json::to_writer(&mut bytes, result) {
            Ok(()) => Self(close(bytes.0)),
            Err(error) if error.is_io() => {
                let text = format!(
                    "The answer is longer than {ANSWER_BYTES_MAX} bytes; ask for fewer objects or \
                     fewer fields"
                );
                let told = Exception::new(ExceptionKind::GenericError, text);
                Self::failure(&told.coded(Code::ChangeTooLarge))
            }
            Err(error) => {
                tracing::error!(%error, "result cannot be written as JSON");
                Self::internal_error()
            }
        }
    }

    /// Failure with an exception, and beside it the code, which Ganeti's clients pass over.
    pub fn failure(exception: &Exception) -> Self {
        let answer = Self::failed(exception);
        match exception.code {
            Some(code) => answer.with(&format!(r#","code":"{code}""#)),
            None => answer,
        }
    }

    /// The answer to a message that is no request.
    pub fn malformed(error: &ParseError) -> Self {
        Self::unreadable(&error.to_string())
    }

    /// The answer to a message that could not even be cut out of the stream.
    pub(crate) fn unreadable(why: &str) -> Self {
        Self::failed(&format!("{PARSE_FAILED}{why}"))
    }

    /// The answer when the server is at fault. The log has the rest.
    pub fn internal_error() -> Self {
        Self::failure(&Exception::new(ExceptionKind::ProgrammerError, "internal error"))
    }

    fn failed(result: &impl Serialize) -> Self {
        let mut bytes = br#"{"success":false,"result":"#.to_vec();
        serde_json::to_writer(&mut bytes, result)
            .expect("text and exceptions can always be written, and a vector takes every byte");
        Self(close(bytes))
    }

    /// Failure of a server that is no master, or is none any more. Ganeti's clients see the
    /// exception alone.
    pub fn not_master(exception: &Exception, about: &NotMaster) -> Self {
        let about = serde_json::to_string(about).expect("names and addresses have a JSON form");
        Self::failure(exception).with(&format!(r#","not_master":{about}"#))
    }

    /// An answer that another server gave, ETX included. None if it is no message.
    pub fn from_message(bytes: Vec<u8>) -> Option<Self> {
        (memchr::memchr(ETX, &bytes)? + 1 == bytes.len()).then_some(Self(bytes))
    }

    /// The same with a word that it may be old: the master that gives it has not heard a majority of
    /// the voters for so long. Ganeti's clients pass over the word.
    pub fn stale(self, silence: Duration) -> Self {
        let milliseconds = silence.as_millis();
        self.with(&format!(r#","stale":{{"silence_ms":{milliseconds}}}"#))
    }

    /// The same with a further key.
    fn with(self, more: &str) -> Self {
        let Self(mut bytes) = self;
        bytes.truncate(bytes.len().saturating_sub(END.len()));
        bytes.extend(more.as_bytes());
        Self(close(bytes))
    }

    /// Whether it gives what was asked for.
    pub fn is_success(&self) -> bool {
        self.as_bytes().starts_with(br#"{"success":true"#)
    }

    /// The bytes to send, for who sends them by another way.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes that end an answer.
const END: [u8; 2] = [b'}', ETX];

fn close(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(END);
    if bytes.len() > SMALL_ANSWER_BYTES {
        // It may be held for a while, and half of a long vector may be room to grow.
        bytes.shrink_to_fit();
    }
    bytes
}

/// A vector that takes so many bytes and no more.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > ANSWER_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The report of a server, beside the exception, where no master answered: `docs/luxi.md`, "Where the
/// master is".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMaster {
    /// The outcome of the request.
    pub outcome: Unserved,
    /// The master, as far as the server knows.
    #[serde(default)]
    pub master: Option<NodeName>,
    /// The address of the master, if it is known.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

/// The outcome of a request that no master answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unserved {
    /// Nothing was done. The same request may be answered by the same server when there is a master.
    Again,
    /// Nothing was done, and this server never passes requests on: the master's own has to be asked.
    Elsewhere,
    /// It is not known whether it was done: the master was lost before it answered. Also what a
    /// newer version added.
    #[serde(other)]
    Unknown,
}

/// A response that is no success.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No master answered.
    #[error("{exception}")]
    NotMaster {
        /// The server's words.
        exception: Exception,
        /// The same for a program.
        about: NotMaster,
    },
    /// The server answered with an exception.
    #[error(transparent)]
    Exception(Exception),
    /// The server answered with text, or with an exception of a class that is unknown here.
    #[error("{0}")]
    Refused(String),
    /// The message is no response, or its result not that of the method.
    #[error("the server's answer to {method} is malformed: {error}")]
    Malformed {
        /// The method that was called.
        method: &'static str,
        /// The fault in the answer.
        #[source]
        error: serde_json::Error,
    },
}

impl Coded for Failure {
    fn code(&self) -> Option<Code> {
        match self {
            Self::NotMaster { exception, about } => {
                exception.code().or(Some(match about.outcome {
                    Unserved::Again => Code::MasterUnreached,
                    Unserved::Elsewhere => Code::WrongNode,
                    Unserved::Unknown => Code::OutcomeUnknown,
                }))
            }
            Self::Exception(exception) => exception.code(),
            Self::Refused(_) => None,
            Self::Malformed { .. } => Some(Code::ProtocolMismatch),
        }
    }
}

/// The answer of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterReply<R> {
    /// The result of the method.
    pub reply: R,
    /// For how long the master has heard no majority of the voters, where this may be old.
    pub stale: Option<Duration>,
}

/// Reads the response to a call of `M`, without its ETX.
///
/// # Errors
/// [`Failure`].
pub fn read<M: Method>(message: &[u8]) -> Result<MasterReply<M::Reply>, Failure> {
    #[derive(Deserialize)]
    struct Stale {
        silence_ms: u64,
    }
    #[derive(Deserialize)]
    struct Incoming<'a> {
        success: bool,
        #[serde(borrow)]
        result: &'a RawValue,
        not_master: Option<NotMaster>,
        stale: Option<Stale>,
        code: Option<Cow<'a, str>>,
    }
    let malformed = |error| Failure::Malformed { method: M::NAME, error };
    let response: Incoming<'_> = serde_json::from_slice(message).map_err(malformed)?;
    if response.success {
        let reply = serde_json::from_str(response.result.get()).map_err(malformed)?;
        let stale = response.stale.map(|stale| Duration::from_millis(stale.silence_ms));
        return Ok(MasterReply { reply, stale });
    }
    let result: Value = serde_json::from_str(response.result.get()).map_err(malformed)?;
    let code = response.code.and_then(|word| Code::of_word(&word));
    let exception = Exception::from_value(&result).map(|exception| exception.coded(code));
    Err(match (exception, response.not_master) {
        (Some(exception), Some(about)) => Failure::NotMaster { exception, about },
        (Some(exception), None) => Failure::Exception(exception),
        (None, _) => Failure::Refused(plain(&result)),
    })
}

/// The text of a failure that is no exception we know: its message, or else all of it.
fn plain(result: &Value) -> String {
    let message = result.as_str().or_else(|| result.get(1)?.get(0)?.as_str());
    message.map_or_else(|| result.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use model::JobId;
    use model::error::ErrorCode;

    use super::*;
    use crate::method::{JobChange, SubmitJob, WaitForJobChange};

    fn text(answer: &Response) -> &str {
        std::str::from_utf8(answer.as_bytes()).unwrap()
    }

    fn reread<M: Method>(answer: &Response) -> Result<M::Reply, Failure> {
        let told = read::<M>(answer.as_bytes().strip_suffix(&[ETX]).unwrap())?;
        assert_eq!(told.stale, None);
        Ok(told.reply)
    }

    #[test]
    fn what_may_be_old_says_so() {
        let answer = Response::success(&JobId(37)).stale(Duration::from_millis(1500));
        let told = read::<SubmitJob>(answer.as_bytes().strip_suffix(&[ETX]).unwrap()).unwrap();
        assert_eq!(
            told,
            MasterReply { reply: JobId(37), stale: Some(Duration::from_millis(1500)) }
        );
    }

    #[test]
    fn shapes() {
        let answer = Response::success(&JobId(37));
        assert_eq!(text(&answer), "{\"success\":true,\"result\":37}\u{3}");
        assert!(answer.is_success());
        assert_eq!(reread::<SubmitJob>(&answer).unwrap(), JobId(37));
        let answer = Response::failure(&Exception::prereq("no", ErrorCode::WrongState));
        assert!(!answer.is_success());
        assert_eq!(
            text(&answer),
            "{\"success\":false,\"result\":[\"OpPrereqError\",[\"no\",\"wrong_state\"]]}\u{3}"
        );
        assert!(
            matches!(reread::<SubmitJob>(&answer), Err(Failure::Exception(e)) if e.message() == "no")
        );
        let coded = Exception::exec("no").coded(Code::Agent);
        let answer = Response::failure(&coded);
        assert_eq!(
            text(&answer),
            "{\"success\":false,\"result\":[\"OpExecError\",[\"no\"]],\"code\":\"agent\"}\u{3}"
        );
        let Err(Failure::Exception(told)) = reread::<SubmitJob>(&answer) else { panic!() };
        assert_eq!(told, coded);
        let newer = br#"{"success":false,"result":["OpExecError",["x"]],"code":"new"}"#;
        assert!(matches!(read::<SubmitJob>(newer), Err(Failure::Exception(e)) if e.code.is_none()));
        let answer = Response::unreadable("x");
        assert_eq!(
            text(&answer),
            "{\"success\":false,\"result\":\"Failed to parse request: x\"}\u{3}"
        );
        let answer = Response::success(&JobChange::Unchanged);
        assert_eq!(text(&answer), "{\"success\":true,\"result\":\"nochange\"}\u{3}");
        assert_eq!(reread::<WaitForJobChange>(&answer).unwrap(), JobChange::Unchanged);
    }

    #[test]
    fn where_the_master_is() {
        let exception = Exception::prereq("not here", ErrorCode::WrongState);
        let master = Some("n1.example".parse().unwrap());
        let about = NotMaster { outcome: Unserved::Again, master, address: None };
        let answer = Response::not_master(&exception, &about);
        assert_eq!(
            text(&answer),
            "{\"success\":false,\"result\":[\"OpPrereqError\",[\"not here\",\"wrong_state\"]],\
             \"not_master\":{\"outcome\":\"again\",\"master\":\"n1.example\",\"address\":null}}\u{3}"
        );
        let Err(Failure::NotMaster { about: told, .. }) = reread::<SubmitJob>(&answer) else {
            panic!("the word is lost")
        };
        assert_eq!(told, about);
        let later =
            br#"{"success":false,"result":["OpExecError",["x"]],"not_master":{"outcome":"new"}}"#;
        let Err(Failure::NotMaster { about, .. }) = read::<SubmitJob>(later) else { panic!() };
        assert_eq!(about.outcome, Unserved::Unknown);
    }

    #[test]
    fn an_answer_of_another_server_is_one_message() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        assert!(Response::from_message(bytes("{}\u{3}")).is_some());
        for wrong in ["", "{}", "{}\u{3}{", "{}\u{3}{}\u{3}"] {
            assert_eq!(Response::from_message(bytes(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_response_is_told() {
        for wrong in ["", "{}", "[]", r#"{"success":true}"#, r#"{"success":true,"result":"x"}"#] {
            let failure = read::<SubmitJob>(wrong.as_bytes()).unwrap_err();
            assert!(failure.to_string().contains("answer to SubmitJob"), "{failure}");
        }
        let unknown = br#"{"success":false,"result":["NewError",["too new"]]}"#;
        assert_eq!(read::<SubmitJob>(unknown).unwrap_err().to_string(), "too new");
    }
}
