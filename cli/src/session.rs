//! The context of every command: paths, the user who asks, and a connection to the master.

use std::cell::Cell;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ColorChoice;
use luxi::{Client, ClientError, Method};
use model::json::{self, Malformed};
use model::layout::Layout;
use model::opcode::ReasonEntry;
use serde::de::{DeserializeOwned, IgnoredAny};
use stdx::{Clock, text};

use crate::error::CliError;
use crate::known::is_masters_place;
use crate::moment::TimeForm;
use crate::output::warn;
use crate::retry::{AWAY_MAX, OUTAGE_MAX, OUTAGE_PAUSE};

/// Longest file or standard input that is read: what the master would take, and no more.
const INPUT_BYTES_MAX: u64 = luxi::limits::MESSAGE_BYTES_MAX as u64;

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Session {
    layout: Layout,
    socket: PathBuf,
    /// Whether the operator named another socket than the root's.
    own_socket: bool,
    words: Words,
    clock: Clock,
    stamps: Stamps,
    /// Since when no master answers that was asked.
    away_since: Cell<Option<Instant>>,
}

/// The words of the command line on why something is done, for the jobs that it makes.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// The kind of object.
    pub(crate) object: String,
    /// The action on it.
    pub(crate) verb: String,
    /// Free text.
    pub(crate) reason: Option<String>,
    /// Kept with the opcodes and of no effect.
    pub(crate) debug_level: u8,
    /// Whether to use colours.
    pub(crate) color: ColorChoice,
    /// How long to wait for a master that is away, if that was said.
    pub(crate) master_wait: Option<Duration>,
    /// Whether the program was called by the name of one of Ganeti's, as `gnt-job`.
    pub(crate) as_ganeti: bool,
}

