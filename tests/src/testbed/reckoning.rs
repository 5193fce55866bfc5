//! Compares the answers that clients got with the state of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use luxi::Client;
use luxi::method::{Method, QueryJobs};
use model::JobId;
use serde_json::Value;

use super::clients::{ClientOutput, FINAL, MARK, Word, Words, is_final};
use super::{NODES, Testbed, noded_of};
use crate::run::wait_for;

/// How long jobs may take to end that were there when all was well again: one waits for what a call
/// to an agent may take.
const ENDED_WITHIN: Duration = Duration::from_secs(120);
/// Most complaints that are reported; more of them are of the same kind.
const TOLD_MAX: usize = 20;
/// Jobs of one question.
const JOBS_AT_ONCE: usize = 500;

/// An opcode of a job.
type Opcode = (u64, u64);

/// Counts over all comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Jobs that clients were given a number of.
    pub acknowledged: u64,
    /// Submissions that were refused: nothing was done.
    pub refused: u64,
    /// Submissions whose outcome they were not told.
    pub unknown: u64,
    /// Of these, how many are there.
    pub unknown_there: u64,
    /// Calls of jobs that agents carried out.
    pub calls: u64,
}

/// The state that is kept from one comparison to the next.
#[derive(Debug)]
pub struct Reckoning {
    /// Every job up to this one was compared.
    until: u64,
    /// How far the log of each agent was read.
    read: [u64; NODES],
    /// The opcodes for which each agent was called.
    called: [BTreeSet<Opcode>; NODES],
    /// Marks of jobs of which nobody knew, and which were not there yet: a request may be under way
    /// for longer than its client waits.
    open: BTreeSet<String>,
    /// The clients' knowledge of all jobs with a number, for the last look.
    accepted: BTreeMap<u64, Option<Vec<Value>>>,
    /// Counts.
    pub totals: Totals,
}

/// A job as it is.
#[derive(Debug)]
struct Found {
    id: u64,
    mark: String,
    row: Vec<Value>,
}

impl Reckoning {
    /// Begins with the jobs after those that are there.
    pub fn begin(testbed: &Testbed, master: usize) -> Self {
        Self {
            until: probe(testbed, master),
            read: [0; NODES],
            called: [const { BTreeSet::new() }; NODES],
            open: BTreeSet::new(),
            accepted: BTreeMap::new(),
            totals: Totals::default(),
        }
    }

    /// Compares the answers to clients with a cluster that is well and at rest. No acknowledged job is
    /// lost, no refused job is there, and no job is there twice. Jobs that had ended are unchanged, and
    /// every agent was called once for each opcode.
    ///
    /// # Errors
    /// Everything that is not as it should be.
    pub fn compare(
        &mut self,
        testbed: &Testbed,
        master: usize,
        words: &Words,
    ) -> Result<(), String> {
        let highest = probe(testbed, master);
        let found = wait_for("the end of all jobs", ENDED_WITHIN, || {
            let found = jobs(testbed, master, self.until + 1..=highest);
            found.iter().all(|job| is_final(&job.row[0])).then_some(found)
        });
        self.until = highest;
        let mut by_mark: BTreeMap<&str, Vec<&Found>> = BTreeMap::new();
        for job in found.iter().filter(|job| !job.mark.is_empty()) {
            by_mark.entry(&job.mark).or_default().push(job);
        }
        let mut complaints = Vec::new();
        for (mark, jobs) in &by_mark {
            if jobs.len() > 1 {
                let ids: Vec<u64> = jobs.iter().map(|job| job.id).collect();
                complaints.push(format!("`{mark}` is there {} times: jobs {ids:?}", jobs.len()));
            }
            if !words.contains_key(*mark) && !self.open.remove(*mark) {
                complaints.push(format!("`{mark}` is there, and its client was told long ago"));
            }
        }
        for (mark, told) in words {
            let job = by_mark.get(mark.as_str()).map(|jobs| jobs[0]);
            self.count(told, job);
            if matches!(told.word, Word::Unknown(_)) && job.is_none() {
                self.open.insert(mark.clone());
            }
            complaints.extend(wrong(mark, told, job));
        }
        self.compare_calls(testbed, words, &by_mark, &mut complaints);
        conclude(complaints)
    }

