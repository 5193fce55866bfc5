//! A recorder: an engine appends more than the journal holds, applies what is durable, and others
//! want checkpoints and views meanwhile; it cuts what it appended.

use std::sync::Arc;

use bytes::Bytes;

use queue_format::journal::{Entry, Payload, Record};
use queue_format::simulation::SimDisk;
use queue_format::{Batch, Callbacks, Change, Key, Position, Recorder, ReplicatedStore};
use shuttle::thread;

use super::{EPOCH, Told, options, orders};

const ENTRIES: u32 = 36;
/// Ten of them fill a segment, which is more than the frames for which room is kept.
const DOCUMENT_BYTES: usize = 1_200;

fn start(disk: &SimDisk, told: &Arc<Told>) -> Arc<Recorder<u32>> {
    let told = Arc::clone(told);
    let callbacks = Callbacks::new(move |tags: Vec<u32>, _| {
        told.tags.lock().unwrap().extend(tags);
        told.more.notify_all();
    })
    .on_fatal(|error| panic!("{error:?}"));
    let store = ReplicatedStore::open_simulated(disk, options(), 1).unwrap();
    Arc::new(store.start(callbacks).unwrap())
}

fn position(index: u32) -> Position {
    Position { epoch: EPOCH, index: index.into() }
}

/// A few keys, so that files change again before they are written.
fn key(index: u32) -> Key {
    Key::parse(&format!("queue/job-{}", index % 5)).unwrap()
}

fn batch(index: u32) -> Batch {
    let content = Bytes::from(vec![u8::try_from(index).unwrap(); DOCUMENT_BYTES]);
    Batch(vec![Change::Put { key: key(index), content }])
}

fn append_apply_and_close() {
    let (disk, told) = (SimDisk::empty(), Arc::new(Told::default()));
    let recorder = start(&disk, &told);
    let applier = {
        let (recorder, told) = (Arc::clone(&recorder), Arc::clone(&told));
        thread::spawn(move || {
            for index in 1..=ENTRIES {
                told.wait_for(index);
                recorder.apply(position(index), &batch(index), None).unwrap();
            }
        })
    };
    let reader = {
        let recorder = Arc::clone(&recorder);
        thread::spawn(move || drop(recorder.freeze().unwrap()))
    };
    for index in 1..=ENTRIES {
        let payload = Payload::Batch(batch(index).encode());
        let entry = Record::Entry(Entry { position: position(index), payload });
        recorder.append(vec![entry], index).unwrap();
    }
    [applier, reader].into_iter().for_each(|thread| thread.join().unwrap());
    assert!(recorder.make_durable());
    recorder.close().unwrap();
    let store = ReplicatedStore::open_simulated(&disk, options(), 1).unwrap();
    assert_eq!(store.log().applied, position(ENTRIES));
    for index in ENTRIES - 4..=ENTRIES {
        let found = store.reader().read(&key(index)).unwrap().unwrap();
        assert_eq!(u32::from(found[0]), index);
    }
}

/// Entries that are cut, more of them than are applied before the journal is full.
fn cut_and_go_on() {
    let (disk, told) = (SimDisk::empty(), Arc::new(Told::default()));
    let recorder = start(&disk, &told);
    let blank = |index| Entry { position: position(index), payload: Payload::Blank };
    let never = (1..=2 * ENTRIES).map(|index| Record::Entry(blank(index))).collect();
    recorder.append(never, 0).unwrap();
    told.wait_for(0);
    for index in 1..=ENTRIES {
        let payload = Payload::Batch(batch(index).encode());
        let entry = Record::Entry(Entry { position: position(index), payload });
        let cut = (index == 1).then_some(Record::Truncate { after_index: 0 });
        recorder.append(cut.into_iter().chain([entry]).collect(), index).unwrap();
        told.wait_for(index);
        recorder.apply(position(index), &batch(index), None).unwrap();
    }
    recorder.close().unwrap();
    let store = ReplicatedStore::open_simulated(&disk, options(), 1).unwrap();
    assert_eq!(store.log().applied, position(ENTRIES));
}

#[test]
fn orders_of_cuts_end_well() {
    shuttle::check_random(cut_and_go_on, orders() / 10);
    shuttle::check_pct(cut_and_go_on, orders() / 10, 3);
}

#[test]
fn orders_of_an_engine_and_the_threads_end_well() {
    shuttle::check_random(append_apply_and_close, orders());
}

#[test]
fn unlikely_orders_of_an_engine_and_the_threads_end_well() {
    shuttle::check_pct(append_apply_and_close, orders(), 3);
}
