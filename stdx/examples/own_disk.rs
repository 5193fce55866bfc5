//! A disk of one's own for each daemon that it is preloaded to: `fdatasync` takes the time of a flush
//! and does nothing else. So members of a cluster on one machine do not wait for each other's flushes
//! (`cargo xtask bench replication`). Nothing is made durable then.

use std::ffi::c_int;
use std::sync::LazyLock;
use std::time::Duration;

/// The variable with the time of a flush, in microseconds. The bench has the same name for it.
const FLUSH_US: &str = "GANTRY_BENCH_FLUSH_US";

/// None where nobody says how long: a daemon without a disk is to fail rather than to be fast.
static FLUSH: LazyLock<Option<Duration>> = LazyLock::new(|| {
    let us = std::env::var(FLUSH_US).ok()?.parse().ok()?;
    Some(Duration::from_micros(us))
});

thread_local! {
    /// Sleep as long as said: the kernel may add 50 µs otherwise, as much as a flush.
    static EXACT: bool = nix::sys::prctl::set_timerslack(1).is_ok();
}

/// In the place of the C library's.
#[expect(unsafe_code, reason = "a function of this name is what is wanted")]
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(_file: c_int) -> c_int {
    let Some(flush) = *FLUSH else {
        nix::errno::Errno::EIO.set();
        return -1;
    };
    if !EXACT.with(|exact| *exact) {
        nix::errno::Errno::ENOSYS.set();
        return -1;
    }
    #[expect(clippy::disallowed_methods, reason = "a flush keeps its thread waiting")]
    std::thread::sleep(flush);
    0
}
