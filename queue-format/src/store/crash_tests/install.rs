//! The world ends while a snapshot is received and installed, and while a start finishes that. The old
//! state is there with its journal, or the new one, exactly.

use std::sync::atomic::{AtomicBool, Ordering};

use super::replicated::{Engine, any_writes, open_engine};
use super::*;
use crate::disk::Disk;
use crate::disk::sim::{Loss, Stop};
use crate::journal::{Entry, Payload, Record};
use crate::key::Placed;
use crate::position::Position;
use crate::store::incoming::{Incoming, Installing, SpoolDirectory};
use crate::store::install::Request;
use crate::store::log_writer::LogSteps;
use crate::store::open::Opened;
use crate::store::replicated::steps::RecordGroup;

/// The state that one start may find.
#[derive(Debug, Clone, Default)]
struct Model {
    base: Position,
    base_state: State,
    /// Entries behind the base.
    log: Vec<(Position, Vec<Change>)>,
    committed: usize,
    vote: Option<String>,
    members: Option<(Position, String)>,
}

impl Model {
    fn base_index(&self) -> usize {
        usize::try_from(self.base.index).unwrap()
    }

    fn last(&self) -> usize {
        self.base_index() + self.log.len()
    }

    fn position(&self, index: usize) -> Position {
        if index == self.base_index() {
            self.base
        } else {
            self.log[index - self.base_index() - 1].0
        }
    }

    fn state(&self, index: usize) -> State {
        let mut state = self.base_state.clone();
        for (_position, changes) in &self.log[..index - self.base_index()] {
            apply(&mut state, &Batch(changes.clone()));
        }
        state
    }

    fn push(&mut self, term: u64, changes: Vec<Change>) -> Record {
        let index = u64::try_from(self.last() + 1).unwrap();
        let position = Position { epoch: Epoch { term, node: 1 }, index };
        let payload = Payload::Batch(Batch(changes.clone()).encode());
        self.log.push((position, changes));
        Record::Entry(Entry { position, payload })
    }

    /// The state of the store once this is installed.
    fn installed(&self, snapshot: &Installing, state: &State) -> Self {
        let at = usize::try_from(snapshot.position.index).unwrap();
        let leads_there = at <= self.last() && self.position(at) == snapshot.position;
        let log =
            if leads_there { self.log[at - self.base_index()..].to_vec() } else { Vec::new() };
        Self {
            base: snapshot.position,
            base_state: state.clone(),
            log,
            committed: at,
            vote: self.vote.clone(),
            members: Some(snapshot.members.clone()),
        }
    }

    /// Why this is not what was found, if it is not.
    fn differs(&self, opened: &Opened) -> Option<String> {
        let found = opened.parts.position;
        let index = usize::try_from(found.index).unwrap();
        if !(self.base_index()..=self.committed).contains(&index) || self.position(index) != found {
            return Some(format!("position {found}"));
        }
        let batch = |entry: &Entry| match &entry.payload {
            Payload::Batch(bytes) => Batch::decode(bytes.clone()).unwrap().0,
            Payload::Blank | Payload::Membership(_) => panic!("never written"),
        };
        let tail: Vec<_> = opened.tail.iter().map(|one| (one.position, batch(one))).collect();
        if tail != self.log[index - self.base_index()..] {
            return Some(format!("a tail of {} entries behind {found}", tail.len()));
        }
        let files: State = opened.parts.reader().scan("").unwrap().map(Result::unwrap).collect();
        if files != self.state(index) {
            return Some(format!("other files at {found}"));
        }
        let note = (&opened.note.vote, &opened.note.members);
        (note != (&self.vote, &self.members)).then(|| format!("note {note:?}"))
    }
}

/// The world up to its end: what a start may find, the newest last.
struct World {
    engine: Engine,
    possible: Vec<Model>,
    term: u64,
}

impl World {
    fn now(&self) -> &Model {
        self.possible.last().unwrap()
    }

    fn settle(&mut self) {
        self.possible.drain(..self.possible.len() - 1);
    }

