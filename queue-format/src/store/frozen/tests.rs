use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::change::collapse::tests::apply;
use crate::change::{Batch, Change};
use crate::digest::differences;
use crate::disk::Disk;
use crate::disk::sim::{Chance, SimDisk};
use crate::key::Placed;
use crate::position::Epoch;
use crate::store::files::Reach;
use crate::store::{Callbacks, Recorder, ReplicatedStore, StoreOptions};

const ROOT: &str = "/data";
const KEYS: [&str; 9] =
    ["a", "q/a", "q/b", "q/c", "q/r/a", "q/r/b", "queue/job-1", "queue/archive/0/job-1", "s/t/u/a"];

type State = BTreeMap<Key, Bytes>;

fn at(index: u64) -> Position {
    Position { epoch: Epoch { term: 1, node: 1 }, index }
}

fn any_batch(chance: &mut Chance) -> Batch {
    let change = |chance: &mut Chance| {
        let key = Key::parse(KEYS[chance.below(KEYS.len())]).unwrap();
        match chance.below(3) {
            0 => Change::Delete { key },
            _ => Change::Put { key, content: chance.below(1_000_000).to_string().into() },
        }
    };
    Batch((0..=chance.below(3)).map(|_| change(chance)).collect())
}

/// The files and the steps of those who use them, taken by hand.
struct Machine {
    disk: SimDisk,
    reader: Reader,
    state: State,
    index: u64,
}

impl Machine {
    fn new() -> Self {
        let root = Path::new(ROOT);
        let disk = SimDisk::with_root(root);
        disk.make_directory(&root.join(".tmp")).unwrap();
        let files = Arc::new(Files::new(Arc::new(disk.clone()), root, Duration::ZERO));
        let reader = Reader { disk: Arc::new(disk.clone()), root: root.to_owned(), files };
        Self { disk, reader, state: State::new(), index: 0 }
    }

    fn apply(&mut self, batch: &Batch) {
        self.index += 1;
        apply(&mut self.state, batch);
        let reach = Reach { lsn: self.index, position: at(self.index) };
        self.reader.files.hand_over(batch, reach).unwrap();
    }

    fn write(&self) {
        self.reader.files.write_chunk(0, false).unwrap();
    }

    fn freeze(&self, round_files: usize) -> Frozen {
        let mut frozen = Frozen::begin_now(&self.reader, None).unwrap();
        frozen.round_files = round_files;
        frozen
    }

    fn put(&mut self, name: &str, content: &str) {
        let key = Key::parse(name).unwrap();
        let content = Bytes::copy_from_slice(content.as_bytes());
        self.apply(&Batch(vec![Change::Put { key, content }]));
    }
}

/// A view that is being read, and what it must give.
struct View {
    frozen: Frozen,
    expected: State,
    index: u64,
    found: Vec<(Key, Bytes)>,
}

