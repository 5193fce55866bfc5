//! The services of an agent to its rack, from a rack document and without the master.
//!
//! In reading order: [`rack`] has the documents and compiles one for the interfaces that are there. The
//! protocol is [`dhcp`], from packet to answer; [`leasing`] runs it. Other agents learn of leases by
//! [`lease_sync`], and agree by [`token_claim`] on who tells a secret. Machines get scripts, kernels and
//! images from [`boot`] by HTTP, and the master's answers on keys of disks from [`key_desk`]. Documents
//! and leases are on disk in the [`ledger`]; the [`outbox`] keeps what was seen, until the master has
//! it. `testing` (a feature) has racks for tests. Nothing here knows jobs, or calls the master.

pub mod boot;
pub mod dhcp;
pub mod key_desk;
pub mod lease_sync;
pub mod leasing;
pub mod ledger;
pub mod outbox;
pub mod rack;
pub mod token_claim;

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "it is for tests")]
pub mod testing;
