//! The real programs as an operator has them: started, used, killed and started again.
//!
//! Each module is one subject. [`main_job`] is what all of it is for, and [`rack`] the rest of it;
//! [`restart`] and [`kill_loop`] are about ends and beginnings, [`resent`] about submissions across
//! them, [`killed`] about jobs that are killed; [`locks`], [`operator`], [`enrol`], [`volume`],
//! [`waiting`], [`delay`], [`ganeti_socket`] and [`bytes`] about use; [`bad_input`] about what
//! should never happen.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod main_job;
mod rack;

mod kill_loop;
mod killed;
mod resent;
mod restart;

mod bytes;
mod delay;
mod enrol;
mod ganeti_socket;
mod locks;
mod operator;
mod volume;
mod waiting;

mod bad_input;
