//! Calls on the ports of switches that an agent reaches.

use model::switch::{Actuals, PortChange, PortOutcome, SwitchTarget};
use serde::{Deserialize, Serialize};

/// Reads all ports of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchPorts {
    pub target: SwitchTarget,
}

/// Changes ports of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchApply {
    pub target: SwitchTarget,
    /// At most [`model::switch::change::CHANGES_MAX`], each of another port.
    pub changes: Vec<PortChange>,
}

/// Waits until the ports of a switch are not those with the digest `known`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchWatch {
    pub target: SwitchTarget,
    /// The digest of the ports that the caller knows; none where it knows none.
    #[serde(default)]
    pub known: Option<String>,
    /// How long to wait, at most [`SWITCH_WATCH_MS_MAX`].
    pub wait_ms: u32,
}

/// Longest wait of [`SwitchWatch`], in milliseconds: well within the class of the call.
pub const SWITCH_WATCH_MS_MAX: u32 = 20_000;

/// The ports of a switch, or why they are not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwitchSeen {
    Ports(Actuals),
    /// The switch does not answer, or not as it should.
    Failed {
        why: String,
        passing: bool,
    },
}

/// The outcome of [`SwitchApply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwitchApplied {
    /// One for each change, in their order.
    Outcomes(Vec<PortOutcome>),
    /// The switch does not answer, or not as it should: changes may have been made or not.
    Failed { why: String, passing: bool },
}
