//! Core: what to ask about a job that is watched to its end, and what the answers mean.

use std::sync::Arc;
use std::time::Duration;

use luxi::ClientError;
use luxi::client::JobOutcome;
use luxi::limits::WAIT_SECONDS_MAX;
use luxi::method::{Fields, JobChange, WaitForJobChange};
use model::job::LogEntry;
use model::{JobId, JobStatus};

use crate::retry::{Loss, Outage, reason};

/// The observed fields: all that the end of a job tells, so that no further question is needed.
const OBSERVED: [&str; 3] = ["status", "opstatus", "opresult"];
/// How long a job may be silent before its status is told, in seconds. Most jobs have ended by then, and
/// a word on each of them would be noise.
const SILENCE_SECONDS: f64 = 2.0;

/// A job that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    question: WaitForJobChange,
    /// Whether a status that lasts is told.
    tells: bool,
    status: Option<JobStatus>,
    told: Vec<JobStatus>,
    outage: Outage,
    /// How long the master may be away.
    away_max: Duration,
}

/// The fate of a wait whose question was not answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Connect anew after [`crate::retry::OUTAGE_PAUSE`], and ask again. The words are for whoever waits.
    Again(Option<String>),
    /// The wait is over.
    Over,
}

/// The news in an answer of the master.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct News {
    /// The messages of the job.
    pub(crate) log: Vec<Arc<LogEntry>>,
    /// The status that it has.
    pub(crate) status: Option<JobStatus>,
    /// A word for whoever waits, since the job has been silent.
    pub(crate) notice: Option<String>,
    /// How it ended.
    pub(crate) ended: Option<JobOutcome>,
}

impl Watch {
    /// Begins to watch the job `id`; `tells` is whether a word is wanted on a status that lasts. A master that
    /// is lost is awaited for `away_max`.
    pub(crate) fn new(id: JobId, tells: bool, away_max: Duration) -> Self {
        let question = WaitForJobChange {
            job_id: id,
            fields: Fields::from(OBSERVED),
            previous: None,
            previous_log: None,
            timeout: WAIT_SECONDS_MAX,
        };
        let (told, outage) = (Vec::new(), Outage::default());
        Self { question, tells, status: None, told, outage, away_max }
    }

    /// Which job it is.
    pub(crate) fn job(&self) -> JobId {
        self.question.job_id
    }

    /// The next question: about all that is not known yet.
    pub(crate) fn question(&self) -> WaitForJobChange {
        let mut question = self.question.clone();
        if self.status.is_some_and(|status| self.would_tell(status)) {
            question.timeout = SILENCE_SECONDS;
        }
        question
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// It is not about what was asked.
    pub(crate) fn answered(&mut self, answer: JobChange) -> Result<News, serde_json::Error> {
        self.outage.end();
        let (values, log) = match answer {
            JobChange::Changed(values, log) => (values, log),
            JobChange::Unchanged => return Ok(self.silent()),
        };
        let (status, opstatus, opresult) = serde_json::from_value(values.clone().into())?;
        self.status = Some(status);
        self.question.previous = Some(values);
        let newest = log.iter().map(|entry| entry.0).max();
        self.question.previous_log = newest.or(self.question.previous_log);
        let ended = status.is_final().then_some(JobOutcome { status, opstatus, opresult });
        Ok(News { log, status: Some(status), notice: None, ended })
    }

    /// Takes a failure to get an answer, at the time `now` since any fixed moment.
    pub(crate) fn unanswered(&mut self, error: &ClientError, now: Duration) -> Unanswered {
        match self.outage.failed_within(error, now, self.away_max) {
            Loss::First => Unanswered::Again(Some(format!(
                "The connection to the master is lost while waiting for job {}{}; trying again for \
                 {} s",
                self.job(),
                reason(error),
                self.away_max.as_secs()
            ))),
            Loss::Still => Unanswered::Again(None),
            Loss::Over => Unanswered::Over,
        }
    }

    fn silent(&mut self) -> News {
        let status = self.status.filter(|status| self.would_tell(*status));
        self.told.extend(status);
        let words = status.and_then(words);
        let notice = words.map(|words| format!("Job {} {words}", self.job()));
        News { status: self.status, notice, ..News::default() }
    }

    /// Each status is told once.
    fn would_tell(&self, status: JobStatus) -> bool {
        self.tells && words(status).is_some() && !self.told.contains(&status)
    }
}

/// Ganeti's words, where it has some.
const fn words(status: JobStatus) -> Option<&'static str> {
    match status {
        JobStatus::Queued => Some("is waiting in queue"),
        JobStatus::Waiting => Some("is trying to acquire all necessary locks"),
        JobStatus::Running => Some("is running"),
        JobStatus::Canceling | JobStatus::Canceled | JobStatus::Success | JobStatus::Error => None,
    }
}

