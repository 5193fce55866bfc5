//! The rules for the master role, and the knowledge of the other members (docs/failover.md).
//!
//! The rules ask nobody, wait for nothing and write nothing. In reading order: [`amnesia`] tells whether
//! a member remembers its promises, [`job_ids`] whether its files do. A node may take the role if
//! [`confirm`] says so; [`forced_takeover`] computes an override. A standby tries without being asked by
//! the rule of [`automatic`]. A voter may leave where a majority remains, says [`loss`]. The candidates
//! and the voters are those of [`pool`]; [`acknowledged`] is what members are known to hold. The way to
//! the other members is [`peers`].

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
