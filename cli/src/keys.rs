//! Keys as they are pressed, without their echo on the terminal.

use std::io::{self, Write as _};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Tenths of a second, the terminal's unit of waiting.
const SECOND: u8 = 10;
/// Longest secret that is read: ten times what is ever asked for.
const SECRET_BYTES_MAX: usize = 2_048;

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_U: u8 = 21;
const BACKSPACE: [u8; 2] = [8, 127];
const ENTER: [u8; 2] = [b'\r', b'\n'];

/// Standard input as a terminal that gives each key at once; dropped, it is as it was.
pub(crate) struct Keys(Termios);

impl Keys {
    /// Keys for up to a second each. Ctrl-C is the signal that it usually is. `None` where standard
    /// input is no terminal.
    pub(crate) fn within_a_second() -> Option<Self> {
        Self::take(LocalModes::ECHO | LocalModes::ICANON, 0, SECOND)
    }

    fn take(without: LocalModes, least: u8, wait: u8) -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes -= without;
        quiet.special_codes[SpecialCodeIndex::VMIN] = least;
        quiet.special_codes[SpecialCodeIndex::VTIME] = wait;
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet).ok()?;
        Some(Self(before))
    }

    /// The next key; `None` if there is none in time.
    pub(crate) fn next(&self) -> io::Result<Option<u8>> {
        let mut key = [0];
        let length = rustix::io::read(io::stdin(), &mut key)?;
        Ok((length > 0).then_some(key[0]))
    }

    /// The earlier settings of the terminal, for a caller that ends the program without dropping this.
    pub(crate) fn before(&self) -> Termios {
        self.0.clone()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore(&self.0);
    }
}

/// Sets the terminal as it was. A terminal that is gone does not need it.
pub(crate) fn restore(before: &Termios) {
    tcsetattr(io::stdin(), OptionalActions::Now, before).unwrap_or_default();
}

/// Asks by `prompt` for a line and reads it, not shown; `None` if standard input is no terminal.
///
/// # Errors
/// Ctrl-C is one, of the kind `Interrupted`.
pub(crate) fn secret(prompt: &str) -> io::Result<Option<String>> {
    let modes = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    let Some(keys) = Keys::take(modes, 1, 0) else { return Ok(None) };
    // Asked only when the answer is not shown any more.
    let mut stderr = io::stderr().lock();
    write!(stderr, "{prompt}")?;
    stderr.flush()?;
    let mut line = Vec::new();
    loop {
        match keys.next()? {
            Some(CTRL_C) => {
                writeln!(stderr)?;
                return Err(io::ErrorKind::Interrupted.into());
            }
            Some(key) if ENTER.contains(&key) => break,
            None | Some(CTRL_D) => break,
            Some(CTRL_U) => line.clear(),
            Some(key) if BACKSPACE.contains(&key) => drop(line.pop()),
            Some(key) if line.len() < SECRET_BYTES_MAX => line.push(key),
            Some(_) => return Err(io::ErrorKind::FileTooLarge.into()),
        }
    }
    writeln!(stderr)?;
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}
