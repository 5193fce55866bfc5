//! Core: a request as bytes: `{"method": …, "args": […]}`; other keys are ignored, as `version`. A
//! message that begins with `{"for": {…}, ` comes from the front door, on behalf of a client of its own.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use model::OpInput;
use model::audit::{Asker, Interface};
use model::job::RequestDigest;
use model::json::{self, Malformed};
use model::role::Role;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
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
    #[error("the message is no JSON object with `method` and `args`: {why}")]
    Envelope {
        /// The place of the fault, and the reason.
        why: Malformed,
    },
    /// There is no such method.
    #[error("unknown method `{name}`")]
    Method {
        /// The name that was asked for.
        name: String,
    },
    /// The arguments are not those of the method.
    #[error("{method} takes {arguments}: {why}")]
    Arguments {
        method: String,
        /// What it takes.
        arguments: &'static str,
        /// The place where they do not fit, and the reason.
        why: Malformed,
    },
}

/// How a message begins that is passed on for somebody.
const FOR: &[u8] = b"{\"for\":";

/// For whom the front door asks; what others write there is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Its name.
    pub user: String,
    /// Its role; none where the front door has decided by itself.
    pub role: Option<Role>,
    pub address: IpAddr,
}

impl Principal {
    /// As the audit log names it.
    pub fn asker(&self) -> Asker {
        let (user, address) = (self.user.as_str().into(), Some(self.address));
        Asker { user, interface: Interface::Rest, host: None, address, tenant: None }
    }
}

/// For whom a message is sent, if it says so. Only the word of the front door counts.
pub fn principal(message: &[u8]) -> Option<Principal> {
    #[derive(Deserialize)]
    struct Outer {
        r#for: Principal,
    }
    let says = message.starts_with(FOR);
    says.then(|| serde_json::from_slice(message).ok()).flatten().map(|Outer { r#for }| r#for)
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    args: &'a RawValue,
}

impl<'a> Envelope<'a> {
    fn read(text: &'a str) -> Result<Self, Malformed> {
        // The derived reader would take a list of the values, too.
        if text.trim_ascii_start().starts_with('[') {
            return Err(Malformed { place: String::new(), why: "it is a list".to_owned() });
        }
        json::read(text)
    }
}

/// A request whose method is named before its arguments, as clients write it.
struct InOnePass(Request);

impl<'de> Deserialize<'de> for InOnePass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOnePassVisitor).map(Self)
    }
}

struct InOnePassVisitor;

impl<'de> Visitor<'de> for InOnePassVisitor {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
        let mut method: Option<&'de str> = None;
        let mut request = None;
        while let Some(key) = map.next_key::<&'de str>()? {
            match key {
                "method" if method.is_none() => method = Some(map.next_value()?),
                "args" if request.is_none() => {
                    request = Some(map.next_value_seed(ArgumentsOf(method.unwrap_or_default()))?);
                }
                "method" | "args" => return Err(A::Error::custom("a key comes twice")),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        request.ok_or_else(|| A::Error::missing_field("args"))
    }
}

/// Reads the arguments of the method of this name.
struct ArgumentsOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ArgumentsOf<'_> {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Request, D::Error> {
        Request::read(self.0, deserializer)
            .unwrap_or_else(|| Err(D::Error::custom("there is no such method")))
    }
}

impl Request {
    /// Reads a message, without its ETX.
    ///
    /// # Errors
    /// [`ParseError`], which says what is wrong with it and where.
    pub fn parse(message: &[u8]) -> Result<Self, ParseError> {
        let text = utf8(message)?;
        match serde_json::from_str(text) {
            Ok(InOnePass(request)) => Ok(request),
            Err(_) => Self::parse_by_parts(text),
        }
    }

    /// As [`Request::parse`], whatever the order of the keys; an error is about the right part.
    fn parse_by_parts(text: &str) -> Result<Self, ParseError> {
        let envelope = Envelope::read(text).map_err(|why| ParseError::Envelope { why })?;
        let Some(arguments) = arguments_of(&envelope.method) else {
            let name = envelope.method.chars().take(QUOTED_MAX).collect();
            return Err(ParseError::Method { name });
        };
        let mut reader = serde_json::Deserializer::from_str(envelope.args.get());
        json::traced(&mut reader, |reader| ArgumentsOf(&envelope.method).deserialize(reader))
            .map_err(|why| ParseError::Arguments {
                why: Malformed { place: named(&why.place, arguments), ..why },
                method: envelope.method.into_owned(),
                arguments,
            })
    }

    /// The digest by which this request of the user `uid` is known when its arguments are sent again;
    /// `message` is what it was read from. None if it submits no job, or if another request may well
    /// have the same bytes. Only an opcode that says at which nanosecond it was asked for differs from
    /// all others.
    pub fn digest(&self, uid: u32, message: &[u8]) -> Option<RequestDigest> {
        let stamped =
            |ops: &[OpInput]| !ops.is_empty() && ops.iter().all(|op| op.common.is_stamped());
        let known = match self {
            Self::SubmitJob(call) => stamped(&call.ops),
            Self::SubmitJobToDrainedQueue(call) => stamped(&call.ops),
            Self::SubmitManyJobs(call) => call.jobs.iter().all(|ops| stamped(ops)),
            _ => false,
        };
        if !known {
            return None;
        }
        let envelope = Envelope::read(utf8(message).ok()?).ok()?;
        Some(RequestDigest::of(self.name(), uid, envelope.args.get().as_bytes()))
    }
}

fn utf8(message: &[u8]) -> Result<&str, ParseError> {
    std::str::from_utf8(message).map_err(|error| ParseError::Utf8 { at: error.valid_up_to() })
}

fn arguments_of(method: &str) -> Option<&'static str> {
    Request::TABLE.iter().find(|entry| entry.0 == method).map(|entry| entry.1)
}

/// A place in a list of arguments, where the first number is the place of one of them, by its name.
fn named(place: &str, arguments: &str) -> String {
    let split = place.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let Some((number, rest)) = split else { return place.to_owned() };
    let mut names = arguments.trim_matches(['[', ']']).split(", ");
    let name = number.parse().ok().and_then(|number| names.nth(number)).unwrap_or_default();
    let name = name.split_once(" = ").map_or(name, |(name, _default)| name);
    format!("{name}{rest}")
}

/// Writes the request for `call` to `buffer`, ETX included; what `buffer` held is dropped.
///
/// # Errors
/// [`FrameError::Etx`], which JSON as it is written here cannot cause.
pub fn write<M: Method>(call: &M, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    write_for(None, call, buffer)
}

/// The same of a request that is passed on for somebody.
///
/// # Errors
/// As [`write()`].
pub fn write_for<M: Method>(
    principal: Option<&Principal>,
    call: &M,
    buffer: &mut Vec<u8>,
) -> Result<(), FrameError> {
    #[derive(Serialize)]
    struct Outgoing<'a, M> {
        #[serde(skip_serializing_if = "Option::is_none")]
        r#for: Option<&'a Principal>,
        method: &'static str,
        args: &'a M,
    }
    buffer.clear();
    let outgoing = Outgoing { r#for: principal, method: M::NAME, args: call };
    serde_json::to_writer(&mut *buffer, &outgoing)
        .expect("arguments have no maps with other keys than text, and a vector takes every byte");
    frame::finish(buffer)
}

#[cfg(test)]
mod tests;
