//! Makes the store that `tests/golden.rs` recovers, as a crash leaves it. It is run once for each new
//! format: `cargo run -p tests --example golden_store -- tests/golden/format-N/crashed`.
#![expect(clippy::unwrap_used, reason = "run by hand, and a surprise ends it")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use queue_format::{Callbacks, Change, Epoch, Key, Store, StoreOptions};

/// The smallest segment there is.
const SEGMENT_BYTES: u64 = 16 << 10;
/// Longer than this program runs.
const NEVER: Duration = Duration::from_secs(3_600);

fn main() {
    let to = std::env::args().nth(1).expect("the directory to make");
    let to = Path::new(&to);
    assert!(!to.exists(), "`{}` is there; a golden store is never changed", to.display());
    let dir = tempfile::tempdir().unwrap();
    // Nothing reaches the files but by a checkpoint, of which none is due.
    let options = StoreOptions {
        segments: 2,
        segment_bytes: SEGMENT_BYTES,
        write_behind: NEVER,
        ..StoreOptions::default()
    };
    let store = Store::open(dir.path(), options).unwrap();
    let (tell, told) = std::sync::mpsc::sync_channel(16);
    let callbacks = Callbacks::new(move |_tags: Vec<()>, _position| tell.send(()).unwrap());
    let committer = store.start(Epoch { term: 1, node: 1 }, callbacks).unwrap();
    let key = |text| Key::parse(text).unwrap();
    let put = |name, content: &'static str| Change::Put {
        key: key(name),
        content: Bytes::from_static(content.as_bytes()),
    };
    for changes in [
        vec![put("queue/job-1", "{\"id\":1}"), put("queue/serial", "1\n")],
        vec![put("queue/job-2", "{\"id\":2}"), put("queue/serial", "2\n"), put("queue/drain", "")],
        vec![put("queue/job-2", "{\"id\":2,\"state\":\"newest\"}")],
        vec![Change::Move { from: key("queue/job-1"), to: key("queue/archive/0/job-1") }],
        vec![Change::Delete { key: key("queue/drain") }],
    ] {
        committer.submit(changes, ()).unwrap();
        told.recv().unwrap();
    }
    // As the disk is before the end, which would complete the files.
    fs::create_dir_all(to.join("journal")).unwrap();
    fs::copy(dir.path().join("store.json"), to.join("store.json")).unwrap();
    for entry in fs::read_dir(dir.path().join("journal")).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join("journal").join(entry.file_name())).unwrap();
    }
    committer.close().unwrap();
}
