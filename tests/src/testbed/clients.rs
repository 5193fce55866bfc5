//! Clients of all three nodes that submit jobs whatever happens, and note the answers.
//!
//! Each job carries a mark of its own in its comment, by which it is found again whatever its number
//! is, and however often it is there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use luxi::method::{Method, QueryJobs, SubmitJob};
use luxi::{Client, ClientError};
use model::opcode::ReasonEntry;
use model::{JobId, OpInput};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Testbed;
use crate::run::{pass, wait_for};
use crate::seed::Seed;

/// Clients at the same time.
const CLIENTS: usize = 4;
/// Longest pause of a client between two jobs, in milliseconds: an hour of load is to fit on small
/// disks.
const PAUSE_MS: u64 = 800;
/// How long the same submission is sent again. Above it, the cluster is in no state to answer.
const RESENT_FOR: Duration = Duration::from_secs(90);
/// Pause before that, and between two looks at a job.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How long a client looks whether its job has ended.
const LOOKED_FOR: Duration = Duration::from_secs(3);
/// A client that waits for an answer of a daemon that is stopped gives up within this.
const IDLE_WITHIN: Duration = Duration::from_secs(180);
/// Fields of a job that are final once it has ended.
pub const FINAL: [&str; 3] = ["status", "opstatus", "opresult"];

/// The beginning of the mark of every job of a client.
pub const MARK: &str = "client ";

/// The outcome of a submission, as far as its client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It has this number.
    Accepted(u64),
    /// Nothing was done, for this reason.
    Refused(String),
    /// It may have been done.
    Unknown(String),
}

/// One client's knowledge of one job.
#[derive(Debug, Clone)]
pub struct ClientOutput {
    /// The outcome of its submission.
    pub word: Word,
    /// Whether it runs on all agents.
    pub on_agents: bool,
    /// Its opcodes.
    pub ops: usize,
    /// The fields [`FINAL`], if it was seen to have ended.
    pub ended: Option<Vec<Value>>,
}

/// The clients' knowledge of their jobs, by the mark of the job.
pub type Words = BTreeMap<String, ClientOutput>;

/// Clients that work until they are dropped.
#[derive(Debug)]
pub struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    sockets: Vec<PathBuf>,
    /// Names of the nodes whose agents are called.
    nodes: Vec<String>,
    paused: AtomicBool,
    over: AtomicBool,
    idle: AtomicUsize,
    words: Mutex<Words>,
    outage: Mutex<Outage>,
}

/// The time without an answer to a submission.
#[derive(Debug)]
struct Outage {
    since: Instant,
    longest: Duration,
}

impl Clients {
    /// Starts them.
    pub fn start(testbed: &Testbed, seed: &mut Seed) -> Self {
        let outage = Outage { since: Instant::now(), longest: Duration::ZERO };
        let shared = Arc::new(Shared {
            sockets: testbed.sites.iter().map(|site| site.host.layout().luxi_socket()).collect(),
            nodes: testbed.sites.iter().map(|site| site.host.name.clone()).collect(),
            paused: AtomicBool::new(false),
            over: AtomicBool::new(false),
            idle: AtomicUsize::new(0),
            words: Mutex::default(),
            outage: Mutex::new(outage),
        });
        let start = |number: usize| {
            let (shared, seed) = (Arc::clone(&shared), seed.branch());
            std::thread::spawn(move || Busy::new(number, seed, &shared).work())
        };
        let threads = (0..CLIENTS).map(start).collect();
        Self { shared, threads }
    }

    /// Waits until every submission has its answer, and lets no other begin; gives the answers so far.
    ///
    /// # Panics
    /// If a client waits for ever, or has panicked.
    pub fn pause(&self) -> Words {
        self.shared.paused.store(true, Ordering::SeqCst);
        wait_for("answers to all clients", IDLE_WITHIN, || {
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "a client failed");
            (self.shared.idle.load(Ordering::SeqCst) == CLIENTS).then_some(())
        });
        std::mem::take(&mut *self.shared.words.lock())
    }

    /// The end of [`Clients::pause`]; the longest time without an acknowledgement counts anew.
    pub fn resume(&self) {
        *self.shared.outage.lock() = Outage { since: Instant::now(), longest: Duration::ZERO };
        self.shared.paused.store(false, Ordering::SeqCst);
    }

    /// The longest time since [`Clients::resume`] in which no job was acknowledged.
    pub fn outage(&self) -> Duration {
        let outage = self.shared.outage.lock();
        outage.longest.max(outage.since.elapsed())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // Nobody waits: a client may be in the middle of a long question.
        self.shared.over.store(true, Ordering::SeqCst);
    }
}

/// One client.
struct Busy<'s> {
    number: usize,
    jobs: u64,
    seed: Seed,
    shared: &'s Shared,
    connection: Option<Client>,
}

impl<'s> Busy<'s> {
    fn new(number: usize, seed: Seed, shared: &'s Shared) -> Self {
        Self { number, jobs: 0, seed, shared, connection: None }
    }