impl View {
    /// Reads on; false at the end, where everything must be there.
    fn step(&mut self) -> bool {
        let Some(chunk) = self.frozen.next_chunk(10).unwrap() else {
            let placed: Vec<_> = self.found.iter().map(|(key, _)| Placed(key.clone())).collect();
            assert!(placed.windows(2).all(|pair| pair[0] < pair[1]), "each key once, in order");
            let found: State = std::mem::take(&mut self.found).into_iter().collect();
            assert_eq!(found, self.expected);
            assert_eq!(self.frozen.position().index, self.index);
            return false;
        };
        self.found.extend(chunk);
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_view_is_exactly_its_moment_whatever_comes_meanwhile(seed in any::<u64>()) {
        let mut chance = Chance::new(seed);
        let mut machine = Machine::new();
        let mut views: Vec<View> = Vec::new();
        for _ in 0..chance.below(150) {
            match chance.below(8) {
                0..=2 => machine.apply(&any_batch(&mut chance)),
                3 | 4 => machine.write(),
                5 if views.len() < FROZEN_MAX => views.push(View {
                    frozen: machine.freeze(1 + chance.below(3)),
                    expected: machine.state.clone(),
                    index: machine.index,
                    found: Vec::new(),
                }),
                _ if views.is_empty() => {}
                6 if chance.below(4) == 0 => drop(views.swap_remove(chance.below(views.len()))),
                _ => {
                    let which = chance.below(views.len());
                    if !views[which].step() {
                        drop(views.swap_remove(which));
                    }
                }
            }
        }
        for mut view in views {
            while view.step() {
                machine.apply(&any_batch(&mut chance));
                machine.write();
            }
        }
    }
}

#[test]
fn a_reader_that_is_outrun_is_told_and_changes_go_on() {
    let mut machine = Machine::new();
    let big = "x".repeat(ASIDE_BYTES_MAX / 4);
    for name in ["a", "b", "c", "d", "e", "f"] {
        machine.put(name, &big);
        machine.write();
    }
    let mut frozen = machine.freeze(1);
    assert_eq!(frozen.next_chunk(1).unwrap().unwrap().len(), 1);
    for name in ["a", "b", "c", "d", "e", "f"] {
        machine.put(name, "small");
        machine.write();
    }
    for _ in 0..2 {
        let error = frozen.next_chunk(1).unwrap_err();
        assert!(matches!(error, FrozenError::Outrun), "{error}");
        assert!(error.to_string().contains("64 MiB"));
    }
    let content = machine.reader.read(&Key::parse("f").unwrap()).unwrap();
    assert_eq!(content, Some("small".into()));
}

#[test]
fn views_are_few_and_a_dropped_one_makes_room() {
    let machine = Machine::new();
    let mut views: Vec<Frozen> = (0..FROZEN_MAX).map(|_| machine.freeze(1)).collect();
    let many = Frozen::begin_now(&machine.reader, None).unwrap_err();
    assert!(matches!(many, FrozenError::Many));
    views.pop();
    drop(machine.freeze(1));
}

#[test]
fn a_file_edited_by_hand_is_found_and_named() {
    let (mut one, mut other) = (Machine::new(), Machine::new());
    for name in KEYS {
        one.put(name, "same");
        other.put(name, "same");
        // Not on its way any more in one of them, perhaps in the other.
        one.write();
    }
    other.write();
    let digest = |machine: &Machine| machine.freeze(2).digest().unwrap();
    assert_eq!(digest(&one), digest(&other));
    let groups: Vec<_> =
        digest(&one).groups.keys().map(|group| group.as_str().to_owned()).collect();
    assert_eq!(groups, ["a", "q", "queue", "queue/archive", "s"]);

    let path = Path::new(ROOT).join("queue/archive/0/job-1");
    other.disk.tamper(&path, |content| *content = b"Same".to_vec());
    let found = differences(&digest(&one).groups, &digest(&other).groups, 10);
    let [(group, crate::digest::Difference::Content)] = &found.named[..] else {
        panic!("{found:?}");
    };
    assert_eq!(group.as_str(), "queue/archive");
    let hashes = |machine: &Machine| {
        let mut frozen = Frozen::begin_now(&machine.reader, Some(group.clone())).unwrap();
        let mut hashes = BTreeMap::new();
        while let Some(chunk) = frozen.next_hashes(10).unwrap() {
            hashes.extend(chunk);
        }
        hashes
    };
    let found = differences(&hashes(&one), &hashes(&other), 10);
    assert_eq!(found.total, 1);
    assert_eq!(found.named[0].0.as_str(), "queue/archive/0/job-1");
}

fn start(dir: &Path) -> Recorder<()> {
    let options = StoreOptions {
        segment_bytes: 64 << 10,
        write_behind: Duration::ZERO,
        ..StoreOptions::default()
    };
    let callbacks = Callbacks::new(|_tags, _position| {}).on_fatal(|error| panic!("{error:?}"));
    ReplicatedStore::open(dir, options, 1).unwrap().start(callbacks).unwrap()
}

fn wide_key(number: usize) -> Key {
    Key::parse(&format!("k/{}/{number}", number % 5)).unwrap()
}

/// Many keys, so that most are not on their way when a view begins, but change while it is read.
fn wide_batch(chance: &mut Chance) -> Batch {
    let change = |chance: &mut Chance| {
        let key = wide_key(chance.below(600));
        match chance.below(3) {
            0 => Change::Delete { key },
            _ => Change::Put { key, content: chance.below(1_000_000).to_string().into() },
        }
    };
    Batch((0..8).map(|_| change(chance)).collect())
}

/// The real threads on a real disk: one applies as fast as files are written, the other reads
/// moments.
#[test]
fn a_view_is_exactly_its_moment_beside_running_threads() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = start(dir.path());
    let all = (0..600).map(|number| Change::Put { key: wide_key(number), content: "0".into() });
    let batches = parking_lot::Mutex::new(vec![Batch(all.collect())]);
    recorder.apply(at(1), &batches.lock()[0], None).unwrap();
    let done = AtomicBool::new(false);
    let same = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut chance = Chance::new(11);
            for index in 2.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let batch = wide_batch(&mut chance);
                batches.lock().push(batch.clone());
                recorder.apply(at(index), &batch, None).unwrap();
                // Changes on their way when a view begins need not be put aside: few are to be.
                recorder.reader().files.wait_written();
            }
        });
        let mut expected = State::new();
        let mut applied = 0;
        let mut same = Vec::new();
        for round in 0..3 {
            let mut frozen = recorder.freeze().unwrap();
            frozen.round_files = 4 + round % 3;
            let index = usize::try_from(frozen.position().index).unwrap();
            let mut found = State::new();
            while let Ok(Some(chunk)) = frozen.next_chunk(400) {
                found.extend(chunk);
                let now = batches.lock().len();
                while batches.lock().len() == now {
                    std::thread::yield_now();
                }
            }
            batches.lock()[applied..index].iter().for_each(|batch| apply(&mut expected, batch));
            applied = index;
            same.push(found == expected);
        }
        done.store(true, Ordering::Relaxed);
        same
    });
    assert_eq!(same, [true; 3]);
    recorder.close().unwrap();
    assert!(matches!(recorder.freeze().unwrap_err(), FrozenError::Ended));
}

