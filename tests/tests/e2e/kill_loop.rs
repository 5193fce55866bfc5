//! The master killed at random moments while clients submit, watch and archive as fast as they
//! can: what was acknowledged is there, exactly once, and stays as it was.

mod machines;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tests::cluster::{Cluster, PATIENCE};
use tests::inspect::QueueFiles;
use tests::load::{Acknowledged, check, load};
use tests::run::{pass, wait_for};
use tests::seed::Seed;

const ROUNDS: u64 = 12;
/// Connections that are busy at the same time.
const CLIENTS: u64 = 4;
/// The master is killed at latest after so many milliseconds of load.
const LOAD_MS: u64 = 700;
/// A start is killed at latest after so many milliseconds.
const START_MS: u64 = 120;

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
