//! Seeing a job to its end: on a terminal with a live line, elsewhere as plain text.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use luxi::client::JobOutcome;
use luxi::response::Failure;
use luxi::{Client, ClientError};
use model::JobId;
use model::job::LogEntry;

use crate::error::CliError;
use crate::interrupt;
use crate::moment::TimeForm;
use crate::output::{say, warn};
use crate::python;
use crate::retry::OUTAGE_PAUSE;
use crate::session::{Session, can_draw, pause};
use crate::watch::{News, Unanswered, Watch};

/// How often the live line moves.
const TICK: Duration = Duration::from_millis(120);

/// Follows the job to its end, showing what it says.
pub(crate) fn follow(
    session: &Session,
    client: &mut Client,
    id: JobId,
) -> Result<JobOutcome, CliError> {
    let held = interrupt::hold()?;
    // The live line has a thread of its own.
    let line = (std::io::stderr().is_terminal() && can_draw()).then(|| live_line(id));
    let _announced = interrupt::announce(held, id, line.clone())?;
    // The live line shows the status all the time.
    let watch = Watch::new(id, line.is_none(), session.lost_max());
    let mut screen = Screen { line, times: session.times(), output: Ok(()) };
    let outcome = see(session, client, watch, &mut |news| screen.show(news));
    if let Some(line) = &screen.line {
        line.finish_and_clear();
    }
    screen.output?;
    outcome
}

/// Follows the job to its end as plain text, as one of several: nothing holds Ctrl-C back.
pub(crate) fn listen(
    session: &Session,
    client: &mut Client,
    id: JobId,
) -> Result<JobOutcome, CliError> {
    let mut screen = Screen { line: None, times: session.times(), output: Ok(()) };
    let outcome = see(session, client, Watch::new(id, true, session.lost_max()), &mut |news| {
        screen.show(news);
    });
    screen.output?;
    outcome
}

/// Follows the job to its end; nothing is said but that the master is lost.
pub(crate) fn wait(
    session: &Session,
    client: &mut Client,
    id: JobId,
) -> Result<JobOutcome, CliError> {
    let mut screen = Screen { line: None, times: session.times(), output: Ok(()) };
    let outcome =
        see(session, client, Watch::new(id, false, session.lost_max()), &mut |mut news| {
            news.log.clear();
            screen.show(news);
        });
    screen.output?;
    outcome
}

/// Asks until the job has ended. A master that is away is awaited, and `client` then a new
/// connection: a question can be asked twice, as it changes nothing.
fn see(
    session: &Session,
    client: &mut Client,
    mut watch: Watch,
    show: &mut dyn FnMut(News),
) -> Result<JobOutcome, CliError> {
    let begin = Instant::now();
    let mut asked = client.call(&watch.question());
    loop {
        let error = match asked {
            Ok(answer) => {
                let mut news = watch.answered(answer).map_err(|error| {
                    ClientError::Failure(Failure::Malformed { method: "WaitForJobChange", error })
                })?;
                let ended = news.ended.take();
                show(news);
                if let Some(outcome) = ended {
                    return Ok(outcome);
                }
                asked = client.call(&watch.question());
                continue;
            }
            Err(error) => error,
        };
        match watch.unanswered(&error, begin.elapsed()) {
            Unanswered::Again(notice) => show(News { notice, ..News::default() }),
            Unanswered::Over => return Err(CliError::waiting(watch.job(), error)),
        }
        pause(OUTAGE_PAUSE);
        asked = session.reach().and_then(|fresh| {
            *client = fresh;
            client.call(&watch.question())
        });
    }
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
    times: TimeForm,
    /// The first failure to write; the rest is dropped then.
    output: Result<(), CliError>,
}

impl Screen {
    fn show(&mut self, news: News) {
        let times = self.times;
        for entry in news.log {
            self.write(|| say(told(&entry, times)));
        }
        if let Some(notice) = &news.notice {
            self.write(|| warn(notice));
        }
        if let (Some(line), Some(status)) = (&self.line, news.status) {
            line.set_message(status.as_str());
        }
    }

    fn write(&mut self, write: impl FnOnce() -> Result<(), CliError>) {
        if self.output.is_ok() {
            self.output = match &self.line {
                Some(line) => line.suspend(write),
                None => write(),
            };
        }
    }
}

/// A message of a job, with its time.
pub(crate) fn told(entry: &LogEntry, times: TimeForm) -> String {
    let time = times.spoken(entry.1.seconds()).unwrap_or_default();
    format!("{time} {}", python::text(&entry.3))
}
