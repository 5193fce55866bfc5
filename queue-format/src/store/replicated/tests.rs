//! Two members on real directories: one reads a moment, the other becomes it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::change::Change;
use crate::journal::Payload;
use crate::key::Key;
use crate::position::Epoch;
use crate::store::{FrozenError, Incoming, InstallError};

fn at(term: u64, index: u64) -> Position {
    Position { epoch: Epoch { term, node: 1 }, index }
}

fn put(name: &str, content: &str) -> Change {
    let content = Bytes::copy_from_slice(content.as_bytes());
    Change::Put { key: Key::parse(name).unwrap(), content }
}

fn start(dir: &Path) -> (Recorder<u64>, Receiver<u64>, RecoveredLog) {
    let options = StoreOptions {
        segment_bytes: 64 << 10,
        write_behind: Duration::from_millis(1),
        ..StoreOptions::default()
    };
    let store = ReplicatedStore::open(dir, options, 1).unwrap();
    let log = store.log();
    let (tell, told) = sync_channel(1000);
    let callbacks = Callbacks::new(move |tags: Vec<u64>, _position| {
        tags.into_iter().for_each(|tag| tell.send(tag).unwrap());
    })
    .on_fatal(|error| panic!("{error:?}"));
    (store.start(callbacks).unwrap(), told, log)
}

fn entry(position: Position, changes: &[Change]) -> Record {
    Record::Entry(Entry { position, payload: Payload::Batch(Batch(changes.to_vec()).encode()) })
}

/// Appends and applies.
fn commit(store: &(Recorder<u64>, Receiver<u64>, RecoveredLog), at: Position, changes: &[Change]) {
    store.0.append(vec![entry(at, changes)], at.index).unwrap();
    assert_eq!(store.1.recv().unwrap(), at.index);
    let members = (at.index == 1).then(|| "us".to_owned());
    store.0.apply(at, &Batch(changes.to_vec()), members).unwrap();
}

fn all(recorder: &Recorder<u64>) -> BTreeMap<String, Bytes> {
    let scan = recorder.reader().scan("").unwrap();
    scan.map(|row| row.map(|(key, content)| (key.to_string(), content)).unwrap()).collect()
}

fn send(from: &Recorder<u64>, to: &Recorder<u64>) -> Incoming {
    let mut frozen = from.freeze().unwrap();
    let members = frozen.members().unwrap().clone();
    let mut incoming = to.receive(frozen.position(), members).unwrap();
    while let Some(chunk) = frozen.next_chunk(20).unwrap() {
        incoming.push(&chunk).unwrap();
    }
    incoming.finish().unwrap();
    incoming
}

/// A recorder that is at entry 40, and one that is at entry 2 of the same log, with more that is not
/// committed.
fn ahead_and_behind(dirs: (&Path, &Path)) -> [(Recorder<u64>, Receiver<u64>, RecoveredLog); 2] {
    let (ahead, behind) = (start(dirs.0), start(dirs.1));
    for index in 1..=40 {
        let key = format!("queue/job-{}", index % 7);
        let archived = format!("queue/archive/0/job-{index}");
        let changes =
            [put(&key, &index.to_string()), put(&archived, "old"), put("config/authority", "key")];
        commit(&ahead, at(1, index), &changes);
        if index <= 2 {
            let gone = put(&format!("machines/gone-{index}"), "only here");
            commit(&behind, at(1, index), &[&changes[..], &[gone]].concat());
        }
    }
    let stale = [put("config/cluster", "never was")];
    behind.0.append(vec![entry(at(1, 3), &stale)], 3).unwrap();
    assert_eq!(behind.1.recv().unwrap(), 3);
    [ahead, behind]
}

#[test]
fn a_member_becomes_what_another_one_was() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [ahead, behind] = ahead_and_behind((one.path(), other.path()));
    let view = behind.0.freeze();
    let incoming = send(&ahead.0, &behind.0);
    // While it is on its way, the engine appends what follows it: that waits.
    behind.0.append(vec![entry(at(2, 41), &[])], 41).unwrap();
    behind.0.append(vec![Record::Vote(Bytes::from("v"))], 99).unwrap();
    assert!(behind.1.try_recv().is_err());
    behind.0.install(incoming).unwrap();
    assert_eq!([behind.1.recv().unwrap(), behind.1.recv().unwrap()], [41, 99]);
    assert_eq!(behind.0.position(), at(1, 40));
    assert_eq!(all(&behind.0), all(&ahead.0));
    assert!(matches!(view.unwrap().next_chunk(1), Err(FrozenError::Replaced)));
    let digest = |recorder: &Recorder<u64>| recorder.freeze().unwrap().digest().unwrap();
    assert_eq!(digest(&behind.0), digest(&ahead.0));

    behind.0.apply(at(2, 41), &Batch(vec![put("ipam", "41")]), None).unwrap();
    behind.0.close().unwrap();
    let mode =
        std::fs::metadata(other.path().join("config/authority")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!other.path().join("incoming").exists());
    let (again, _told, log) = start(other.path());
    assert_eq!((log.applied, log.vote.as_deref()), (at(2, 41), Some("v")));
    assert_eq!(log.members, Some((at(1, 1), "us".to_owned())));
    assert_eq!(all(&again).len(), all(&ahead.0).len() + 1);
}

#[test]
fn a_snapshot_that_is_given_up_leaves_nothing_and_only_one_is_received() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [ahead, behind] = ahead_and_behind((one.path(), other.path()));
    let before = all(&behind.0);
    let incoming = send(&ahead.0, &behind.0);
    let second = behind.0.receive(at(1, 50), (at(1, 1), String::new()));
    assert!(matches!(second, Err(InstallError::Receiving)));
    drop(incoming);
    assert!(!other.path().join("incoming").exists());

    let mut incoming = behind.0.receive(at(1, 50), (at(1, 1), String::new())).unwrap();
    let row = |name: &str| (Key::parse(name).unwrap(), Bytes::new());
    incoming.push(&[row("b"), row("a/b")]).unwrap();
    assert!(matches!(incoming.push(&[row("a")]), Err(InstallError::Order { .. })));
    assert!(matches!(incoming.push(&[]), Err(InstallError::Incomplete)));
    assert!(matches!(behind.0.install(incoming), Err(InstallError::Incomplete)));

    let old = send(&behind.0, &behind.0);
    assert!(matches!(behind.0.install(old), Err(InstallError::Older { .. })));
    assert_eq!(all(&behind.0), before);
    behind.0.close().unwrap();
    let log = ReplicatedStore::open(other.path(), StoreOptions::default(), 1).unwrap().log();
    assert_eq!((log.applied, log.tail.len()), (at(1, 2), 1));
}

#[test]
fn moves_are_resolved_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = start(dir.path());
    commit(&store, at(1, 1), &[put("a", "x")]);
    let key = |name: &str| Key::parse(name).unwrap();
    let (gone, moved) = (
        Change::Move { from: key("none"), to: key("c") },
        Change::Move { from: key("a"), to: key("b") },
    );
    let batch = Batch(vec![gone, moved]);
    let error = store.0.apply(at(1, 2), &batch, None).unwrap_err();
    assert!(error.to_string().contains("moves travel as content"), "{error}");
    let resolved = store.0.resolve(batch).unwrap();
    assert_eq!(resolved.0, [Change::Delete { key: key("a") }, put("b", "x")]);
}
