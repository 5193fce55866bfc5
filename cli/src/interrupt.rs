//! Ctrl-C while a job is followed: the job goes on, and the operator is told so.

use std::io::Write as _;

use indicatif::ProgressBar;
use model::JobId;
use nix::sys::signal::{SigSet, Signal};

use crate::error::Exit;

/// Ctrl-C that waits for [`announce`] to say what becomes of it.
#[derive(Debug)]
pub(crate) struct Held(SigSet);

/// Holds Ctrl-C back. Threads inherit this from the one that starts them, and one that did not
/// would take the signal and end the program: call it before any other thread is started.
pub(crate) fn hold() -> std::io::Result<Held> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(Held(signals))
}

/// From now on Ctrl-C ends the program with a word on the job `id`; `line` is cleared before.
pub(crate) fn announce(held: Held, id: JobId, line: Option<ProgressBar>) -> std::io::Result<()> {
    let Held(signals) = held;
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        if signals.wait().is_ok() {
            if let Some(line) = line {
                line.finish_and_clear();
            }
            let told =
                writeln!(std::io::stderr(), "Job {id} goes on. Follow it with: gnt job watch {id}");
            #[expect(clippy::exit, reason = "the main thread is in a read that nothing can wake")]
            std::process::exit(
                if told.is_ok() { Exit::INTERRUPTED } else { Exit::CLOSED_PIPE }.0.into(),
            );
        }
    })?;
    Ok(())
}
