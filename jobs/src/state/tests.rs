use std::collections::{BTreeSet, HashMap};

use model::OpStatus;
use model::job::LogType;
use model::opcode::OpInput;

use super::*;
use crate::event::{AutoArchived, Outcome, Submitted};
use crate::limits::ARCHIVED_PER_COMMIT_MAX;
use crate::submit::Submission;

mod canceled;
mod killed;
mod resent;
mod ruled;
mod steps;

/// Answers go to numbers.
#[derive(Debug)]
enum Numbers {}

impl Replies for Numbers {
    type To<T: std::fmt::Debug + Send + 'static> = u64;
}

/// An answer, whatever was asked.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Submitted(Vec<Result<JobId, Exception>>),
    LookUp(Vec<Submission>, BTreeSet<JobId>),
    Told(bool, String),
    Done(bool),
    AutoArchived(u64, u64),
    Visible,
}

impl From<Reply<Numbers>> for (u64, Answer) {
    fn from(reply: Reply<Numbers>) -> Self {
        match reply {
            Reply::Submitted(to, Submitted::Jobs(jobs)) => (to, Answer::Submitted(jobs)),
            Reply::Submitted(to, Submitted::LookUp(back, missing)) => {
                (to, Answer::LookUp(back, missing))
            }
            Reply::Told(to, (done, text)) => (to, Answer::Told(done, text)),
            Reply::Done(to, done) => (to, Answer::Done(done)),
            Reply::AutoArchived(to, AutoArchived { archived, left }) => {
                (to, Answer::AutoArchived(archived, left))
            }
            Reply::Visible(to) => (to, Answer::Visible),
        }
    }
}

/// Drives a queue as the writer would, and keeps what a store and clients would have.
struct Bench {
    queue: Queue<Numbers>,
    effects: Effects<Numbers>,
    stored: BTreeMap<JobId, Arc<Job>>,
    archived: BTreeMap<JobId, Arc<Job>>,
    answers: HashMap<u64, Answer>,
    running: Vec<Start>,
    interrupted: BTreeSet<JobId>,
    asked: u64,
    time: i64,
}

impl Bench {
    fn new(running_max: u32) -> Self {
        Self::with_bytes(running_max, JobBytes::within(16 << 20))
    }

    fn with_bytes(running_max: u32, bytes: JobBytes) -> Self {
        Self {
            queue: Queue::new([], 0, false, running_max, bytes),
            effects: Effects::default(),
            stored: BTreeMap::new(),
            archived: BTreeMap::new(),
            answers: HashMap::new(),
            running: Vec::new(),
            interrupted: BTreeSet::new(),
            asked: 0,
            time: 1_000_000,
        }
    }

    fn event(&mut self, event: Event<Numbers>) {
        self.time += 1;
        self.queue.handle(event, Timestamp::from_micros(self.time), &mut self.effects);
        let effects = std::mem::take(&mut self.effects);
        for job in effects.changed.values() {
            let bytes = serde_json::to_vec(job.as_ref()).unwrap().len();
            assert!(bytes <= self.queue.bytes.ended, "job {} has {bytes} bytes", job.id);
        }
        self.stored.extend(effects.changed);
        for (id, job) in effects.archived {
            assert!(self.stored.remove(&id).is_some(), "{id} was archived but not stored");
            assert!(job.status().is_final());
            self.archived.insert(id, job);
        }
        for (reply, answer) in effects.replies.into_iter().map(Into::into) {
            assert!(self.answers.insert(reply, answer).is_none(), "answered twice");
        }
        for start in effects.start {
            assert!(self.running.iter().all(|r| r.job != start.job), "{} runs twice", start.job);
            self.running.push(start);
        }
        self.interrupted.extend(effects.interrupt);
    }

    fn ask(&mut self, make: impl FnOnce(u64) -> Event<Numbers>) -> Option<Answer> {
        self.asked += 1;
        self.event(make(self.asked));
        self.answers.get(&self.asked).cloned()
    }

    fn submit(&mut self, jobs: Vec<Vec<OpInput>>) -> Vec<Result<JobId, Exception>> {
        let mut jobs = submit::check(jobs, self.queue.bytes).unwrap();
        let mut looked_up = HashMap::new();
        loop {
            let archived = looked_up.clone();
            match self.ask(|reply| Event::Submit { jobs, to_drained: false, archived, reply }) {
                Some(Answer::Submitted(answers)) => return answers,
                Some(Answer::LookUp(back, missing)) => {
                    jobs = back;
                    let status = |id| self.archived.get(&id).map(|job| job.status());
                    looked_up.extend(missing.into_iter().map(|id| (id, status(id))));
                }
                other => panic!("a submission was answered {other:?}"),
            }
        }
    }

