//! The master is killed at random moments while clients submit, watch and archive as fast as they can.
//! Acknowledged jobs are there, exactly once, and stay as they were.

mod machines;

use std::time::Duration;

use tests::cluster::{Cluster, PATIENCE};
use tests::inspect::QueueFiles;
use tests::load::{Acknowledged, check, killed_under_load, wait_for_all_jobs};
use tests::run::pass;
use tests::seed::Seed;

const ROUNDS: u64 = 12;
/// Load before the master is killed: some kills meet the first requests.
const LEAST: Duration = Duration::from_millis(20);
/// A start is killed at latest after so many milliseconds.
const START_MS: u64 = 120;

/// Every file is whole, no job is live and archived, and the serial covers them all.
fn check_files(cluster: &Cluster) -> QueueFiles {
    let files = QueueFiles::read(&cluster.master);
    let twice: Vec<_> = files.live.keys().filter(|id| files.archived.contains_key(id)).collect();
    assert!(twice.is_empty(), "live and archived: {twice:?}");
    files
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
    let mut known = Acknowledged::default();
    let mut highest = 0;
    for _ in 0..ROUNDS {
        let seen = killed_under_load(&cluster, LEAST, &mut seed);
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
    wait_for_all_jobs(&cluster, PATIENCE * 2);
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
