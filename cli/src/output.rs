//! Output to the terminal, or to whoever reads it: text from outside as a terminal may show it.

use std::fmt::Display;
use std::io::{self, Write as _};

use serde::Serialize;
use stdx::text;

use crate::error::CliError;

/// Writes one line to standard output, whatever the text holds.
pub(crate) fn say(text: impl Display) -> Result<(), CliError> {
    print(&text::line(&text.to_string()))
}

/// Writes lines to standard output.
pub(crate) fn say_lines(lines: &str) -> Result<(), CliError> {
    print(&text::lines(lines))
}

/// Writes a value as JSON to standard output, so that it is easy to read.
pub(crate) fn say_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value);
    print(&text::json(&text.expect("what came as JSON, or is plain values, can be written so")))
}

/// Writes lines to standard output by one write, as they are. Text from outside in them was made fit for
/// a terminal before; the rest is colours and separators of columns.
pub(crate) fn print(lines: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{lines}\n").as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes one line to standard error, whatever the text holds.
pub(crate) fn warn(text: impl Display) -> Result<(), CliError> {
    Ok(writeln!(io::stderr().lock(), "{}", text::line(&text.to_string()))?)
}

/// Writes lines to standard error.
pub(crate) fn warn_lines(lines: &str) -> Result<(), CliError> {
    Ok(writeln!(io::stderr().lock(), "{}", text::lines(lines))?)
}