impl Session {
    pub(crate) fn new(root: &Path, socket: Option<PathBuf>, words: Words) -> Self {
        let layout = Layout::new(root);
        let usual = layout.luxi_socket();
        let socket = socket.unwrap_or_else(|| usual.clone());
        let own_socket = socket != usual;
        Self {
            layout,
            socket,
            own_socket,
            words,
            clock: Clock::system(),
            away_since: Cell::new(None),
            stamps: Stamps::new(std::process::id()),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether the socket is another one than the root's, so that what is known of the master below
    /// the root says nothing about it.
    pub(crate) fn has_own_socket(&self) -> bool {
        self.own_socket
    }

    /// Connects; waits a while for a master that has its place on this machine and is away, as it is
    /// while it restarts.
    pub(crate) fn connect(&self) -> Result<Client, CliError> {
        let mut told = false;
        loop {
            match self.reach() {
                Err(error) if self.awaits(&error) && self.keeps_waiting() => {
                    if !told {
                        self.tell_waiting(&error)?;
                        told = true;
                    }
                    pause(OUTAGE_PAUSE);
                }
                done => return Ok(done?),
            }
        }
    }

    /// Connects to this machine's `masterd`, whatever its state. It is awaited only where the operator
    /// said for how long: a caller wants to know if it does not run.
    pub(crate) fn connect_at_once(&self) -> Result<Client, CliError> {
        match self.words.master_wait {
            Some(_) => self.connect(),
            None => Ok(self.reach()?),
        }
    }

    /// Whether a master that could not be reached may come soon.
    fn awaits(&self, error: &ClientError) -> bool {
        let away = matches!(error, ClientError::NoSocket { .. } | ClientError::Refused { .. });
        away && !self.own_socket && is_masters_place(&self.layout)
    }

    /// Connects, for who decides what a failure to do so means.
    pub(crate) fn reach(&self) -> Result<Client, ClientError> {
        let reached = Client::connect(&self.socket).or_else(|error| self.reach_queries(error));
        Ok(reached?.when_stale(warn_of_age))
    }

    /// Connects to the socket for queries where this user may not use the other one: that refuses a
    /// change in its own words.
    fn reach_queries(&self, error: ClientError) -> Result<Client, ClientError> {
        if self.own_socket || !matches!(error, ClientError::Permission { .. }) {
            return Err(error);
        }
        Client::connect(&self.layout.query_socket()).map_err(|_also| error)
    }

    /// Connects for one question, and asks it as [`Self::call`] does.
    pub(crate) fn ask<M: Method>(&self, call: &M) -> Result<M::Reply, CliError> {
        self.call(&mut self.connect()?, call)
    }

    /// Asks; again for a while where there is no master to ask, and nothing was done. `client` is a
    /// new connection then: a master that ends closes the ones that it has.
    pub(crate) fn call<M: Method>(
        &self,
        client: &mut Client,
        call: &M,
    ) -> Result<M::Reply, CliError> {
        let mut told = false;
        let mut answer = client.call(call);
        loop {
            self.note(&answer);
            let error = match answer {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let again = error.is_away() && error.certainly_not_done();
            if !again || !self.keeps_waiting() {
                return Err(error.into());
            }
            if !told {
                self.tell_waiting(&error)?;
                told = true;
            }
            pause(OUTAGE_PAUSE);
            answer = self.reach().and_then(|fresh| {
                *client = fresh;
                client.call(call)
            });
        }
    }

    /// How long a master is awaited that has had nothing of what is asked for.
    pub(crate) fn away_max(&self) -> Duration {
        self.words.master_wait.unwrap_or(AWAY_MAX)
    }

    /// How much of that is left: to connect, and to be answered, is one wait.
    pub(crate) fn away_left(&self) -> Duration {
        let waited = self.away_since.get().map_or(Duration::ZERO, |since| since.elapsed());
        self.away_max().saturating_sub(waited)
    }

    /// How long one is awaited that has a job, or may have it: what becomes of that is worth a longer wait.
    pub(crate) fn lost_max(&self) -> Duration {
        self.away_max().max(OUTAGE_MAX)
    }

    /// Notes that no master is there; true as long as it is awaited.
    fn keeps_waiting(&self) -> bool {
        if self.away_since.get().is_none() {
            self.away_since.set(Some(Instant::now()));
        }
        !self.away_left().is_zero()
    }

    /// Notes what came of a question: a master that answers, whatever it says, is there.
    pub(crate) fn note<T>(&self, answer: &Result<T, ClientError>) {
        if !answer.as_ref().is_err_and(ClientError::is_away) {
            self.away_since.set(None);
        }
    }

    fn tell_waiting(&self, error: &ClientError) -> Result<(), CliError> {
        let what = stdx::daemon::chain(error);
        let seconds = self.away_left().as_secs_f64().round();
        warn(format_args!("gnt: {what}; trying again for {seconds} s"))
    }

    /// Whether output is as Ganeti's scripts read it, as far as that differs.
    pub(crate) fn is_as_ganeti(&self) -> bool {
        self.words.as_ganeti
    }

    /// Whether this is `gnt job list`, which no message about it should name as the next step.
    pub(crate) fn lists_jobs(&self) -> bool {
        (self.words.object.as_str(), self.words.verb.as_str()) == ("job", "list")
    }

    /// How times are shown.
    pub(crate) fn times(&self) -> TimeForm {
        if self.is_as_ganeti() { TimeForm::Ganeti } else { TimeForm::Zoned }
    }

    /// Microseconds since the epoch.
    pub(crate) fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    /// Whether colours are used on an output that is a terminal, or is none.
    pub(crate) fn is_colored(&self, is_terminal: bool) -> bool {
        match self.words.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none() && can_draw()
            }
        }
    }

    /// Whether colours are asked for even where there is no terminal.
    pub(crate) fn is_always_colored(&self) -> bool {
        self.words.color == ColorChoice::Always
    }

    /// How much the operator wants to be kept for whoever looks for errors.
    pub(crate) fn debug_level(&self) -> u8 {
        self.words.debug_level
    }

    /// The reason trail of every opcode: who asks and why.
    pub(crate) fn reason(&self) -> Vec<ReasonEntry> {
        let Words { object, verb, .. } = &self.words;
        let client = format!("gnt:client:gnt-{object}");
        self.users_reason()
            .into_iter()
            .chain([ReasonEntry(client, verb.clone(), self.nanos())])
            .collect()
    }

    /// The reason that the operator gave, if any.
    pub(crate) fn users_reason(&self) -> Option<ReasonEntry> {
        let text = self.words.reason.clone()?;
        Some(ReasonEntry("gnt:user".to_owned(), text, self.nanos()))
    }

    fn nanos(&self) -> i64 {
        self.stamps.next(self.clock.now_micros())
    }
}

/// Stamps tell two requests of one user apart, even if they have the same text: the master takes those
/// with equal stamps for one.
#[derive(Debug)]
struct Stamps {
    /// The last one, in microseconds.
    last: Cell<i64>,
    /// The digits below the microseconds.
    process: i64,
}

impl Stamps {
    /// Those of a process: others may want to stamp something in the same microsecond, and their
    /// numbers differ in the last digits.
    fn new(process: u32) -> Self {
        Self { last: Cell::new(0), process: i64::from(process % 1_000) }
    }

