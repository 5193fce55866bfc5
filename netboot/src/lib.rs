//! What an agent serves to its rack, from a rack document and without the master.
//!
//! In reading order: [`rack`] has the documents and compiles one for the interfaces that are there; [`dhcp`]
//! is the protocol, from packet to answer, [`leasing`] runs it, and [`lease_sync`] tells other agents of
//! leases, and [`token_claim`] has them agree on who tells a secret; [`boot`] serves scripts, kernels and
//! images by HTTP, and [`key_desk`] has the master answer for keys of disks; [`ledger`] keeps documents and
//! leases on disk, and [`outbox`] what was seen, until the master has it. `testing` (a feature) has racks for
//! tests. Nothing here knows jobs, or calls the master.
#![warn(missing_docs)]

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
