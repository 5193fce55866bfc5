//! Clients that submit, watch and archive as fast as they can, and the answers that they got.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use luxi::Client;
use luxi::method::{
    ArchiveJob, Method, Query, QueryJobs, Submission, SubmitJob, SubmitManyJobs, What,
};
use model::{JobId, OpInput};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::run::{pass, wait_for};
use crate::seed::Seed;

/// Connections that are busy at the same time.
const CLIENTS: u64 = 4;

/// The master is killed at latest after so many milliseconds of load.
const LOAD_MS: u64 = 700;

/// Jobs that one client submits at once; a bound for a disk that is very fast.
const JOBS_PER_CLIENT: usize = 600;

/// The master's acknowledgements.
#[derive(Debug, Default, Clone)]
pub struct Acknowledged {
    /// Jobs that have a number.
    pub submitted: BTreeSet<u64>,
    /// Jobs that were archived.
    pub archived: BTreeSet<u64>,
    /// Status and results of jobs that were seen to have ended.
    pub ended: BTreeMap<u64, Vec<Value>>,
}

impl Acknowledged {
    /// Takes in the acknowledgements of another client.
    ///
    /// # Panics
    /// If a number was given twice.
    pub fn add(&mut self, other: Self) {
        let before = self.submitted.len();
        let more = other.submitted.len();
        self.submitted.extend(other.submitted);
        assert_eq!(self.submitted.len(), before + more, "a number was given twice");
        self.archived.extend(other.archived);
        self.ended.extend(other.ended);
    }
}

/// One job: mostly one that succeeds, now and then one that fails.
fn job(seed: &mut Seed) -> Vec<OpInput> {
    let op = match seed.below(8) {
        0 => r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_nodes": ["nobody"]}"#,
        1 => r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0}"#,
        _ => r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}"#,
    };
    let ops = usize::try_from(1 + seed.below(2)).unwrap();
    vec![serde_json::from_str(op).unwrap(); ops]
}

/// A client that believes nothing that it hears after `over` was set.
struct Doubting<'c> {
    client: Client,
    over: &'c AtomicBool,
}

impl Doubting<'_> {
    /// None when the master is gone, or `over` is set.
    fn call<M: Method>(&mut self, method: &M) -> Option<M::Reply> {
        let answer = self.client.call(method).ok()?;
        (!self.over.load(Ordering::SeqCst)).then_some(answer)
    }
}

/// One step of a client; none when the master is gone.
fn step(client: &mut Doubting<'_>, seed: &mut Seed, seen: &mut Acknowledged) -> Option<()> {
    match seed.below(10) {
        0..4 => {
            let id = client.call(&SubmitJob { ops: job(seed) })?;
            assert!(seen.submitted.insert(id.0), "{id} was given twice");
        }
        4 => {
            let jobs = (0..=seed.below(20)).map(|_| job(seed)).collect();
            for submission in client.call(&SubmitManyJobs { jobs })? {
                let Submission::Accepted(id) = submission else { panic!("{submission:?}") };
                assert!(seen.submitted.insert(id.0), "{id} was given twice");
            }
        }
        choice => {
            let count = u64::try_from(seen.submitted.len()).unwrap();
            if count == 0 {
                return Some(());
            }
            let at = usize::try_from(seed.below(count)).unwrap();
            let id = *seen.submitted.iter().nth(at).unwrap();
            if choice < 8 {
                look(client, id, seen)?;
            } else if client.call(&ArchiveJob { job_id: JobId(id) })? {
                seen.archived.insert(id);
            }
        }
    }
    Some(())
}

/// Looks at a job, and keeps what is final.
fn look(client: &mut Doubting<'_>, id: u64, seen: &mut Acknowledged) -> Option<()> {
    if seen.archived.contains(&id) {
        return Some(());
    }
    let fields = ["status", "opstatus", "opresult"].into();
    let rows = client.call(&QueryJobs { job_ids: Some(vec![JobId(id)]), fields })?;
    let row = rows.into_iter().next().unwrap();
    let row = row.unwrap_or_else(|| panic!("job {id} was acknowledged and does not exist"));
    if ["success", "error", "canceled"].iter().any(|status| row[0] == *status) {
        let before = seen.ended.insert(id, row.clone());
        assert!(before.is_none_or(|before| before == row), "job {id} had ended");
    }
    Some(())
}

/// Submits, looks and archives, a step after the other, until the master is gone; what is answered
/// after `over` was set does not count.
pub fn load(socket: &Path, mut seed: Seed, over: &AtomicBool) -> Acknowledged {
    let mut seen = Acknowledged::default();
    let Ok(client) = Client::connect(socket) else { return seen };
    let mut client = Doubting { client, over };
    while seen.submitted.len() < JOBS_PER_CLIENT {
        if step(&mut client, &mut seed, &mut seen).is_none() {
            break;
        }
    }
    seen
}

/// Clients are busy with the master until it is killed, at some moment after `least`; what they were
/// told.
///
/// # Panics
/// If a client does.
pub fn killed_under_load(cluster: &Cluster, least: Duration, seed: &mut Seed) -> Acknowledged {
    let socket = &cluster.master.layout().luxi_socket();
    let seeds: Vec<Seed> = (0..CLIENTS).map(|_| seed.branch()).collect();
    let moment = least + Duration::from_millis(seed.below(LOAD_MS));
    let never = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = |seed| scope.spawn(move || load(socket, seed, never));
        let clients: Vec<_> = seeds.into_iter().map(start).collect();
        pass(moment);
        cluster.kill_master();
        let mut seen = Acknowledged::default();
        for client in clients {
            seen.add(client.join().unwrap());
        }
        seen
    })
}

/// Waits until every job has ended.
///
/// # Panics
/// If some do not.
pub fn wait_for_all_jobs(cluster: &Cluster, patience: Duration) {
    wait_for("the end of all jobs", patience, || {
        let pending = cluster.gnt("job list --no-headers -o id --pending");
        let running = cluster.gnt("job list --no-headers -o id --running");
        (pending.ok().is_empty() && running.ok().is_empty()).then_some(())
    });
}

/// Every acknowledged job is there, once, where it was put, as it was. Gives the highest number.
///
/// # Panics
/// If one is not.
pub fn check(cluster: &Cluster, known: &Acknowledged) -> u64 {
    let fields = ["id", "status", "opstatus", "opresult", "archived"].into();
    let table = cluster.client().call(&Query { what: What::Job, fields, filter: None }).unwrap();
    let mut found = BTreeMap::new();
    for row in table.data {
        let row: Vec<Value> =
            row.into_iter().map(|c| c.value().cloned().unwrap_or_default()).collect();
        let id = row[0].as_u64().unwrap();
        assert!(found.insert(id, row).is_none(), "job {id} is there twice");
    }
    for id in &known.submitted {
        assert!(found.contains_key(id), "job {id} was acknowledged and is lost");
    }
    for id in &known.archived {
        assert_eq!(found[id][4], true, "job {id} was archived and is not");
    }
    for (id, row) in &known.ended {
        assert_eq!(found[id][1..4], row[..], "job {id} had ended");
    }
    found.keys().next_back().copied().unwrap_or(0)
}
