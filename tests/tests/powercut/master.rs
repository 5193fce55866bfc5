//! The real master with clients that are busy.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::cluster::{Cluster, PATIENCE};
use tests::inspect::QueueFiles;
use tests::load::{Acknowledged, check, load};
use tests::loop_fs::{Kind, LoopFs};
use tests::run::{pass, wait_for};
use tests::sealed_test;
use tests::seed::Seed;
use tests::skip;

/// The power is cut at latest after so many milliseconds of load.
const LOAD_MS: u64 = 400;
/// Connections that are busy at the same time.
const CLIENTS: u64 = 4;

/// Works until the power is cut; what the clients were told before that.
fn round(cluster: &Cluster, fs: &LoopFs, seed: &mut Seed) -> Acknowledged {
    let socket = cluster.master.layout().luxi_socket();
    let seeds: Vec<Seed> = (0..CLIENTS).map(|_| seed.branch()).collect();
    let moment = Duration::from_millis(10 + seed.below(LOAD_MS));
    let cut = AtomicBool::new(false);
    let mut seen = Acknowledged::default();
    std::thread::scope(|scope| {
        let (cut, socket): (&AtomicBool, &Path) = (&cut, &socket);
        let start = |seed| scope.spawn(move || load(socket, seed, cut));
        let clients: Vec<_> = seeds.into_iter().map(start).collect();
        pass(moment);
        cut.store(true, Ordering::SeqCst);
        fs.switch().cut();
        cluster.kill_master();
        clients.into_iter().for_each(|client| seen.add(client.join().unwrap()));
    });
    seen
}

fn cuts(kind: Kind, count: u64) {
    let fs = match LoopFs::make(kind) {
        Ok(fs) => fs,
        Err(why) => return skip("power cuts below the master", &why),
    };
    let mut seed = Seed::new();
    let cluster = Cluster::init_at(&fs.path(), None);
    // The first start must find what `gnt cluster init` made.
    fs.switch().cut();
    fs.come_back();
    cluster.start_master();
    let mut known = Acknowledged::default();
    let mut highest = 0;
    for _ in 0..count {
        let seen = round(&cluster, &fs, &mut seed);
        assert!(seen.submitted.first().is_none_or(|first| *first > highest), "a number came twice");
        known.add(seen);
        fs.come_back();
        cluster.start_master();
        highest = check(&cluster, &known);
    }
    let (jobs, archived) = (known.submitted.len(), known.archived.len());
    eprintln!("{kind:?}: {count} cuts, {jobs} jobs acknowledged, {archived} archived");
    assert!(jobs > 0, "there was no load");
    wait_for("the end of all jobs", PATIENCE * 2, || {
        let pending = cluster.gnt("job list --no-headers -o id --pending");
        let running = cluster.gnt("job list --no-headers -o id --running");
        (pending.ok().is_empty() && running.ok().is_empty()).then_some(())
    });
    cluster.stop_master();
    let files = QueueFiles::read(&cluster.master);
    for id in known.submitted.difference(&known.archived) {
        assert!(files.live.contains_key(id) || files.archived.contains_key(id), "job {id} is lost");
    }
}

#[test]
fn ext4_below_the_master_keeps_every_acknowledged_job() {
    sealed_test::run("master::ext4_below_the_master_keeps_every_acknowledged_job", || {
        cuts(Kind::Ext4, tests::tries(5, 40));
    });
}

#[test]
fn xfs_below_the_master_keeps_every_acknowledged_job() {
    sealed_test::run("master::xfs_below_the_master_keeps_every_acknowledged_job", || {
        cuts(Kind::Xfs, tests::tries(5, 40));
    });
}
