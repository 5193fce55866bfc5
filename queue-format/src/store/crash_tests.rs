//! Crashes, on a simulated disk that forgets what it may forget.
//!
//! The steps of all threads are taken one by one, in an order that a seed decides, until the world ends
//! between two operations on the disk. The next boot must find, in every file, a state that the history
//! knows. It is that of the last acknowledged batch, or of the batch that was under way.

mod at_rest;
mod faults;
mod full_disk;
mod install;
mod journal_bytes;
mod naive_oracle;
mod replicated;
mod stops;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::checkpoint::{Checkpoint, segment_path};
use super::commit::{Commit, CommitError, Log};
use super::files::Reach;
use super::open::{OpenError, Writer, open};
use super::{Store, StoreOptions};
use crate::change::collapse::tests::apply;
use crate::change::{Batch, Change};
use crate::disk::sim::{Chance, SimDisk};
use crate::journal::ring::NewSegment;
use crate::key::Key;
use crate::position::Epoch;

const ROOT: &str = "/data";
const EPOCH: Epoch = Epoch { term: 3, node: 1 };

type State = BTreeMap<Key, Bytes>;

fn options() -> StoreOptions {
    StoreOptions { segment_bytes: 16 << 10, segments: 2, ..StoreOptions::default() }
}

/// Histories that a test tries: ten times the usual where `cargo xtask test --long` asks for it.
fn histories(usual: u64) -> u64 {
    if std::env::var_os("GANTRY_TEST_LONG").is_some() { 10 * usual } else { usual }
}

fn open_on(disk: &SimDisk) -> Result<Store, OpenError> {
    let opened = open(Arc::new(disk.clone()), Path::new(ROOT), options(), Writer::Single)?;
    Ok(Store { parts: opened.parts, recovered: opened.recovered })
}

/// All files of an open store, read through its scan.
fn files_of(store: &Store) -> State {
    store.scan("").unwrap().map(Result::unwrap).collect()
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// As `assert_eq`, but tells only the keys that differ.
fn assert_same(found: &State, expected: &State, what: &str) {
    let keys = found.keys().chain(expected.keys());
    let wrong: Vec<_> = keys
        .filter(|key| found.get(*key) != expected.get(*key))
        .map(|key| (key, found.get(key).map(Bytes::len), expected.get(key).map(Bytes::len)))
        .collect();
    assert!(wrong.is_empty(), "{what}: lengths found and expected: {wrong:?}");
}

/// The committed states, and how far they were acknowledged.
#[derive(Debug, Clone)]
struct History {
    /// The state after each position, from 0.
    states: Vec<State>,
    acknowledged: usize,
}

impl History {
    fn new() -> Self {
        Self { states: vec![State::new()], acknowledged: 0 }
    }

    fn begin(&mut self, changes: &[Change]) {
        self.states.truncate(self.acknowledged + 1);
        let mut next = self.states[self.acknowledged].clone();
        apply(&mut next, &Batch(changes.to_vec()));
        self.states.push(next);
    }

    fn acknowledge(&mut self) {
        self.acknowledged += 1;
    }

    /// Compares what a boot found; what it found is acknowledged from now on.
    fn check(&mut self, store: &Store, what: &str) {
        let found = usize::try_from(store.recovered().position.index).unwrap();
        let possible = self.acknowledged..self.states.len();
        assert!(possible.contains(&found), "{what}: found {found}, possible {possible:?}");
        assert_same(&files_of(store), &self.states[found], &format!("{what}: state {found}"));
        self.acknowledged = found;
        self.states.truncate(found + 1);
    }
}

/// The threads of a committer as one, taking steps.
struct Machine {
    commit: Commit,
    checkpoint: Checkpoint,
}

/// The world ended.
#[derive(Debug)]
struct Ended;

impl Machine {
    fn start(store: Store) -> Self {
        Self::try_start(store).unwrap()
    }

    fn try_start(store: Store) -> Result<Self, Ended> {
        let parts = store.parts;
        let mut journal = parts.journal.unwrap();
        for number in parts.missing_segments {
            let path = segment_path(&parts.root, number);
            let bytes = parts.options.segment_bytes;
            parts.disk.make_segment(&path, bytes).map_err(|_error| Ended)?;
            let (file, bytes) = parts.disk.open_segment(&path).map_err(|_error| Ended)?;
            journal.add_segment(NewSegment { number, file, bytes, last_lsn: 0 });
        }
        let commit = Commit {
            log: Log::Journal(journal),
            files: parts.files.clone(),
            epoch: EPOCH,
            position: parts.position,
        };
        let checkpoint = Checkpoint {
            disk: parts.disk,
            root: parts.root,
            files: parts.files,
            header: parts.header,
        };
        Ok(Self { commit, checkpoint })
    }

    fn commit(&mut self, changes: Vec<Change>, history: &mut History) -> Result<(), Ended> {
        history.begin(&changes);
        let mut changes = changes;
        let mut after_checkpoint = false;
        loop {
            match self.commit.commit(changes, after_checkpoint) {
                Ok(_position) => break,
                Err(CommitError::Full(batch)) => changes = batch.0,
                Err(CommitError::Fatal(_)) => return Err(Ended),
            }
            assert!(!after_checkpoint, "a checkpoint makes room");
            self.checkpoint()?;
            after_checkpoint = true;
        }
        history.acknowledge();
        let newest = &history.states[history.acknowledged];
        for key in newest.keys().take(2) {
            let read = self.commit.files.content(key).map_err(|_error| Ended)?;
            assert_eq!(read.as_ref(), newest.get(key), "{key} right after its commit");
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Ended> {
        self.commit.files.write_chunk(0, false).map_err(|_error| Ended)
    }

    fn flush(&mut self) -> Result<Reach, Ended> {
        while self.commit.files.lag().0 > 0 {
            self.write()?;
        }
        Ok(self.commit.files.aim().reach)
    }

    fn sync(&mut self, reach: Reach) -> Result<(), Ended> {
        match self.checkpoint.sync_upto(reach, false) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Ended),
        }
    }

    fn note(&mut self, reach: Reach) -> Result<(), Ended> {
        self.commit.note_checkpoint(reach).map_err(|_error| Ended)
    }

    fn checkpoint(&mut self) -> Result<(), Ended> {
        let reach = self.flush()?;
        self.sync(reach)?;
        self.note(reach)
    }
}

/// One step of one of the threads.
#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Change>),
    Write,
    /// A whole checkpoint, with these steps in its two pauses.
    Checkpoint(Vec<Step>, Vec<Step>),
}

