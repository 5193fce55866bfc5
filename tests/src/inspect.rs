//! Reads the files on the disk of a master that does not run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cluster::Host;

/// The queue as its files tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFiles {
    /// Jobs that are not archived.
    pub live: BTreeMap<u64, Value>,
    /// Jobs that are.
    pub archived: BTreeMap<u64, Value>,
    /// The last number that was given.
    pub serial: u64,
}

impl QueueFiles {
    /// Reads all files; each must be whole.
    ///
    /// # Panics
    /// If one is not.
    pub fn read(host: &Host) -> Self {
        let queue = host.layout().data().join("queue");
        let serial = fs::read_to_string(queue.join("serial")).unwrap();
        let serial = serial.strip_suffix('\n').and_then(|number| number.parse().ok());
        let mut archived = BTreeMap::new();
        for directory in entries(&queue.join("archive")) {
            for (id, job) in jobs(&directory) {
                let place: u64 = directory.file_name().unwrap().to_str().unwrap().parse().unwrap();
                assert_eq!(place, id / 10_000, "job {id} lies in the wrong directory");
                archived.insert(id, job);
            }
        }
        Self {
            live: jobs(&queue).collect(),
            archived,
            serial: serial.expect("the serial is a number and a line end"),
        }
    }
}

/// All files of the store by their path, but for the journal and what the store keeps for itself.
pub fn documents(host: &Host) -> BTreeMap<String, Vec<u8>> {
    let data = host.layout().data();
    let mut found = BTreeMap::new();
    collect(&data, &data, &mut found);
    found
}

/// The store's description of itself.
pub fn store(host: &Host) -> Value {
    let path = host.layout().data().join("store.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn collect(data: &Path, directory: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for path in entries(directory) {
        let key = path.strip_prefix(data).unwrap().to_str().unwrap().to_owned();
        if ["journal", "store.json", "queue/lock", "node", "aside", ".tmp"].contains(&key.as_str())
        {
            continue;
        }
        if path.is_dir() {
            collect(data, &path, found);
        } else if let Some(content) = content(&path) {
            found.insert(key, content);
        }
    }
}

/// The content of a file; none if it vanished after it was listed, which happens in a store that works.
fn content(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn jobs(directory: &Path) -> impl Iterator<Item = (u64, Value)> {
    entries(directory).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let id: u64 = name.strip_prefix("job-")?.parse().ok()?;
        let text = fs::read(&path).unwrap();
        let job: Value = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{} is not whole: {error}", path.display()));
        assert_eq!(job["id"], id, "{}", path.display());
        Some((id, job))
    })
}
