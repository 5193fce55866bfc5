//! The client protocol (LUXI): how `gnt`, `rapi` and Ganeti's own clients talk to the master.
//!
//! A message is a JSON object and the byte ETX, over a Unix socket; requests and responses take
//! turns. Names of methods, the order of their arguments and the shapes of their results are
//! Ganeti's; what is ours is named `Gantry…`.
//!
//! In reading order: [`limits`] is every number there is, [`frame`] cuts the byte stream into messages,
//! and [`method`] is the table of methods. The two kinds of message are [`request`] and [`response`];
//! [`query`] is the language of lists and filters. Finally, [`server`] serves and [`client`] asks.
#![warn(clippy::indexing_slicing)]

pub mod limits;

pub mod frame;
pub mod method;
pub mod query;
pub mod request;
pub mod response;

pub mod client;
pub mod server;

pub use client::{Client, ClientError};
pub use limits::Limits;
pub use method::Method;
pub use request::Request;
pub use response::Response;
pub use server::{Caller, Door, Rights, Service, answer, listen, serve, within_deadline};
