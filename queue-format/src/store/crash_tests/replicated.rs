//! The store below a replication engine: entries that are durable but not committed, cuts, votes.

use std::sync::atomic::Ordering;

use super::*;
use crate::disk::Disk;
use crate::disk::sim::{Loss, Stop};
use crate::journal::{DIRECTORY, Entry, Payload, Record};
use crate::position::Position;
use crate::store::log_writer::LogSteps;
use crate::store::open::{Opened, SEGMENTS_MAX};
use crate::store::replicated::steps::{Progress, RecordGroup, RecordSteps};

/// The log as the engine sees it: entry n is the n-th, and the vote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    log: Vec<Vec<Change>>,
    vote: Option<String>,
}

impl Model {
    fn state(&self, index: usize) -> State {
        let mut state = State::new();
        self.log[..index].iter().for_each(|changes| apply(&mut state, &Batch(changes.clone())));
        state
    }
}

/// The state that is durable for certain, the one that may be, and the engine's knowledge.
#[derive(Debug, Clone, Default)]
struct Truth {
    durable: Model,
    possible: Model,
    committed: usize,
    /// A vote for which there was no room: the engine was not told, but a checkpoint may have
    /// taken it along.
    early_vote: Option<String>,
}

pub(super) struct Engine {
    pub(super) steps: RecordSteps<()>,
    pub(super) checkpoint: Checkpoint,
    applied: usize,
}

pub(super) fn open_engine(disk: &SimDisk) -> Result<Opened, OpenError> {
    open(Arc::new(disk.clone()), Path::new(ROOT), options(), Writer::Engine { member: 1 })
}

fn position(index: usize) -> Position {
    Position { epoch: EPOCH, index: u64::try_from(index).unwrap() }
}

impl Engine {
    pub(super) fn start(opened: Opened) -> Result<Self, Ended> {
        let parts = opened.parts;
        let mut journal = parts.journal.unwrap();
        for number in parts.missing_segments {
            let path = segment_path(&parts.root, number);
            let bytes = parts.options.segment_bytes;
            parts.disk.make_segment(&path, bytes).map_err(|_error| Ended)?;
            let (file, bytes) = parts.disk.open_segment(&path).map_err(|_error| Ended)?;
            journal.add_segment(NewSegment { number, file, bytes, last_lsn: 0 });
        }
        let files = parts.files;
        files.set_gate(journal.committed(), Box::new(|| {}));
        let progress = Arc::new(Progress::new(&journal, &opened.tail));
        let applied = usize::try_from(parts.position.index).unwrap();
        let on_durable = Box::new(|_tags| {});
        let steps = RecordSteps { journal, files: files.clone(), progress, on_durable };
        let (disk, root, header) = (parts.disk, parts.root, parts.header);
        Ok(Self { steps, checkpoint: Checkpoint { disk, root, files, header }, applied })
    }

    fn append(&mut self, records: Vec<Record>, truth: &mut Truth) -> Result<(), Ended> {
        let mut group = RecordGroup { tags: vec![()], records };
        while !self.steps.attempt(&mut group, false).map_err(|_error| Ended)? {
            // Entries that are not applied hold the ring: then the engine appends no more.
            self.apply(truth)?;
            let before = self.steps.journal.segments();
            self.checkpoint()?;
            if self.steps.journal.segments() == before {
                truth.possible = truth.durable.clone();
                return Ok(());
            }
        }
        truth.durable = truth.possible.clone();
        Ok(())
    }

    /// Appends entries, behind a cut of those that are not committed, if asked for.
    fn write_entries(
        &mut self,
        cut_to: Option<usize>,
        entries: Vec<Vec<Change>>,
        truth: &mut Truth,
    ) -> Result<(), Ended> {
        let mut records = Vec::new();
        if let Some(kept) = cut_to {
            truth.possible.log.truncate(kept);
            let after_index = u64::try_from(kept).unwrap();
            records.push(Record::Truncate { after_index });
        }
        for changes in entries {
            let position = position(truth.possible.log.len() + 1);
            let payload = Payload::Batch(Batch(changes.clone()).encode());
            records.push(Record::Entry(Entry { position, payload }));
            truth.possible.log.push(changes);
        }
        self.append(records, truth)
    }

    fn vote(&mut self, vote: String, truth: &mut Truth) -> Result<(), Ended> {
        truth.possible.vote = Some(vote.clone());
        self.steps.files.change_note(|note| note.vote = Some(vote.clone()));
        self.append(vec![Record::Vote(vote.clone().into())], truth)?;
        let durable = truth.durable.vote.as_ref() == Some(&vote);
        truth.early_vote = if durable { None } else { Some(vote) };
        Ok(())
    }