    fn log(&mut self, job: JobId, text: &str) {
        let op = self.start_of(job).op;
        let message = Value::from(text);
        self.event(Event::Log { job, op, kind: LogType::Message, message, visible: None });
    }

    fn one(&mut self, ops: Vec<OpInput>) -> JobId {
        self.submit(vec![ops]).remove(0).unwrap()
    }

    fn granted(&mut self, job: JobId) {
        let op = self.start_of(job).op;
        self.event(Event::Granted { job, op, durable: None });
    }

    fn end(&mut self, job: JobId, outcome: Outcome) {
        let op = self.start_of(job).op;
        self.running.retain(|start| start.job != job);
        self.event(Event::Ended { job, op, outcome });
    }

    fn succeed(&mut self, job: JobId) {
        self.granted(job);
        self.end(job, Outcome::Success(Value::Null));
    }

    fn start_of(&self, job: JobId) -> Start {
        self.running
            .iter()
            .find(|s| s.job == job)
            .cloned()
            .unwrap_or_else(|| panic!("{job} is idle"))
    }

    fn status(&self, job: JobId) -> JobStatus {
        self.stored[&job].status()
    }

    fn cancel(&mut self, job: JobId) -> Option<Answer> {
        self.ask(|reply| Event::Cancel { job, reply })
    }
}

