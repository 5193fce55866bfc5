//! The role of master: who has it, and what a member of the replication does. The rules are in the crate
//! `membership`; this asks and carries out.
//!
//! In reading order: [`precheck`] asks everyone before a failover, and `elected` ends it; [`load`] reads the
//! store, with `prefetch` of its jobs. Then [`replicate`] has the store followed by `members`, of which
//! [`local_member`] is this one; `follow` keeps up with what is committed. [`majority`] stops a master
//! that hears too few; [`standing`] tells how members stand; [`replicas`] and [`replica_audit`] find
//! copies that differ.

pub(crate) mod elected;
pub(crate) mod follow;
pub mod load;
pub mod local_member;
pub mod majority;
pub(crate) mod members;
pub mod precheck;
pub(crate) mod prefetch;
pub mod replica_audit;
pub mod replicas;
pub mod replicate;
pub mod standing;