fn take(machine: &mut Machine, step: &Step, history: &mut History) -> Result<(), Ended> {
    match step {
        Step::Commit(changes) => machine.commit(changes.clone(), history),
        Step::Write => machine.write(),
        Step::Checkpoint(before_sync, before_note) => {
            let reach = machine.flush()?;
            take_all(machine, before_sync, history)?;
            machine.sync(reach)?;
            take_all(machine, before_note, history)?;
            machine.note(reach)
        }
    }
}

fn take_all(machine: &mut Machine, steps: &[Step], history: &mut History) -> Result<(), Ended> {
    steps.iter().try_for_each(|step| take(machine, step, history))
}

/// Steps that change anything in any way, among few keys in several directories.
fn any_steps(chance: &mut Chance, count: usize, checkpoints: bool) -> Vec<Step> {
    (0..count)
        .map(|_| match chance.below(if checkpoints { 8 } else { 6 }) {
            0..=3 => Step::Commit((0..=chance.below(4)).map(|_| any_change(chance)).collect()),
            4 | 5 => Step::Write,
            _ => Step::Checkpoint(pause(chance), pause(chance)),
        })
        .collect()
}

/// Steps within a checkpoint; there is never another one under way.
fn pause(chance: &mut Chance) -> Vec<Step> {
    let count = chance.below(3);
    any_steps(chance, count, false)
}

fn any_change(chance: &mut Chance) -> Change {
    const KEYS: [&str; 6] = ["a", "b", "q/a", "q/b", "q/r/a", "s/t/u/a"];
    let mut any = || key(KEYS[chance.below(KEYS.len())]);
    let (one, other) = (any(), any());
    match chance.below(6) {
        0..=2 => {
            let byte = u8::try_from(chance.below(256)).unwrap();
            Change::Put { key: one, content: vec![byte; chance.below(1500)].into() }
        }
        3 | 4 => Change::Move { from: one, to: other },
        _ => Change::Delete { key: one },
    }
}

/// The steps of a master: submit jobs under a serial, finish them, archive them.
fn job_steps(chance: &mut Chance, count: usize) -> Vec<Step> {
    let (mut serial, mut live) = (0_u32, Vec::new());
    (0..count)
        .map(|_| match chance.below(8) {
            0..=2 => {
                serial += 1;
                live.push(serial);
                let text = format!("{serial}\n");
                Step::Commit(vec![
                    Change::Put { key: key("queue/serial"), content: text.into() },
                    job(serial, "queued", chance),
                ])
            }
            3 if !live.is_empty() => {
                let id = live[chance.below(live.len())];
                Step::Commit(vec![job(id, "success", chance)])
            }
            4 if !live.is_empty() => {
                let id = live.swap_remove(chance.below(live.len()));
                let (from, to) = (format!("queue/job-{id}"), format!("queue/archive/0/job-{id}"));
                Step::Commit(vec![Change::Move { from: key(&from), to: key(&to) }])
            }
            5 => Step::Checkpoint(vec![], vec![]),
            _ => Step::Write,
        })
        .collect()
}

fn job(id: u32, status: &str, chance: &mut Chance) -> Change {
    let padding = ".".repeat(chance.below(1200));
    let content = format!("{{\"id\":{id},\"status\":\"{status}\",\"log\":\"{padding}\"}}");
    Change::Put { key: key(&format!("queue/job-{id}")), content: content.into() }
}

/// Checks the rules for every state of a queue that anyone ever sees.
fn check_queue(state: &State) {
    let ids = |prefix: &str| -> Vec<u32> {
        let below = state.keys().filter_map(|key| key.as_str().strip_prefix(prefix));
        below.map(|id| id.parse().unwrap()).collect()
    };
    let (live, archived) = (ids("queue/job-"), ids("queue/archive/0/job-"));
    assert!(live.iter().all(|id| !archived.contains(id)), "both live and archived");
    let serial = state
        .get(&key("queue/serial"))
        .map_or(0, |text| std::str::from_utf8(text).unwrap().trim_end().parse::<u32>().unwrap());
    assert!(live.iter().chain(&archived).all(|&id| id <= serial), "serial {serial} is reused");
    for (key, content) in state.iter().filter(|(key, _)| key.as_str().contains("/job-")) {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(content);
        assert!(parsed.is_ok(), "{key} is not whole");
    }
}
