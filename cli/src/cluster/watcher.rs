//! `gnt cluster watcher`.

use clap::Args;
use luxi::method::{QueryConfigValues, SetWatcherPause};
use serde_json::Value;

use crate::completion_words::Offered;
use crate::error::CliError;
use crate::moment;
use crate::output::say;
use crate::session::Session;
use crate::span::seconds;

const MICROS_PER_SECOND: f64 = 1e6;

/// Arguments of `watcher`.
#[derive(Debug, Args)]
pub(crate) struct WatcherArguments {
    /// pause keeps it from doing anything for a span; continue ends that; info tells of it.
    #[arg(
        value_name = "pause|continue|info",
        value_parser = Offered(&["pause", "continue", "info"]),
        hide_possible_values = true
    )]
    command: String,
    /// For how long, as 90, 30m, 1h or 2d.
    #[arg(value_name = "SPAN")]
    span: Option<String>,
}

/// Carries out one command.
pub(super) fn run(arguments: &WatcherArguments, session: &Session) -> Result<(), CliError> {
    match (arguments.command.as_str(), &arguments.span) {
        ("continue", _) => {
            session.ask(&SetWatcherPause { until: None })?;
            say("The watcher is no longer paused.")
        }
        ("pause", None) => Err(CliError::wrong_input("Missing pause duration")),
        ("pause", Some(span)) => {
            let span = seconds(span)?;
            let until = master_time(session)? + span as f64;
            let set = session.ask(&SetWatcherPause { until: Some(until) })?;
            tell(set.filter(|_until| span > 0), session)
        }
        ("info", _) => {
            let values = session.ask(&QueryConfigValues { names: ["watcher_pause"].into() })?;
            tell(values.first().and_then(Value::as_f64), session)
        }
        (other, _) => Err(CliError::wrong_input(format!("Command '{other}' is not valid."))),
    }
}

/// Seconds since the epoch by the clock of the master, which ends the pause.
fn master_time(session: &Session) -> Result<f64, CliError> {
    let values = session.ask(&QueryConfigValues { names: ["master_time"].into() })?;
    // An older master does not tell.
    let own = || session.now_micros() as f64 / MICROS_PER_SECOND;
    Ok(values.first().and_then(Value::as_f64).unwrap_or_else(own))
}

/// Tells of the pause; the master gives none that has ended.
fn tell(until: Option<f64>, session: &Session) -> Result<(), CliError> {
    let until = until.and_then(|until| moment::seconds(&Value::from(until)));
    match until.and_then(|until| session.times().spoken(until)) {
        Some(time) => say(format_args!("The watcher is paused until {time}.")),
        None => say("The watcher is not paused."),
    }
}
