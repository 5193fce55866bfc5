//! The HTTPS front door. It reaches the master only through `luxi`.
//!
//! In reading order: [`master`] asks the master and follows it when it moves, [`link`] does that for many
//! requests at a time, [`refusal`] says in HTTP why something was not done. [`users`] reads who has which
//! password and role, [`authenticate`] tells who asks. [`front`] is what every request goes through,
//! [`asked`] what a route sees of one; [`ganeti`] and [`sabakan`] are the two interfaces. [`certificate`], [`server`] and [`access_log`] are the way in, [`metrics`] counts,
//! [`options`] and [`daemon`] are the process.
#![warn(missing_docs)]

pub mod link;
pub mod master;
pub mod refusal;

pub mod authenticate;
pub mod stamp;
pub mod users;

pub mod access_log;
pub mod asked;
pub mod etag;
pub mod front;
pub mod ganeti;
pub mod sabakan;

pub mod certificate;
pub mod server;

pub mod daemon;
pub mod metrics;
pub mod options;
