//! Who is master: the rules, and what is known of the other members (docs/failover.md).
//!
//! The rules ask nobody, wait for nothing and write nothing. In reading order: [`amnesia`] tells
//! whether a member remembers its promises, [`job_ids`] whether its files do; [`confirm`] whether a
//! node may take the role; [`forced_takeover`] what an override does; [`automatic`] when a standby
//! tries without being asked; [`loss`] whether a majority remains where a voter leaves; [`pool`] which
//! nodes are candidates and which of them vote; [`acknowledged`] what members are known to hold.
//! [`peers`] is the way to the other members.

pub mod acknowledged;
pub mod amnesia;
pub mod automatic;
pub mod confirm;
pub mod forced_takeover;
pub mod job_ids;
pub mod loss;
pub mod peers;
pub mod pool;

#[cfg(test)]
mod tests;
