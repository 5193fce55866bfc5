//! `kill -9` on a process that commits, on the machine's own file system, again and again: nothing
//! that it said was committed is lost.
#![expect(clippy::unwrap_used, reason = "a test, its functions included")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use queue_format::{Callbacks, Change, Epoch, Key, Store, StoreOptions};

const DIRECTORY: &str = "QUEUE_FORMAT_KILL_DIRECTORY";
const ROUNDS: u64 = 12;

fn options() -> StoreOptions {
    StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() }
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// Job, serial and a move of an earlier job, in one batch.
fn changes(id: u64) -> Vec<Change> {
    let content = |text: String| Bytes::from(text);
    let mut changes = vec![
        Change::Put { key: key("queue/serial"), content: content(format!("{id}\n")) },
        Change::Put {
            key: key(&format!("queue/job-{id}")),
            content: content(format!("{{\"id\":{id},\"log\":\"{}\"}}", "x".repeat(900))),
        },
    ];
    if let Some(old) = id.checked_sub(20).filter(|&old| old > 0) {
        let from = key(&format!("queue/job-{old}"));
        changes.push(Change::Move { from, to: key(&format!("queue/archive/0/job-{old}")) });
    }
    changes
}

/// Commits until it is killed, and says the number of each job once it is committed. Does nothing
/// unless the other test asks for it.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = Store::open(Path::new(&directory), options()).unwrap();
    let serial = store.read(&key("queue/serial")).unwrap();
    let mut id = serial.map_or(0, |text| number(&text));
    let callbacks = Callbacks::new(|ids: Vec<u64>, _position| {
        let mut out = std::io::stdout().lock();
        for id in ids {
            writeln!(out, "committed {id}").unwrap();
        }
    });
    let committer = store.start(Epoch { term: 1, node: 1 }, callbacks).unwrap();
    loop {
        id += 1;
        let mut submitted = changes(id);
        while let Err(refused) = committer.try_submit(submitted, id) {
            submitted = refused.changes;
            std::thread::yield_now();
        }
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().trim_end().parse().unwrap()
}

#[test]
fn a_killed_process_loses_nothing_that_it_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = lines.filter_map(|line| line.strip_prefix("committed ")?.parse().ok());
        // Killed in the middle of things, after a different number of commits each time.
        for id in said.by_ref().take(usize::try_from(round * 137 % 700 + 1).unwrap()) {
            last = last.max(id);
        }
        child.kill().unwrap();
        last = said.fold(last, u64::max);
        child.wait().unwrap();
        check(directory.path(), last);
    }
    assert!(last > ROUNDS);
}

fn check(directory: &Path, last: u64) {
    let store = Store::open(directory, options()).unwrap();
    let serial = number(&store.read(&key("queue/serial")).unwrap().unwrap());
    assert!(serial >= last, "job {last} was committed, the serial is {serial}");
    let files: BTreeMap<Key, Bytes> = store.scan("queue/").unwrap().map(Result::unwrap).collect();
    assert_eq!(u64::try_from(files.len()).unwrap(), serial + 1, "each job once, and the serial");
    for id in 1..=serial {
        let name = match serial - id {
            0..20 => format!("queue/job-{id}"),
            _ => format!("queue/archive/0/job-{id}"),
        };
        let expected = changes(id).into_iter().find_map(|change| match change {
            Change::Put { key, content } if key.as_str().ends_with(&format!("job-{id}")) => {
                Some(content)
            }
            _ => None,
        });
        assert_eq!(files.get(&key(&name)), expected.as_ref(), "{name}");
    }
}