    fn count(&mut self, told: &ClientOutput, job: Option<&Found>) {
        match &told.word {
            Word::Accepted(id) => {
                self.totals.acknowledged += 1;
                let as_it_is = job.map(|job| job.row[..FINAL.len()].to_vec());
                self.accepted.insert(*id, as_it_is);
            }
            Word::Refused(_) => self.totals.refused += 1,
            Word::Unknown(_) => {
                self.totals.unknown += 1;
                self.totals.unknown_there += u64::from(job.is_some());
            }
        }
    }

    fn compare_calls(
        &mut self,
        testbed: &Testbed,
        words: &Words,
        by_mark: &BTreeMap<&str, Vec<&Found>>,
        complaints: &mut Vec<String>,
    ) {
        for node in 0..NODES {
            let calls = self.calls(testbed, node);
            let name = &testbed.sites[node].host.name;
            self.totals.calls += u64::try_from(calls.len()).unwrap();
            let seen = &mut self.called[node];
            for (job, op) in calls {
                if !seen.insert((job, op)) {
                    complaints
                        .push(format!("{name} was called twice for opcode {op} of job {job}"));
                }
            }
            for (mark, told) in words.iter().filter(|(_, told)| told.on_agents) {
                let Some(job) = by_mark.get(mark.as_str()).map(|jobs| jobs[0]) else { continue };
                let missing = |op: &u64| !seen.contains(&(job.id, *op));
                let ops = 0..u64::try_from(told.ops).unwrap();
                if job.row[0] == "success"
                    && let Some(op) = ops.clone().find(missing)
                {
                    let id = job.id;
                    complaints.push(format!("job {id} succeeded, and {name} has not run {op}"));
                }
            }
        }
    }

    /// The opcodes for which the agent of a node was called since it was asked last.
    fn calls(&mut self, testbed: &Testbed, node: usize) -> Vec<Opcode> {
        let path = testbed.daemons.said(&noded_of(node));
        let mut file = std::fs::File::open(path).unwrap();
        file.seek(SeekFrom::Start(self.read[node])).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        // An incomplete line is read next time.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read[node] += u64::try_from(whole).unwrap();
        String::from_utf8_lossy(&bytes[..whole]).lines().filter_map(opcode_called).collect()
    }

    /// Looks once more at every job that was ever acknowledged.
    ///
    /// # Errors
    /// Those that are gone, or are not as they ended.
    pub fn compare_all(&self, testbed: &Testbed, master: usize) -> Result<(), String> {
        let mut complaints = Vec::new();
        let all: Vec<u64> = self.accepted.keys().copied().collect();
        for ids in all.chunks(JOBS_AT_ONCE) {
            let rows = ask(testbed, master, &query(ids.to_vec(), &FINAL));
            for (id, row) in ids.iter().zip(rows) {
                if row != self.accepted[id] {
                    complaints.push(format!("job {id} was {:?} and is {row:?}", self.accepted[id]));
                }
            }
        }
        conclude(complaints)
    }
}

/// `… called for a job call="test_delay" job=12 op=0`.
fn opcode_called(line: &str) -> Option<Opcode> {
    let (_, line) = line.split_once("called for a job")?;
    let of = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key));
    (of("call=")?.trim_matches('"') == "test_delay").then_some(())?;
    Some((of("job=")?.parse().ok()?, of("op=")?.parse().ok()?))
}

