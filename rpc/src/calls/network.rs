//! Calls on the network of an agent's own host.

use model::Uuid;
use serde::{Deserialize, Serialize};

/// Longest time that a change waits for its commit, in seconds.
pub const NETWORK_SECONDS_MAX: u32 = 3_600;

/// Changes the network of the host. It goes back by itself unless [`NetworkCommit`] follows in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkApply {
    /// Names this change, so that a commit which the network held up keeps no later one.
    pub change: Uuid,
    /// The network, as `hostnet` writes it in JSON; without one, the network that was committed last.
    #[serde(default)]
    pub network: Option<String>,
    /// Only tell the steps, and touch nothing.
    pub plan_only: bool,
    /// Seconds until it goes back by itself, at most [`NETWORK_SECONDS_MAX`].
    pub seconds: u32,
}

/// What a change does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkApplied {
    /// Its steps; none where the kernel is so already.
    pub steps: Vec<String>,
    /// Whether the next start of the agent or the host would find another network, which a commit mends.
    #[serde(default)]
    pub files_differ: bool,
    /// Why the change would not be kept over a restart of the host.
    #[serde(default)]
    pub unkept: Option<String>,
}

/// Keeps the change, if it still waits, and writes it into the files of the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkCommit {
    /// The change of [`NetworkApply`]. One that was kept already is answered alike again.
    pub change: Uuid,
}

/// What became of the change that waited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkEnded {
    /// Whether one waited.
    pub waited: bool,
    /// The files that were written.
    pub files: Vec<String>,
    /// Why the change is not kept over a restart of the host.
    #[serde(default)]
    pub unkept: Option<String>,
}

/// Undoes the change that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRollback {}
