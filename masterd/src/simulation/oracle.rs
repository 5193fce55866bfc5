//! The answers that clients got, and whether they hold of what a start finds.

use std::collections::{BTreeMap, BTreeSet};

use model::OpStatus;
use model::opcode::common::DependsOn;
use model::{Job, JobId, JobStatus, OpInput};
use queue_format::{Epoch, Reader};
use serde_json::Value;

use crate::role::load::Found;

/// Everything that was said to any client in any life.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// Ids of accepted jobs with the mark of their submission.
    accepted: BTreeMap<JobId, String>,
    /// Status and result of the opcodes of jobs that were shown, as they were last.
    seen: BTreeMap<JobId, Vec<(OpStatus, Value)>>,
    archived: BTreeSet<JobId>,
    canceled: BTreeSet<JobId>,
    /// Priority of what has not begun, where a single client knows it.
    priorities: BTreeMap<JobId, i32>,
    /// Whether new jobs are refused, unless that was being changed.
    drained: Option<bool>,
    /// The highest id that any job had when the life began.
    floor: u64,
    /// The newest leadership, where there are several masters.
    newest: Epoch,
    /// How many there were.
    leads: u64,
    /// The jobs that it found, by their marks.
    found: BTreeMap<JobId, String>,
    /// Submissions that were sent, and for all that was answered may have been taken.
    unanswered: Vec<(String, Vec<OpInput>)>,
    /// Marks of those that may have been taken, whatever is said when they are sent again.
    unsure: BTreeSet<String>,
    /// Marks of those that certainly were not.
    refused: BTreeSet<String>,
    next_mark: u64,
}

impl Oracle {
    /// A mark that no other submission has.
    pub(super) fn mark(&mut self) -> String {
        self.next_mark += 1;
        format!("m{}", self.next_mark)
    }

    /// The newest leadership that anybody was told of.
    pub(super) fn newest(&self) -> Epoch {
        self.newest
    }

    /// Leaderships, and submissions that were accepted and refused.
    pub(super) fn tally(&self) -> [u64; 3] {
        [self.leads, self.accepted.len() as u64, self.refused.len() as u64]
    }

    /// A master has its role: nothing that clients were told before may be missing in its store. A
    /// member that learns of its leadership only after another one has begun is no master.
    pub(super) fn begin_leadership(&mut self, epoch: Epoch, found: &Found, store: &Reader) {
        if epoch > self.newest {
            self.newest = epoch;
            self.leads += 1;
            self.check(found, store);
        }
    }

    /// A submission was accepted in a `leadership`; `newest` was that when it was begun.
    pub(super) fn accepted(
        &mut self,
        id: JobId,
        mark: String,
        (leadership, newest): (Epoch, Epoch),
    ) {
        assert!(
            leadership >= newest,
            "job {id} was accepted in {leadership}, after {newest} had begun"
        );
        if leadership == self.newest {
            let is_found = self.found.get(&id) == Some(&mark);
            assert!(is_found || id.0 > self.floor, "job {id} had its number in an earlier life");
        } else {
            // Accepted in time, and told late.
            assert_eq!(self.found.get(&id), Some(&mark), "job {id} was accepted and is lost");
        }
        let before = self.accepted.insert(id, mark);
        assert_eq!(before, None, "the number {id} was given twice");
    }

    /// A submission had no answer that says which job came of it.
    pub(super) fn not_answered(&mut self, submission: (String, Vec<OpInput>), certainly_not: bool) {
        self.not_taken(submission.0.clone(), certainly_not);
        self.unanswered.push(submission);
    }

    /// A submission with this mark was not taken, by its answer, or may not have been.
    pub(super) fn not_taken(&mut self, mark: String, certainly: bool) {
        if !certainly {
            self.unsure.insert(mark);
        } else if !self.unsure.contains(&mark) {
            self.refused.insert(mark);
        }
    }

    /// The last of those without an answer, to be sent again.
    pub(super) fn unanswered(&mut self) -> Option<(String, Vec<OpInput>)> {
        let again = self.unanswered.pop()?;
        self.refused.remove(&again.0);
        Some(again)
    }

    /// Some accepted job.
    pub(super) fn job(&self, at: usize) -> Option<JobId> {
        let count = self.accepted.len();
        (count > 0).then(|| *self.accepted.keys().nth(at % count).unwrap())
    }

    pub(super) fn archived(&mut self, id: JobId) {
        self.archived.insert(id);
    }

    pub(super) fn canceled(&mut self, id: JobId) {
        self.canceled.insert(id);
    }

    pub(super) fn set_drained(&mut self, drained: Option<bool>, leadership: Epoch) {
        if leadership == self.newest {
            self.drained = drained;
        }
    }

    pub(super) fn set_priority(&mut self, id: JobId, priority: Option<i32>) {
        match priority {
            Some(priority) => drop(self.priorities.insert(id, priority)),
            None => drop(self.priorities.remove(&id)),
        }
    }

