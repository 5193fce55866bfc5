//! The files in `fuzz/corpus` go through the fuzz targets, as any other test. They are bytes that once
//! broke a rule, or that show the way to unusual places.

#[path = "../../fuzz/targets.rs"]
mod targets;

use std::fs;

use targets::TARGETS;

/// Bytes of all corpora together: seeds, not the yield of long runs.
const CORPORA_BYTES_MAX: usize = 200_000;

#[test]
fn corpora_break_no_rule() {
    let corpora = xtask::root().join("fuzz/corpus");
    let mut bytes = 0;
    for (name, target) in TARGETS {
        let files = fs::read_dir(corpora.join(name)).unwrap();
        let mut count = 0;
        for file in files {
            let path = file.unwrap().path();
            // A panic in a target does not tell what it was given.
            eprintln!("{}", path.display());
            let input = fs::read(path).unwrap();
            target(&input);
            (bytes, count) = (bytes + input.len(), count + 1);
        }
        assert!(count > 0, "{name} has no corpus");
    }
    assert!(bytes <= CORPORA_BYTES_MAX, "{bytes} bytes of corpora");
}

/// Longest recording whose bits are turned one by one: longer ones hold the messages of others.
const TURNED_BYTES_MAX: usize = 1_300;

/// Recorded conversations with the DHCP server, cut at every byte and with every bit wrong.
#[test]
fn dhcp_survives_every_cut_and_every_wrong_bit() {
    for file in fs::read_dir(xtask::root().join("fuzz/corpus/dhcp_server")).unwrap() {
        let path = file.unwrap().path();
        eprintln!("{}", path.display());
        let recorded = fs::read(path).unwrap();
        for len in 0..recorded.len() {
            targets::dhcp_server(&recorded[..len]);
        }
        let mut wrong = recorded.clone();
        let turned = if recorded.len() > TURNED_BYTES_MAX { 0 } else { recorded.len() };
        for bit in 0..8 * turned {
            wrong[bit / 8] ^= 1 << (bit % 8);
            targets::dhcp_server(&wrong);
            wrong[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Records and batches are binary: their seeds are what the journal writes.
#[test]
fn journal_seeds_are_what_is_written() {
    use queue_format::journal::{Entry, Payload, Record};
    use queue_format::{Batch, Change, Epoch, Key, Position};

    let key = |text: &str| Key::parse(text).unwrap();
    let batch = Batch(vec![
        Change::Put { key: key("queue/job-1"), content: b"{}".as_slice().into() },
        Change::Move { from: key("queue/job-1"), to: key("queue/archive/0/job-1") },
        Change::Delete { key: key("queue/drain") },
    ]);
    let position = Position { epoch: Epoch { term: 3, node: 1 }, index: 9 };
    let entry = Record::Entry(Entry { position, payload: Payload::Batch(batch.encode()) });
    let mut record = Vec::new();
    entry.encode(&mut record);
    let mut segment = Vec::new();
    let header = queue_format::journal::frame::Header { lsn: 1, committed: 9, checkpoint: 0 };
    queue_format::journal::frame::encode(header, &[entry], 7, &mut segment);
    let corpus = xtask::root().join("fuzz/corpus/journal");
    for (name, bytes) in [("batch", &batch.encode()[..]), ("record", &record), ("frame", &segment)]
    {
        let found = fs::read(corpus.join(name)).unwrap_or_default();
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&found), hex(bytes), "fuzz/corpus/journal/{name}");
    }
}
