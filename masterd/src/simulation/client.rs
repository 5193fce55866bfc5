//! A client that does anything, below the socket.

use std::sync::Arc;
use std::time::Duration;

use luxi::method::{
    ArchiveJob, AutoArchiveJobs, CancelJob, ChangeJobPriority, Method, QueryJobs, SetDrainFlag,
    Submission, SubmitJob, SubmitManyJobs, WaitForJobChange,
};
use luxi::response::Failure;
use luxi::{Caller, ClientError, Request, Service, request};
use model::OpStatus;
use model::job::RequestDigest;
use model::{Exception, JobId, OpInput};
use parking_lot::Mutex;
use queue_format::Epoch;
use queue_format::simulation::{Chance, SimDisk};
use serde_json::{Value, json};

use super::oracle::Oracle;
use crate::door::service::LuxiService;

/// A client takes fewer steps than this.
const STEPS_MAX: usize = 25;
/// Jobs in one submission of many.
const MANY: usize = 6;
/// The client that alone changes the drain flag, so that it knows how it stands.
const DRAINER: usize = 0;

/// When a client may be told that something cannot be done.
#[derive(Debug, Clone)]
pub(super) enum Excuse {
    /// After the end of this disk.
    Disk(SimDisk),
    /// At any time: the leadership may end.
    Leadership,
}

impl Excuse {
    fn holds(&self) -> bool {
        match self {
            Self::Disk(disk) => disk.is_stopped(),
            Self::Leadership => true,
        }
    }
}

pub(super) struct Client {
    number: usize,
    service: Arc<LuxiService>,
    chance: Chance,
    oracle: Arc<Mutex<Oracle>>,
    excuse: Excuse,
    /// The leadership that serves it.
    leadership: Epoch,
    /// Nodes whose agents it may have called.
    nodes: u64,
    /// Jobs that only this client gives priorities.
    mine: Vec<JobId>,
}

/// A submission whose answer is awaited; it is sent again if there is none.
struct Sent {
    oracle: Arc<Mutex<Oracle>>,
    submission: Option<(String, Vec<OpInput>)>,
    /// Whether the answer was that it is not done.
    certainly_not: bool,
}

/// Whether a client takes a failure to say that nothing was done.
fn certainly_not_done(error: Value) -> bool {
    let exception: Exception = serde_json::from_value(error).unwrap();
    ClientError::Failure(Failure::Exception(exception)).certainly_not_done()
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(submission) = self.submission.take() {
            self.oracle.lock().not_answered(submission, self.certainly_not);
        }
    }
}

impl Client {
    pub(super) fn new(
        number: usize,
        service: Arc<LuxiService>,
        chance: Chance,
        (oracle, excuse): (Arc<Mutex<Oracle>>, Excuse),
    ) -> Self {
        let leadership = Epoch::default();
        Self { number, service, chance, oracle, excuse, leadership, nodes: 0, mine: Vec::new() }
    }

    /// The same, served by this leadership of several, in a cluster of `nodes`.
    pub(super) fn of(self, leadership: Epoch, nodes: u64) -> Self {
        Self { leadership, nodes, ..self }
    }

