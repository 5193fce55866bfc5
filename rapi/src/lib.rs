//! The HTTPS front door. It reaches the master only through `luxi`.
//!
//! In reading order: [`master`] asks the master and follows it when it moves, [`link`] does that for many
//! requests at a time, [`refusal`] says in HTTP why something was not done. [`users`] reads who has which
//! password and role, [`tokens`] asks the master for those of programs, [`clients`] knows certificates, and
//! [`authenticate`] tells who asks; [`attempt`] keeps refusals for the audit, [`stamp`] tells whether such a
//! file has changed. [`state`] is what routes share, [`rules`] among it, [`shares`] what clients share,
//! [`front`] what every request goes through, [`origin`] by which name and site it came, [`kept`] where its
//! answer waits to be read, [`asked`] what a route sees of one, [`switches`] what may stand behind its path,
//! [`json`] reads its body, [`etag`] which state of an object its client saw; [`upload`] takes bodies that
//! are too long for memory, [`files`] gives such; [`ganeti`], [`sabakan`] and [`ramdisks`] are the
//! interfaces, [`routes`] describes them and [`openapi`] prints that for programs, [`page`] for people.
//! [`certificate`], [`certificate_files`], [`tls`], [`server`] and [`access_log`] are the way in, [`meters`]
//! count and [`metrics`] shows, [`options`] and [`daemon`] are the process.
#![warn(missing_docs)]

pub mod link;
pub mod master;
pub mod refusal;

pub mod authenticate;
pub mod clients;
pub mod stamp;
pub mod tokens;
pub mod users;

pub mod access_log;
pub mod attempt;
pub mod meters;
pub mod rules;
pub mod shares;
pub mod state;

pub mod asked;
pub mod etag;
pub mod files;
pub mod front;
pub mod ganeti;
pub mod json;
pub mod kept;
pub mod openapi;
pub mod origin;
pub mod page;
pub mod ramdisks;
pub mod routes;
pub mod sabakan;
pub mod switches;
pub mod upload;

pub mod certificate;
pub mod certificate_files;
pub mod server;
pub mod tls;

pub mod daemon;
pub mod metrics;
pub mod options;
