//! Core: opcodes on racks, addresses and machines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::image::{BootTarget, Parameter};
use crate::ipam::IpamConfig;
use crate::machine::MachineSpec;
use crate::serial::Serial;

/// Parameters of `OP_IPAM_SET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpamSet {
    /// The new rules; refused when they would change addresses of registered machines.
    pub config: IpamConfig,
}

/// Parameters of `OP_MACHINE_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineAdd {
    /// What to register: all of them, or none.
    pub machines: Vec<MachineSpec>,
}

/// Parameters of `OP_MACHINE_SET_PARAMS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSetParams {
    /// Which machine.
    pub serial: String,
    /// Values of labels to set, by name; null removes a label.
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
    /// What it is to boot; null leaves that alone.
    #[serde(default)]
    pub boot: Option<BootTarget>,
    /// Kernel parameters behind those of its image; null leaves them alone.
    #[serde(default)]
    pub kernel_parameters: Option<Vec<Parameter>>,
}

/// Parameters of `OP_MACHINE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRemove {
    /// Which machine.
    pub serial: String,
}

/// Parameters of `OP_RACK_PUSH`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackPush {
    /// Which racks, each 0 to 65,535; empty means all that have an agent.
    #[serde(default)]
    pub racks: Vec<u32>,
}

impl super::common::Summary for Serial {
    fn text(&self) -> String {
        self.to_string()
    }
}
