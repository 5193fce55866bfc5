//! Calls on the network of an agent's own host.

use model::Uuid;
use model::host::HostNetwork;
use serde::{Deserialize, Serialize};

/// Longest time that a change waits for its commit, in seconds.
pub const NETWORK_SECONDS_MAX: u32 = 3_600;

/// Changes the network of the host. It goes back by itself unless [`NetworkCommit`] follows in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkApply {
    /// Names this change, so that a commit which the network held up keeps no later one.
    pub change: Uuid,
    /// The network; without one, that which was committed last.
    #[serde(default)]
    pub network: Option<HostNetwork>,
    /// Only tell the steps, and touch nothing.
    pub plan_only: bool,
    /// Seconds until it goes back by itself, at most [`NETWORK_SECONDS_MAX`].
    pub seconds: u32,
}

/// The effect of a change.
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
    /// The change of [`NetworkApply`]. A change that was kept already gets the same answer again.
    pub change: Uuid,
}

/// The outcome of the change that waited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkEnded {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_crosses_the_wire_as_itself() {
        let text = r#"{"change": "00000000-0000-0000-0000-000000000001", "plan_only": true, "seconds": 60,
            "network": {"links": [{"name": "em0", "kind": "ethernet", "mtu": 9000}]}}"#;
        let call: NetworkApply = serde_json::from_str(text).unwrap();
        let network = call.network.as_ref().unwrap();
        assert_eq!(network.link("em0").unwrap().mtu, Some(9000));
        let again = serde_json::to_value(&call).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert!(serde_json::from_str::<NetworkApply>(&text.replace("links", "lynx")).is_err());
        let wrong = serde_json::from_str::<NetworkApply>(&text.replace("9000", "90000"));
        let why = wrong.unwrap_err().to_string();
        assert!(why.contains("links[0].mtu: 90000 is none of 68 to 65536"), "{why}");
    }
}
