//! The bytes of a job on disk.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use gungraun::library_benchmark;
use model::{Job, document};
use queue_format::journal::frame::{self, Header};
use queue_format::journal::record::{Entry, Payload, Record};
use queue_format::{Batch, Change, Epoch, Key, Position};

use crate::sample;
use crate::turns::TURNS;

/// Room for a job's file, as the writer makes it.
const JOB_BYTES: usize = 1_024;
/// Any; a store has one of its own.
const SALT: u32 = 77;

fn file(job: &Job) -> Vec<u8> {
    let mut file = Vec::with_capacity(JOB_BYTES);
    serde_json::to_writer(&mut file, job).expect("a job has plain keys");
    file
}

fn stored() -> Bytes {
    file(&sample::ended(123_456)).into()
}

// Writes a job's file to memory.
#[library_benchmark]
#[bench::ended(sample::ended(123_456))]
fn encode_job(job: Arc<Job>) -> Arc<Job> {
    for _ in 0..TURNS {
        black_box(file(black_box(&job)));
    }
    job
}

// Reads a job's file, as a start does.
#[library_benchmark]
#[bench::ended(stored())]
fn decode_job(file: Bytes) -> Bytes {
    for _ in 0..TURNS {
        black_box(serde_json::from_slice::<Job>(black_box(&file)).expect("a job"));
    }
    file
}

// Makes the journal's frame of one commit: a new job's id, and its file.
#[library_benchmark]
#[bench::of_one_job(stored())]
fn write_frame(job: Bytes) -> Vec<u8> {
    let mut out = Vec::new();
    for lsn in 1..=TURNS {
        let key = |text: &str| Key::parse(text).expect("a good key");
        let serial = Change::Put {
            key: key(document::QUEUE_SERIAL),
            content: Bytes::from_static(b"123456\n"),
        };
        let id = model::JobId(123_456);
        let put = Change::Put { key: key(&document::job(id)), content: black_box(&job).clone() };
        let payload = Payload::Batch(Batch(vec![serial, put]).encode());
        let position = Position { epoch: Epoch { term: 1, node: 1 }, index: lsn };
        let header = Header { lsn, committed: lsn - 1, checkpoint: 0 };
        let records = [Record::Entry(Entry { position, payload })];
        frame::encode(header, &records, SALT, &mut out);
        black_box(&out);
    }
    out
}