    /// Appends records that lead to `next`; false if the ring is full.
    fn append(&mut self, records: Vec<Record>, next: Model) -> Result<bool, Ended> {
        let mut group = RecordGroup { tags: vec![()], records };
        self.possible.push(next);
        if !self.engine.steps.attempt(&mut group, false).map_err(|_error| Ended)? {
            self.possible.pop();
            return Ok(false);
        }
        self.settle();
        Ok(true)
    }

    fn append_any(&mut self, chance: &mut Chance, cut: Option<usize>) -> Result<bool, Ended> {
        let mut next = self.now().clone();
        let mut records = Vec::new();
        if let Some(kept) = cut {
            next.log.truncate(kept.saturating_sub(next.base_index()));
            let after_index = u64::try_from(kept).unwrap();
            records.push(Record::Truncate { after_index });
        }
        for _ in 0..=chance.below(2) {
            records.push(next.push(self.term, any_writes(chance)));
        }
        self.append(records, next)
    }

    fn vote(&mut self, chance: &mut Chance) -> Result<(), Ended> {
        let vote = format!("vote {}", chance.below(1000));
        let mut next = self.now().clone();
        next.vote = Some(vote.clone());
        if self.append(vec![Record::Vote(vote.clone().into())], next)? {
            self.engine.steps.files.change_note(|note| note.vote = Some(vote));
        }
        Ok(())
    }

    fn apply_some(&mut self, chance: &mut Chance) -> Result<(), Ended> {
        let model = self.possible.last_mut().unwrap();
        let first = model.committed + 1;
        model.committed += chance.below(model.last() - model.committed + 1);
        for index in first..=model.committed {
            let (position, changes) = model.log[index - model.base_index() - 1].clone();
            let steps = &self.engine.steps;
            let lsn = steps.progress.frames.lock().applied(position.index);
            steps.progress.committed.fetch_max(position.index, Ordering::Relaxed);
            steps
                .files
                .hand_over(&Batch(changes), Reach { lsn, position })
                .map_err(|_error| Ended)?;
        }
        Ok(())
    }

    fn step(&mut self, chance: &mut Chance) -> Result<(), Ended> {
        match chance.below(8) {
            0..=2 => self.append_any(chance, None).map(drop),
            3 => self.vote(chance),
            4 => self.apply_some(chance),
            5 => self.engine.steps.write_frame().map(drop).map_err(|_error| Ended),
            6 => self.engine.write(),
            _ => self.engine.checkpoint(),
        }
    }

    /// Receives and installs; one that is to be `dropped` is given up before.
    fn install(
        &mut self,
        snapshot: &Installing,
        state: &State,
        dropped: bool,
    ) -> Result<(), Ended> {
        let checkpoint = &self.engine.checkpoint;
        let (disk, root) = (checkpoint.disk.clone(), checkpoint.root.clone());
        let place = SpoolDirectory { disk, root, salt: checkpoint.header.salt() };
        let taken = Arc::new(AtomicBool::new(false));
        let begun = Incoming::begin(place, snapshot.clone(), taken);
        let mut incoming = begun.map_err(|_error| Ended)?;
        let mut rows: Vec<_> = state.clone().into_iter().collect();
        rows.sort_by_key(|(key, _content)| Placed(key.clone()));
        for chunk in rows.chunks(2) {
            incoming.push(chunk).map_err(|_error| Ended)?;
        }
        incoming.finish().map_err(|_error| Ended)?;
        if dropped {
            return Ok(());
        }
        incoming.hand_over().map_err(|_error| Ended)?;
        let progress = self.engine.steps.progress.clone();
        let index = snapshot.position.index;
        let covered = Box::new(move || progress.frames.lock().replaced(index));
        let request = Request { installing: snapshot.clone(), covered };
        self.possible.push(self.now().installed(snapshot, state));
        let done = self.engine.checkpoint.install(request, false).map_err(|_error| Ended)?;
        let reach = done.ok_or(Ended)?;
        self.settle();
        incoming.installed();
        self.engine.steps.progress.committed.fetch_max(index, Ordering::Relaxed);
        self.engine.steps.note_checkpoint(reach).map_err(|_error| Ended)
    }
}

