//! The decisions of the queue: the fate of a job, and which job is next.

use std::collections::HashMap;
use std::hint::black_box;

use gungraun::library_benchmark;
use jobs::event::Replies;
use jobs::schedule::Schedule;
use jobs::schedule::rate_limit::Gate;
use jobs::state::Queue;
use jobs::submit::check;
use jobs::{Effects, Event, JobBytes, Outcome};
use model::job::RequestDigest;
use model::opcode::Reach;
use model::{JobId, OpInput};
use serde_json::Value;

use crate::sample;
use crate::turns::TURNS;

/// As large as a commit may be.
const COMMIT_BYTES: usize = 16 << 20;
/// Jobs that may call agents at once.
const RUNNING_MAX: u32 = 20;

type Requests = Vec<(OpInput, RequestDigest)>;

/// Answers go to numbers.
#[derive(Debug)]
pub(crate) enum Numbers {}

impl Replies for Numbers {
    type To<T: std::fmt::Debug + Send + 'static> = u64;
}

fn queue(live: u64) -> (Queue<Numbers>, Requests) {
    let limits = JobBytes::within(COMMIT_BYTES);
    let queue = Queue::new((1..=live).map(sample::ended), live, false, RUNNING_MAX, limits);
    let requests = (live + 1..=live + TURNS).map(|id| (sample::op(id), sample::digest(id)));
    (queue, requests.collect())
}

// Submits a job, which starts at once, and ends it.
#[library_benchmark]
#[bench::among_10(queue(10))]
#[bench::among_10000(queue(10_000))]
fn job_through_the_queue((mut queue, requests): (Queue<Numbers>, Requests)) -> Queue<Numbers> {
    let limits = JobBytes::within(COMMIT_BYTES);
    for (number, (op, digest)) in (0..).zip(requests) {
        let now = sample::moment(number);
        let jobs = check(vec![vec![op]], limits).expect("a good job").into_iter();
        let jobs = jobs.map(|job| job.sent_by((sample::UID, None), Some(digest.at(0)))).collect();
        let mut effects = Effects::default();
        let archived = HashMap::new();
        let submit = Event::Submit { jobs, to_drained: false, archived, reply: number };
        queue.handle(submit, now, &mut effects);
        let start = effects.start.pop().expect("nothing keeps it from starting");
        let (job, op) = (start.job, start.op);
        queue.handle(Event::Granted { job, op, durable: None }, now, &mut effects);
        let ended = Event::Ended { job, op, outcome: Outcome::Success(Value::Null) };
        queue.handle(ended, now, &mut effects);
        black_box(effects);
    }
    queue
}

fn schedule(ready: u64) -> (Schedule, u64) {
    let mut schedule = Schedule::new(1);
    for id in 1..=ready {
        schedule.ready(JobId(id), 0, Reach::Agents, &Gate::Open);
    }
    schedule.start_next().expect("one may run");
    (schedule, ready)
}

// One job ends, the next starts, and another one comes.
#[library_benchmark]
#[bench::among_10(schedule(10))]
#[bench::among_100000(schedule(100_000))]
fn next_of_the_schedule((mut schedule, ready): (Schedule, u64)) -> Schedule {
    for id in ready + 1..=ready + TURNS {
        schedule.ready(JobId(id), 0, Reach::Agents, &Gate::Open);
        schedule.ended(Reach::Agents, &Gate::Open);
        black_box(schedule.start_next()).expect("another one is ready");
    }
    schedule
}
