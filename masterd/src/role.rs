//! Who is master: the rules, without anything that asks, waits or writes (DESIGN §7, decision 5).
//!
//! In reading order: [`amnesia`] tells whether a member remembers what it said, [`job_ids`] whether its files do; [`confirm`] whether
//! a node may take the role; [`taking`] what an override does; [`automatic`] when a standby tries by itself; [`cut_off`] what a master may still do
//! that hears no majority; [`loss`] whether one is left where a voter goes; [`pool`] which nodes are candidates and which of them vote.

pub mod acknowledged;
pub mod amnesia;
pub mod automatic;
pub mod confirm;
pub mod job_ids;
pub mod loss;
pub mod pool;
pub mod taking;

#[cfg(test)]
mod tests;