/// The events of one life; the same for every stop.
struct Story {
    seed: u64,
    snapshot: State,
    /// Whether the log is cut before the snapshot is installed, or behind it.
    cut_first: bool,
    dropped: bool,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed + 500);
        let mut snapshot = State::new();
        for _ in 0..chance.below(8) {
            apply(&mut snapshot, &Batch(any_writes(&mut chance)));
        }
        let (cut_first, dropped) = (chance.below(2) == 0, chance.below(6) == 0);
        Self { seed, snapshot, cut_first, dropped }
    }

    /// The snapshot's position: of this log, of another one, or beyond it.
    fn position(&self, model: &Model, chance: &mut Chance) -> Position {
        let index = model.committed + 1 + chance.below(6);
        if index <= model.last() && chance.below(2) == 0 {
            return model.position(index);
        }
        Position { epoch: Epoch { term: 7, node: 2 }, index: u64::try_from(index).unwrap() }
    }

    /// Lives until the world ends; it may from `at` operations behind the first part on.
    fn live(&self, disk: &SimDisk, at: Option<(usize, Stop)>) -> (Vec<Model>, usize) {
        let mut chance = Chance::new(self.seed);
        let engine = Engine::start(open_engine(disk).unwrap()).unwrap();
        let mut world = World { engine, possible: vec![Model::default()], term: 5 };
        for _ in 0..5 + chance.below(25) {
            world.step(&mut chance).unwrap();
        }
        let before = disk.operations();
        if let Some((at, stop)) = at {
            disk.stop_after(at, stop);
        }
        let ended = self.second_part(&mut world, &mut chance);
        // The last operation may be one whose failure does not matter: removing the spool file.
        assert!(at.is_some() || ended.is_ok(), "seed {}", self.seed);
        (world.possible, disk.operations() - before)
    }

    fn second_part(&self, world: &mut World, chance: &mut Chance) -> Result<(), Ended> {
        let position = self.position(world.now(), chance);
        let members = (position, "these".to_owned());
        let snapshot = Installing { position, members };
        let at = usize::try_from(position.index).unwrap();
        let model = world.now();
        let mut cut =
            (at <= model.last() && model.position(at) != position).then_some(model.committed);
        if self.cut_first
            && !self.dropped
            && let Some(kept) = cut.take()
        {
            let mut next = world.now().clone();
            next.log.truncate(kept - next.base_index());
            let after_index = u64::try_from(kept).unwrap();
            if !world.append(vec![Record::Truncate { after_index }], next)? {
                cut = Some(kept);
            }
        }
        world.install(&snapshot, &self.snapshot, self.dropped)?;
        if !self.dropped {
            world.term = 8;
            // Nothing may follow a log that is not cut.
            if !world.append_any(chance, cut)? && cut.is_some() {
                return Ok(());
            }
        }
        for _ in 0..8 {
            world.step(chance)?;
        }
        Ok(())
    }
}

fn boot(disk: SimDisk, chance: &mut Chance, what: &str) -> (SimDisk, Opened) {
    let mut disk = disk;
    for _ in 0..chance.below(3) {
        disk.stop_after(chance.below(60), [Stop::Before, Stop::After][chance.below(2)]);
        if let Err(error) = open_engine(&disk) {
            assert!(disk.is_stopped(), "{what}: {error:?}");
        }
        disk = disk.crash([Loss::Nothing, Loss::PowerCut][chance.below(2)], chance);
    }
    let opened = open_engine(&disk).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    (disk, opened)
}