    fn apply(&mut self, truth: &Truth) -> Result<(), Ended> {
        while self.applied < truth.committed {
            self.applied += 1;
            let position = position(self.applied);
            let batch = Batch(truth.durable.log[self.applied - 1].clone());
            let lsn = self.steps.progress.frames.lock().applied(position.index);
            self.steps.progress.committed.fetch_max(position.index, Ordering::Relaxed);
            self.steps.files.hand_over(&batch, Reach { lsn, position }).map_err(|_error| Ended)?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self) -> Result<(), Ended> {
        self.steps.files.write_chunk(0, false).map_err(|_error| Ended)
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), Ended> {
        self.checkpoint_around(&mut |_engine| Ok(()))
    }

    /// A checkpoint, and what the other threads do in each of its pauses.
    fn checkpoint_around(
        &mut self,
        pause: &mut dyn FnMut(&mut Self) -> Result<(), Ended>,
    ) -> Result<(), Ended> {
        let Ok(Some(reach)) = self.checkpoint.begin(false) else { return Err(Ended) };
        pause(self)?;
        while !self.steps.files.is_written(reach.position.index) {
            self.write()?;
        }
        pause(self)?;
        if !self.checkpoint.sync_upto(reach, false).map_err(|_error| Ended)? {
            return Err(Ended);
        }
        pause(self)?;
        self.steps.note_checkpoint(reach).map_err(|_error| Ended)
    }

    /// Steps while a checkpoint is made: appending where there is room, applying, writing.
    fn go_on(&mut self, chance: &mut Chance, truth: &mut Truth) -> Result<(), Ended> {
        for _ in 0..chance.below(5) {
            match chance.below(3) {
                0 if self.steps.journal.segments().1 > 0 => {
                    self.write_entries(None, vec![any_writes(chance)], truth)?;
                }
                0 | 1 => self.commit_some(chance, truth)?,
                _ => self.write()?,
            }
        }
        Ok(())
    }

    fn commit_some(&mut self, chance: &mut Chance, truth: &mut Truth) -> Result<(), Ended> {
        let uncommitted = truth.durable.log.len() - truth.committed;
        truth.committed += chance.below(uncommitted + 1);
        let committed = u64::try_from(truth.committed).unwrap();
        self.steps.progress.committed.fetch_max(committed, Ordering::Relaxed);
        self.apply(truth)
    }

    fn step(&mut self, chance: &mut Chance, truth: &mut Truth) -> Result<(), Ended> {
        match chance.below(12) {
            0..=4 => {
                let count = chance.below(3) + 1;
                let entries = (0..count).map(|_| any_writes(chance)).collect();
                self.write_entries(None, entries, truth)
            }
            5 => {
                let uncommitted = truth.durable.log.len() - truth.committed;
                let kept = truth.committed + chance.below(uncommitted + 1);
                let entries = (0..chance.below(3)).map(|_| any_writes(chance)).collect();
                self.write_entries(Some(kept), entries, truth)
            }
            6 => self.vote(format!("vote {}", chance.below(1000)), truth),
            7 | 8 => self.commit_some(chance, truth),
            9 => self.steps.write_frame().map(drop).map_err(|_error| Ended),
            10 => self.write(),
            _ => self.checkpoint_around(&mut |engine| engine.go_on(chance, truth)),
        }
    }
}

pub(super) fn any_writes(chance: &mut Chance) -> Vec<Change> {
    (0..=chance.below(3))
        .map(|_| {
            loop {
                let change = any_change(chance);
                if !matches!(change, Change::Move { .. }) {
                    break change;
                }
            }
        })
        .collect()
}

/// Compares what a boot found with what may be, and goes on from there.
fn check(opened: &Opened, truth: &mut Truth, what: &str) {
    let applied = usize::try_from(opened.parts.position.index).unwrap();
    assert!(applied <= truth.committed, "{what}: {applied} was not committed");
    let found: Vec<Vec<Change>> = opened
        .tail
        .iter()
        .map(|entry| match &entry.payload {
            Payload::Batch(bytes) => Batch::decode(bytes.clone()).unwrap().0,
            Payload::Blank | Payload::Membership(_) => panic!("never written"),
        })
        .collect();
    let fits = |model: &Model| {
        let early = truth.early_vote.is_some() && truth.early_vote == opened.note.vote;
        (model.vote == opened.note.vote || early)
            && model.log.len() == applied + found.len()
            && model.log[applied..] == found
    };
    let model = [&truth.durable, &truth.possible].into_iter().find(|model| fits(model));
    let Some(mut model) = model.cloned() else {
        let lengths = [truth.durable.log.len(), truth.possible.log.len()];
        panic!("{what}: found {applied} + {} entries, possible {lengths:?}", found.len());
    };
    let files: State = opened.parts.reader().scan("").unwrap().map(Result::unwrap).collect();
    assert_same(&files, &model.state(applied), &format!("{what}: state {applied}"));
    model.vote.clone_from(&opened.note.vote);
    truth.early_vote = None;
    truth.durable = model.clone();
    truth.possible = model;
    // The engine learns from others what is committed; here, nothing more than it knew.
    truth.committed = truth.committed.min(truth.durable.log.len());
}

fn run(disk: &SimDisk, seed: u64, steps: usize, truth: &mut Truth) -> Result<(), Ended> {
    let mut chance = Chance::new(seed);
    let opened = open_engine(disk).map_err(|_error| Ended)?;
    let mut engine = Engine::start(opened)?;
    (0..steps).try_for_each(|_| engine.step(&mut chance, truth))
}

/// Runs, stops, boots several times, runs on from what was found, and so forth.
fn life(seed: u64) {
    let mut chance = Chance::new(seed.wrapping_add(77));
    let mut disk = SimDisk::with_root(Path::new(ROOT));
    let mut truth = Truth::default();
    for phase in 0..4 {
        let loss = [Loss::Nothing, Loss::PowerCut, Loss::PowerCut][chance.below(3)];
        let stop = [Stop::Before, Stop::After][chance.below(2)];
        disk.stop_after(chance.below(250), stop);
        let steps = 10 + chance.below(80);
        drop(run(&disk, seed.wrapping_mul(31) + phase, steps, &mut truth));
        let what = format!("seed {seed}, phase {phase}, {stop:?}, {loss:?}");
        disk = disk.crash(loss, &mut chance);
        for _ in 0..chance.below(3) {
            disk.stop_after(chance.below(40), stop);
            if let Err(error) = open_engine(&disk) {
                assert!(disk.is_stopped(), "{what}: {error:?}");
            }
            disk = disk.crash([Loss::Nothing, Loss::PowerCut][chance.below(2)], &mut chance);
        }
        let opened = open_engine(&disk).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        check(&opened, &mut truth, &what);
        drop(opened);
        disk = disk.crash([Loss::Nothing, Loss::PowerCut][chance.below(2)], &mut chance);
    }
}

#[test]
fn logs_votes_and_files_agree_after_every_crash() {
    (0..histories(150)).for_each(life);
}

/// How many segments there are.
fn segments(disk: &SimDisk) -> usize {
    disk.list(&Path::new(ROOT).join(DIRECTORY)).unwrap().len()
}

#[test]
fn a_log_that_nobody_settles_takes_no_segment_by_each_start() {
    let disk = SimDisk::with_root(Path::new(ROOT));
    let mut engine = Engine::start(open_engine(&disk).unwrap()).unwrap();
    let mut truth = Truth::default();
    engine.write_entries(None, vec![any_writes(&mut Chance::new(1))], &mut truth).unwrap();
    drop(engine);
    let before = segments(&disk);
    // The room of a segment is that of some twenty such frames.
    for start in 0..15 {
        let opened = open_engine(&disk).unwrap();
        check(&opened, &mut truth, &format!("start {start}"));
        drop(Engine::start(opened).unwrap());
    }
    assert_eq!(segments(&disk), before);
    for start in 0..150 {
        let opened = open_engine(&disk).unwrap();
        check(&opened, &mut truth, &format!("start {start}"));
    }
    assert!(segments(&disk) <= before + 8, "{}", segments(&disk));
}

#[test]
fn where_no_segment_can_be_added_that_is_told() {
    let disk = SimDisk::with_root(Path::new(ROOT));
    drop(open_engine(&disk).unwrap());
    let (few, all) = (512, SEGMENTS_MAX);
    for number in 0..all {
        let path = segment_path(Path::new(ROOT), number);
        let _there = disk.remove(&path);
        disk.make_segment(&path, few).unwrap();
    }
    let refused = open_engine(&disk).unwrap_err();
    assert!(matches!(refused, OpenError::Segments { .. }), "{refused}");
}
