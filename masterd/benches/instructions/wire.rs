//! The bytes that a client sends, and those that it gets.

use std::hint::black_box;
use std::sync::Arc;

use gungraun::library_benchmark;
use luxi::frame::Splitter;
use luxi::method::{Fields, JobChange, SubmitJob, WaitForJobChange};
use luxi::query::Filter;
use luxi::request::{self, Request};
use luxi::response::Response;
use masterd::door::lists::job::{FIELDS, JobRow};
use masterd::units::list::{Listing, bare};
use model::{Job, JobId};
use serde_json::{Value, json};

use crate::sample;
use crate::turns::TURNS;

/// Longest message that is taken; none here comes near.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Live jobs of the list.
const LIVE: u64 = 1_000;
/// Jobs of them that are shown.
const SHOWN: u64 = 50;

fn submit() -> Vec<u8> {
    let mut message = Vec::new();
    let call = SubmitJob { ops: vec![sample::op(1)] };
    request::write(&call, &mut message).expect("JSON has no ETX");
    message
}

fn wait() -> Vec<u8> {
    let mut message = Vec::new();
    let call = WaitForJobChange {
        job_id: JobId(123_456),
        fields: Fields::from(["status"]),
        previous: Some(vec![Value::from("waiting")]),
        previous_log: Some(0),
        timeout: 30.0,
    };
    request::write(&call, &mut message).expect("JSON has no ETX");
    message
}

// Cuts a message out of the stream, reads it, and makes what it is known by if it comes again.
#[library_benchmark]
#[bench::submit(submit())]
#[bench::wait(wait())]
fn read_request(message: Vec<u8>) -> Splitter {
    let mut splitter = Splitter::new(MESSAGE_BYTES_MAX);
    for _ in 0..TURNS {
        splitter.buffer().extend_from_slice(black_box(&message));
        let message = splitter.next_message().expect("short").expect("whole");
        let request = Request::parse(&message).expect("a request");
        black_box(request.digest(sample::UID, &message));
    }
    splitter
}

fn user(_uid: u32) -> Arc<str> {
    Arc::from("operator")
}

// Tells a waiting client of its job's success.
#[library_benchmark]
#[bench::success(sample::ended(123_456))]
fn answer_change(job: Arc<Job>) -> Arc<Job> {
    let fields = ["status".to_owned()];
    for _ in 0..TURNS {
        let row = JobRow::new(Arc::clone(black_box(&job)), false, user);
        let mut rows = bare(FIELDS, [row], &fields).expect("a field that exists");
        let change = JobChange::Changed(rows.pop().unwrap_or_default(), Vec::new());
        black_box(Response::success(&change));
    }
    job
}

fn live() -> (Vec<Arc<Job>>, Filter, Vec<String>) {
    let filter = json!([">", "id", LIVE - SHOWN]);
    let fields = ["id", "status", "summary", "received_ts", "end_ts", "owner"];
    (
        (1..=LIVE).map(sample::ended).collect(),
        serde_json::from_value(filter).expect("a filter"),
        fields.map(str::to_owned).to_vec(),
    )
}

// Lists the last of many jobs, by a filter that looks at each.
#[library_benchmark]
#[bench::of_1000(live())]
fn list_last_fifty((jobs, filter, fields): (Vec<Arc<Job>>, Filter, Vec<String>)) -> Vec<Arc<Job>> {
    for _ in 0..TURNS {
        let rows = jobs.iter().map(|job| JobRow::new(Arc::clone(job), false, user));
        let mut listing = Listing::new(FIELDS, &fields, Some(&filter)).expect("a good filter");
        rows.for_each(|row| listing.add(&row));
        let list = listing.table();
        assert_eq!(black_box(&list).data.len(), 50);
        black_box(Response::success(&list));
    }
    jobs
}
