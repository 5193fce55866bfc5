//! Core: opcodes on the cluster itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::image::BootTarget;
use crate::instance::settings::{ListChange, Told, UidRange};

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
    /// Hypervisors that instances may have, the usual one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled_hypervisors: Option<Box<Vec<String>>>,
    /// Parameters of hypervisors, by their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    hvparams: Option<Box<BTreeMap<String, Told>>>,
    /// Parameters of hypervisors by operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    os_hvp: Option<Box<BTreeMap<String, BTreeMap<String, Told>>>>,
    /// Backend parameters of instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    beparams: Option<Box<Told>>,
    /// Parameters of NICs.
    #[serde(skip_serializing_if = "Option::is_none")]
    nicparams: Option<Box<Told>>,
    /// Parameters of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ndparams: Option<Box<Told>>,
    /// Parameters of disks, by template.
    #[serde(skip_serializing_if = "Option::is_none")]
    diskparams: Option<Box<BTreeMap<String, Told>>>,
    /// Parameters of operating systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    osparams: Option<Box<BTreeMap<String, Told>>>,
    /// Limits of instances; parts that are left out stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    ipolicy: Option<Box<Told>>,
    /// Disk templates that instances may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled_disk_templates: Option<Box<Vec<String>>>,
    /// The volume group of LVM; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    vg_name: Option<Box<String>>,
    /// The program that DRBD's module calls; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    drbd_helper: Option<Box<String>>,
    /// The directory of disks that are files.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_storage_dir: Option<Box<String>>,
    /// The same on storage that all nodes share.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_file_storage_dir: Option<Box<String>>,
    /// The same on Gluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    gluster_storage_dir: Option<Box<String>>,
    /// The program that places instances; empty for the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_iallocator: Option<Box<String>>,
    /// Its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_iallocator_params: Option<Box<Told>>,
    /// Users for processes of instances, in place of those before.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid_pool: Option<Box<Vec<UidRange>>>,
    /// Further ranges of such users.
    #[serde(skip_serializing_if = "Option::is_none")]
    add_uids: Option<Box<Vec<UidRange>>>,
    /// Ranges that are such no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_uids: Option<Box<Vec<UidRange>>>,
    /// Volumes that are nobody's business, by regular expressions.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_lvs: Option<Box<Vec<String>>>,
    /// Operating systems that lists leave out: `add` or `remove`, and the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_os: Option<Box<Vec<ListChange>>>,
    /// Operating systems that nobody may choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    blacklisted_os: Option<Box<Vec<ListChange>>>,
    /// Whether new disks are wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    prealloc_wipe_disks: Option<bool>,
    /// Whether an instance that its own user shuts down stays so.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled_user_shutdown: Option<bool>,
    /// Kept for Ganeti's clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    maintain_node_health: Option<bool>,
    ;
    hv_state, disk_state, osparams_private_cluster, use_external_mip_script, modify_etc_hosts,
    install_image, instance_communication_network, zeroing_image, compression_tools,
    enabled_data_collectors, data_collector_interval,
}