fn wrong(mark: &str, told: &ClientOutput, job: Option<&Found>) -> Option<String> {
    match (&told.word, job) {
        (Word::Accepted(id), None) => {
            Some(format!("`{mark}` was acknowledged as job {id}, and is lost"))
        }
        (Word::Accepted(id), Some(job)) if job.id != *id => {
            Some(format!("`{mark}` was acknowledged as job {id}, and is job {}", job.id))
        }
        (Word::Refused(why), Some(job)) => {
            Some(format!("`{mark}` was refused ({why}), and is job {}", job.id))
        }
        (_, Some(job)) => {
            let ended = told.ended.as_ref()?;
            let differs = ended[..] != job.row[..FINAL.len()];
            differs.then(|| format!("`{mark}` had ended as {ended:?}, and is {:?}", job.row))
        }
        (Word::Refused(_) | Word::Unknown(_), None) => None,
    }
}

fn conclude(mut complaints: Vec<String>) -> Result<(), String> {
    if complaints.is_empty() {
        return Ok(());
    }
    let count = complaints.len();
    complaints.truncate(TOLD_MAX);
    Err(format!("{count} findings: {}", complaints.join("; ")))
}

fn query(ids: Vec<u64>, fields: &[&str]) -> QueryJobs {
    let fields = fields.iter().copied().collect();
    QueryJobs { job_ids: Some(ids.into_iter().map(JobId).collect()), fields }
}

/// Asks the master, which is well.
fn ask<M: Method>(testbed: &Testbed, master: usize, call: &M) -> M::Reply {
    let socket = testbed.sites[master].host.layout().luxi_socket();
    Client::connect(&socket).unwrap().call(call).unwrap()
}

/// A job of one's own: the highest number there is.
fn probe(testbed: &Testbed, master: usize) -> u64 {
    let told = testbed.gnt(master, "debug delay 0 --no-locks --print-jobid");
    told.ok().trim().parse().unwrap_or_else(|error| panic!("{error}: {told:?}"))
}

fn jobs(testbed: &Testbed, master: usize, ids: std::ops::RangeInclusive<u64>) -> Vec<Found> {
    let ids: Vec<u64> = ids.collect();
    let mut found = Vec::new();
    for ids in ids.chunks(JOBS_AT_ONCE) {
        let fields = [&FINAL[..], &["ops"]].concat();
        let rows = ask(testbed, master, &query(ids.to_vec(), &fields));
        for (id, row) in ids.iter().zip(rows) {
            let Some(row) = row else { continue };
            let comment = row[FINAL.len()][0]["comment"].as_str();
            // Jobs of verification have a comment, too.
            let mark = comment.filter(|comment| comment.starts_with(MARK)).unwrap_or_default();
            found.push(Found { id: *id, mark: mark.to_owned(), row });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_the_log() {
        let line = "2026-11-22T15:00:00Z DEBUG call{call=test_delay}: noded::agent: called for a \
                    job call=\"test_delay\" job=12 op=1";
        assert_eq!(opcode_called(line), Some((12, 1)));
        assert_eq!(opcode_called(&line.replace("\"test_delay\"", "\"ssconf_push\"")), None);
        assert_eq!(opcode_called("called"), None);
    }

    #[test]
    fn words_are_held_against_jobs() {
        let job = Found { id: 7, mark: String::new(), row: vec!["success".into(); 3] };
        let told = |word| ClientOutput { word, on_agents: false, ops: 1, ended: None };
        let no = || "no".to_owned();
        assert!(wrong("m", &told(Word::Accepted(7)), None).unwrap().contains("is lost"));
        assert!(wrong("m", &told(Word::Accepted(8)), Some(&job)).unwrap().contains("is job 7"));
        assert!(wrong("m", &told(Word::Refused(no())), Some(&job)).unwrap().contains("refused"));
        assert_eq!(wrong("m", &told(Word::Accepted(7)), Some(&job)), None);
        assert_eq!(wrong("m", &told(Word::Unknown(no())), Some(&job)), None);
        assert_eq!(wrong("m", &told(Word::Refused(no())), None), None);
        let ended = Some(vec!["error".into(); 3]);
        let told = ClientOutput { ended, ..told(Word::Accepted(7)) };
        assert!(wrong("m", &told, Some(&job)).unwrap().contains("had ended"));
    }
}
