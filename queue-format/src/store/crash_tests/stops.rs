//! The world ends between any two operations: while committing, writing files, checkpointing,
//! going round the ring, and while recovering from exactly that.

use super::*;
use crate::disk::sim::{Loss, Stop};

pub(super) fn new_disk() -> SimDisk {
    SimDisk::with_root(Path::new(ROOT))
}

/// Runs the steps until they end or the world does.
pub(super) fn run(disk: &SimDisk, steps: &[Step], history: &mut History) -> Result<(), Ended> {
    let store = open_on(disk).map_err(|_error| Ended)?;
    let mut machine = Machine::try_start(store)?;
    take_all(&mut machine, steps, history)
}

/// Boots until a boot gets through; each earlier one is stopped somewhere, too.
pub(super) fn boot(disk: SimDisk, chance: &mut Chance, what: &str) -> (SimDisk, Store) {
    let mut disk = disk;
    for _ in 0..chance.below(4) {
        disk.stop_after(chance.below(40), [Stop::Before, Stop::After][chance.below(2)]);
        match open_on(&disk) {
            Ok(store) => drop(store),
            Err(error) => assert!(disk.is_stopped(), "{what}: {error:?}"),
        }
        // A process that dies and then a power cut: what was read was only in the page cache.
        disk = disk.crash([Loss::Nothing, Loss::PowerCut][chance.below(2)], chance);
    }
    match open_on(&disk) {
        Ok(store) => (disk, store),
        Err(error) => panic!("{what}: {error:?}"),
    }
}

/// Stops the steps at `at`, boots, compares, goes on, and boots once more.
fn stop_at(steps: &[Step], at: usize, stop: Stop, loss: Loss, seed: u64) {
    let what = format!("seed {seed}, {stop:?} operation {at}, losing {loss:?}");
    let mut chance = Chance::new(seed ^ u64::try_from(at).unwrap() << 20);
    let mut history = History::new();
    let disk = new_disk();
    disk.stop_after(at, stop);
    run(&disk, steps, &mut history).expect_err(&what);

    let (disk, store) = boot(disk.crash(loss, &mut chance), &mut chance, &what);
    history.check(&store, &what);
    let mut machine = Machine::start(store);
    let more = any_steps(&mut chance, 6, true);
    take_all(&mut machine, &more, &mut history).expect("nothing stops this");
    let (_disk, store) = boot(disk.crash(loss, &mut chance), &mut chance, &what);
    history.check(&store, &what);
}

pub(super) fn operations(steps: &[Step]) -> usize {
    let disk = new_disk();
    run(&disk, steps, &mut History::new()).expect("nothing stops this");
    disk.operations()
}

#[test]
fn every_stop_of_a_queue_leaves_a_queue() {
    for seed in 0..2 {
        let steps = job_steps(&mut Chance::new(seed), 60);
        for at in 0..operations(&steps) {
            let stop = [Stop::Before, Stop::After][at % 2];
            for loss in [Loss::Nothing, Loss::PowerCut] {
                // The steps that follow the first boot are no queue's: look at what came before.
                let mut history = History::new();
                let disk = new_disk();
                disk.stop_after(at, stop);
                run(&disk, &steps, &mut history).expect_err("stopped");
                let mut chance = Chance::new(seed + 1000);
                let disk = disk.crash(loss, &mut chance);
                let (_disk, store) = boot(disk, &mut chance, "queue");
                history.check(&store, &format!("seed {seed}, {stop:?} {at}, {loss:?}"));
                check_queue(&files_of(&store));
            }
        }
    }
}

#[test]
fn every_stop_of_any_history_is_recovered() {
    for seed in 0..2 {
        let steps = any_steps(&mut Chance::new(seed), 40, true);
        for at in 0..operations(&steps) {
            for stop in [Stop::Before, Stop::After] {
                stop_at(&steps, at, stop, Loss::PowerCut, seed);
            }
            stop_at(&steps, at, Stop::After, Loss::Nothing, seed);
        }
    }
}

#[test]
fn random_histories_stopped_at_random_are_recovered() {
    for seed in 100..100 + histories(200) {
        let mut chance = Chance::new(seed);
        let count = 20 + chance.below(120);
        let steps = any_steps(&mut chance, count, true);
        let at = chance.below(operations(&steps));
        let stop = [Stop::Before, Stop::After][chance.below(2)];
        let loss = [Loss::Nothing, Loss::PowerCut][chance.below(2)];
        stop_at(&steps, at, stop, loss, seed);
    }
}

#[test]
fn the_ring_goes_round_in_these_histories() {
    let steps = job_steps(&mut Chance::new(0), 60);
    let disk = new_disk();
    let store = open_on(&disk).unwrap();
    let mut machine = Machine::start(store);
    take_all(&mut machine, &steps, &mut History::new()).unwrap();
    assert!(machine.commit.written_bytes() > 16 << 10);
}
