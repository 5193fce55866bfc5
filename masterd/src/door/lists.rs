//! Rows of what the master has beside its objects: jobs, locks, filter rules; and the fields of what is not
//! there yet.

pub(crate) mod filter;
#[cfg(test)]
pub(crate) mod ganeti_tests;
pub mod job;
pub(crate) mod lock;
pub(crate) mod without_rows;