#[test]
fn a_moment_to_come_is_met_exactly_and_one_that_is_over_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = start(dir.path());
    let content = |index: u64| Bytes::from(index.to_string());
    let apply = |index: u64| {
        let key = Key::parse("queue/serial").unwrap();
        let batch = Batch(vec![Change::Put { key, content: content(index) }]);
        recorder.apply(at(index), &batch, None).unwrap();
    };
    (1..=5).for_each(apply);
    let wait = |index| recorder.freeze_at(index, Group::named("queue"), Duration::from_secs(60));
    assert!(matches!(wait(4), Err(FrozenError::Passed { index: 4, .. })));
    let late = recorder.freeze_at(6, None, Duration::ZERO);
    assert!(matches!(late, Err(FrozenError::Late { index: 6, .. })));
    let check = |frozen: Result<Frozen, FrozenError>, index| {
        let mut frozen = frozen.unwrap();
        assert_eq!(frozen.position(), at(index));
        assert_eq!(frozen.next_chunk(100).unwrap().unwrap()[0].1, content(index));
    };
    check(wait(5), 5);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| check(wait(500), 500));
        // Goes on until that moment was met, and beyond it.
        for index in 6.. {
            if waiting.is_finished() {
                break;
            }
            // The thread that waits for it may come late, but not later than this.
            while index == 500 && !recorder.awaits() && !waiting.is_finished() {
                std::thread::yield_now();
            }
            apply(index);
        }
    });
}
