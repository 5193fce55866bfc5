//! The real programs as an operator has them: started, used, killed and started again.
//!
//! Each module is one subject. [`main_job`] is what all of it is for, and [`rack`]
//! the rest of it; [`restart`],
//! [`kill_loop`] and [`upgrade`] are about ends and beginnings; [`locks`], [`operator`], [`enrol`], [`volume`], [`bytes`] and [`metrics`] about use;
//! [`bad_input`] about what should never happen.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod main_job;
mod rack;

mod kill_loop;
mod restart;
mod upgrade;

mod bytes;
mod enrol;
mod locks;
mod metrics;
mod operator;
mod volume;

mod bad_input;
