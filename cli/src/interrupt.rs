//! Ctrl-C while a job is followed: the job goes on, and the operator is told so.

use std::io::Write as _;

use indicatif::ProgressBar;
use model::JobId;
use nix::sys::signal::{SigSet, Signal};

use crate::error::Exit;

/// From now on Ctrl-C ends the program with a word on the job `id`; `line` is cleared before.
pub(crate) fn announce(id: JobId, line: Option<ProgressBar>) -> std::io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    // The mask is inherited by threads, so that only the one which waits gets the signal.
    signals.thread_block()?;
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
