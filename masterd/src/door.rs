//! How requests of clients come in and are answered.
//!
//! In reading order: `metered` counts; `guard` lets in who may, by
//! `access`, `tenants` and [`users`], and writes [`audit_log`]; `router` gives a request to the master wherever it is,
//! by `forwarding_client` and `forwarding_server`. Else `redirect` says where to go; [`service`] answers
//! it. [`query_opcodes`] and [`lists`] are lists as opcodes and as rows; `metrics_page` is what
//! Prometheus gets.

pub(crate) mod access;
pub mod audit_log;
pub(crate) mod forwarding_client;
pub(crate) mod forwarding_server;
pub(crate) mod guard;
pub mod lists;
pub(crate) mod metered;
pub(crate) mod metrics_page;
pub mod query_opcodes;
pub(crate) mod redirect;
pub(crate) mod router;
pub mod service;
pub(crate) mod tenants;
pub mod users;
