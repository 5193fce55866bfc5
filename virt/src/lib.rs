//! Instances on a node: their runs, hypervisors and disks. It knows nothing of jobs or of the master.
//!
//! An instance lives as numbered runs. A run's record is durable before it begins, and an agent refuses
//! every run that is not above the highest one that it has seen. So whoever was cut off cannot bring an old
//! run back.
//!
//! [`runs`] are the rules, `records` keeps them on disk, [`Instances`] does things by [`hypervisor`], at the
//! places of `paths`. [`storage`] has the disks, which `image` fills; `seed` makes one that tells a guest who it
//! is. `replicas` serves copies of disks to runs of other nodes, with `keys` that both nodes know. Scripts of
//! operating systems are run by `os`. [`console`] is how one talks with a guest. The hypervisors are [`kvm`],
//! which asks QEMU by `qmp`, `xen`, and `fake`. [`confine`] is the place of guests' programs.

pub mod confine;
pub mod console;
mod error;
mod exports;
pub mod hypervisor;
mod image;
mod instances;
mod keys;
mod os;
mod paths;
mod records;
mod replicas;
pub mod runs;
mod seed;
pub mod storage;

mod fake;
pub mod kvm;
mod qmp;
mod xen;

pub use error::VirtError;
pub use exports::{EXPORTS_MAX, Exports, Piece, Volume};
pub use instances::{Instances, Join, Joined};
pub use kvm::{Change, NotPlugged};
pub use os::{ScriptRun, Systems};
pub use paths::Paths;
pub use replicas::Copies;
pub use runs::Order;
pub use storage::{Space, Storage};
