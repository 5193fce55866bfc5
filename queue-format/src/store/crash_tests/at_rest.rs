//! One frame behind the log of a store on which no engine runs: all of it or nothing.

use super::replicated::{Engine, open_engine};
use super::*;
use crate::disk::sim::{Loss, Stop};
use crate::journal::{Entry, Payload, Record};
use crate::position::Position;
use crate::store::log_writer::LogSteps;
use crate::store::open::Opened;
use crate::store::replicated::ReplicatedStore;
use crate::store::replicated::steps::RecordGroup;

const OLD_VOTE: &str = "old vote";
const NEW_VOTE: &str = "new vote";
const MEMBERS: &str = "only me";

fn position(epoch: Epoch, index: u64) -> Position {
    Position { epoch, index }
}

fn put(content: &str) -> Batch {
    let content = Bytes::copy_from_slice(content.as_bytes());
    Batch(vec![Change::Put { key: key("queue/serial"), content }])
}

fn entry(epoch: Epoch, index: u64, payload: Payload) -> Record {
    Record::Entry(Entry { position: position(epoch, index), payload })
}

/// A store with one entry in its files, and one that nobody knows to be committed.
fn before() -> SimDisk {
    let disk = stops::new_disk();
    let mut engine = Engine::start(open_engine(&disk).unwrap()).unwrap();
    let append = |engine: &mut Engine, records| {
        let mut group = RecordGroup { tags: vec![()], records };
        assert!(engine.steps.attempt(&mut group, false).unwrap());
    };
    let first = put("1");
    let records = vec![
        Record::Vote(OLD_VOTE.into()),
        entry(EPOCH, 1, Payload::Batch(first.encode())),
        entry(EPOCH, 2, Payload::Batch(put("2").encode())),
    ];
    append(&mut engine, records);
    let lsn = engine.steps.progress.frames.lock().applied(1);
    let reach = Reach { lsn, position: position(EPOCH, 1) };
    engine.steps.progress.committed.store(1, std::sync::atomic::Ordering::Release);
    engine.steps.files.hand_over(&first, reach).unwrap();
    engine.steps.write_frame().unwrap();
    engine.checkpoint().unwrap();
    disk
}

fn write(disk: &SimDisk) -> Result<(), Ended> {
    let store = ReplicatedStore::from(open_engine(disk).map_err(|_error| Ended)?);
    let epoch = Epoch { term: EPOCH.term + 1_000_000, node: 1 };
    let records = [
        Record::Vote(NEW_VOTE.into()),
        entry(epoch, 3, Payload::Batch(put("1000").encode())),
        entry(epoch, 4, Payload::Membership(MEMBERS.into())),
    ];
    store.append_at_rest(&records).map_err(|_error| Ended)
}

/// Whether what was found is the new log; it has to be that or the old one.
fn is_new(opened: &Opened, what: &str) -> bool {
    assert_eq!(opened.parts.position.index, 1, "{what}: nothing more was committed");
    let files = opened.parts.reader().read(&key("queue/serial")).unwrap();
    assert_eq!(files.as_deref(), Some(&b"1"[..]), "{what}");
    let vote = opened.note.vote.as_deref();
    let last = opened.tail.last().map(|entry| (entry.position.index, &entry.payload));
    match (opened.tail.len(), vote, last) {
        (1, Some(OLD_VOTE), Some((2, Payload::Batch(_)))) => false,
        (3, Some(NEW_VOTE), Some((4, Payload::Membership(text)))) if *text == MEMBERS => true,
        found => panic!("{what}: neither the old log nor the new one: {found:?}"),
    }
}

#[test]
fn a_crash_leaves_the_old_log_or_the_new_one() {
    let whole = before().crash(Loss::Nothing, &mut Chance::new(0));
    write(&whole).expect("nothing stops it");
    let operations = whole.operations();
    let (mut old, mut new) = (0, 0);
    for at in 0..=operations {
        for (stop, loss) in [
            (Stop::Before, Loss::PowerCut),
            (Stop::After, Loss::PowerCut),
            (Stop::After, Loss::Nothing),
        ] {
            let what = format!("{stop:?} operation {at}, losing {loss:?}");
            let mut chance = Chance::new(u64::try_from(at).unwrap());
            let disk = before().crash(Loss::Nothing, &mut chance);
            disk.stop_after(at, stop);
            let written = write(&disk).is_ok();
            let disk = disk.crash(loss, &mut chance);
            let found = is_new(&open_engine(&disk).unwrap(), &what);
            assert!(found || !written, "{what}: it was said to be durable");
            *(if found { &mut new } else { &mut old }) += 1;
            // The boot after the next one finds the same.
            let disk = disk.crash(Loss::PowerCut, &mut chance);
            assert_eq!(is_new(&open_engine(&disk).unwrap(), &what), found, "{what}");
        }
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}
