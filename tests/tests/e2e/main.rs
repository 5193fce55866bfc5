//! The real programs as an operator has them: started, used, killed and started again.
//!
//! Each module is one subject. [`main_job`] is what all of it is for; [`restart`] and
//! [`kill_loop`] are about ends and beginnings; [`locks`], [`operator`] and [`enrol`] about use;
//! [`bad_input`] about what should never happen.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod main_job;

mod kill_loop;
mod restart;

mod locks;
mod operator;
