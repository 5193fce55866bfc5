//! Core: opcodes on the cluster itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::image::BootTarget;

/// Parameters of `OP_CLUSTER_POST_INIT`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPostInit {}

/// Parameters of `OP_CLUSTER_QUERY`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterQuery {}

/// Parameters of `OP_CLUSTER_ACTIVATE_MASTER_IP`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterActivateMasterIp {}

/// Parameters of `OP_CLUSTER_DEACTIVATE_MASTER_IP`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterDeactivateMasterIp {}

/// Parameters of `OP_CLUSTER_RENEW_CRYPTO`: Ganeti's, and which nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterRenewCrypto {
    /// Give nodes new keys and certificates.
    pub node_certificates: bool,
    /// Only these; all where it is empty. Not among Ganeti's parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Give the vault a new key, and seal its secrets with it. Not among Ganeti's parameters.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub vault: bool,
    /// Sent by Ganeti's client; must be false: there are no SSH keys here.
    pub renew_ssh_keys: bool,
    /// Sent by Ganeti's client; without SSH keys it means nothing.
    pub ssh_key_type: Option<Value>,
    /// Sent by Ganeti's client; without SSH keys it means nothing.
    pub ssh_key_bits: Option<Value>,
    /// Sent by Ganeti's client; what is done is told anyway.
    pub verbose: bool,
    /// Sent by Ganeti's client; changes nothing.
    pub debug: bool,
}

impl Default for ClusterRenewCrypto {
    fn default() -> Self {
        Self {
            node_certificates: true,
            nodes: Vec::new(),
            vault: false,
            renew_ssh_keys: false,
            ssh_key_type: None,
            ssh_key_bits: None,
            verbose: false,
            debug: false,
        }
    }
}

impl ClusterSetParams {
    /// Whether the master's address may have to be taken anew.
    pub const fn moves_the_address(&self) -> bool {
        self.master_ip.is_some() || self.master_netdev.is_some() || self.master_netmask.is_some()
    }
}

macro_rules! cluster_set_params {
    ($($(#[$doc:meta])* $known:ident: $type:ty,)+ ; $($reserved:ident,)+) => {
        /// Parameters of `OP_CLUSTER_SET_PARAMS`; what is null stays as it is.
        ///
        /// Clients of Ganeti send every parameter of its list. Parameters of features that this version
        /// lacks are taken when they are null and refused by name when they are not.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct ClusterSetParams {
            $($(#[$doc])* pub $known: $type,)+
            $(#[doc = "Not supported yet."] #[serde(skip_serializing_if = "is_unset")] pub $reserved: Option<Box<Value>>,)+
        }

        impl ClusterSetParams {
            /// Names of the parameters that are given but not supported.
            pub fn unsupported(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if !is_unset(&self.$reserved) {
                    names.push(stringify!($reserved));
                })+
                names
            }
        }
    };
}

/// Absent, null, and the empty values that clients send for what the operator did not give.
fn is_unset(value: &Option<Box<Value>>) -> bool {
    match value.as_deref() {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Bool(true) | Value::Number(_) | Value::String(_)) => false,
    }
}

cluster_set_params! {
    /// Go on where a check only warns.
    force: bool,
    /// Jobs that may call agents at the same time; 1 to 1,000.
    max_running_jobs: Option<u32>,
    /// Accepted for Ganeti's clients; nothing here tracks jobs by polling. 1 to 100,000.
    max_tracked_jobs: Option<u32>,
    /// How many nodes hold copies of queue and configuration; 1 to 64.
    candidate_pool_size: Option<u32>,
    /// First three bytes of instances' Ethernet addresses.
    mac_prefix: Option<String>,
    /// The master's address, or `none` for none; not among Ganeti's parameters, where it is what
    /// the cluster's name resolves to.
    #[serde(skip_serializing_if = "Option::is_none")]
    master_ip: Option<String>,
    /// Interface that carries the master's address.
    master_netdev: Option<String>,
    /// Prefix length of the master's address; 1 to 128, and 1 to 32 without an IPv6 address.
    master_netmask: Option<u8>,
    /// Whether a candidate takes the role by itself when the master falls silent; not among
    /// Ganeti's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_failover: Option<bool>,
    /// Whether the master applies a host's network again where the host drifted from it; not among
    /// Ganeti's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend_network: Option<bool>,
    /// Seconds after which a machine in service that told signs of life and tells none is unreachable; 0 for
    /// never, and else 60 to 86,400. Not among Ganeti's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    silence_deadline: Option<u32>,
    /// The target that machines boot to be inspected, cleaned or rescued; `local` means nothing. Not
    /// among Ganeti's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    ramdisk_image: Option<BootTarget>,
    /// An operator looked at the data that an override cut: its alarm ends. Not among Ganeti's
    /// parameters.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    override_seen: bool,
    ;
    hv_state, disk_state, vg_name, enabled_hypervisors, hvparams, beparams, os_hvp, osparams,
    osparams_private_cluster, nicparams, ndparams, diskparams, ipolicy, uid_pool, add_uids,
    remove_uids, maintain_node_health, prealloc_wipe_disks, drbd_helper, default_iallocator,
    default_iallocator_params, reserved_lvs, hidden_os, blacklisted_os, use_external_mip_script,
    enabled_disk_templates, modify_etc_hosts, file_storage_dir, shared_file_storage_dir,
    gluster_storage_dir, install_image, instance_communication_network, zeroing_image,
    compression_tools, enabled_user_shutdown, enabled_data_collectors, data_collector_interval,
}
