//! A cluster of the real programs, for tests of the whole system.
//!
//! In reading order: [`cluster`] is a temporary root with a master and agents. They have loopback
//! addresses of their own, so that tests run side by side. Further nodes that can be master are
//! [`candidates`]. Commands are run by [`run`], which gives their outcome. Addresses and programs
//! come from [`place`], those of Ganeti from [`ganeti`]. A pair of network namespaces with a cable is
//! [`wire`], a switch with stations at its ports [`ovs`]; a file system that can end is [`loop_fs`]. A process whose namespaces and mounts end with
//! it is [`sealed`], a test in one [`sealed_test`]. Three nodes in such a process that meet real trouble
//! are [`testbed`]; trouble without end is [`soak`]. Busy clients are [`load`]. The disk is read by
//! [`inspect`], a page of metrics by [`page`]. Random numbers that can be repeated come from [`seed`].
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test which unwraps a surprise has done its job, and says what it saw"
)]

pub mod candidates;
pub mod cluster;
pub mod ganeti;
pub mod inspect;
pub mod load;
pub mod loop_fs;
pub mod ovs;
pub mod page;
pub mod place;
pub mod run;
pub mod sealed;
pub mod sealed_test;
pub mod seed;
pub mod soak;
pub mod testbed;
pub mod wire;

/// Whether this process is root, which network namespaces, mounts and other users need.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Says loudly that a test did not run; tools look for the word.
pub fn skip(what: &str, why: &str) {
    eprintln!("skipped: {what}: {why}");
}

/// The environment variable by which `cargo xtask test --long` asks for more.
const LONG: &str = "GANTRY_TEST_LONG";

/// Whether there is time for tests that take minutes; says loudly what is left out without.
pub fn has_time(what: &str) -> bool {
    let has = std::env::var_os(LONG).is_some();
    if !has {
        skip(what, "it takes minutes; `cargo xtask test --long` runs it");
    }
    has
}

/// How often something random is tried: `usual` times, or `many` where there is time for it.
pub fn tries(usual: u64, many: u64) -> u64 {
    if std::env::var_os(LONG).is_some() { many } else { usual }
}
