//! The findings of a check of the cluster: the lines of Ganeti's `gnt-cluster verify`, which scripts
//! read.
//!
//! [`configuration`] looks at the configuration alone, [`node`] at what an agent says of itself, [`members`] at
//! which candidates answer and have a copy; [`units`] are the opcodes.

pub mod configuration;
mod instances;
pub mod members;
pub mod node;
pub mod units;