    pub(super) async fn run(mut self) {
        for _ in 0..self.chance.below(STEPS_MAX) {
            self.step().await;
            if self.chance.below(3) == 0 {
                let micros = u64::try_from(self.chance.below(100_000)).unwrap();
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
    }

    async fn step(&mut self) {
        match self.chance.below(20) {
            0..=6 => self.submit().await,
            7 | 8 => self.submit_many().await,
            9..=11 => self.look().await,
            12 | 13 => self.wait().await,
            14 => self.cancel().await,
            15 => self.change_priority().await,
            16 | 17 => self.archive().await,
            18 => self.auto_archive().await,
            _ if self.number == DRAINER => {
                let drained = self.chance.below(2) == 0;
                self.drain(drained).await;
            }
            _ => {}
        }
    }

    /// Asks as a client does, through the bytes of request and answer.
    pub(super) async fn ask<M: Method>(&self, call: M) -> Result<M::Reply, Value> {
        self.ask_known(call, None).await
    }

    /// The same; the request is known again by `mark`, if there is one.
    async fn ask_known<M: Method>(&self, call: M, mark: Option<&str>) -> Result<M::Reply, Value> {
        let mut message = Vec::new();
        request::write(&call, &mut message).unwrap();
        let request = Request::parse(&message[..message.len() - 1]).unwrap();
        let digest = mark.map(|mark| RequestDigest::of(M::NAME, 0, mark.as_bytes()));
        let answer = self.service.call(request, Caller::root(), digest).await;
        let bytes = answer.as_bytes();
        let mut answer: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
        let result = answer["result"].take();
        match answer["success"].as_bool().unwrap() {
            true => Ok(serde_json::from_value(result).unwrap()),
            false => Err(result),
        }
    }

    /// Asks what only the end of the world leaves without an answer.
    async fn must<M: Method>(&self, call: M) -> Option<M::Reply> {
        match self.ask(call).await {
            Ok(reply) => Some(reply),
            Err(_) if self.excuse.holds() => None,
            Err(error) => panic!("{} failed: {error}", M::NAME),
        }
    }

    /// One or two opcodes, some of which fail, wait for locks or for other jobs.
    fn job(&mut self, mark: &str, place: usize) -> Vec<OpInput> {
        let count = 1 + self.chance.below(2);
        (0..count).map(|_| self.opcode(mark, place)).collect()
    }

    fn opcode(&mut self, mark: &str, place: usize) -> OpInput {
        // The priorities that a submission may carry; others are refused.
        let priority = [-10, 0, 0, 10][self.chance.below(4)];
        let duration = [0.0, 0.0, 0.001, 0.05, 2.0][self.chance.below(5)];
        let mut op = json!({
            "OP_ID": "OP_TEST_DELAY", "duration": duration, "comment": mark,
            "no_locks": self.chance.below(3) > 0, "priority": priority,
            "repeat": self.chance.below(3),
        });
        if self.chance.below(8) == 0 {
            op["on_nodes"] = json!(["nobody"]);
        } else if self.nodes > 0 && self.chance.below(3) == 0 {
            let rest = self.chance.below(2);
            let some: Vec<String> = (1..=self.nodes)
                .filter(|id| id % 2 == rest as u64 || self.chance.below(2) == 0)
                .map(|id| format!("n{id}.example"))
                .collect();
            op["on_nodes"] = json!(some);
            if self.chance.below(3) == 0 {
                // Longer than it takes until another is master.
                op["duration"] = json!(4.0);
            }
        }
        let statuses = [json!([]), json!(["success"]), json!(["error", "canceled"])];
        let statuses = statuses[self.chance.below(3)].clone();
        let any = self.chance.below(usize::MAX);
        match self.chance.below(4) {
            0 if place > 0 => {
                let back = i64::try_from(1 + self.chance.below(place)).unwrap();
                op["depends"] = json!([[-back, statuses]]);
            }
            1 => {
                let other = self.oracle.lock().job(any);
                op["depends"] = other.map_or(Value::Null, |id| json!([[id, statuses]]));
            }
            _ => {}
        }
        OpInput::parse(&op.to_string()).unwrap()
    }

    /// Something new, or what was sent before and not answered, by this client or another one.
    async fn submit(&mut self) {
        let again = (self.chance.below(2) == 0).then(|| self.oracle.lock().unanswered()).flatten();
        let (mark, ops) = again.unwrap_or_else(|| {
            let mark = self.oracle.lock().mark();
            let ops = self.job(&mark, 0);
            (mark, ops)
        });
        let newest = self.oracle.lock().newest();
        let (oracle, submission) = (Arc::clone(&self.oracle), Some((mark, ops)));
        let mut sent = Sent { oracle, submission, certainly_not: false };
        let Some((mark, ops)) = sent.submission.clone() else { return };
        match self.ask_known(SubmitJob { ops }, Some(&mark)).await {
            Ok(id) => {
                sent.submission = None;
                self.oracle.lock().accepted(id, mark, (self.leadership, newest));
                self.mine.push(id);
            }
            Err(error) => sent.certainly_not = certainly_not_done(error),
        }
    }

    async fn submit_many(&mut self) {
        let count = 1 + self.chance.below(MANY);
        let marks: Vec<String> = (0..count).map(|_| self.oracle.lock().mark()).collect();
        let jobs = marks.iter().enumerate().map(|(at, mark)| self.job(mark, at)).collect();
        let newest = self.oracle.lock().newest();
        let answers = match self.ask(SubmitManyJobs { jobs }).await {
            Ok(answers) => answers,
            Err(error) => {
                let certainly = certainly_not_done(error);
                let mut oracle = self.oracle.lock();
                marks.into_iter().for_each(|mark| oracle.not_taken(mark, certainly));
                return;
            }
        };
        assert_eq!(answers.len(), count);
        for (mark, answer) in marks.into_iter().zip(answers) {
            match answer {
                Submission::Accepted(id) => {
                    self.oracle.lock().accepted(id, mark, (self.leadership, newest));
                    self.mine.push(id);
                }
                Submission::Refused(_) => self.oracle.lock().not_taken(mark, true),
            }
        }
    }

    fn any_job(&mut self) -> Option<JobId> {
        let any = self.chance.below(usize::MAX);
        self.oracle.lock().job(any)
    }

    async fn look(&mut self) {
        let Some(id) = self.any_job() else { return };
        let fields = ["opstatus", "opresult", "archived"].into();
        let call = QueryJobs { job_ids: Some(vec![id]), fields };
        let Some(rows) = self.must(call).await else { return };
        let row = rows.into_iter().next().unwrap();
        let Some(row) = row else {
            let newest = self.oracle.lock().newest();
            assert!(self.leadership < newest, "job {id} was accepted and is not there");
            // A master that is none any more, and has not noticed.
            return;
        };
        let statuses: Vec<OpStatus> = serde_json::from_value(row[0].clone()).unwrap();
        let results = row[1].as_array().unwrap().clone();
        let seen = statuses.into_iter().zip(results).collect();
        self.oracle.lock().seen(id, seen, self.leadership);
    }

    async fn wait(&mut self) {
        let Some(job_id) = self.any_job() else { return };
        let timeout = [0.0, 0.01, 1.0, 30.0][self.chance.below(4)];
        let fields = ["status"].into();
        let previous = [None, Some(vec![json!("queued")])][self.chance.below(2)].clone();
        let call = WaitForJobChange { job_id, fields, previous, previous_log: None, timeout };
        let _change = self.must(call).await;
    }

    async fn cancel(&mut self) {
        let Some(job_id) = self.any_job() else { return };
        let Ok((done, text)) = self.ask(CancelJob { job_id, kill: false }).await else { return };
        if done && text.starts_with("Dequeued") {
            self.oracle.lock().canceled(job_id);
        }
    }

    async fn change_priority(&mut self) {
        if self.mine.is_empty() {
            return;
        }
        let job_id = self.mine[self.chance.below(self.mine.len())];
        let priority = i32::try_from(self.chance.below(40)).unwrap() - 20;
        self.oracle.lock().set_priority(job_id, None);
        if let Ok((true, _text)) = self.ask(ChangeJobPriority { job_id, priority }).await {
            self.oracle.lock().set_priority(job_id, Some(priority));
        }
    }

    async fn archive(&mut self) {
        let Some(job_id) = self.any_job() else { return };
        if let Ok(true) = self.ask(ArchiveJob { job_id }).await {
            self.oracle.lock().archived(job_id);
        }
    }

    async fn auto_archive(&mut self) {
        let age = [-1, 0, 60, i64::MAX][self.chance.below(4)];
        let _counts = self.must(AutoArchiveJobs { age, timeout: 1.0 }).await;
    }

    pub(super) async fn drain(&self, drained: bool) {
        self.oracle.lock().set_drained(None, self.leadership);
        if self.ask(SetDrainFlag { drained }).await.is_ok() {
            self.oracle.lock().set_drained(Some(drained), self.leadership);
        }
    }
}
