//! The store under load through its public door.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use queue_format::{
    Callbacks, Change, Committer, Durability, Epoch, Health, Key, Store, StoreOptions,
};
use tests::loop_fs::{Kind, LoopFs};
use tests::run::pass;
use tests::sealed_test;
use tests::seed::Seed;
use tests::skip;

/// The power is cut at latest after so many microseconds of load.
const LOAD_MICROS: u64 = 60_000;
/// Jobs that are live at the same time; the one before is archived.
const LIVE: u64 = 20;
/// Jobs that are kept at all, for the image is small.
const KEPT: u64 = 300;
/// Submissions of one round, should a disk be very fast.
const ROUND_MAX: usize = 4_000;

type State = BTreeMap<Key, Bytes>;

fn options(durability: Durability) -> StoreOptions {
    StoreOptions {
        durability,
        // The ring goes round, and the files are written, several times between two cuts.
        segment_bytes: 256 << 10,
        segments: 3,
        write_behind: Duration::from_millis(1),
        checkpoint_every: Duration::from_millis(10),
        ..StoreOptions::default()
    }
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn put(name: &str, content: String) -> Change {
    Change::Put { key: key(name), content: content.into() }
}

/// The changes of one step: a job is submitted, an older one ends, a still older one is archived, the
/// oldest is removed. `round` tells contents apart that were lost with their step from those that
/// took their place.
fn step(id: u64, round: u64, seed: &mut Seed) -> Vec<Change> {
    let most = if seed.below(8) == 0 { 8_000 } else { 300 };
    let padding = "x".repeat(usize::try_from(seed.below(most)).unwrap());
    let job = |id: u64, status: &str| {
        let content = format!("{{\"id\":{id},\"round\":{round},\"{status}\":\"{padding}\"}}");
        put(&format!("queue/job-{id}"), content)
    };
    let mut changes = vec![put("queue/serial", format!("{id}\n")), job(id, "queued")];
    let older = |by: u64| id.checked_sub(by).filter(|&old| old > 0);
    changes.extend(older(1 + seed.below(3)).map(|old| job(old, "success")));
    let archived = |id: u64| key(&format!("queue/archive/{}/job-{id}", id / 100));
    if let Some(old) = older(LIVE) {
        changes.push(Change::Move { from: key(&format!("queue/job-{old}")), to: archived(old) });
    }
    changes.extend(older(KEPT).map(|old| Change::Delete { key: archived(old) }));
    changes
}

fn apply(state: &mut State, changes: &[Change]) {
    for change in changes {
        match change.clone() {
            Change::Put { key, content } => drop(state.insert(key, content)),
            Change::Delete { key } => drop(state.remove(&key)),
            Change::Move { from, to } => {
                if let Some(content) = state.remove(&from) {
                    state.insert(to, content);
                }
            }
        }
    }
}

fn serial(state: &State) -> u64 {
    let text = state.get(&key("queue/serial")).map_or(&b"0"[..], |text| text);
    std::str::from_utf8(text).unwrap().trim_end().parse().unwrap()
}

/// One time between two boots.
#[derive(Debug, Default)]
struct Round {
    /// The changes of each step that was begun, in their order.
    steps: Vec<Vec<Change>>,
    /// So many of them were acknowledged before the cut began.
    acknowledged: usize,
}

/// Submits steps until the store fails, alone or with a crowd of others in the same flush.
fn load(store: Store, first: u64, round: u64, seed: &mut Seed, cut: &Cut<'_>) -> Round {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (begun, seen) = (Arc::clone(&cut.begun), Arc::clone(&acknowledged));
    let callbacks = Callbacks::new(move |steps: Vec<u64>, _position| {
        if !begun.load(Ordering::SeqCst) {
            seen.store(*steps.last().unwrap(), Ordering::SeqCst);
        }
    })
    .on_fatal(|_expected| {});
    let committer: Committer<u64> = store.start(Epoch { term: 1, node: 1 }, callbacks).unwrap();
    let alone = cut.alone || seed.below(3) == 0;
    let mut steps = Vec::new();
    std::thread::scope(|scope| {
        let moment = Duration::from_micros(seed.below(LOAD_MICROS));
        scope.spawn(move || cut.make(moment));
        while !matches!(committer.health(), Health::Failed { .. }) && steps.len() < ROUND_MAX {
            let number = u64::try_from(steps.len()).unwrap() + 1;
            let changes = step(first + number - 1, round, seed);
            let taken = match seed.below(2) {
                0 => committer.try_submit(changes.clone(), number),
                _ => committer.submit_here(changes.clone(), number),
            };
            if taken.is_err() {
                std::thread::yield_now();
                continue;
            }
            steps.push(changes);
            while alone
                && committer.backlog().changes > 0
                && !matches!(committer.health(), Health::Failed { .. })
            {
                std::thread::yield_now();
            }
        }
    });
    // It has failed, or has nothing left to do on a disk that has failed.
    drop(committer.close());
    let acknowledged = usize::try_from(acknowledged.load(Ordering::SeqCst)).unwrap();
    Round { steps, acknowledged }
}

/// A power cut that is to come.
struct Cut<'f> {
    begun: Arc<AtomicBool>,
    fs: &'f LoopFs,
    /// One step after the other, each waited for.
    alone: bool,
}

