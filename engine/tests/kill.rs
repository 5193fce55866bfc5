//! `kill -9` on a lone voter that commits, again and again: nothing that it said is lost, and every
//! leadership has a later epoch.
#![expect(clippy::unwrap_used, reason = "a test, its functions included")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Engine, EngineOptions, Link, Peers};
use queue_format::{Batch, Change, Key, ReplicatedStore, StoreOptions};
use tokio::task::JoinSet;

const DIRECTORY: &str = "ENGINE_KILL_DIRECTORY";
const ROUNDS: u64 = 8;
const CLIENTS: u64 = 4;

fn store_options() -> StoreOptions {
    StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() }
}

#[derive(Debug)]
struct Nobody;

impl Peers for Nobody {
    fn link(&self, member: u64, _node: &str) -> Box<dyn Link> {
        unreachable!("a lone voter asks member {member}")
    }
}

fn key(client: u64) -> Key {
    Key::parse(&format!("counters/{client}")).unwrap()
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().trim_end().parse().unwrap()
}

/// Each client counts its own key up, and says how far, until all are killed. Does nothing unless
/// the other test asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = store_options();
    let options = EngineOptions::new(1, "n1", store);
    let opened = Engine::open(Path::new(&directory), options, Arc::new(Nobody)).await;
    let (engine, mut committed) = opened.unwrap();
    let engine = Arc::new(engine);
    let epoch = engine.take_over(Duration::from_secs(60)).await.unwrap();
    writeln!(std::io::stdout().lock(), "epoch {}", epoch.term).unwrap();
    let mut clients = JoinSet::new();
    clients.spawn(async move { while committed.recv().await.is_some() {} });
    for client in 0..CLIENTS {
        let engine = engine.clone();
        clients.spawn(async move {
            let start = engine.reader().read(&key(client)).unwrap().map_or(0, |text| number(&text));
            for count in start + 1.. {
                let content = Bytes::from(format!("{count}\n"));
                let change = Change::Put { key: key(client), content };
                engine.propose(epoch, Batch(vec![change])).await.unwrap();
                writeln!(std::io::stdout().lock(), "count {client} {count}").unwrap();
            }
        });
    }
    clients.join_all().await;
}

#[test]
fn a_killed_voter_loses_nothing_that_it_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut said = [0; 4];
    let mut last_term = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut left = round * 211 % 900 + 1;
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["epoch", term] => {
                    let term: u64 = term.parse().unwrap();
                    assert!(term > last_term, "epoch {term} after {last_term}");
                    last_term = term;
                }
                ["count", client, count] => {
                    let client: usize = client.parse().unwrap();
                    said[client] = said[client].max(count.parse().unwrap());
                    // Killed in the middle of things; what it still said is read to the end.
                    left = left.saturating_sub(1);
                    if left == 0 {
                        child.kill().unwrap();
                    }
                }
                _ => {}
            }
        }
        child.wait().unwrap();
        check(directory.path(), &said);
    }
    assert_eq!(u64::try_from(said.len()).unwrap(), CLIENTS);
}

/// Every number that was said is applied, or waits in the log for the next leadership.
fn check(directory: &Path, said: &[u64; 4]) {
    let store = ReplicatedStore::open(directory, store_options(), 1).unwrap();
    let waiting: Vec<Change> = store
        .log()
        .tail
        .into_iter()
        .flat_map(|entry| match entry.payload {
            queue_format::journal::Payload::Batch(bytes) => Batch::decode(bytes).unwrap().0,
            _ => Vec::new(),
        })
        .collect();
    for (client, &count) in (0..).zip(said) {
        let applied = store.reader().read(&key(client)).unwrap().map_or(0, |text| number(&text));
        let newest = waiting.iter().fold(applied, |newest, change| match change {
            Change::Put { key: found, content } if *found == key(client) => number(content),
            _ => newest,
        });
        assert!(newest >= count, "client {client}: {newest}, but {count} was said");
    }
}