    fn work(mut self) {
        while !self.shared.over.load(Ordering::SeqCst) {
            if self.shared.paused.load(Ordering::SeqCst) {
                self.rest();
                continue;
            }
            self.step();
            pass(Duration::from_millis(self.seed.below(PAUSE_MS)));
        }
    }

    fn rest(&mut self) {
        self.connection = None;
        self.shared.idle.fetch_add(1, Ordering::SeqCst);
        while self.shared.paused.load(Ordering::SeqCst) && !self.shared.over.load(Ordering::SeqCst)
        {
            pass(Duration::from_millis(20));
        }
        self.shared.idle.fetch_sub(1, Ordering::SeqCst);
    }

    fn step(&mut self) {
        self.jobs += 1;
        let mark = format!("{MARK}{} job {}", self.number, self.jobs);
        let (on_agents, resent) = (self.seed.below(3) == 0, self.seed.below(3) == 0);
        let ops = usize::try_from(1 + self.seed.below(2)).unwrap();
        let op =
            op(&mark, on_agents.then_some(&self.shared.nodes), resent, self.seed.below(4) == 0);
        let call = SubmitJob { ops: vec![op; ops] };
        let word = if resent { self.submit_until_answered(&call) } else { self.submit_once(&call) };
        if matches!(word, Word::Accepted(_)) {
            let mut outage = self.shared.outage.lock();
            outage.longest = outage.longest.max(outage.since.elapsed());
            outage.since = Instant::now();
        }
        let ended = match word {
            Word::Accepted(id) if self.seed.below(2) == 0 => self.look(id),
            _ => None,
        };
        let told = ClientOutput { word, on_agents, ops, ended };
        self.shared.words.lock().insert(mark, told);
    }

    /// Asks over the connection there is, or another one to any node.
    fn ask<M: Method>(&mut self, call: &M) -> Result<M::Reply, ClientError> {
        let keeps = self.seed.below(8) > 0;
        let mut client = match self.connection.take().filter(|_| keeps) {
            Some(client) => client,
            None => {
                let sockets = &self.shared.sockets;
                let all = u64::try_from(sockets.len()).unwrap();
                let node = usize::try_from(self.seed.below(all)).unwrap();
                Client::connect(&sockets[node])?
            }
        };
        let answer = client.call(call)?;
        self.connection = Some(client);
        Ok(answer)
    }

    fn submit_once(&mut self, call: &SubmitJob) -> Word {
        match self.ask(call) {
            Ok(id) => Word::Accepted(id.0),
            Err(error) if error.certainly_not_done() => Word::Refused(chain(&error)),
            Err(error) => Word::Unknown(chain(&error)),
        }
    }

    /// The same bytes again and again: one job, however often they arrived.
    fn submit_until_answered(&mut self, call: &SubmitJob) -> Word {
        let begun = Instant::now();
        let mut unsure = false;
        loop {
            let error = match self.ask(call) {
                Ok(id) => return Word::Accepted(id.0),
                Err(error) => error,
            };
            unsure |= !error.certainly_not_done();
            if !error.is_away() || begun.elapsed() > RESENT_FOR {
                let said = chain(&error);
                return if unsure { Word::Unknown(said) } else { Word::Refused(said) };
            }
            pass(AGAIN_AFTER);
        }
    }

    fn look(&mut self, id: u64) -> Option<Vec<Value>> {
        let begun = Instant::now();
        while begun.elapsed() < LOOKED_FOR && !self.shared.paused.load(Ordering::SeqCst) {
            let call = QueryJobs { job_ids: Some(vec![JobId(id)]), fields: FINAL.into() };
            // A master that is cut off may answer with what was once.
            if let Ok(rows) = self.ask(&call)
                && let Some(Some(row)) = rows.into_iter().next()
                && is_final(&row[0])
            {
                return Some(row);
            }
            pass(AGAIN_AFTER);
        }
        None
    }
}

/// Whether a job with this status has ended.
pub fn is_final(status: &Value) -> bool {
    ["success", "error", "canceled"].iter().any(|end| status == end)
}

fn chain(error: &ClientError) -> String {
    stdx::daemon::chain(error)
}

/// An opcode that sleeps for a moment, on the master or on all agents.
fn op(mark: &str, agents: Option<&Vec<String>>, stamped: bool, locks: bool) -> OpInput {
    let op = json!({
        "OP_ID": "OP_TEST_DELAY", "duration": 0.01, "comment": mark, "no_locks": !locks,
        "on_master": agents.is_none(), "on_nodes": agents.cloned().unwrap_or_default(),
    });
    let mut op: OpInput = serde_json::from_str(&op.to_string()).unwrap();
    if stamped {
        let now = stdx::Clock::system().now_micros() * 1_000;
        op.common.reason = vec![ReasonEntry("tests:client".to_owned(), mark.to_owned(), now)];
    }
    op
}
