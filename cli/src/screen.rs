//! A list that fills the terminal and is drawn again in place, until `q` or Ctrl-C.

use std::io::{self, Write as _};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::termios::Termios;

use crate::error::{CliError, Exit};
use crate::keys::{Keys, restore};
use crate::session::pause;

/// How often a list is drawn again: a reader sees no more, and the master hardly notices.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// To a screen of its own, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Back to what was there before.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Rows of a terminal that does not say how many it has.
const USUAL_ROWS: usize = 24;

/// Draws what `lines` gives, again and again, `interval` apart, in whole seconds. The first line stays
/// on top when the rest does not fit; then the end of the rest is shown.
pub(crate) fn show(
    interval: Duration,
    mut lines: impl FnMut() -> Result<Vec<String>, CliError>,
) -> Result<(), CliError> {
    let keys = Keys::within_a_second();
    leave_when_interrupted(keys.as_ref().map(Keys::before))?;
    draw(ENTER)?;
    let done = loop {
        let frame = lines().and_then(|lines| draw(&frame(&lines, rows())));
        match frame.and_then(|()| is_over(keys.as_ref(), interval)) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    draw(LEAVE)?;
    done
}

/// Waits until the list is to be drawn again; whether the reader has seen enough. Any other key
/// draws it at once.
fn is_over(keys: Option<&Keys>, interval: Duration) -> Result<bool, CliError> {
    let Some(keys) = keys else {
        pause(interval);
        return Ok(false);
    };
    // Each look for a key waits a second.
    for _ in 0..interval.as_secs().max(1) {
        if let Some(key) = keys.next()? {
            return Ok(matches!(key, b'q' | b'Q'));
        }
    }
    Ok(false)
}

/// Ctrl-C leaves the screen as it was and ends the program.
fn leave_when_interrupted(before: Option<Termios>) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        if signals.wait().is_ok() {
            // The holder of the lock draws its frame to the end first, and no other follows.
            let mut stdout = io::stdout().lock();
            let left = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
            if let Some(before) = before {
                restore(&before);
            }
            let exit = if left.is_ok() { Exit::INTERRUPTED } else { Exit::CLOSED_PIPE };
            #[expect(clippy::exit, reason = "the main thread is in a read that nothing can wake")]
            std::process::exit(exit.0.into());
        }
    })?;
    Ok(())
}

fn draw(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn rows() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 1).unwrap_or(USUAL_ROWS)
}

/// One drawing of the screen, each line cut by the terminal and cleared behind its end.
fn frame(lines: &[String], rows: usize) -> String {
    let hidden = lines.len().saturating_sub(rows);
    let shown = lines.iter().take(1).chain(lines.iter().skip(hidden + 1));
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    // No automatic wrap: a line that is too long must not push the first one out.
    format!("\x1b[H\x1b[?7l{}\x1b[K\x1b[J\x1b[?7h", shown.join("\x1b[K\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_the_middle() {
        let lines: Vec<String> = (0..5).map(|line| line.to_string()).collect();
        let shown = |rows| {
            let frame = frame(&lines, rows);
            let text = frame.trim_start_matches("\x1b[H\x1b[?7l");
            text.trim_end_matches("\x1b[K\x1b[J\x1b[?7h").replace("\x1b[K\r\n", " ")
        };
        assert_eq!(shown(3), "0 3 4");
        assert_eq!(shown(5), "0 1 2 3 4");
        assert_eq!(shown(50), "0 1 2 3 4");
        assert_eq!(frame(&[], 5), "\x1b[H\x1b[?7l\x1b[K\x1b[J\x1b[?7h");
    }
}
