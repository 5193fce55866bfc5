//! `gnt cluster status`.

mod view;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use clap::Args;
use luxi::method::GantryClusterStatus;
use luxi::{Client, ClientError};
use model::Timestamp;
use model::cluster_status::ClusterStatus;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::moment::{self, TimeForm};
use crate::output::{print, say, say_json, warn};
use crate::screen;
use crate::session::{Session, can_draw, pause};
use view::View;

/// Width of what is shown where it is not known, and the most that a reader likes to follow.
const COLUMNS: usize = 80;

/// How long `masterd` may take to answer. It says what it knows and asks nobody for it, so one that is
/// silent for longer hangs, and that is what is to be known.
const ANSWER_MAX: Duration = Duration::from_secs(10);

const MICROS_PER_SECOND: f64 = 1e6;

/// Times in the answer, which `--json` gives in seconds.
const TIMES: [&str; 4] = ["now", "since", "ends", "watcher_paused_until"];

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Show it all the time, until `q` or Ctrl-C; a master that is away is awaited. Where the output
    /// is no terminal, one picture comes behind the other.
    #[arg(long)]
    watch: bool,
    /// Print all of it as JSON, also what the screen leaves out; with --watch, a line for each time.
    #[arg(long)]
    json: bool,
    /// Seconds between two pictures of --watch.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=3_600),
        requires = "watch"
    )]
    interval: u64,
}

/// Shows how the cluster stands; fails where there are alarms.
pub(crate) fn run(arguments: &StatusArguments, session: &Session) -> Result<(), CliError> {
    let client = match arguments.watch {
        true => session.connect()?,
        false => session.connect_at_once()?,
    };
    let mut client = client.answered_within(ANSWER_MAX);
    let status = client.call(&GantryClusterStatus {}).map_err(|error| match error {
        ClientError::TimedOut { .. } => CliError::Silent { error, after: ANSWER_MAX },
        error => error.into(),
    })?;
    if arguments.watch {
        return watch(arguments, (client, status), session);
    }
    match arguments.json {
        true => say_json(&as_json(&status)?)?,
        false => print(&lines(&status, std::io::stdout().is_terminal(), session).join("\n"))?,
    }
    if status.alarms.is_empty() { Ok(()) } else { Err(CliError::Told) }
}

fn watch(
    arguments: &StatusArguments,
    (client, status): (Client, ClusterStatus),
    session: &Session,
) -> Result<(), CliError> {
    let interval = Duration::from_secs(arguments.interval);
    let (client, last) = (Some(client), Some(status));
    let mut line = Line { session, client, last, lost_at: None, told: false };
    if std::io::stdout().is_terminal() && can_draw() && !arguments.json {
        return screen::show(interval, || line.picture());
    }
    loop {
        match line.ask()? {
            Some(status) if arguments.json => say(as_json(&status)?)?,
            Some(status) => print(&(lines(&status, false, session).join("\n") + "\n"))?,
            None if line.told => {}
            None => {
                line.told = true;
                warn("gnt: masterd on this machine is away; trying again")?;
            }
        }
        pause(interval);
    }
}

fn lines(status: &ClusterStatus, on_terminal: bool, session: &Session) -> Vec<String> {
    let known = || session.known().ok().flatten();
    let elsewhere = if status.master.is_none() { known() } else { None };
    let view = View { colored: session.is_colored(on_terminal), columns: COLUMNS, date };
    view.lines(status, elsewhere.as_ref())
}

fn date(at: Timestamp) -> String {
    TimeForm::Zoned.date(&json!(at.seconds())).unwrap_or_else(|| at.to_string())
}

/// The way to the `masterd` of this machine, over its restarts.
struct Line<'a> {
    session: &'a Session,
    client: Option<Client>,
    last: Option<ClusterStatus>,
    lost_at: Option<Instant>,
    /// Whether this time without an answer was told of.
    told: bool,
}

impl Line<'_> {
    /// How the cluster stands; none while nobody answers.
    fn ask(&mut self) -> Result<Option<ClusterStatus>, CliError> {
        let client = match self.client.take() {
            Some(client) => Ok(client),
            None => self.session.reach().map(|client| client.answered_within(ANSWER_MAX)),
        };
        let asked = client.and_then(|mut client| {
            let status = client.call(&GantryClusterStatus {})?;
            self.client = Some(client);
            Ok(status)
        });
        match asked {
            Ok(status) => {
                (self.lost_at, self.told) = (None, false);
                Ok(Some(status))
            }
            Err(error) if error.is_away() => {
                self.lost_at.get_or_insert_with(Instant::now);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is shown at this moment: while nobody answers, what was known last.
    fn picture(&mut self) -> Result<Vec<String>, CliError> {
        if let Some(status) = self.ask()? {
            self.last = Some(status);
        }
        let lost = self.lost_at.map(|at| {
            let away = moment::span(i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX));
            format!(
                "masterd on this machine is away for {away}; trying again. What was known last:"
            )
        });
        let known = self.last.iter().flat_map(|status| lines(status, true, self.session));
        Ok(lost.into_iter().chain(known).collect())
    }
}

/// The status with all times in seconds since the epoch.
fn as_json(status: &ClusterStatus) -> Result<Value, CliError> {
    let wrong = |error: serde_json::Error| CliError::Failed(error.to_string());
    let mut value = serde_json::to_value(status).map_err(wrong)?;
    in_seconds(&mut value);
    Ok(value)
}

fn in_seconds(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match moment::micros(value).filter(|_| TIMES.contains(&key.as_str())) {
                    Some(micros) => *value = json!(micros as f64 / MICROS_PER_SECOND),
                    None => in_seconds(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(in_seconds),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
