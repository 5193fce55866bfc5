//! The checkpoint on disk while a change waits for its commit: the way back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kernel::SavedRoute;
use crate::model::HostNetwork;
use crate::model::link::{Kind, LinkName};

/// Only root may know which addresses a host has.
const MODE: u32 = 0o600;

/// A change that waits for its commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// When it is rolled back, in microseconds since 1970.
    pub deadline_micros: i64,
    /// The links that the change touches, as they were before. Links that the change made are absent.
    pub before: HostNetwork,
    /// The routes through these links, whoever added them.
    #[serde(default)]
    pub routes: Vec<SavedRoute>,
}

/// Why a checkpoint is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It cannot be written, read or removed.
    #[error("cannot use the checkpoint {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is damaged.
    #[error("the checkpoint {path} does not read as one")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// The file that holds it.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
}

impl File {
    pub(super) fn new(directory: &Path) -> Self {
        Self { path: directory.join("checkpoint") }
    }

    pub(super) fn read(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed(source)),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| CheckpointError::Unreadable { path: self.path.clone(), source })
    }

    pub(super) fn write(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let text = serde_json::to_vec(checkpoint).map_err(|error| self.failed(error.into()))?;
        // Without a way back nothing may be touched.
        serde_json::from_slice::<Checkpoint>(&text)
            .map_err(|source| CheckpointError::Unreadable { path: self.path.clone(), source })?;
        stdx::atomic::write(&self.path, &text, MODE).map_err(|source| self.failed(source))
    }

    pub(super) fn remove(&self) -> Result<bool, CheckpointError> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(self.failed(source)),
        }
        stdx::atomic::sync_parent(&self.path).map_err(|source| self.failed(source))?;
        Ok(true)
    }

    pub(super) fn set_aside(&self) -> Result<(), CheckpointError> {
        let aside = self.path.with_extension("unreadable");
        stdx::atomic::rename(&self.path, &aside).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> CheckpointError {
        CheckpointError::File { path: self.path.clone(), source }
    }
}

/// The part of a host's state that a change to `target` may touch.
pub(crate) fn before(actual: &HostNetwork, target: &HostNetwork) -> HostNetwork {
    let names = target.links.iter().map(|link| &link.name).chain(&target.absent);
    let named: BTreeSet<&LinkName> = names.collect();
    let mut before = HostNetwork { rules: actual.rules.clone(), ..HostNetwork::default() };
    for link in actual.links.iter().filter(|link| named.contains(&link.name)) {
        before.links.push(link.clone());
    }
    for link in &target.links {
        let is_made =
            !matches!(link.kind, Kind::Ethernet { .. }) && before.link(&link.name).is_none();
        if is_made {
            before.absent.push(link.name.clone());
        }
    }
    for link in &mut before.links {
        // The same client of DHCP goes on with the same leases.
        if let Some(wanted) = target.link(&link.name) {
            (link.dhcp4, link.dhcp6) = (wanted.dhcp4, wanted.dhcp6);
        }
    }
    before
}
