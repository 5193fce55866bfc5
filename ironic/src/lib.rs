//! Ironic's API for the agents in ramdisks (ironic-python-agent), as far as those use it: lookup,
//! heartbeat, and the end of an inspection.
//!
//! [`Door`] takes requests in. The function [`read`] makes an [`Asked`] of a request, without knowing a
//! machine. Then [`answer`] answers it from what is known of machines, and says what is to be kept. So a
//! front door can read, and the master answer.

use std::fmt;

use http::StatusCode;
use model::{Serial, Timestamp};
use serde::{Deserialize, Serialize};

mod asked;
mod body;
mod door;
mod heartbeat;
mod inspection;
mod json;
mod lldp;
mod lookup;
mod machines;
mod version;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use asked::{Asked, Question, Request, Route, read};
pub use body::Answer;
pub use door::{Arrival, Door, SMALL_BYTES};
pub use heartbeat::{HEARD_AGAIN_SECONDS, Heartbeat};
pub use inspection::Found;
pub use lookup::HEARTBEAT_TIMEOUT_SECONDS;
pub use machines::{Machines, Node, Origin, Several, booting, is_told, merged};
pub use version::{HEADERS, VERSION_MAX, VERSION_MIN, Version};

use body::refusal;
use model::rack::Observation;

/// Bytes of a heartbeat: one with a certificate has some 2 KiB. Ironic's own limit.
pub const HEARTBEAT_BYTES_MAX: usize = 1 << 20;
/// Bytes of an inspection, which may hold logs. Ironic's own limit.
pub const INSPECTION_BYTES_MAX: usize = 16 << 20;

/// A consequence of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    /// A request matches several machines, which is a trouble of the rack.
    Several(Several),
    /// A heartbeat had the token of an earlier boot than the newest: what sent it should not run any
    /// more.
    Outlived(Serial),
    /// Something was heard. With `is_vital`, it is durable before the answer leaves.
    Heard {
        observation: Box<Observation>,
        /// Whether a restart must not forget it: a token that was told, a new callback.
        is_vital: bool,
    },
}

/// An answer with its consequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub answer: Answer,
    /// Its consequence.
    pub effect: Effect,
}

impl Outcome {
    fn plain(answer: Answer) -> Self {
        Self { answer, effect: Effect::Nothing }
    }

    /// Not there, or not to be told: the same text for both, which discloses nothing.
    fn missing() -> Self {
        Self::plain(refusal(StatusCode::NOT_FOUND, "Resource could not be found."))
    }
}

impl Asked {
    /// The answer, where it is the same whatever is known of machines.
    pub fn fixed(&self) -> Option<Answer> {
        let answer = match &self.question {
            Question::Root => body::root(&self.base),
            Question::V1 => body::v1(&self.base),
            Question::Lookup { .. } | Question::Heartbeat(_) | Question::Inspection(_) => {
                return None;
            }
        };
        Some(answer.of_version(self.version))
    }

    /// The refusal of it, for a reason that machines do not give.
    pub fn refused(&self, status: StatusCode, why: &str) -> Answer {
        refusal(status, why).of_version(self.version)
    }
}

pub fn answer(asked: &Asked, machines: &impl Machines, now: Timestamp) -> Outcome {
    let Outcome { answer, effect } = match &asked.question {
        Question::Root => Outcome::plain(body::root(&asked.base)),
        Question::V1 => Outcome::plain(body::v1(&asked.base)),
        Question::Lookup { uuid, macs } => lookup::answer(asked, *uuid, macs, machines, now),
        Question::Heartbeat(told) => heartbeat::answer(told, machines, now),
        Question::Inspection(found) => inspection::answer(found, machines),
    };
    Outcome { answer: answer.of_version(asked.version), effect }
}

/// A text that came from a machine, cut to so many characters and without control characters.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n').take(most).collect()
}

/// Which machine is meant by a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ident {
    Uuid(uuid::Uuid),
    /// By its serial number, which is its name.
    Serial(Serial),
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.fmt(f),
            Self::Serial(serial) => serial.fmt(f),
        }
    }
}
