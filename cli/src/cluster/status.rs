//! `gnt cluster status`.

mod view;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use clap::Args;
use luxi::method::{GantryClusterStatus, GantryMasterStatus};
use luxi::{Client, ClientError};
use model::Timestamp;
use model::cluster_status::{AlarmSeverity, AlarmStatus, ClusterStatus, ProcessState};
use serde_json::{Value, json};
use stdx::daemon::chain;

use crate::error::{CliError, Exit};
use crate::known::Known;
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
    /// Show it all the time, until `q` or Ctrl-C; a master that is away is awaited. An output that is no
    /// terminal gets one picture behind the other.
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

/// Shows how the cluster stands; the exit status says how well.
pub(crate) fn run(arguments: &StatusArguments, session: &Session) -> Result<(), CliError> {
    let unknown = |error| CliError::Unknown(Box::new(error));
    let client = match arguments.watch {
        true => session.connect()?,
        false => session.connect_at_once().map_err(unknown)?,
    };
    let mut client = client.answered_within(ANSWER_MAX);
    let seen = Seen::ask(&mut client).map_err(|error| match error {
        ClientError::TimedOut { .. } => unknown(CliError::Silent { error, after: ANSWER_MAX }),
        error => unknown(error.into()),
    })?;
    if arguments.watch {
        return watch(arguments, (client, seen), session);
    }
    match arguments.json {
        true => say_json(&as_json(&seen)?)?,
        false => print(&lines(&seen, std::io::stdout().is_terminal(), session).join("\n"))?,
    }
    seen.verdict()
}

/// How the cluster stands, with all alarms that can be told of.
pub(super) struct Seen {
    status: ClusterStatus,
    /// Why the alarms of the master are not among them; none where they are.
    unknown: Option<String>,
}

impl Seen {
    /// Asks this machine's `masterd`, and, where that is a standby, the master for its alarms.
    fn ask(client: &mut Client) -> Result<Self, ClientError> {
        let mut status = client.call(&GantryClusterStatus {})?;
        let unknown = match status.state {
            ProcessState::Master => None,
            ProcessState::Standby => match client.call(&GantryMasterStatus {}) {
                Ok(of_master) => {
                    add_alarms(&mut status.alarms, of_master.alarms);
                    None
                }
                Err(error) => Some(chain(&error)),
            },
            ProcessState::Outside => {
                Some("this node is no master candidate; ask the master, or a candidate".to_owned())
            }
            ProcessState::Starting | ProcessState::Other => {
                Some("this node is about to become the master, or to follow one".to_owned())
            }
        };
        Ok(Self { status, unknown })
    }

    /// The exit status that plugins of monitoring systems have: 0 well, 1 warnings, 2 critical,
    /// 3 unknown.
    fn verdict(&self) -> Result<(), CliError> {
        let is_critical = |alarm: &AlarmStatus| alarm.severity == AlarmSeverity::Critical;
        let alarms = &self.status.alarms;
        match self.unknown {
            _ if alarms.iter().any(is_critical) => Err(CliError::Ended(Exit::CRITICAL)),
            Some(_) => Err(CliError::Ended(Exit::UNKNOWN)),
            None if alarms.is_empty() => Ok(()),
            None => Err(CliError::Told),
        }
    }
}

/// Adds what the master knows to what is known here; the critical ones come first.
fn add_alarms(own: &mut Vec<AlarmStatus>, of_master: Vec<AlarmStatus>) {
    for alarm in of_master {
        if !own.iter().any(|known| (&known.kind, &known.what) == (&alarm.kind, &alarm.what)) {
            own.push(alarm);
        }
    }
    own.sort_by_key(|alarm| alarm.severity != AlarmSeverity::Critical);
}

fn watch(
    arguments: &StatusArguments,
    (client, seen): (Client, Seen),
    session: &Session,
) -> Result<(), CliError> {
    let interval = Duration::from_secs(arguments.interval);
    let (client, last) = (Some(client), Some(seen));
    let mut line = Line { session, client, last, lost_at: None, told: false };
    if std::io::stdout().is_terminal() && can_draw() && !arguments.json {
        return screen::show(interval, || line.picture());
    }
    loop {
        match line.ask()? {
            Some(seen) if arguments.json => say(as_json(&seen)?)?,
            Some(seen) => print(&(lines(&seen, false, session).join("\n") + "\n"))?,
            None if line.told => {}
            None => {
                line.told = true;
                warn("gnt: masterd on this machine is away; trying again")?;
            }
        }
        pause(interval);
    }
}

fn lines(seen: &Seen, on_terminal: bool, session: &Session) -> Vec<String> {
    let Seen { status, unknown } = seen;
    let known = || Known::on(session.layout()).ok().flatten();
    let elsewhere = if status.master.is_none() { known() } else { None };
    let view = View { colored: session.is_colored(on_terminal), columns: COLUMNS, date };
    view.lines(status, elsewhere.as_ref(), unknown.as_deref())
}

fn date(at: Timestamp) -> String {
    TimeForm::Zoned.date(&json!(at.seconds())).unwrap_or_else(|| at.to_string())
}

/// The way to the `masterd` of this machine, over its restarts.
struct Line<'a> {
    session: &'a Session,
    client: Option<Client>,
    last: Option<Seen>,
    lost_at: Option<Instant>,
    /// Whether this time without an answer was told of.
    told: bool,
}

impl Line<'_> {
    /// How the cluster stands; none while nobody answers.
    fn ask(&mut self) -> Result<Option<Seen>, CliError> {
        let client = match self.client.take() {
            Some(client) => Ok(client),
            None => self.session.reach().map(|client| client.answered_within(ANSWER_MAX)),
        };
        let asked = client.and_then(|mut client| {
            let seen = Seen::ask(&mut client)?;
            self.client = Some(client);
            Ok(seen)
        });
        match asked {
            Ok(seen) => {
                (self.lost_at, self.told) = (None, false);
                Ok(Some(seen))
            }
            Err(error) if error.is_away() => {
                self.lost_at.get_or_insert_with(Instant::now);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The picture at this moment: while nobody answers, the one that was known last.
    fn picture(&mut self) -> Result<Vec<String>, CliError> {
        if let Some(seen) = self.ask()? {
            self.last = Some(seen);
        }
        let lost = self.lost_at.map(|at| {
            let away = moment::span(i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX));
            format!(
                "masterd on this machine is away for {away}; trying again. What was known last:"
            )
        });
        let known = self.last.iter().flat_map(|seen| lines(seen, true, self.session));
        Ok(lost.into_iter().chain(known).collect())
    }
}

/// The status with all times in seconds since the epoch, and why it is not all of it.
fn as_json(seen: &Seen) -> Result<Value, CliError> {
    let wrong = |error: serde_json::Error| CliError::Failed(error.to_string());
    let mut value = serde_json::to_value(&seen.status).map_err(wrong)?;
    in_seconds(&mut value);
    if let Value::Object(map) = &mut value {
        map.insert("unknown".to_owned(), json!(seen.unknown));
    }
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
