//! Requests of clients that one member passes on to the master: `{"uid": …, "gid": …, "role": …}`, ETX,
//! the request. The content of requests and answers is the business of LUXI's client and server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use model::audit::Asker;
use model::role::Role;
use serde::{Deserialize, Serialize};

use super::client::{Link, PeerError};
use super::failure::{PeerFailure, PeerFailureKind};
use super::hello::Hello;

/// Mark of the one question that there is.
const REQUEST_KIND: u8 = 1;
/// The byte between who asks and the request: JSON cannot contain it (ASCII 3, "end of text").
const ETX: u8 = 3;

/// The sender of a request, by the word of the member that passes it on: the numbers are those of its
/// machine. Fields that are not known are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    uid: u32,
    gid: u32,
    /// Versions without it have but the socket of administrators.
    #[serde(default = "administrator")]
    role: Option<Role>,
    #[serde(default)]
    asker: Option<Asker>,
}

const fn administrator() -> Option<Role> {
    Some(Role::Administrator)
}

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The client's user, on the machine of who passes it on.
    pub uid: u32,
    /// Its group there.
    pub gid: u32,
    /// Its role there.
    pub role: Option<Role>,
    /// Its name, and where it asked.
    pub asker: Option<Asker>,
    /// The request as the client sent it, without its end.
    pub message: Bytes,
}

impl Passed {
    /// The bytes before the message on the wire.
    fn head(&self) -> Vec<u8> {
        let Self { uid, gid, role, .. } = *self;
        let head = Head { uid, gid, role, asker: self.asker.clone() };
        let mut head = serde_json::to_vec(&head).expect("numbers and names have a JSON form");
        head.push(ETX);
        head
    }

    fn read(body: Bytes) -> Result<Self, PeerFailure> {
        let malformed = |why: String| {
            let text = format!("cannot read who passes a request on: {why}");
            PeerFailure::new(PeerFailureKind::Malformed, text)
        };
        let end = body.iter().position(|byte| *byte == ETX);
        let end = end.ok_or_else(|| malformed("its end is missing".to_owned()))?;
        let Head { uid, gid, role, asker } =
            serde_json::from_slice(&body[..end]).map_err(|error| malformed(error.to_string()))?;
        Ok(Self { uid, gid, role, asker, message: body.slice(end + 1..) })
    }
}

/// The answer to a request that is being worked on.
pub type Passing<'a> = Pin<Box<dyn Future<Output = Result<Bytes, PeerFailure>> + Send + 'a>>;

/// Answers requests that other members pass on.
///
/// The future is dropped when the member closes the connection: its client has left. A change that has
/// begun must not depend on the future any more.
pub trait ClientService: fmt::Debug + Send + Sync + 'static {
    /// Answers one request; `from` is the first word of the connection, and its node the one of the
    /// certificate. A failure that is certain ([`PeerFailure::certainly_not_done`]) means that
    /// nothing was done.
    fn answer<'a>(&'a self, from: &'a Hello, passed: Passed) -> Passing<'a>;
}

/// Answers a question on a connection for clients' requests.
pub(super) async fn answer(
    service: Option<&dyn ClientService>,
    from: &Hello,
    kind: u8,
    body: Bytes,
) -> Result<Bytes, PeerFailure> {
    match service {
        Some(service) if kind == REQUEST_KIND => service.answer(from, Passed::read(body)?).await,
        _ => Err(PeerFailure::unknown_question(kind)),
    }
}

/// A link for requests of clients: one at a time.
#[derive(Debug)]
pub struct PassLink(Link);

impl PassLink {
    pub(super) fn new(link: Link) -> Self {
        Self(link)
    }

    /// The first word of its connections.
    pub fn hello(&self) -> &Hello {
        self.0.hello()
    }

    /// Makes the connection for the next request, if there is none.
    ///
    /// # Errors
    /// As [`Link::reach`].
    pub async fn reach(&mut self, limit: Duration) -> Result<(), PeerError> {
        self.0.reach(limit).await
    }

    /// Passes a request on, once, and waits at most `limit` for the answer. Dropping the future
    /// closes the connection, and ends the request there.
    ///
    /// # Errors
    /// As [`Link::ask`].
    pub async fn pass(&mut self, passed: &Passed, limit: Duration) -> Result<Bytes, PeerError> {
        self.0.ask(REQUEST_KIND, &[&passed.head(), &passed.message], limit).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(uid: u32, gid: u32, message: Vec<u8>) {
            let (role, asker) = (Some(Role::Read), None);
            let passed = Passed { uid, gid, role, asker, message: message.into() };
            let mut body = passed.head();
            body.extend_from_slice(&passed.message);
            prop_assert_eq!(Passed::read(body.into()).unwrap(), passed);
        }

        #[test]
        fn reading_is_total(body: Vec<u8>) {
            if let Err(failure) = Passed::read(body.into()) {
                prop_assert!(failure.certainly_not_done());
            }
        }
    }

    #[test]
    fn later_fields_are_passed_over() {
        let read =
            Passed::read(Bytes::from_static(b"{\"uid\":1,\"gid\":2,\"x\":[]}\x03{}")).unwrap();
        let (role, asker) = (Some(Role::Administrator), None);
        let message = Bytes::from_static(b"{}");
        assert_eq!(read, Passed { uid: 1, gid: 2, role, asker, message });
    }
}
