//! The HTTPS front door. It reaches the master only through `luxi`.
//!
//! Nothing is served yet. What is here is the way to the master: [`master`] asks and follows it when
//! it moves, [`refusal`] says in HTTP why there was no answer.
#![warn(missing_docs)]

pub mod master;
pub mod refusal;
