//! The HTTPS front door. It reaches the master only through `luxi`.
//!
//! In reading order. The way to the master: [`master`] asks it and follows it when it moves, [`master_pool`]
//! does so for many requests at a time, [`refusal`] says failures in HTTP. The users: [`users`] reads
//! their passwords and roles, [`tokens`] asks the master for tokens of programs, [`clients`] knows
//! certificates, [`authenticate`] tells who asks. Beside them, [`denied`] keeps refusals for the audit,
//! and [`stamp`] tells whether a file has changed. The shared state of routes is [`state`], with the
//! [`rules`] of addresses; clients share [`shares`]. Every request goes through [`front`]; [`origin`]
//! tells the name and the site by which it came, and [`kept`] holds its answer until it is read. A route
//! sees it as [`route_request`]; [`switches`] tells what may stand behind its path, [`json`] reads its body,
//! [`etag`] tells which state of an object its client saw. Bodies that are too long for memory come by
//! [`upload`] and go by [`files`]. The interfaces are [`ganeti`], [`sabakan`], our own [`objects`] at their
//! [`paths`], and [`ramdisks`];
//! [`routes`] describes them, [`openapi`] prints that for programs, [`page`] for people. The way in is
//! [`certificate`], [`certificate_files`], [`tls`], [`server`] and [`access_log`]; [`meters`] count and
//! [`metrics`] shows. The process is [`options`] and [`daemon`].

pub mod master;
pub mod master_pool;
pub mod refusal;

pub mod authenticate;
pub mod clients;
pub mod stamp;
pub mod tokens;
pub mod users;

pub mod access_log;
pub mod denied;
pub mod meters;
pub mod rules;
pub mod shares;
pub mod state;

pub mod etag;
pub mod files;
pub mod front;
pub mod ganeti;
pub mod json;
pub mod kept;
pub mod objects;
pub mod openapi;
pub mod origin;
pub mod page;
pub mod paths;
pub mod ramdisks;
pub mod route_request;
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
