//! Core: virtual machines ("instances"), their parameters, and what they may have.

pub mod group;
pub mod parameters;
pub mod policy;
pub mod settings;
pub mod state;

pub use parameters::{Parameter, ParameterError, Parameters, Table};
pub use settings::InstanceSettings;
