//! The journal against the store that does without one.

use super::*;
use crate::disk::sim::{Loss, Stop};
use crate::position::Position;
use crate::store::Durability;

fn open_naive(disk: &SimDisk) -> Result<Store, OpenError> {
    let options = StoreOptions { durability: Durability::File, ..options() };
    let opened = open(Arc::new(disk.clone()), Path::new(ROOT), options, Writer::Single)?;
    Ok(Store { parts: opened.parts, recovered: opened.recovered })
}

fn naive(store: Store) -> Commit {
    let parts = store.parts;
    assert!(parts.journal.is_none());
    let log = super::super::naive::Naive::new(parts.disk, &parts.root, parts.header);
    Commit { log: Log::Files(log), files: parts.files, epoch: EPOCH, position: parts.position }
}

fn batches(steps: &[Step]) -> Vec<Vec<Change>> {
    let inner = |step: &Step| match step {
        Step::Commit(changes) => vec![changes.clone()],
        Step::Write => vec![],
        Step::Checkpoint(one, other) => [batches(one), batches(other)].concat(),
    };
    steps.iter().flat_map(inner).collect()
}

#[test]
fn both_stores_make_the_same_files_of_the_same_history() {
    for seed in 0..30 {
        let steps = any_steps(&mut Chance::new(seed), 60, true);
        let plain = SimDisk::with_root(Path::new(ROOT));
        let mut oracle = naive(open_naive(&plain).unwrap());
        for changes in batches(&steps) {
            assert!(oracle.commit(changes, false).is_ok());
        }
        let disk = SimDisk::with_root(Path::new(ROOT));
        let mut history = History::new();
        let mut machine = Machine::start(open_on(&disk).unwrap());
        take_all(&mut machine, &steps, &mut history).unwrap();
        let position = Position { epoch: EPOCH, index: oracle.position.index };
        assert_eq!(machine.commit.position, position);
        machine.checkpoint().unwrap();
        let files = files_of(&open_naive(&plain).unwrap());
        assert_same(&files_of(&open_on(&disk).unwrap()), &files, &format!("seed {seed}"));
        assert_same(&files, &history.states[history.acknowledged], &format!("seed {seed}"));
    }
}

/// Files that are durable one by one keep each answer, though a batch may be half applied.
#[test]
fn every_stop_of_the_naive_store_keeps_what_was_answered() {
    let steps = job_steps(&mut Chance::new(1), 25);
    for at in 0..200 {
        let disk = SimDisk::with_root(Path::new(ROOT));
        disk.stop_after(at, [Stop::Before, Stop::After][at % 2]);
        let mut history = History::new();
        if let Ok(store) = open_naive(&disk) {
            let mut commit = naive(store);
            for step in &steps {
                let Step::Commit(changes) = step else { continue };
                history.begin(changes);
                if commit.commit(changes.clone(), false).is_err() {
                    break;
                }
                history.acknowledge();
            }
        }
        let disk = disk.crash(Loss::PowerCut, &mut Chance::new(u64::try_from(at).unwrap()));
        let store = open_naive(&disk).unwrap();
        let found = files_of(&store);
        let before = &history.states[history.acknowledged];
        let after = history.states.last().unwrap();
        for key in before.keys().chain(after.keys()).chain(found.keys()) {
            let value = found.get(key);
            let possible = value == before.get(key) || value == after.get(key);
            assert!(possible, "stopped at {at}: {key} is {:?} bytes", value.map(Bytes::len));
        }
        let index = usize::try_from(store.recovered().position.index).unwrap();
        assert!((history.acknowledged..history.states.len()).contains(&index));
    }
}

#[test]
fn a_store_may_change_its_durability_at_every_start() {
    let disk = SimDisk::with_root(Path::new(ROOT));
    let mut history = History::new();
    for round in 0..6_u8 {
        let change =
            Change::Put { key: key(&format!("k{round}")), content: vec![round; 50].into() };
        if round % 2 == 0 {
            let mut machine = Machine::start(open_on(&disk).unwrap());
            machine.commit(vec![change], &mut history).unwrap();
        } else {
            let mut commit = naive(open_naive(&disk).unwrap());
            history.begin(std::slice::from_ref(&change));
            assert!(commit.commit(vec![change], false).is_ok());
            history.acknowledge();
        }
    }
    history.check(&open_on(&disk).unwrap(), "after changing forth and back");
}
