//! The place of a test's cluster: the built programs, and loopback addresses of its own.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{Flock, FlockArg};
use xtask::programs::{self, Profile, Programs};

use crate::sealed;

/// Names one run of all tests, where every test is a process of its own.
const RUN_ID: &str = "NEXTEST_RUN_ID";
/// Addresses that one test process may take before it meets those of the next.
const ADDRESSES_PER_PROCESS: u32 = 64;
/// Addresses 127.X.Y.Z with X and Z from 1 to 254.
const ADDRESSES: u32 = 254 * 256 * 254;

/// The programs, built when first asked for; once for all tests of a run.
pub fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| match std::env::var(RUN_ID) {
        // The process that sealed this one has built them.
        _ if sealed::is_inside() => Programs::built(Profile::Debug),
        Ok(run) => built_in(&run),
        Err(_one_process) => Programs::build(Profile::Debug, programs::NODE).unwrap(),
    })
}

/// The first process of the run builds, the others wait for it.
fn built_in(run: &str) -> Programs {
    let built = Programs::built(Profile::Debug);
    fs::create_dir_all(built.dir()).unwrap();
    let stamp = built.dir().join("gantry-tests-built");
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&stamp);
    let lock = Flock::lock(open.unwrap(), FlockArg::LockExclusive).map_err(|(_, errno)| errno);
    let lock = lock.unwrap();
    if fs::read_to_string(&stamp).unwrap() != run {
        Programs::build(Profile::Debug, programs::NODE).unwrap();
        stdx::atomic::write(&stamp, run.as_bytes(), 0o644).unwrap();
    }
    drop(lock);
    built
}

/// A loopback address that no other test uses now.
pub fn address() -> Ipv4Addr {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
    let number = std::process::id().wrapping_mul(ADDRESSES_PER_PROCESS).wrapping_add(taken);
    let number = number % ADDRESSES;
    let octet = |value: u32| u8::try_from(value).expect("a remainder of at most 256");
    Ipv4Addr::new(
        127,
        1 + octet(number / (254 * 256)),
        octet(number / 254 % 256),
        1 + octet(number % 254),
    )
}
