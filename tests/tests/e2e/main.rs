//! The real programs as an operator has them: started, used, killed and started again.
//!
//! Each module is one subject. [`main_job`] is what all of it is for, and [`rack`]
//! the rest of it; [`restart`] and
//! [`kill_loop`] are about ends and beginnings; [`locks`], [`filters`], [`operator`], [`enrol`],
//! [`volume`] and [`bytes`] about use; [`ganeti`], [`bare_values`] and [`ganeti_cli`] about the use
//! by Ganeti's clients;
//! [`bad_input`] about what should never happen.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod main_job;
mod rack;

mod kill_loop;
mod restart;

mod bare_values;
mod bytes;
mod enrol;
mod filters;
mod ganeti;
mod ganeti_cli;
mod locks;
mod operator;
mod volume;

mod bad_input;
