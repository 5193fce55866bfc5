//! The table of questions about the member itself. A question that is not in it cannot be asked; a
//! question that is in it and not answered does not compile.

use std::fmt::Debug;
use std::future::Future;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::{PeerFailure, PeerFailureKind};
use super::hello::Hello;
use crate::calls::TimeClass;

mod questions;

use model::role_check::RoleTaken;

pub use questions::*;

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlLine {
    /// Its mark on the wire; never used for another one.
    pub kind: u8,
    /// Its name, for logs and documents.
    pub name: &'static str,
    /// How long it may take, on both sides.
    pub class: TimeClass,
    /// Its purpose.
    pub about: &'static str,
}

/// A question: its parameters, and the type of its reply. Both travel as JSON.
pub trait ControlCall: Serialize + DeserializeOwned + Debug + Send + Sync + 'static {
    /// Its line of the table.
    const LINE: ControlLine;
    /// The member's answer.
    type Reply: Serialize + DeserializeOwned + Debug + Send + 'static;
}

macro_rules! controls {
    ($($(#[doc = $doc:literal])+ $kind:literal $name:ident: $call:ident -> $reply:ty, $class:ident;)+) => {
        $(impl ControlCall for $call {
            const LINE: ControlLine = ControlLine {
                kind: $kind,
                name: stringify!($name),
                class: TimeClass::$class,
                about: concat!($($doc),+).trim_ascii(),
            };
            type Reply = $reply;
        })+

        /// Every question, in the order of the table.
        pub const CONTROL_TABLE: &[ControlLine] = &[$($call::LINE,)+];

        /// Answers the questions about the member itself. A question may be repeated: the second
        /// one must not do harm.
        pub trait ControlService: Send + Sync + 'static {
            $(
                $(#[doc = $doc])+
                ///
                /// `from` is the first word of the connection; its node is the one of the
                /// certificate.
                fn $name(
                    &self,
                    from: &Hello,
                    call: $call,
                ) -> impl Future<Output = Result<$reply, PeerFailure>> + Send;
            )+
        }

        /// Answers one question from its bytes.
        pub(super) async fn answer<S: ControlService>(
            service: &S,
            from: &Hello,
            kind: u8,
            body: &[u8],
        ) -> Result<Bytes, PeerFailure> {
            match kind {
                $($kind => {
                    let call: $call = read(body)?;
                    let answering = service.$name(from, call);
                    let limit = <$call>::LINE.class.limit();
                    match tokio::time::timeout(limit, answering).await {
                        Ok(reply) => write::<$call>(&reply?),
                        Err(_elapsed) => Err(overdue(&<$call>::LINE)),
                    }
                })+
                unknown => Err(PeerFailure::unknown_question(unknown)),
            }
        }
    };
}

controls! {
    /// Position in the log, vote and state of the member.
    1 position: AskPosition -> PeerPosition, Urgent;
    /// Create the store of a new member if there is none; returns its incarnation.
    2 join: Join -> Joined, Fast;
    /// Wipe the store of a member or keep it aside, if it is the local one.
    3 purge: Purge -> (), Normal;
    /// Be elected, commit the log, and hand the lead over at once.
    4 lead_and_hand_over: LeadAndHandOver -> (), Normal;
    /// Digests of the store's content at a position, for a replica audit.
    5 digest: AskDigest -> PeerDigest, Normal;
    /// Take the master role, for an operator at another node.
    6 take_over: TakeOver -> RoleTaken, Normal;
}

fn read<C: ControlCall>(body: &[u8]) -> Result<C, PeerFailure> {
    serde_json::from_slice(body).map_err(|error| {
        let name = C::LINE.name;
        let message = format!("cannot read the parameters of `{name}`: {error}");
        PeerFailure::new(PeerFailureKind::Malformed, message)
    })
}

fn write<C: ControlCall>(reply: &C::Reply) -> Result<Bytes, PeerFailure> {
    serde_json::to_vec(reply).map(Bytes::from).map_err(|error| {
        let name = C::LINE.name;
        PeerFailure::failed(format!("the reply of `{name}` has no JSON form: {error}"))
    })
}

fn overdue(line: &ControlLine) -> PeerFailure {
    let (name, limit) = (line.name, line.class.limit().as_secs());
    PeerFailure::new(PeerFailureKind::Overdue, format!("`{name}` took longer than {limit} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_names_are_unique() {
        for (at, line) in CONTROL_TABLE.iter().enumerate() {
            let rest = &CONTROL_TABLE[at + 1..];
            assert!(rest.iter().all(|other| other.kind != line.kind && other.name != line.name));
        }
    }

    #[test]
    fn the_documentation_has_every_line() {
        let text = include_str!("../../../docs/replication.md");
        for ControlLine { kind, name, class, about } in CONTROL_TABLE {
            let row = format!("| {kind} | `{name}` | {} | {about} |", class.name());
            assert!(text.contains(&row), "docs/replication.md lacks the row\n{row}");
        }
    }
}
