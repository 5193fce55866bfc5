//! The job queue at work: what becomes of a submitted job.
//!
//! The path of a job, in reading order: [`submitter`] takes a submission once there is room
//! ([`admission`]). The way to the one writer is [`writer`], and [`rounds`] is its work. It feeds
//! [`state`], the core: one [`Event`] in, [`Effects`] out. A round of effects becomes one commit
//! ([`commits`]). The module [`published`] shows what is committed, which is all that clients and
//! waiters ever see. The modules [`schedule`], [`filter`] and [`depend`] decide which jobs start;
//! [`worker`] runs one opcode, which takes [`locks`]. The module [`deduplication`] recognises requests
//! that are sent again, and [`pause`] holds opcodes back. The module [`archive`] reads archived jobs,
//! [`load`] reads the queue of a store, and [`recover`] says how its jobs continue under a new master.
//!
//! This crate knows an opcode as work that wants locks, and the configuration as something that
//! changes are applied to ([`Configuration`], [`Work`]).

pub mod admission;
pub mod archive;
pub mod commits;
pub mod configuration;
pub mod deduplication;
pub mod depend;
pub mod effects;
pub mod event;
pub mod filter;
pub mod limits;
pub mod load;
pub mod locks;
pub mod majority;
pub mod pause;
pub mod published;
pub mod recover;
pub mod rounds;
pub mod schedule;
pub mod state;
pub mod status_counts;
pub mod stored;
pub mod submit;
pub mod submitter;
pub mod view;
pub mod worker;
pub mod writer;

pub use configuration::{Changed, Configuration, Documents};
pub use effects::{Effects, Start};
pub use event::{AutoArchived, Event, Outcome, Submitted};
pub use limits::JobBytes;
pub use submit::Submission;
pub use worker::{CancelHandle, Work};
