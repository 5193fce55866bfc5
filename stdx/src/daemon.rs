//! The start and the end of every daemon: its log, its signals, its word to systemd.

use std::borrow::Cow;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::text;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One readable line an event.
    #[default]
    Text,
    /// One JSON object an event.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("log format `{other}` is neither `text` nor `json`")),
        }
    }
}

/// The place and the form of a daemon's log.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The file to append to; without one, standard error (which journald reads).
    pub file: Option<PathBuf>,
    /// Text or JSON.
    pub format: LogFormat,
    /// A filter in `tracing` syntax; empty means `info`.
    pub filter: String,
}

/// A log that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened for appending.
    #[error("cannot open the log file `{path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The filter does not parse.
    #[error("`{filter}` is no log filter; try `info`, `debug` or `info,masterd::jobs=debug`")]
    Filter {
        /// The filter as given.
        filter: String,
        /// The parser's error.
        #[source]
        error: tracing_subscriber::filter::ParseError,
    },
    /// A log was set up before.
    #[error("the log was set up twice")]
    Twice,
}

impl Log {
    /// Makes this the log of the whole process.
    ///
    /// # Errors
    /// A file that cannot be opened, a filter that does not parse, or a log set up before.
    pub fn install(&self) -> Result<(), LogError> {
        let wanted = if self.filter.is_empty() { "info" } else { &self.filter };
        let filter: Targets = wanted
            .parse()
            .map_err(|error| LogError::Filter { filter: wanted.to_owned(), error })?;
        let writer = match &self.file {
            Some(path) => BoxMakeWriter::new(LogFile::open(path)?),
            None => BoxMakeWriter::new(io::stderr),
        };
        let subscriber = subscriber(self.format, writer).with(filter);
        subscriber.try_init().map_err(|_already| LogError::Twice)
    }
}

/// The subscriber that writes events in this form.
fn subscriber(format: LogFormat, writer: BoxMakeWriter) -> Box<dyn Subscriber + Send + Sync> {
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(writer)
        .with_ansi(false);
    match format {
        LogFormat::Text => {
            let one_line = |form| OneLine { form, escape: text::line };
            Box::new(builder.map_event_format(one_line).finish())
        }
        LogFormat::Json => {
            let one_line = |form| OneLine { form, escape: text::json };
            Box::new(builder.json().map_event_format(one_line).finish())
        }
    }
}

/// One event, one line: a person who chooses a logged value cannot add a line to the log.
#[derive(Debug)]
struct OneLine<F> {
    form: F,
    escape: fn(&str) -> Cow<'_, str>,
}

impl<S, N, F> FormatEvent<S, N> for OneLine<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut told = String::new();
        self.form.format_event(context, Writer::new(&mut told), event)?;
        writeln!(writer, "{}", (self.escape)(told.trim_end_matches('\n')))
    }
}

/// The log files of this process, for who wants them opened anew.
static REOPENED: Mutex<Vec<Arc<LogFile>>> = Mutex::new(Vec::new());

/// A log file that is opened anew under its name after it was moved away and SIGHUP came.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    /// Opens a file to append to, for the life of the process.
    ///
    /// # Errors
    /// [`LogError::Open`].
    pub fn open(path: &Path) -> Result<Arc<Self>, LogError> {
        // Below a root of its own a daemon may be the first one. A missing directory is reported when
        // the file is opened.
        drop(path.parent().map(std::fs::create_dir_all));
        let file = Self { path: path.to_owned(), file: Mutex::new(append_to(path)?) };
        let file = Arc::new(file);
        REOPENED.lock().push(Arc::clone(&file));
        Ok(file)
    }

    fn reopen(&self) -> Result<(), LogError> {
        *self.file.lock() = append_to(&self.path)?;
        Ok(())
    }
}

fn append_to(path: &Path) -> Result<File, LogError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
        .map_err(|error| LogError::Open { path: path.to_owned(), error })
}

/// Writes to whatever file is the log at that moment.
impl io::Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.file.lock().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.lock().flush()
    }
}

/// Opens the logs anew: what a daemon does on SIGHUP, after its logs were rotated.
fn reopen_log() {
    let files = REOPENED.lock().clone();
    for file in &files {
        match file.reopen() {
            Ok(()) => tracing::info!(path = %file.path.display(), "log was opened anew"),
            Err(error) => tracing::error!(error = chain(&error), "log stays where it was"),
        }
    }
    if files.is_empty() {
        tracing::info!("SIGHUP: nothing to open anew, the log is no file");
    }
}

/// Waits for the signal that asks a daemon to end (SIGTERM or SIGINT) and tells which it was;
/// meanwhile SIGHUP opens the log anew.
///
/// # Errors
/// The handlers could not be installed.
pub async fn asked_to_end() -> io::Result<&'static str> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = term.recv() => return Ok("SIGTERM"),
            _ = int.recv() => return Ok("SIGINT"),
            _ = hangup.recv() => reopen_log(),
        }
    }
}

/// Lets the process open `wanted` files, or as many as the system lets it; gives how many.
pub fn allow_files(wanted: u64) -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    // No number means no limit.
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let next = wanted.min(most);
    if now >= next {
        return now;
    }
    limit.current = Some(next);
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => next,
        Err(error) => {
            tracing::warn!(%error, now, next, "the number of open files cannot be raised");
            now
        }
    }
}

/// Tells systemd that the daemon serves; without systemd, does nothing.
pub fn notify_ready(status: &str) {
    notify(&[sd_notify::NotifyState::Ready, sd_notify::NotifyState::Status(status)]);
}

/// Tells systemd that the daemon is ending; without systemd, does nothing.
pub fn notify_stopping() {
    notify(&[sd_notify::NotifyState::Stopping]);
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd was not told");
    }
}

/// An error with its whole chain on one line, for the edge where errors are printed.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_value_cannot_forge_a_line_of_the_log() {
        const FORGED: &str = "x\n2026-11-20T13:05:09Z  INFO masterd: all is well \u{1b}[2J\u{9b}2J";
        for format in [LogFormat::Text, LogFormat::Json] {
            let written = Written::default();
            let writer = written.clone();
            let subscriber = subscriber(format, BoxMakeWriter::new(move || writer.clone()));
            tracing::subscriber::with_default(subscriber, || {
                let _span = tracing::info_span!("job", of = %FORGED).entered();
                tracing::info!(shown = %FORGED, debugged = FORGED, "{FORGED}");
            });
            let log = String::from_utf8(written.0.lock().clone()).unwrap();
            let lines: Vec<&str> = log.split_inclusive('\n').collect();
            assert!(lines.len() == 1 && log.contains("of"), "{log:?}");
            assert!(!log.trim_end_matches('\n').contains(char::is_control), "{log:?}");
        }
    }
}