    /// Nanoseconds that were not given out before.
    fn next(&self, now_micros: i64) -> i64 {
        let micros = now_micros.max(self.last.get().saturating_add(1));
        self.last.set(micros);
        micros.saturating_mul(1_000).saturating_add(self.process)
    }
}

/// Whether a terminal, if there is one, does more than print line behind line.
pub(crate) fn can_draw() -> bool {
    std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb")
}

/// Reads a file, or standard input where it is `-`.
pub(crate) fn read_input(path: &Path) -> Result<String, CliError> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let why = match model::boot_template::compression(error.as_bytes()) {
            Some(format) => format!("it is compressed by {format}; unpack it first"),
            None => "it is not UTF-8".to_owned(),
        };
        let error = io::Error::new(io::ErrorKind::InvalidData, why);
        CliError::Read { path: path.to_owned(), error }
    })
}

/// Reads a file as it is, or standard input for `-`.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::Read { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    match read {
        Ok(length) if u64::try_from(length).is_ok_and(|length| length <= INPUT_BYTES_MAX) => {
            Ok(bytes)
        }
        Ok(_) => Err(failed(io::ErrorKind::FileTooLarge.into())),
        Err(error) => Err(failed(error)),
    }
}

/// Reads JSON that was found at `path`. An error in the syntax of JSON is told with its line.
pub(crate) fn read_json<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    wanted: &'static str,
) -> Result<T, CliError> {
    json::read(text).map_err(|error| {
        let syntax = serde_json::from_str::<IgnoredAny>(text).err();
        let error = match syntax {
            Some(syntax) => Malformed { place: String::new(), why: syntax.to_string() },
            None => error,
        };
        CliError::Content { path: path.to_owned(), wanted, error }
    })
}

/// The same for settings: serde takes a list for the fields of an object, in their order.
pub(crate) fn read_object<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    wanted: &'static str,
) -> Result<T, CliError> {
    if text.trim_start().starts_with('[') {
        let error =
            Malformed { place: String::new(), why: "expected an object, found a list".to_owned() };
        return Err(CliError::Content { path: path.to_owned(), wanted, error });
    }
    read_json(path, text, wanted)
}

/// Says that what a master tells may be old.
fn warn_of_age(silence: Duration) {
    let seconds = silence.as_secs_f64();
    // An operator who does not see standard error sees the answer all the same.
    drop(warn(format_args!(
        "gnt: this master has heard no majority of the voters for {seconds:.1} s: what it tells may be \
         old, and it takes no changes; `gnt cluster status` says who is away"
    )));
}

/// Lets so much time pass between two attempts, or two pictures.
#[expect(clippy::disallowed_methods, reason = "this program has no runtime to sleep on")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Asks the operator, unless `yes` was given beforehand.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let told = format!("Not done: \"{question}\" needs a terminal to confirm it, or --yes");
        return Err(CliError::NotConfirmed(told));
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "{}\ny/[n]: ", text::line(question))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(CliError::NotConfirmed("Not done.".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stamp_is_given_twice() {
        let (one, other) = (Stamps::new(4_001), Stamps::new(4_002));
        let times = [5, 5, 5, 4, 100, 100, 0];
        let stamps: Vec<i64> =
            times.iter().flat_map(|now| [one.next(*now), other.next(*now)]).collect();
        let mut once = stamps.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), stamps.len(), "{stamps:?}");
        assert_eq!(stamps[..4], [5_001, 5_002, 6_001, 6_002]);
    }
}
