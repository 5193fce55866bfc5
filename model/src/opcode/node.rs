//! Core: opcodes on nodes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Word;
use crate::enrol::Fingerprint;
use crate::node::NodeRole;

/// Parameters of `OP_NODE_ADD`.
///
/// The one-time secret that `noded enroll` shows is no parameter: job files are read by many. It
/// is handed over by the LUXI method `GantryStageSecret` before the job is submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeAdd {
    /// Its host name.
    pub node_name: String,
    /// The address of its agent.
    #[serde(default)]
    pub primary_ip: Option<IpAddr>,
    /// Port of its agent, 1 to 65,535; null means the default.
    #[serde(default)]
    pub rpc_port: Option<u16>,
    /// Port where its `masterd` is asked by those of other candidates, 1 to 65,535; null means the
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_port: Option<u16>,
    /// SHA-256 of the agent's enrolment certificate, in hex, as `noded enroll` shows it.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// The machine of the inventory that becomes the node, by the token that its deployment gave it. The
    /// token leads to address and certificate; a machine that is a node already keeps its name and id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Rack that its agent serves; 0 to 65,535.
    #[serde(default)]
    pub rack: Option<u32>,
    /// Whether it may become the master; null means yes, and no for a node that is a machine.
    #[serde(default)]
    pub master_capable: Option<bool>,
    /// Whether it is there to vote, and never the master; not among Ganeti's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<bool>,
    /// Whether it may run instances.
    #[serde(default)]
    pub vm_capable: Option<bool>,
    /// Address for replication traffic.
    #[serde(default)]
    pub secondary_ip: Option<IpAddr>,
    /// Add a node that is a member already, after it lost its disk.
    #[serde(default)]
    pub readd: bool,
    /// Node group.
    #[serde(default)]
    pub group: Option<String>,
    /// Node parameters.
    #[serde(default)]
    pub ndparams: Option<Value>,
    /// Sent by Ganeti's client; nothing to do here.
    #[serde(default)]
    pub node_setup: bool,
    /// Sent by Ganeti's client; must be null or empty.
    #[serde(default)]
    pub hv_state: Option<Value>,
    /// Sent by Ganeti's client; must be null or empty.
    #[serde(default)]
    pub disk_state: Option<Value>,
}

/// Parameters of `OP_NODE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRemove {
    /// Its host name.
    pub node_name: String,
    /// The UUID that it must have, if one is told: another node may have its name by then.
    #[serde(default)]
    pub node_uuid: Option<String>,
}

/// Parameters of `OP_NODE_POWERCYCLE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePowercycle {
    /// Its host name.
    pub node_name: String,
    /// The UUID that it must have, if one is told: another node may have its name by then.
    #[serde(default)]
    pub node_uuid: Option<String>,
    /// Restart even the master.
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `OP_NODE_NETWORK_APPLY`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeNetworkApply {
    /// Its host name.
    pub node_name: String,
    /// The network in YAML, in our form or that of os-net-config, netplan or nmstate. One of this,
    /// `template` and `again` is given.
    #[serde(default)]
    pub text: Option<String>,
    /// The newest version of this template, for which the node claims addresses under its name.
    #[serde(default)]
    pub template: Option<Word>,
    /// Whether to apply the last configuration again, where the host drifted from it.
    #[serde(default)]
    pub again: bool,
    /// Seconds after which the node goes back by itself if the master does not reach it; 10 to 3,600.
    #[serde(default = "minute")]
    pub seconds: u32,
}

impl NodeNetworkApply {
    /// The parameters that apply the last configuration of this node again.
    pub fn again(node: &str) -> Self {
        let node_name = node.to_owned();
        Self { node_name, text: None, template: None, again: true, seconds: minute() }
    }
}

const fn minute() -> u32 {
    60
}

/// Parameters of `OP_NODE_NETWORK_ROLLBACK`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeNetworkRollback {
    /// Its host name.
    pub node_name: String,
}

/// Parameters of `OP_NODE_SET_PARAMS`; what is null stays as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSetParams {
    /// Its host name.
    pub node_name: String,
    /// The UUID that it must have, if one is told: another node may have its name by then.
    #[serde(default)]
    pub node_uuid: Option<String>,
    /// Go on where a check only warns.
    #[serde(default)]
    pub force: bool,
    /// Make it a master candidate, or no longer.
    #[serde(default)]
    pub master_candidate: Option<bool>,
    /// Mark it offline, or online.
    #[serde(default)]
    pub offline: Option<bool>,
    /// Mark it drained, or no longer.
    #[serde(default)]
    pub drained: Option<bool>,
    /// Promote another node where this one leaves a gap.
    #[serde(default)]
    pub auto_promote: bool,
    /// Change nothing unless the node has this role by then: for who decided on what it saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_role: Option<NodeRole>,
    /// Whether it may become the master.
    #[serde(default)]
    pub master_capable: Option<bool>,
    /// Whether it is there to vote, and never the master; not among Ganeti's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<bool>,
    /// Whether it may run instances.
    #[serde(default)]
    pub vm_capable: Option<bool>,
    /// Address for replication traffic; a text that is none fails the opcode, not the submission.
    #[serde(default)]
    pub secondary_ip: Option<String>,
    /// Port where its `masterd` is asked by those of other candidates; 1 to 65,535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_port: Option<u16>,
    /// Rack that its agent serves, -1 to 65,535; −1 takes it away.
    #[serde(default)]
    pub rack: Option<i64>,
    /// Node parameters.
    #[serde(default)]
    pub ndparams: Option<Value>,
    /// Record its power state.
    #[serde(default)]
    pub powered: Option<bool>,
    /// Sent by Ganeti's client; must be null.
    #[serde(default)]
    pub hv_state: Option<Value>,
    /// Sent by Ganeti's client; must be null.
    #[serde(default)]
    pub disk_state: Option<Value>,
}

impl NodeSetParams {
    /// A request that changes nothing of a node yet.
    pub fn unchanged(node_name: impl Into<String>) -> Self {
        Self {
            node_name: node_name.into(),
            node_uuid: None,
            force: false,
            master_candidate: None,
            offline: None,
            drained: None,
            auto_promote: false,
            expected_role: None,
            master_capable: None,
            witness: None,
            vm_capable: None,
            secondary_ip: None,
            peer_port: None,
            rack: None,
            ndparams: None,
            powered: None,
            hv_state: None,
            disk_state: None,
        }
    }
}