fn op(extra: &str) -> OpInput {
    OpInput::parse(&format!(r#"{{"OP_ID":"OP_TEST_DELAY","duration":0{extra}}}"#)).unwrap()
}

fn far(extra: &str) -> OpInput {
    op(&format!(r#","on_nodes":["n1"]{extra}"#))
}

#[test]
fn a_job_runs_its_opcodes_in_turn() {
    let mut b = Bench::new(20);
    let job = b.one(vec![op(""), op("")]);
    assert_eq!(job, JobId(1));
    assert_eq!(b.status(job), JobStatus::Waiting);
    b.granted(job);
    assert_eq!(b.status(job), JobStatus::Running);
    b.end(job, Outcome::Success(Value::from(7)));
    assert_eq!(b.start_of(job).op, 1);
    b.succeed(job);
    assert_eq!(b.status(job), JobStatus::Success);
    assert_eq!(b.stored[&job].ops[0].result, 7);
    assert!(b.stored[&job].end_timestamp.is_some());
}

#[test]
fn a_failure_fails_what_follows() {
    let mut b = Bench::new(20);
    let job = b.one(vec![op(""), op(""), op("")]);
    b.succeed_first(job);
    b.granted(job);
    b.end(job, Outcome::Failure(Exception::exec("no")));
    let found: Vec<OpStatus> = b.stored[&job].ops.iter().map(|op| op.status).collect();
    assert_eq!(found, [OpStatus::Success, OpStatus::Error, OpStatus::Error]);
    let follows = Exception::from_value(&b.stored[&job].ops[2].result).unwrap();
    assert_eq!(follows.message(), PRECEDING_FAILED);
}

impl Bench {
    fn succeed_first(&mut self, job: JobId) {
        self.granted(job);
        self.end(job, Outcome::Success(Value::Null));
    }
}

#[test]
fn agents_are_called_by_few_jobs_at_a_time() {
    let mut b = Bench::new(2);
    let jobs: Vec<JobId> = (0..3).map(|_| b.one(vec![far("")])).collect();
    let here = b.one(vec![op("")]);
    assert_eq!(b.running.len(), 3);
    assert_eq!(b.status(jobs[2]), JobStatus::Queued);
    b.succeed(here);
    assert_eq!(b.status(jobs[2]), JobStatus::Queued);
    b.succeed(jobs[0]);
    assert_eq!(b.status(jobs[2]), JobStatus::Waiting);
    b.event(Event::SetRunningMax(3));
    let more = b.one(vec![far("")]);
    assert_eq!(b.status(more), JobStatus::Waiting);
}

#[test]
fn dependencies() {
    let mut b = Bench::new(20);
    let ids: Vec<JobId> = b
        .submit(vec![
            vec![op("")],
            vec![op(r#","depends":[[-1,["success"]]]"#)],
            vec![op(r#","depends":[[-2,["error"]]]"#)],
            vec![op(r#","depends":[[-2,[]]]"#)],
        ])
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(b.status(ids[1]), JobStatus::Queued);
    b.succeed(ids[0]);
    assert_eq!(b.status(ids[1]), JobStatus::Waiting);
    assert_eq!(b.status(ids[2]), JobStatus::Error);
    assert_eq!(b.status(ids[3]), JobStatus::Queued);
    b.succeed(ids[1]);
    assert_eq!(b.status(ids[3]), JobStatus::Waiting);
    b.succeed(ids[3]);
    assert!(b.queue.dependencies.is_empty());
}

#[test]
fn a_canceled_dependency_cancels() {
    let mut b = Bench::new(1);
    let first = b.one(vec![far("")]);
    let ids = b.submit(vec![vec![far("")], vec![far(r#","depends":[[-1,["success"]]]"#)]]);
    let (second, third) = (*ids[0].as_ref().unwrap(), *ids[1].as_ref().unwrap());
    b.cancel(second);
    assert_eq!(b.status(third), JobStatus::Canceled);
    b.succeed(first);
    assert_eq!(b.queue.running(), (0, 0));
}

#[test]
fn a_long_chain_ends_at_once() {
    const LENGTH: usize = 10_000;
    let chained = || vec![op(r#","depends":[[-1,["success"]]]"#)];
    let mut b = Bench::new(1);
    let mut jobs = vec![vec![op("")]];
    jobs.extend((1..LENGTH).map(|_| chained()));
    let ids: Vec<JobId> = b.submit(jobs).into_iter().map(Result::unwrap).collect();
    b.granted(ids[0]);
    b.end(ids[0], Outcome::Failure(Exception::exec("no")));
    assert!(ids.iter().all(|&id| b.status(id) == JobStatus::Error));
    assert!(b.queue.dependencies.is_empty());
}

#[test]
fn archived_jobs_still_count_as_dependencies() {
    let mut b = Bench::new(1);
    let first = b.one(vec![op("")]);
    b.succeed(first);
    assert_eq!(b.ask(|reply| Event::Archive { job: first, reply }), Some(Answer::Done(true)));
    let good = b.one(vec![op(r#","depends":[[1,["success"]]]"#)]);
    let bad = b.one(vec![op(r#","depends":[[1,["error"]]]"#)]);
    assert_eq!(b.status(good), JobStatus::Waiting);
    assert_eq!(b.status(bad), JobStatus::Error);
}

#[test]
fn a_dependency_that_cannot_be_is_an_error_of_the_job() {
    let mut b = Bench::new(1);
    for (depends, told) in [
        ("[77,[]]", "job 77 did not exist when this one was submitted"),
        ("[2,[]]", "job 2 did not exist when this one was submitted"),
        ("[-1,[]]", "relative job id -1 leaves the submission"),
    ] {
        let job = b.one(vec![op(&format!(r#","depends":[{depends}]"#)), op("")]);
        let failures: Vec<Exception> = b.stored[&job]
            .ops
            .iter()
            .map(|op| Exception::from_value(&op.result).unwrap())
            .collect();
        let begin = format!("Dependency error: {told}");
        assert!(failures[0].message().starts_with(&begin), "{depends}: {failures:?}");
        assert_eq!(failures[1].message(), PRECEDING_FAILED);
    }
    // By then a job of that number may be there, which others wait for.
    let early = b.one(vec![op(""), op(r#","depends":[[5,[]]]"#)]);
    let later = b.one(vec![op("")]);
    let waits = b.one(vec![op(r#","depends":[[5,[]]]"#)]);
    assert_eq!((early, later), (JobId(4), JobId(5)));
    b.succeed(early);
    assert_eq!(b.status(early), JobStatus::Error);
    b.succeed(later);
    b.succeed(waits);
    assert!(b.queue.dependencies.is_empty());
}

#[test]
fn a_job_without_opcodes_ends_well_at_once() {
    let mut b = Bench::new(1);
    let ids: Vec<JobId> = b
        .submit(vec![vec![], vec![op(r#","depends":[[-1,["success"]]]"#)]])
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(b.status(ids[0]), JobStatus::Success);
    assert!(b.stored[&ids[0]].end_timestamp.is_some());
    assert_eq!(b.cancel(ids[0]), Some(Answer::Told(false, "Job 1 is already success".to_owned())));
    assert_eq!(b.status(ids[1]), JobStatus::Waiting);
    b.succeed(ids[1]);
    assert_eq!(b.queue.running(), (0, 0));
    let archived = b.ask(|reply| Event::AutoArchive { before: None, reply });
    assert_eq!(archived, Some(Answer::AutoArchived(2, 0)));
}

#[test]
fn draining() {
    let mut b = Bench::new(1);
    b.ask(|reply| Event::SetDrained { drained: true, reply });
    let refused = b.submit(vec![vec![op("")]]).remove(0).unwrap_err();
    assert_eq!(refused.kind, ExceptionKind::JobQueueDrainError);
    let archived = HashMap::new();
    let jobs = submit::check(vec![vec![op("")]], b.queue.bytes).unwrap();
    let answer = b.ask(|reply| Event::Submit { jobs, to_drained: true, archived, reply });
    assert_eq!(answer, Some(Answer::Submitted(vec![Ok(JobId(1))])));
}

#[test]
fn priorities_change_until_an_opcode_runs() {
    let mut b = Bench::new(1);
    let blocker = b.one(vec![far("")]);
    let patient = b.one(vec![far("")]);
    let usual = b.one(vec![far("")]);
    b.ask(|reply| Event::ChangePriority { job: usual, priority: -5, reply });
    b.succeed(blocker);
    assert_eq!(b.status(usual), JobStatus::Waiting);
    assert_eq!(b.status(patient), JobStatus::Queued);
}

#[test]
fn archiving_by_age_is_bounded() {
    let mut b = Bench::new(1);
    let count = ARCHIVED_PER_COMMIT_MAX + 5;
    for _ in 0..count {
        let job = b.one(vec![op("")]);
        b.succeed(job);
    }
    let live = b.one(vec![op("")]);
    let answer = b.ask(|reply| Event::AutoArchive { before: None, reply });
    assert_eq!(answer, Some(Answer::AutoArchived(1_000, 5)));
    let before = Some(Timestamp::from_micros(0));
    let answer = b.ask(|reply| Event::AutoArchive { before, reply });
    assert_eq!(answer, Some(Answer::AutoArchived(0, 0)));
    assert_eq!(b.ask(|reply| Event::Archive { job: live, reply }), Some(Answer::Done(false)));
}

#[test]
fn the_log_is_numbered_through_the_job() {
    let mut b = Bench::new(1);
    let job = b.one(vec![op(""), op("")]);
    for _ in 0..2 {
        b.granted(job);
        for text in ["a", ""] {
            b.log(job, text);
        }
        b.end(job, Outcome::Success(Value::Null));
    }
    let serials: Vec<u64> =
        b.stored[&job].ops.iter().flat_map(|op| op.log.iter().map(|entry| entry.0)).collect();
    assert_eq!(serials, [1, 2, 3, 4]);
}

#[test]
fn a_job_that_was_never_there_is_looked_up_once() {
    let mut b = Bench::new(1);
    let first = b.one(vec![op("")]);
    b.succeed(first);
    b.ask(|reply| Event::Archive { job: first, reply });
    b.archived.clear();
    let lost = b.one(vec![op(r#","depends":[[1,["success"]]]"#)]);
    assert_eq!(b.status(lost), JobStatus::Error);
}

#[test]
fn a_log_and_a_result_that_do_not_fit_the_file_are_told_of_in_it() {
    let mut b = Bench::with_bytes(1, JobBytes::within(8 << 10));
    let text = "é\n".repeat(400);
    let job = b.one(vec![op(""), op(""), op("")]);
    b.granted(job);
    for _ in 0..9 {
        b.log(job, &text);
    }
    let log = &b.stored[&job].ops[0].log;
    assert!(log.len() > 1 && log.len() < 9, "{}", log.len());
    assert_eq!(log.last().unwrap().3, "Further messages of this opcode are dropped");
    b.end(job, Outcome::Success(Value::Null));
    b.granted(job);
    b.end(job, Outcome::Success(Value::from("x".repeat(8 << 10))));
    assert_eq!(b.status(job), JobStatus::Error);
    let told = b.stored[&job].ops[1].result.to_string();
    assert!(told.contains("carried out") && told.contains("8194 bytes"), "{told}");
    let job = b.one(vec![op("")]);
    b.granted(job);
    b.end(job, Outcome::Failure(Exception::exec("\u{1}".repeat(8 << 10))));
    let told = b.stored[&job].ops[0].result.to_string();
    assert!(told.contains("which begins"), "{told}");
}
