//! The lock manager: which job may touch what (Ganeti's 2.0 design, "Granular locking";
//! `docs/locking.md`).
//!
//! Cores first: [`name`] (what can be locked), `table` (who holds it), [`plan`] (which requests are
//! refused), `line` and [`waiting`] (who waits, and for what). The module [`explain`] says the same in
//! words. The shell that logical units use is [`manager`] and [`grant`].

pub mod explain;
pub mod grant;
mod line;
pub mod manager;
pub mod name;
pub mod plan;
mod table;
pub mod waiting;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;

pub use explain::{LockState, Wait};
pub use grant::Grant;
pub use manager::{LockError, Locks};
pub use name::{Level, LockName, Mode, Owner, Target};
pub use plan::Refused;
