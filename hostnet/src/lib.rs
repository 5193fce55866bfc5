//! A host's network configuration: one type for what it should be and for what it is.
//!
//! - [`HostNetwork`] is the type, of the vocabulary. [`from_any_form`] reads files into it, of our own form
//!   by [`from_yaml`]; [`HostNetwork::check`] says what is wrong with it.
//! - [`render`] writes it for other programs: one row of [`Format`] for each of them.
//! - [`plan()`] compares two of them and gives ordered steps.
//! - [`Host`] is the shell: it reads the kernel, applies a plan, and waits for a commit. Without one
//!   the host goes back to what it was: at a deadline, on request, or at the next start.
//!
//! A change on a node, whose agent calls [`Host::recover`] at its start:
//!
//! ```no_run
//! # async fn change(directory: &std::path::Path, file: &str) -> Result<(), Box<dyn std::error::Error>> {
//! # fn master_was_heard() -> bool { true }
//! let tasks = stdx::Tasks::new();
//! let mut host = hostnet::Host::open(&tasks, directory, stdx::Clock::system())?;
//! host.recover().await?;
//! let desired = hostnet::from_yaml(file)?;
//! let found = host.read().await?;
//! let plan = host.apply(found, &desired, std::time::Duration::from_secs(60)).await?;
//! if plan.is_empty() || master_was_heard() {
//!     host.commit()?;
//! } else {
//!     host.roll_back().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Interfaces that a configuration does not name are left alone. Equal meaning
//! gives no step: a second application sends nothing to the kernel, however addresses are spelled.
#![warn(clippy::wildcard_enum_match_arm)]

mod forms;
mod netplan;
mod nmstate;
mod os_net_config;
mod yaml;

mod render;

mod plan;

mod host;
mod kernel;

#[cfg(test)]
mod tests;

use ::model::host as model;
use ::model::json::Malformed;

pub use crate::forms::from_any_form;
pub use crate::host::{Checkpoint, CheckpointError, Host, HostError};
pub use crate::kernel::{KernelError, Reading, SavedRoute};
use crate::model::HostNetwork;
pub use crate::os_net_config::{OsNetConfig, from_mapping, from_os_net_config};
pub use crate::plan::step::Step;
pub use crate::plan::{Plan, plan};
pub use crate::render::{Format, RenderedFile, render};

/// Reads a file of our own form, in YAML or JSON. [`HostNetwork::check`] does the rest.
///
/// # Errors
/// What of it is wrong, with its place; a file that says nothing is.
pub fn from_yaml(text: &str) -> Result<HostNetwork, Malformed> {
    let written: Option<model::written::Network> = yaml::read(text)?;
    match written.filter(|network| !network.is_empty()) {
        Some(network) => network.try_into(),
        None => {
            Err(model::written::wrong("", "it is empty: a network without links is `links: []`"))
        }
    }
}
