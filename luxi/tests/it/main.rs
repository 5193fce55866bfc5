//! The server and the client over real sockets, with a service that is small enough to know.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod client;
mod conversation;
mod docs;
mod hostile;
mod overdue;
mod toy;