    /// A client was shown a job. A client of a former master may see the past.
    pub(super) fn seen(&mut self, id: JobId, ops: Vec<(OpStatus, Value)>, leadership: Epoch) {
        if leadership < self.newest {
            return;
        }
        if let Some(before) = self.seen.get(&id) {
            assert!(goes_forward(before, &ops), "job {id} went from {before:?} to {ops:?}");
        }
        self.seen.insert(id, ops);
    }

    /// Compares all of it with what a start finds.
    pub(super) fn check(&mut self, found: &Found, store: &Reader) {
        let archived = archived_jobs(store);
        let mut all: BTreeMap<JobId, &Job> = archived.iter().map(|job| (job.id, job)).collect();
        for job in &found.jobs {
            assert!(all.insert(job.id, job).is_none(), "job {} is live and archived", job.id);
        }
        assert_eq!(all.len(), found.jobs.len() + archived.len(), "a job is there twice");
        let marks: BTreeSet<String> = all.values().map(|job| mark_of(job)).collect();
        assert_eq!(marks.len(), all.len(), "a submission made two jobs");
        let refused = marks.intersection(&self.refused).next();
        assert_eq!(refused, None, "a submission was refused and is there");
        for (id, mark) in &self.accepted {
            let job = all.get(id).unwrap_or_else(|| panic!("job {id} was accepted and is lost"));
            assert_eq!(mark_of(job), *mark, "job {id} is another one");
        }
        for (id, before) in &mut self.seen {
            let ops = ops_of(all[id]);
            // A leadership that ended before anyone was served may have queued again what waited.
            let was_requeued = self.leads > 0 && {
                let requeued: Vec<_> = before.iter().map(requeued).collect();
                goes_forward(&requeued, &ops)
            };
            assert!(
                was_requeued || goes_forward(before, &ops),
                "job {id} was seen as {before:?} and is {ops:?}"
            );
            *before = ops.iter().map(requeued).collect();
        }
        for id in &self.archived {
            assert!(archived.iter().any(|job| job.id == *id), "job {id} was archived and is not");
        }
        for job in &archived {
            assert!(job.status().is_final(), "job {} is archived and has not ended", job.id);
        }
        for id in &self.canceled {
            assert_eq!(all[id].status(), JobStatus::Canceled, "job {id} was canceled");
        }
        for (id, priority) in &self.priorities {
            for op in all[id].ops.iter().filter(|op| op.status < OpStatus::Running) {
                assert_eq!(op.priority, *priority, "job {id} was given another priority");
            }
        }
        let highest = all.keys().next_back().map_or(0, |id| id.0);
        assert!(found.serial >= highest.max(self.floor), "serial {} is too low", found.serial);
        self.floor = found.serial;
        self.found = all.iter().map(|(id, job)| (*id, mark_of(job))).collect();
        assert!(self.drained.is_none_or(|drained| drained == found.drained), "the drain flag");
        self.drained = Some(found.drained);
        for job in all.values() {
            for op in &job.ops {
                assert!(!op.result.to_string().contains("Internal error"), "{:?}", op.result);
            }
        }
    }

    /// After the last life every job has ended, and followed what it depended on.
    pub(super) fn check_ended(&self, found: &Found, store: &Reader) {
        let archived = archived_jobs(store);
        let all: BTreeMap<JobId, &Job> =
            archived.iter().chain(&found.jobs).map(|job| (job.id, job)).collect();
        for job in all.values() {
            assert!(job.status().is_final(), "job {} has no end", job.id);
            if job.status() == JobStatus::Success {
                check_dependencies(job, &all);
            }
        }
    }
}

fn check_dependencies(job: &Job, all: &BTreeMap<JobId, &Job>) {
    let known = job.ops.iter().filter_map(|op| op.input.known());
    for dependency in known.flat_map(|input| input.common.depends.iter().flatten()) {
        let DependsOn::Job(id) = dependency.0 else { panic!("{dependency:?} is not resolved") };
        let status = all[&id].status();
        let enough = dependency.1.is_empty() || dependency.1.contains(&status);
        assert!(enough, "job {} succeeded though {id}, which it needs, is {status}", job.id);
    }
}

fn archived_jobs(store: &Reader) -> Vec<Job> {
    let scan = store.scan("queue/archive/").unwrap();
    scan.map(|entry| serde_json::from_slice(&entry.unwrap().1).unwrap()).collect()
}

fn mark_of(job: &Job) -> String {
    let input = job.ops[0].input.known().expect("these opcodes are known");
    input.common.comment.clone().expect("every submission is marked")
}

fn ops_of(job: &Job) -> Vec<(OpStatus, Value)> {
    job.ops.iter().map(|op| (op.status, op.result.clone())).collect()
}

/// A client of one life never sees an opcode go back, nor an end change.
fn goes_forward(before: &[(OpStatus, Value)], after: &[(OpStatus, Value)]) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| {
            if before.0.is_final() { before == after } else { before.0 <= after.0 }
        })
}

/// The state in which a start leaves an opcode that waited.
fn requeued((status, result): &(OpStatus, Value)) -> (OpStatus, Value) {
    let status = if *status == OpStatus::Waiting { OpStatus::Queued } else { *status };
    (status, result.clone())
}
