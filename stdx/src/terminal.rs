//! Input that is typed and must not be seen.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 4_096;
/// Ctrl-C, which is no signal meanwhile: the terminal must be as it was before the program ends.
const CTRL_C: char = '\u{3}';

/// The terminal as it was.
#[derive(Debug)]
struct Before(Termios);

impl Drop for Before {
    fn drop(&mut self) {
        // A terminal that is gone needs it no more.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.0).unwrap_or_default();
    }
}

/// A terminal that gives every key to its program at once and shows none, until it is dropped.
#[derive(Debug)]
pub struct Raw(
    #[expect(dead_code, reason = "the terminal is as it was when this is dropped")] Before,
);

/// Makes the terminal of standard input raw; none where that is no terminal.
///
/// # Errors
/// The terminal does not let itself be changed.
pub fn raw() -> io::Result<Option<Raw>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let before = Before(tcgetattr(io::stdin())?);
    let mut raw = before.0.clone();
    raw.make_raw();
    tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
    Ok(Some(Raw(before)))
}

/// Asks by `prompt` for a line and reads it, not shown; none where standard input is no terminal.
///
/// # Errors
/// It cannot be read; Ctrl-C is an error of the kind `Interrupted`.
pub fn hidden_line(prompt: &str) -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let before = Before(tcgetattr(io::stdin())?);
    let mut quiet = before.0.clone();
    quiet.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
    tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
    let mut stderr = io::stderr().lock();
    write!(stderr, "{prompt}")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line)?;
    drop(before);
    writeln!(stderr)?;
    if line.contains(CTRL_C) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}
