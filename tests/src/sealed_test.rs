//! Tests that run sealed, with the built programs.

use std::ffi::OsString;

use crate::sealed::{self, Sealed};
use crate::{place, skip};

/// Runs the body of a test sealed: the test's program starts itself again, for this test alone, by
/// the test's `name` without that of the program. Skipped loudly where that cannot be.
///
/// # Panics
/// If the test fails.
pub fn run(name: &str, body: impl FnOnce()) {
    if sealed::is_inside() {
        sealed::settle_in(end_process);
        return body();
    }
    if let Some(why) = sealed::missing() {
        return skip(name, &why);
    }
    let _built = place::programs();
    let arguments = [name, "--exact", "--nocapture"].map(OsString::from);
    let sealed = Sealed::start(&std::env::current_exe().unwrap(), &arguments);
    let status = sealed.wait();
    assert!(status.success(), "{name} failed inside its namespaces ({status}), see above");
}

/// Everything here ends with this process.
#[expect(clippy::exit, reason = "nobody is left to tell, and the threads may be anywhere")]
fn end_process() {
    std::process::exit(ENDED);
}

/// Exit status of a sealed process that was asked to end, as shells have it after Ctrl-C.
const ENDED: i32 = 130;
