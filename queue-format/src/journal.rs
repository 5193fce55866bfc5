//! The journal: a ring of pre-zeroed segments that makes changes durable before anyone sees them.
//!
//! The unit of writing is the *frame*: one checksummed block that holds one or more [`Record`]s and
//! counts whole or not at all. One `pwrite` writes it, and one `fdatasync` makes it durable. Only one
//! frame is ever in flight, so only the last one can be torn.
//!
//! In reading order: [`record`] is what a frame holds, [`frame`] is its form in bytes. After a crash,
//! [`live`] decides from bytes alone what a journal says; [`ring`] writes segment files.
//!
//! Records are shaped for a replication engine's log (entries with positions, votes, cuts); a
//! single master uses the same log and commits each entry by writing it.

pub mod frame;
pub mod live;
pub mod record;
pub mod ring;

pub use live::{Damage, Live};
pub use record::{Entry, Payload, Record};
pub use ring::{AppendError, Fill, Journal};

/// Directory of the segments below the data directory.
pub const DIRECTORY: &str = "journal";

/// File name of the segment with this number.
pub fn segment_name(number: usize) -> String {
    format!("segment-{number}")
}
