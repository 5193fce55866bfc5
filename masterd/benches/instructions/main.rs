//! Instructions that the steps of a trivial job take, counted by Valgrind: unlike times, they can be
//! compared between runs on a busy machine. `cargo xtask bench instructions` runs this, and compares
//! with `instructions.json`.
//!
//! In reading order: [`sample`] is the job; [`wire`] reads requests and writes answers, [`queue`]
//! decides, and [`store`] writes and reads what is on disk. Then [`locks`] takes and gives locks, and
//! [`objects`] changes and finds objects of the configuration. Each does its work [`turns::TURNS`] times
//! (`turns`).
#![expect(clippy::exit, reason = "gungraun's `main!` ends the process")]

mod sample;
mod turns;

mod locks;
mod objects;
mod queue;
mod store;
mod wire;

use gungraun::{library_benchmark_group, main};

use crate::locks::{locks_of_a_job, locks_of_a_task, wake_one};
use crate::objects::{find_machine, register_machine, set_tag};
use crate::queue::{job_through_the_queue, next_of_the_schedule};
use crate::store::{decode_job, encode_job, write_frame};
use crate::wire::{answer_change, list_last_fifty, read_request};

/// The daemon's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

library_benchmark_group!(
    name = job,
    benchmarks = [
        read_request,
        job_through_the_queue,
        next_of_the_schedule,
        locks_of_a_job,
        locks_of_a_task,
        wake_one,
        encode_job,
        write_frame,
        decode_job,
        answer_change,
        list_last_fifty,
        register_machine,
        set_tag,
        find_machine
    ]
);

main!(library_benchmark_groups = job);
