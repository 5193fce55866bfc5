//! The parts of the cluster: nodes, groups, settings, tags, tokens. Each subject has its logical units,
//! the fields of its lists beside them, and what is checked of it.
//!
//! In reading order: [`node`] and [`group`]; [`settings`] of the cluster, also those for
//! instances; [`tags`] and [`token`]. Then [`renew`] of keys and certificates, and [`master_ip`].
//! Finally, [`verify`] compares what is with what should be; [`mod@test`] has the opcodes for tests.

pub mod group;
pub mod master_ip;
pub mod node;
pub mod renew;
pub mod settings;
pub mod tags;
pub mod test;
pub mod token;
pub mod verify;