#[test]
fn every_stop_of_an_installation_leaves_the_old_state_or_the_new_one() {
    let mut outcomes = [0; 2];
    for seed in 0..histories(12) {
        let story = Story::new(seed);
        let (_possible, count) = story.live(&SimDisk::with_root(Path::new(ROOT)), None);
        for at in 0..count {
            let mut chance = Chance::new(seed ^ u64::try_from(at).unwrap() << 20);
            let stop = [Stop::Before, Stop::After][chance.below(2)];
            let loss = [Loss::Nothing, Loss::PowerCut, Loss::PowerCut][chance.below(3)];
            let what = format!("seed {seed}, {stop:?} operation {at} of {count}, losing {loss:?}");
            let disk = SimDisk::with_root(Path::new(ROOT));
            let (possible, _count) = story.live(&disk, Some((at, stop)));
            let (disk, opened) = boot(disk.crash(loss, &mut chance), &mut chance, &what);
            let differs: Vec<_> = possible.iter().map(|model| model.differs(&opened)).collect();
            assert!(differs.iter().any(Option::is_none), "{what}: {differs:?}");
            outcomes[usize::from(opened.parts.position.epoch.term >= 7)] += 1;
            assert!(!disk.exists(&Path::new(ROOT).join("incoming")).unwrap(), "{what}");
            // It goes on from there, and is the same after one more power cut.
            let mut engine = Engine::start(opened).unwrap();
            engine.checkpoint().unwrap();
            let (_disk, opened) = boot(disk.crash(Loss::PowerCut, &mut chance), &mut chance, &what);
            let differs: Vec<_> = possible.iter().map(|model| model.differs(&opened)).collect();
            assert!(differs.iter().any(Option::is_none), "{what}, again: {differs:?}");
        }
    }
    assert!(outcomes.iter().all(|&count| count > 20), "both happen: {outcomes:?}");
}

/// A stop right behind the note, and the spool file then not as it was.
#[test]
fn a_damaged_snapshot_that_was_noted_refuses_the_start_with_a_remedy() {
    let story =
        (0..).map(Story::new).find(|story| !story.dropped && story.snapshot.len() > 2).unwrap();
    let mut refused = 0;
    for at in 0.. {
        let disk = SimDisk::with_root(Path::new(ROOT));
        let (_possible, count) = story.live(&SimDisk::with_root(Path::new(ROOT)), None);
        if at == count {
            break;
        }
        story.live(&disk, Some((at, Stop::Before)));
        let disk = disk.crash(Loss::Nothing, &mut Chance::new(1));
        let path = Path::new(ROOT).join("incoming");
        let header =
            String::from_utf8(disk.read(&Path::new(ROOT).join("store.json")).unwrap()).unwrap();
        if !header.contains("installing") {
            continue;
        }
        let before = disk.read(&path).unwrap();
        for damage in 0..3 {
            match damage {
                0 => disk.tamper(&path, |bytes| bytes[40] ^= 1),
                1 => disk.tamper(&path, |bytes| bytes.truncate(bytes.len() - 1)),
                _ => disk.remove(&path).unwrap(),
            }
            let error = open_engine(&disk).unwrap_err();
            assert!(matches!(error, OpenError::Incoming { .. }), "{error:?}");
            assert!(error.to_string().contains("this node gets a copy from the others"), "{error}");
            if damage < 2 {
                disk.tamper(&path, |bytes| bytes.clone_from(&before));
            }
        }
        disk.create(&path, &before).unwrap();
        assert!(open(Arc::new(disk.clone()), Path::new(ROOT), options(), Writer::Single).is_err());
        open_engine(&disk).unwrap();
        refused += 1;
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn a_disk_that_says_no_during_an_installation_leaves_one_of_the_states() {
    use crate::disk::sim::Fault;
    use rustix::io::Errno;
    for seed in 0..6 {
        let story = Story::new(seed);
        let (_possible, count) = story.live(&SimDisk::with_root(Path::new(ROOT)), None);
        for at in 0..count {
            for errno in [Errno::IO, Errno::NOSPC] {
                let disk = SimDisk::with_root(Path::new(ROOT));
                let mut chance = Chance::new(story.seed);
                let engine = Engine::start(open_engine(&disk).unwrap()).unwrap();
                let mut world = World { engine, possible: vec![Model::default()], term: 5 };
                for _ in 0..5 + chance.below(25) {
                    world.step(&mut chance).unwrap();
                }
                disk.fail_after(at, Fault { errno, done: at % 2 == 0, times: 1 });
                drop(story.second_part(&mut world, &mut chance));
                let mut chance = Chance::new(seed ^ u64::try_from(at).unwrap() << 20);
                let what = format!("seed {seed}, {errno:?} at operation {at} of {count}");
                let (_disk, opened) =
                    boot(disk.crash(Loss::PowerCut, &mut chance), &mut chance, &what);
                let possible = &world.possible;
                let differs: Vec<_> = possible.iter().map(|model| model.differs(&opened)).collect();
                assert!(differs.iter().any(Option::is_none), "{what}: {differs:?}");
            }
        }
    }
}
