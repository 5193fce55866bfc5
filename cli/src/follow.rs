//! Seeing a job to its end: on a terminal with a live line, elsewhere as plain text.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use luxi::Client;
use luxi::client::{JobOutcome, Observer};
use model::job::LogEntry;
use model::{JobId, JobStatus};
use serde_json::Value;

use crate::error::CliError;
use crate::interrupt;
use crate::session::say;

/// How often the live line moves.
const TICK: Duration = Duration::from_millis(120);

/// Follows the job to its end, showing what it says.
pub(crate) fn follow(client: &mut Client, id: JobId) -> Result<JobOutcome, CliError> {
    let line = std::io::stderr().is_terminal().then(|| live_line(id));
    interrupt::announce(id, line.clone())?;
    let mut screen = Screen { line, output: Ok(()) };
    let outcome = client.wait_for_job(id, &mut screen);
    if let Some(line) = &screen.line {
        line.finish_and_clear();
    }
    screen.output?;
    Ok(outcome?)
}

/// Follows the job to its end, in silence.
pub(crate) fn wait(client: &mut Client, id: JobId) -> Result<JobOutcome, CliError> {
    interrupt::announce(id, None)?;
    Ok(client.wait_for_job(id, &mut ())?)
}

fn live_line(id: JobId) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} job {prefix} {msg} {elapsed}")
        .expect("the template is constant and well formed");
    let line = ProgressBar::new_spinner().with_style(style).with_prefix(id.to_string());
    line.enable_steady_tick(TICK);
    line
}

struct Screen {
    line: Option<ProgressBar>,
    /// The first failure to write; the rest is dropped then.
    output: Result<(), CliError>,
}

impl Observer for Screen {
    fn log(&mut self, entry: &LogEntry) {
        if self.output.is_ok() {
            let text = format!("{} {}", entry.1, message(&entry.3));
            self.output = match &self.line {
                Some(line) => line.suspend(|| say(text)),
                None => say(text),
            };
        }
    }

    fn status(&mut self, status: JobStatus) {
        if let Some(line) = &self.line {
            line.set_message(status.as_str());
        }
    }
}

/// A log message as text.
pub(crate) fn message(message: &Value) -> String {
    match message {
        Value::String(text) => text.clone(),
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            let lines: Vec<_> = lines.iter().filter_map(Value::as_str).collect();
            lines.join("\n")
        }
        other => other.to_string(),
    }
}
