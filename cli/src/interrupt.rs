//! Ctrl-C while a job is followed: the job goes on, and the operator is told so.

use std::io::Write as _;

use indicatif::ProgressBar;
use model::JobId;
use nix::sys::signal::{SigSet, Signal};
use parking_lot::Mutex;

use crate::error::Exit;

/// The job that is followed at the moment, and the live line that shows it. Signals come to the whole
/// process, and so is this of the whole process.
static FOLLOWED: Mutex<Option<(JobId, Option<ProgressBar>)>> = Mutex::new(None);

/// Whether somebody waits for Ctrl-C already.
static AWAITED: Mutex<bool> = Mutex::new(false);

/// Ctrl-C that waits for [`announce`] to say what becomes of it.
#[derive(Debug)]
pub(crate) struct Held(SigSet);

/// Ctrl-C has a word on a job until this is dropped.
#[derive(Debug)]
pub(crate) struct Announced(());

impl Drop for Announced {
    fn drop(&mut self) {
        FOLLOWED.lock().take();
    }
}

/// Holds Ctrl-C back. Threads inherit this from the one that starts them. A thread that did not would
/// take the signal and end the program, so call this before any other thread is started.
pub(crate) fn hold() -> std::io::Result<Held> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(Held(signals))
}

/// From now on Ctrl-C ends the program; with a word on the job `id`, whose `line` is cleared before,
/// until what is given here is dropped.
pub(crate) fn announce(
    held: Held,
    id: JobId,
    line: Option<ProgressBar>,
) -> std::io::Result<Announced> {
    *FOLLOWED.lock() = Some((id, line));
    let announced = Announced(());
    let mut is_awaited = AWAITED.lock();
    if !*is_awaited {
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || end_by(&held))?;
        *is_awaited = true;
    }
    Ok(announced)
}

/// Waits for Ctrl-C, and ends the program.
fn end_by(Held(signals): &Held) {
    if signals.wait().is_err() {
        return;
    }
    let told = match FOLLOWED.lock().take() {
        None => Ok(()),
        Some((id, line)) => {
            if let Some(line) = line {
                line.finish_and_clear();
            }
            writeln!(std::io::stderr(), "Job {id} goes on. Follow it with: gnt job watch {id}")
        }
    };
    #[expect(clippy::exit, reason = "the main thread is in a read that nothing can wake")]
    std::process::exit(if told.is_ok() { Exit::INTERRUPTED } else { Exit::CLOSED_PIPE }.0.into());
}
