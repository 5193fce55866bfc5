//! Core: virtual machines ("instances"), their parameters, and what they may have. [`record`] is an
//! instance, [`disk`] a disk of one, [`os`] its operating system, [`filling`] its parameters,
//! [`screen`] where it is seen, and [`launch`] what agents are given and tell of them.

pub mod group;
pub mod parameters;
pub mod policy;
pub mod settings;
pub mod state;

pub mod disk;
pub mod filling;
pub mod launch;
pub mod os;
pub mod record;
pub mod screen;

pub use disk::{Disk, DiskMode, DiskPlace};
pub use parameters::{Parameter, ParameterError, Parameters, Table};
pub use record::{Instance, Nic, Phase, Run};
pub use settings::InstanceSettings;