#[cfg(test)]
mod tests {
    use model::error::ExceptionKind;
    use model::job::LogType;
    use model::{Exception, Timestamp};
    use serde_json::json;

    use super::*;
    use crate::retry::OUTAGE_MAX;

    fn changed(status: &str, serials: &[u64]) -> JobChange {
        let entry = |serial: &u64| {
            Arc::new(LogEntry(*serial, Timestamp::default(), LogType::Message, json!("x")))
        };
        let values = vec![json!(status), json!([status]), json!([null])];
        JobChange::Changed(values, serials.iter().map(entry).collect())
    }

    #[test]
    fn a_status_that_lasts_is_told_once() {
        let mut watch = Watch::new(JobId(5), true, OUTAGE_MAX);
        let mut told = Vec::new();
        for status in ["queued", "waiting", "running", "canceling"] {
            assert_eq!(watch.answered(changed(status, &[])).unwrap().notice, None, "{status}");
            for _ in 0..3 {
                told.extend(watch.answered(JobChange::Unchanged).unwrap().notice);
            }
        }
        let expected = [
            "Job 5 is waiting in queue",
            "Job 5 is trying to acquire all necessary locks",
            "Job 5 is running",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_wait_is_short_only_while_there_is_something_to_tell() {
        let mut watch = Watch::new(JobId(5), true, OUTAGE_MAX);
        let mut timeouts = vec![watch.question().timeout];
        for answer in [changed("queued", &[]), JobChange::Unchanged, changed("running", &[])] {
            watch.answered(answer).unwrap();
            timeouts.push(watch.question().timeout);
        }
        let long = WAIT_SECONDS_MAX;
        assert_eq!(timeouts, [long, SILENCE_SECONDS, long, SILENCE_SECONDS]);
        let mut watch = Watch::new(JobId(5), false, OUTAGE_MAX);
        watch.answered(changed("queued", &[])).unwrap();
        assert_eq!(watch.question().timeout, long);
        assert_eq!(watch.answered(JobChange::Unchanged).unwrap().notice, None);
    }

    #[test]
    fn a_lost_master_is_awaited_for_a_while() {
        let closed = ClientError::Closed { method: "WaitForJobChange" };
        let at = Duration::from_secs;
        for (limit, begin) in [(60, 10), (60, 1_000), (300, 10)] {
            let mut watch = Watch::new(JobId(5), false, at(limit));
            watch.answered(changed("running", &[1, 2])).unwrap();
            for begin in [begin, begin + 2_000] {
                let Unanswered::Again(Some(told)) = watch.unanswered(&closed, at(begin)) else {
                    panic!("the first failure is told")
                };
                assert!(told.contains("job 5") && told.contains(&format!("{limit} s")), "{told}");
                let still = watch.unanswered(&closed, at(begin + limit - 1));
                assert_eq!(still, Unanswered::Again(None));
                assert_eq!(watch.question().previous_log, Some(2));
                assert_eq!(watch.unanswered(&closed, at(begin + limit)), Unanswered::Over);
                watch.answered(JobChange::Unchanged).unwrap();
            }
        }
    }

    #[test]
    fn an_answer_that_is_a_refusal_ends_the_wait() {
        let refusal = |kind, text| {
            ClientError::Failure(luxi::response::Failure::Exception(Exception::new(kind, text)))
        };
        let lost = refusal(ExceptionKind::JobLost, "Job 5 is not in the queue");
        assert_eq!(
            Watch::new(JobId(5), false, OUTAGE_MAX).unanswered(&lost, Duration::ZERO),
            Unanswered::Over
        );
        let ending = refusal(ExceptionKind::GenericError, "The master daemon is ending; try again");
        let told = Watch::new(JobId(5), false, OUTAGE_MAX).unanswered(&ending, Duration::ZERO);
        assert!(matches!(told, Unanswered::Again(Some(_))));
    }

    #[test]
    fn what_is_known_is_not_asked_again() {
        let mut watch = Watch::new(JobId(5), true, OUTAGE_MAX);
        assert_eq!(watch.question().previous, None);
        watch.answered(changed("running", &[1, 2])).unwrap();
        watch.answered(changed("running", &[])).unwrap();
        let question = watch.question();
        assert_eq!(question.previous_log, Some(2));
        assert_eq!(question.previous.unwrap()[0], json!("running"));
        let news = watch.answered(changed("success", &[3])).unwrap();
        assert_eq!((news.log.len(), news.ended.unwrap().status), (1, JobStatus::Success));
        assert!(watch.answered(JobChange::Changed(vec![json!(5)], vec![])).is_err());
    }
}
