//! The master killed at random moments while clients submit, watch and archive as fast as they
//! can: what was acknowledged is there, exactly once, and stays as it was.

mod machines;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use luxi::Client;
use luxi::method::{ArchiveJob, Query, QueryJobs, Submission, SubmitJob, SubmitManyJobs, What};
use model::{JobId, OpInput};
use serde_json::Value;
use tests::cluster::{Cluster, PATIENCE};
use tests::inspect::QueueFiles;
use tests::run::{pass, wait_for};
use tests::seed::Seed;

const ROUNDS: u64 = 12;
/// Connections that are busy at the same time.
const CLIENTS: u64 = 4;
/// The master is killed at latest after so many milliseconds of load.
const LOAD_MS: u64 = 700;
/// A start is killed at latest after so many milliseconds.
const START_MS: u64 = 120;
/// Jobs that one client submits in a round; a bound for a disk that is very fast.
const JOBS_PER_CLIENT: usize = 600;

/// What the master acknowledged.
#[derive(Debug, Default, Clone)]
struct Acknowledged {
    submitted: BTreeSet<u64>,
    archived: BTreeSet<u64>,
    /// Status and results of jobs that were seen to have ended.
    ended: BTreeMap<u64, Vec<Value>>,
}

impl Acknowledged {
    fn add(&mut self, other: Self) {
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

/// One step of a client; none when the master is gone.
fn step(client: &mut Client, seed: &mut Seed, seen: &mut Acknowledged) -> Option<()> {
    match seed.below(10) {
        0..4 => {
            let id = client.call(&SubmitJob { ops: job(seed) }).ok()?;
            assert!(seen.submitted.insert(id.0), "{id} was given twice");
        }
        4 => {
            let jobs = (0..=seed.below(20)).map(|_| job(seed)).collect();
            for submission in client.call(&SubmitManyJobs { jobs }).ok()? {
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
            } else if client.call(&ArchiveJob { job_id: JobId(id) }).ok()? {
                seen.archived.insert(id);
            }
        }
    }
    Some(())
}

/// Looks at a job, and keeps what is final.
fn look(client: &mut Client, id: u64, seen: &mut Acknowledged) -> Option<()> {
    if seen.archived.contains(&id) {
        return Some(());
    }
    let fields = ["status", "opstatus", "opresult"].into();
    let rows = client.call(&QueryJobs { job_ids: Some(vec![JobId(id)]), fields }).ok()?;
    let row = rows.into_iter().next().unwrap();
    let row = row.unwrap_or_else(|| panic!("job {id} was acknowledged and does not exist"));
    if ["success", "error", "canceled"].iter().any(|status| row[0] == *status) {
        let before = seen.ended.insert(id, row.clone());
        assert!(before.is_none_or(|before| before == row), "job {id} had ended");
    }
    Some(())
}

fn load(socket: &Path, mut seed: Seed) -> Acknowledged {
    let mut seen = Acknowledged::default();
    let Ok(mut client) = Client::connect(socket) else { return seen };
    while seen.submitted.len() < JOBS_PER_CLIENT {
        if step(&mut client, &mut seed, &mut seen).is_none() {
            break;
        }
    }
    seen
}

/// Every acknowledged job is there, once, where it was put, as it was.
fn check(cluster: &Cluster, known: &Acknowledged) -> u64 {
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

/// Every file is whole, no job is live and archived, and the serial covers them all.
fn check_files(cluster: &Cluster) -> QueueFiles {
    let files = QueueFiles::read(&cluster.master);
    let twice: Vec<_> = files.live.keys().filter(|id| files.archived.contains_key(id)).collect();
    assert!(twice.is_empty(), "live and archived: {twice:?}");
    files
}

fn round(cluster: &Cluster, socket: &Path, seed: &mut Seed) -> Acknowledged {
    let seeds: Vec<Seed> = (0..CLIENTS).map(|_| seed.branch()).collect();
    let moment = Duration::from_millis(20 + seed.below(LOAD_MS));
    std::thread::scope(|scope| {
        let start = |seed| scope.spawn(move || load(socket, seed));
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

/// Kills the master while it recovers, or has just begun to run what it found; now and then.
fn crash_starts(cluster: &Cluster, seed: &mut Seed) {
    for _ in 0..seed.below(3) {
        cluster.start("masterd", cluster.masterd());
        pass(Duration::from_millis(seed.below(START_MS)));
        cluster.kill_master();
        let _whole = QueueFiles::read(&cluster.master);
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let mut seed = Seed::new();
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let mut known = Acknowledged::default();
    let mut highest = 0;
    for _ in 0..ROUNDS {
        let seen = round(&cluster, &socket, &mut seed);
        // A number of this round is above all that any earlier round can have given.
        assert!(seen.submitted.first().is_none_or(|first| *first > highest), "a number came twice");
        known.add(seen);
        let _whole = QueueFiles::read(&cluster.master);
        crash_starts(&cluster, &mut seed);
        cluster.start_master();
        highest = check(&cluster, &known);
        let probe = cluster.submit("debug delay 0 --no-locks");
        assert!(probe > highest, "{probe} was given before");
        highest = probe;
    }
    let (jobs, archived) = (known.submitted.len(), known.archived.len());
    eprintln!("{jobs} jobs acknowledged, {archived} archived, {ROUNDS} kills");
    assert!(jobs > 100 && archived > 10, "there was no load");
    wait_for("the end of all jobs", PATIENCE * 2, || {
        let pending = cluster.gnt("job list --no-headers -o id --pending");
        let running = cluster.gnt("job list --no-headers -o id --running");
        (pending.ok().is_empty() && running.ok().is_empty()).then_some(())
    });
    check(&cluster, &known);
    cluster.stop_master();
    let files = check_files(&cluster);
    assert!(files.serial >= highest, "the serial {} does not cover {highest}", files.serial);
    for id in &known.archived {
        assert!(files.archived.contains_key(id), "job {id} was archived and is not");
    }
    for id in known.submitted.difference(&known.archived) {
        assert!(files.live.contains_key(id) || files.archived.contains_key(id), "job {id} is lost");
    }
    cluster.start_master();
    check(&cluster, &known);
}
