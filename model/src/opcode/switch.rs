//! Core: opcodes on switches, their ports, and what those are given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::network::OrNone;
use crate::mac::MacAddress;
use crate::switch::{
    OnDeadSwitch, OnDrift, PortKey, PortPhase, PortSpec, Served, SwitchUrl, VlanSet, Wanted,
};
use crate::vault::Sealed;
use crate::{NodeName, Word};

/// How Gantry logs in at a switch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user, where the provider has users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password, or the private key (PEM) of `certificate`, as `GantrySeal` sealed it for
    /// `switch/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// Our certificate, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The authority that signed the switch's own, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

/// Parameters of `OP_SWITCH_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchAdd {
    /// Its name.
    pub switch_name: Word,
    /// How it is reached.
    pub url: SwitchUrl,
    #[serde(default)]
    pub login: Login,
    /// Further words for its program.
    #[serde(default)]
    pub options: BTreeMap<Word, String>,
    /// The rack whose agents reach it.
    #[serde(default)]
    pub rack: Option<u32>,
    /// The nodes whose agents reach it, the first one first.
    #[serde(default)]
    pub agents: Vec<NodeName>,
    /// The Ethernet address by which LLDP names it.
    #[serde(default)]
    pub mac: Option<MacAddress>,
    /// The VLANs that its ports may be in; null means all.
    #[serde(default)]
    pub vlans: Option<VlanSet>,
    /// The ports that Gantry sets, by our names.
    #[serde(default)]
    pub ports: BTreeMap<Word, PortSpec>,
    /// Whether all ports that the switch tells are set, too.
    #[serde(default)]
    pub all_ports: bool,
    /// Whether to add it without asking it.
    #[serde(default)]
    pub unchecked: bool,
}

/// Parameters of `OP_SWITCH_SET_PARAMS`. Null leaves a part as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSetParams {
    /// Which one.
    pub switch_name: String,
    /// How it is reached.
    #[serde(default)]
    pub url: Option<SwitchUrl>,
    /// How Gantry logs in; null leaves each part as it is.
    #[serde(default)]
    pub login: Login,
    /// Further words for its program, in place of those before.
    #[serde(default)]
    pub options: Option<BTreeMap<Word, String>>,
    /// The rack whose agents reach it.
    #[serde(default)]
    pub rack: Option<OrNone<u32>>,
    /// The nodes whose agents reach it.
    #[serde(default)]
    pub agents: Option<Vec<NodeName>>,
    /// The Ethernet address by which LLDP names it.
    #[serde(default)]
    pub mac: Option<OrNone<MacAddress>>,
    /// The VLANs that its ports may be in.
    #[serde(default)]
    pub vlans: Option<VlanSet>,
    /// Ports, by our names; null removes one, which must rest.
    #[serde(default)]
    pub ports: BTreeMap<Word, Option<PortSpec>>,
}

/// Parameters of `OP_SWITCH_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRemove {
    /// Which one.
    pub switch_name: String,
    /// Whether it is forgotten also where it does not answer, or ports are in use: what they have stays
    /// there.
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `OP_SWITCH_VERIFY`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchVerify {
    /// Which one.
    pub switch_name: String,
}

/// Parameters of `OP_SWITCH_SETTLE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSettle {
    /// Which switch.
    pub switch_name: String,
    /// Which of its ports; all where none is given.
    #[serde(default)]
    pub ports: Vec<Word>,
    /// Whether ports in error are tried anew, as if for the first time.
    #[serde(default)]
    pub reset: bool,
}

/// Parameters of `OP_PORT_SET_PARAMS`. Null leaves a part as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSetParams {
    /// Which ports, as `SWITCH/PORT`.
    pub ports: Vec<PortKey>,
    /// The card that the port serves, whatever LLDP says; of one port alone.
    #[serde(default)]
    pub serves: Option<OrNone<Served>>,
    /// The configuration that it has whatever its machine does.
    #[serde(default)]
    pub configuration: Option<OrNone<Word>>,
    /// Its own configurations by phase; null takes one away.
    #[serde(default)]
    pub phases: BTreeMap<PortPhase, Option<Word>>,
}

/// Parameters of `OP_PORT_POLICY_SET`. Null leaves a part as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortPolicySet {
    /// The role that it is about; null means all machines.
    #[serde(default)]
    pub role: Option<String>,
    /// Configurations by phase; null takes one away.
    #[serde(default)]
    pub phases: BTreeMap<PortPhase, Option<Word>>,
    /// The answer to changes by others.
    #[serde(default)]
    pub on_drift: Option<OnDrift>,
    /// The effect of a switch that is not reached.
    #[serde(default)]
    pub on_dead_switch: Option<OnDeadSwitch>,
}

/// Parameters of `OP_PORT_CONFIGURATION_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfigurationAdd {
    /// Its name.
    pub configuration_name: Word,
    /// Its wishes for a port.
    pub wanted: Wanted,
}

/// Parameters of `OP_PORT_CONFIGURATION_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfigurationRemove {
    /// Which one.
    pub configuration_name: String,
}
