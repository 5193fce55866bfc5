//! Real firmware boots from a rack's agents: guests of QEMU, one test at a time.

#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod boot;
mod host_network;
mod life;