impl Cut<'_> {
    fn make(&self, moment: Duration) {
        let switch = self.fs.switch();
        pass(moment);
        self.begun.store(true, Ordering::SeqCst);
        switch.cut();
    }
}

/// The files as they lie there before anything is repeated, and how many are not as they should.
fn damaged(directory: &Path, expected: &State) -> usize {
    let wrong = |(key, content): &(&Key, &Bytes)| {
        std::fs::read(directory.join(key.as_str())).ok().as_deref() != Some(content)
    };
    expected.iter().filter(wrong).count()
}

#[derive(Debug, Default)]
struct Totals {
    acknowledged: usize,
    damaged: usize,
    repeated: u64,
}

/// Cuts, again and again, on one file system.
fn cuts(kind: Kind, durability: Durability, count: u64) {
    let fs = match LoopFs::make(kind) {
        Ok(fs) => fs,
        Err(why) => return skip("power cuts below the store", &why),
    };
    let mut seed = Seed::new();
    let data = fs.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut state = State::new();
    let mut totals = Totals::default();
    for round in 0..count {
        let store = Store::open(&data, options(durability)).unwrap();
        let alone = durability == Durability::File;
        let cut = Cut { begun: Arc::default(), fs: &fs, alone };
        let done = load(store, serial(&state) + 1, round, &mut seed, &cut);
        fs.come_back();
        let mut least = state.clone();
        done.steps[..done.acknowledged].iter().for_each(|changes| apply(&mut least, changes));
        totals.damaged += damaged(&data, &least);
        totals.acknowledged += done.acknowledged;
        let store = Store::open(&data, options(durability)).unwrap();
        totals.repeated += store.recovered().replayed_batches;
        let found: State = store.scan("").unwrap().map(Result::unwrap).collect();
        let what = format!("{kind:?}, round {round}");
        match durability {
            Durability::Journal => check_whole(&state, &done, &found, &what),
            Durability::File => check_files(&least, &done, &found, &what),
        }
        state = found;
    }
    eprintln!("{kind:?}, {durability:?}: {count} cuts, {totals:?}");
    assert!(totals.acknowledged > 0, "there was no load");
    if durability == Durability::Journal {
        assert!(totals.damaged > 0 && totals.repeated > 0, "no cut hurt anything");
    }
}

/// The state after one of the steps from the last acknowledged one on: whole steps, in order.
fn check_whole(before: &State, round: &Round, found: &State, what: &str) {
    let kept = usize::try_from(serial(found) - serial(before)).unwrap();
    let acknowledged = round.acknowledged;
    assert!(
        kept >= acknowledged,
        "{what}: {acknowledged} steps were acknowledged, {kept} are left"
    );
    let mut expected = before.clone();
    round.steps[..kept].iter().for_each(|changes| apply(&mut expected, changes));
    assert_same(found, |key| vec![expected.get(key)], expected.keys(), what);
}

/// Files that are durable one by one. Each is as after one of the steps from the last acknowledged one
/// on. A step that was under way may be done in part.
fn check_files(least: &State, round: &Round, found: &State, what: &str) {
    let mut states = vec![least.clone()];
    for changes in &round.steps[round.acknowledged..] {
        let mut next = states.last().unwrap().clone();
        apply(&mut next, changes);
        states.push(next);
    }
    let possible = |key: &Key| states.iter().map(|state| state.get(key)).collect();
    assert_same(found, possible, states.iter().flat_map(BTreeMap::keys), what);
}

/// Compares every key, and tells only of those that differ.
fn assert_same<'s>(
    found: &'s State,
    possible: impl Fn(&Key) -> Vec<Option<&'s Bytes>>,
    keys: impl Iterator<Item = &'s Key>,
    what: &str,
) {
    let wrong: Vec<String> = keys
        .chain(found.keys())
        .filter(|key| !possible(key).contains(&found.get(*key)))
        .map(|key| format!("{key}: {:?} bytes", found.get(key).map(Bytes::len)))
        .collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

#[test]
fn ext4_keeps_every_acknowledged_step() {
    sealed_test::run("store::ext4_keeps_every_acknowledged_step", || {
        cuts(Kind::Ext4, Durability::Journal, tests::tries(20, 200));
    });
}

#[test]
fn xfs_keeps_every_acknowledged_step() {
    sealed_test::run("store::xfs_keeps_every_acknowledged_step", || {
        cuts(Kind::Xfs, Durability::Journal, tests::tries(20, 200));
    });
}

#[test]
fn ext4_keeps_every_file_of_the_slow_setting() {
    sealed_test::run("store::ext4_keeps_every_file_of_the_slow_setting", || {
        cuts(Kind::Ext4, Durability::File, tests::tries(6, 50));
    });
}

#[test]
fn xfs_keeps_every_file_of_the_slow_setting() {
    sealed_test::run("store::xfs_keeps_every_file_of_the_slow_setting", || {
        cuts(Kind::Xfs, Durability::File, tests::tries(6, 50));
    });
}
