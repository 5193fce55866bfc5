//! Core: a request as bytes: `{"method": …, "args": […]}`; other keys are ignored, as `version`.

use std::borrow::Cow;

use model::OpInput;
use model::job::RequestDigest;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::frame::{self, FrameError};
pub use crate::method::Call as Request;
use crate::method::Method;

/// Longest piece of a client's own text that an error repeats.
const QUOTED_MAX: usize = 64;

/// A message that is no request. Clients get it as text after `Failed to parse request: `.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not UTF-8.
    #[error("the message is not UTF-8 at offset {at}")]
    Utf8 {
        /// The first wrong byte.
        at: usize,
    },
    /// Not JSON, or not an object with both keys.
    #[error("the message is no JSON object with `method` and `args`: {error}")]
    Envelope {
        /// Where and why not.
        #[source]
        error: serde_json::Error,
    },
    /// There is no such method.
    #[error("unknown method `{name}`")]
    Method {
        /// What was asked for.
        name: String,
    },
    /// The arguments are not those of the method.
    #[error("{method} takes {arguments}: {error}")]
    Arguments {
        /// The method.
        method: String,
        /// What it takes.
        arguments: &'static str,
        /// Where and why they do not fit; places are counted from the beginning of the list.
        #[source]
        error: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    args: &'a RawValue,
}

impl<'a> Envelope<'a> {
    fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        // The derived reader would take a list of the values, too.
        if text.trim_ascii_start().starts_with('[') {
            return Err(serde_json::Error::custom("it is a list"));
        }
        serde_json::from_str(text)
    }
}

impl Request {
    /// Reads a message, without its ETX.
    ///
    /// # Errors
    /// [`ParseError`], which says what is wrong with it and where.
    pub fn parse(message: &[u8]) -> Result<Self, ParseError> {
        Self::parse_with_arguments(message).map(|(request, _arguments)| request)
    }

    /// As [`Request::parse`]; gives the text of the arguments too, as it was sent.
    ///
    /// # Errors
    /// [`ParseError`], which says what is wrong with it and where.
    pub fn parse_with_arguments(message: &[u8]) -> Result<(Self, &str), ParseError> {
        let text = std::str::from_utf8(message)
            .map_err(|error| ParseError::Utf8 { at: error.valid_up_to() })?;
        let envelope = Envelope::read(text).map_err(|error| ParseError::Envelope { error })?;
        match Self::read(&envelope.method, envelope.args.get()) {
            Some(Ok(request)) => Ok((request, envelope.args.get())),
            Some(Err(error)) => Err(ParseError::Arguments {
                arguments: arguments_of(&envelope.method),
                method: envelope.method.into_owned(),
                error,
            }),
            None => {
                let name = envelope.method.chars().take(QUOTED_MAX).collect();
                Err(ParseError::Method { name })
            }
        }
    }

    /// What this request of the user `uid` is known by when it is sent again, with `arguments` as
    /// they were sent. None if it submits no job, or if another request may well have the same
    /// bytes: only an opcode that says at which nanosecond it was asked for differs from all others.
    #[must_use]
    pub fn digest(&self, uid: u32, arguments: &str) -> Option<RequestDigest> {
        let stamped =
            |ops: &[OpInput]| !ops.is_empty() && ops.iter().all(|op| op.common.is_stamped());
        let known = match self {
            Self::SubmitJob(call) => stamped(&call.ops),
            Self::SubmitJobToDrainedQueue(call) => stamped(&call.ops),
            Self::SubmitManyJobs(call) => call.jobs.iter().all(|ops| stamped(ops)),
            _ => false,
        };
        known.then(|| RequestDigest::of(self.name(), uid, arguments.as_bytes()))
    }
}

fn arguments_of(method: &str) -> &'static str {
    Request::TABLE.iter().find(|entry| entry.0 == method).map_or("", |entry| entry.1)
}

/// Writes the request for `call` to `buffer`, ETX included; what `buffer` held is dropped.
///
/// # Errors
/// [`FrameError::Etx`], which JSON as it is written here cannot cause.
pub fn write<M: Method>(call: &M, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    #[derive(Serialize)]
    struct Outgoing<'a, M> {
        method: &'static str,
        args: &'a M,
    }
    buffer.clear();
    serde_json::to_writer(&mut *buffer, &Outgoing { method: M::NAME, args: call })
        .expect("arguments have no maps with other keys than text, and a vector takes every byte");
    frame::finish(buffer)
}

#[cfg(test)]
mod tests;
