//! Core: what the writer has to do after events.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::asker::Asker;
use model::job::Op;
use model::{Job, JobId, Timestamp};

use crate::event::{Replies, Reply};

/// The writer's work after events were handled; everything in it becomes one commit.
#[derive(Debug)]
pub struct Effects<R: Replies> {
    /// The time of the event that is being handled.
    pub(crate) now: Timestamp,
    /// Jobs that changed, each as it is now.
    pub changed: BTreeMap<JobId, Arc<Job>>,
    /// Bytes of their files, roughly, each time that one changed.
    pub changed_bytes: usize,
    /// Jobs that go to the archive, each as it is now.
    pub archived: BTreeMap<JobId, Arc<Job>>,
    /// The job serial, if it grew.
    pub serial: Option<u64>,
    /// The drain mark, if it changed.
    pub drained: Option<bool>,
    /// Answers that go out when all this is durable.
    pub replies: Vec<Reply<R>>,
    /// Opcodes to start; they may begin before the commit, and call no agent before their own
    /// "running" is durable.
    pub start: Vec<Start>,
    /// Jobs whose worker is to end before it changes anything.
    pub interrupt: Vec<JobId>,
    /// Jobs whose worker is to end at once.
    pub kill: Vec<JobId>,
    /// Jobs whose waiting lock request has a new priority.
    pub reprioritize: Vec<(JobId, i32)>,
}

impl<R: Replies> Default for Effects<R> {
    fn default() -> Self {
        Self {
            now: Timestamp::default(),
            changed: BTreeMap::new(),
            changed_bytes: 0,
            archived: BTreeMap::new(),
            serial: None,
            drained: None,
            replies: Vec::new(),
            start: Vec::new(),
            interrupt: Vec::new(),
            kill: Vec::new(),
            reprioritize: Vec::new(),
        }
    }
}

impl<R: Replies> Effects<R> {
    pub(crate) fn change(&mut self, job: &Arc<Job>, bytes: usize) {
        self.changed_bytes += bytes;
        self.changed.insert(job.id, Arc::clone(job));
    }

    /// Whether there is nothing to commit.
    pub fn commits_nothing(&self) -> bool {
        self.changed.is_empty()
            && self.archived.is_empty()
            && self.serial.is_none()
            && self.drained.is_none()
            && self.replies.is_empty()
    }
}

/// An opcode to run.
#[derive(Debug, Clone)]
pub struct Start {
    pub job: JobId,
    /// Its place in the job.
    pub op: usize,
    /// What to do.
    pub input: Arc<model::opcode::Input>,
    /// Priority of its lock requests.
    pub priority: i32,
    /// The submitter of its job.
    pub asker: Option<Arc<Asker>>,
}

impl Start {
    pub(crate) fn new(job: JobId, place: usize, op: &Op, asker: Option<Arc<Asker>>) -> Self {
        Self { job, op: place, input: Arc::clone(&op.input), priority: op.priority, asker }
    }
}
