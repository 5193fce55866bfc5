//! Core: the table of opcodes, everything that an operator can ask the cluster to do.
//!
//! One line is one verb: its id on the wire, its parameters, its result, its reach, and the role that
//! may submit it. Parameters are checked
//! for names and types where they enter; their meaning is checked by the logical unit. Opcodes of
//! Ganeti keep its names and take every parameter that its clients send.

pub mod asset;
pub mod boot_template;
pub mod cluster;
pub mod common;
pub mod group;
pub mod image;
pub mod input;
pub mod instance;
pub mod machine;
pub mod network;
pub mod node;
pub mod query;
mod range;
pub mod storage;
pub mod switch;
pub mod tags;
pub mod tenant;
pub mod test;
pub mod token;
pub mod verify;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _};

pub use asset::{AssetRemove, AssetSet, AssetWritten};
pub use boot_template::{BootTemplateAdd, BootTemplateRemove};
pub use cluster::{
    ClusterActivateMasterIp, ClusterDeactivateMasterIp, ClusterPostInit, ClusterQuery,
    ClusterRenewCrypto, ClusterSetParams,
};
pub use common::{Common, Dependency, ReasonEntry};
pub use group::{GroupAdd, GroupAssignNodes, GroupRemove, GroupRename, GroupSetParams};
pub use image::{ImageAdd, ImageRemove, KernelSet};
pub use input::{Input, OpInput, OpInputError};
pub use instance::{
    BackupExport, BackupPrepare, BackupRemove, GroupEvacuate, InstanceActivateDisks,
    InstanceChangeGroup, InstanceConsole, InstanceCreate, InstanceDeactivateDisks,
    InstanceDetachCopies, InstanceFailover, InstanceGrowDisk, InstanceMigrate, InstanceMove,
    InstanceMultiAlloc, InstanceReboot, InstanceRecreateDisks, InstanceReinstall, InstanceRemove,
    InstanceRename, InstanceReplaceDisks, InstanceResync, InstanceSetParams, InstanceShutdown,
    InstanceStartup, NodeEvacuate, NodeMigrate, TestAllocator,
};
pub use machine::{
    Clearable, DhcpSet, IpamSet, LeaseRelease, MachineAdd, MachineAwait, MachineBmcRemove,
    MachineBmcSet, MachineDiskKeyAdd, MachineDiskKeysRemove, MachineExpire, MachineHealth,
    MachineInspect, MachinePower, MachineProvision, MachineRemove, MachineSetParams,
    MachineSetState, RackPush, Removable,
};
pub use network::{
    MachineReapply, NetworkAdd, NetworkClaim, NetworkConnect, NetworkDisconnect, NetworkRelease,
    NetworkRemove, NetworkSetParams, NetworkTemplateAdd, NetworkTemplateRemove,
};
pub use node::{
    NodeAdd, NodeNetworkApply, NodeNetworkRollback, NodePowercycle, NodeRemove, NodeSetParams,
};
pub use query::{
    ClusterConfigQuery, ExtStorageDiagnose, InstanceQueryData, OsDiagnose, Query, QueryFields,
};
pub use storage::{
    ClusterRepairDiskSizes, NodeModifyStorage, NodeQueryStorage, NodeQueryvols, RepairNodeStorage,
};
pub use switch::{
    PortConfigurationAdd, PortConfigurationRemove, PortPolicySet, PortSetParams, SwitchAdd,
    SwitchRemove, SwitchSetParams, SwitchSettle, SwitchVerify,
};
pub use tags::{TagsDel, TagsGet, TagsSearch, TagsSet};
pub use tenant::{TenantAdd, TenantGive, TenantRemove, TenantSetParams, TenantTake};
pub use test::{TestDelay, TestJqueue};
pub use token::{EndWord, TokenAdd, TokenEnd, TokenRemove};
pub use verify::{
    ClusterRedistConf, ClusterVerify, ClusterVerifyConfig, ClusterVerifyDisks, ClusterVerifyGroup,
    DisksFound, GroupVerifyDisks, SubmittedJobs,
};

use crate::bmc::{Health, Inspection, PowerState};
use crate::disk_key::DiskName;
use crate::image::Image;
use crate::kernel::KernelParameters;
use crate::machine::Machine;
use crate::name::{InstanceName, NodeName, Word};
use crate::network::{Claim, NetworkTemplate};
use crate::role::Role;
use crate::switch::{PortConfiguration, PortPolicy, PortVerified, Switch, SwitchPort};
use crate::tenant::Tenant;

/// A verb of the cluster: its name, its parameters (`Self`), its result.
pub trait Verb: Serialize + Send + Sync + 'static {
    /// The `OP_ID` on the wire.
    const ID: &'static str;
    /// What success gives.
    type Output: Serialize + Send;
}

/// How far an opcode reaches: which limit its job counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Touches only the master's own state.
    Master,
    /// Calls agents; counts against `max_running_jobs`.
    Agents,
}

/// Characters of an unknown id that an error repeats.
const ID_TOLD_MAX: usize = 64;

macro_rules! opcodes {
    (
        ($d:tt)
        $($(#[doc = $doc:literal])+
        $id:literal $op:ident -> $output:ty, $reach:ident, $role:ident, [$($summary:ident)*];)+
    ) => {
        /// An opcode with its parameters.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "OP_ID")]
        pub enum OpCode {
            $($(#[doc = $doc])+ #[serde(rename = $id)] $op($op),)+
        }

        impl OpCode {
            /// Every id with its one-line description, in the order of the table.
            pub const TABLE: &[(&'static str, &'static str)] =
                &[$(($id, concat!($($doc),+)),)+];

            /// Every id with the least role of whoever submits it.
            pub const ROLES: &[(&'static str, Role)] = &[$(($id, Role::$role),)+];

            /// The `OP_ID`.
            pub const fn id(&self) -> &'static str {
                match self { $(Self::$op(_) => $id,)+ }
            }

            /// How far this opcode reaches.
            pub fn reach(&self) -> Reach {
                match self {
                    Self::TestDelay(op) if !op.is_on_nodes() => Reach::Master,
                    Self::ClusterSetParams(op) if op.moves_the_address() => Reach::Agents,
                    $(Self::$op(_) => Reach::$reach,)+
                }
            }

            /// The least role of whoever submits it.
            pub const fn role(&self) -> Role {
                match self { $(Self::$op(_) => Role::$role,)+ }
            }

            /// The parameter that tells one opcode of a kind from another, for the job list.
            fn summary_field(&self) -> Option<String> {
                match self {
                    $(Self::$op(_op) => opcodes!(@summary _op $($summary)*),)+
                }
            }

            fn parse<'de, D: Deserializer<'de>>(id: &str, params: D) -> Result<Self, D::Error> {
                match id {
                    $($id => $op::deserialize(params).map(Self::$op),)+
                    other => {
                        let other: String = other.chars().take(ID_TOLD_MAX).collect();
                        Err(D::Error::custom(format_args!("unknown opcode `{other}`")))
                    }
                }
            }
        }

        /// Evaluates an expression on the parameters of an opcode, whose type depends on the opcode.
        #[macro_export]
        macro_rules! with_parameters {
            ($d op:expr, $d parameters:ident => $d does:expr) => {
                match $d op { $($d crate::OpCode::$op($d parameters) => $d does,)+ }
            };
        }

        $(impl Verb for $op {
            const ID: &'static str = $id;
            type Output = $output;
        })+
    };
    (@summary $op:ident) => { None };
    (@summary $op:ident $field:ident) => { Some(common::summary(&$op.$field)) };
    (@summary $op:ident $first:ident $($field:ident)+) => {
        Some([common::summary(&$op.$first), $(common::summary(&$op.$field)),+].join(","))
    };
}

opcodes! {
    ($)
    /// Complete the set-up of a new cluster; submitted by the set-up itself.
    "OP_CLUSTER_POST_INIT" ClusterPostInit -> bool, Master, Administrator, [];
    /// Give fields of the cluster.
    "OP_CLUSTER_CONFIG_QUERY" ClusterConfigQuery -> Vec<serde_json::Value>, Master, Read, [];
    /// Describe the cluster.
    "OP_CLUSTER_QUERY" ClusterQuery -> serde_json::Value, Master, Read, [];
    /// Change parameters of the cluster.
    "OP_CLUSTER_SET_PARAMS" ClusterSetParams -> (), Master, Operator, [];
    /// Take the master's address on the master node, and away from others.
    "OP_CLUSTER_ACTIVATE_MASTER_IP" ClusterActivateMasterIp -> (), Agents, Administrator, [];
    /// Take the master's address away from the master node.
    "OP_CLUSTER_DEACTIVATE_MASTER_IP" ClusterDeactivateMasterIp -> (), Agents, Administrator, [];
    /// Send every agent what it should hold: rack documents and who may call.
    "OP_CLUSTER_REDIST_CONF" ClusterRedistConf -> (), Agents, Operator, [];
    /// Give nodes new keys and certificates, one after the other.
    "OP_CLUSTER_RENEW_CRYPTO" ClusterRenewCrypto -> (), Agents, Administrator, [];
    /// Look whether the cluster is as it should be: submits a job for each part.
    "OP_CLUSTER_VERIFY" ClusterVerify -> SubmittedJobs, Master, Operator, [];
    /// Look whether the configuration is sound.
    "OP_CLUSTER_VERIFY_CONFIG" ClusterVerifyConfig -> bool, Master, Operator, [];
    /// Look whether the nodes of a group are as they should be.
    "OP_CLUSTER_VERIFY_GROUP" ClusterVerifyGroup -> bool, Agents, Operator, [group_name];
    /// Look whether instances' disks are as they should be: submits a job for each group.
    "OP_CLUSTER_VERIFY_DISKS" ClusterVerifyDisks -> SubmittedJobs, Master, Operator, [];
    /// Look whether the disks of a group's instances are as they should be.
    "OP_GROUP_VERIFY_DISKS" GroupVerifyDisks -> DisksFound, Master, Operator, [group_name];
    /// Add a node group.
    "OP_GROUP_ADD" GroupAdd -> Option<SubmittedJobs>, Master, Operator, [group_name];
    /// Remove a node group that has no nodes.
    "OP_GROUP_REMOVE" GroupRemove -> (), Master, Operator, [group_name];
    /// Give a node group another name.
    "OP_GROUP_RENAME" GroupRename -> Word, Master, Operator, [group_name];
    /// Change whether new instances are put on the nodes of a group.
    "OP_GROUP_SET_PARAMS" GroupSetParams -> Vec<(String, serde_json::Value)>, Master, Operator, [group_name];
    /// Put nodes into a group.
    "OP_GROUP_ASSIGN_NODES" GroupAssignNodes -> (), Master, Operator, [group_name];
    /// Add a node: sign its certificate and make it a member.
    "OP_NODE_ADD" NodeAdd -> (), Agents, Administrator, [node_name];
    /// Remove a node from the cluster.
    "OP_NODE_REMOVE" NodeRemove -> (), Agents, Administrator, [node_name];
    /// Change a node's role, rack or parameters.
    "OP_NODE_SET_PARAMS" NodeSetParams -> Vec<(String, serde_json::Value)>, Agents, Operator, [node_name];
    /// Restart a node's machine, hard; waits for no lock.
    "OP_NODE_POWERCYCLE" NodePowercycle -> String, Agents, Operator, [node_name];
    /// Change the network of a node's host; it goes back unless the master still reaches the node.
    "OP_NODE_NETWORK_APPLY" NodeNetworkApply -> Vec<String>, Agents, Administrator, [node_name];
    /// Undo a change of the network of a node's host that waits for its commit.
    "OP_NODE_NETWORK_ROLLBACK" NodeNetworkRollback -> bool, Agents, Administrator, [node_name];
    /// Set the rules by which machines get addresses.
    "OP_IPAM_SET" IpamSet -> (), Agents, Operator, [];
    /// Set how agents serve DHCP.
    "OP_DHCP_SET" DhcpSet -> (), Agents, Operator, [];
    /// Register machines, all or none.
    "OP_MACHINE_ADD" MachineAdd -> Vec<Machine>, Agents, Operator, [machines];
    /// Change what is known of a machine, or what it boots.
    "OP_MACHINE_SET_PARAMS" MachineSetParams -> Machine, Agents, Operator, [serial];
    /// Remove a machine from the inventory.
    "OP_MACHINE_REMOVE" MachineRemove -> (), Agents, Operator, [serial];
    /// Say how it stands with a machine, in sabakan's words.
    "OP_MACHINE_SET_STATE" MachineSetState -> Machine, Master, Operator, [serial];
    /// End what a machine does beyond its deadline: it failed.
    "OP_MACHINE_EXPIRE" MachineExpire -> Machine, Master, Operator, [serial];
    /// Add a version of an operating system that machines can boot.
    "OP_IMAGE_ADD" ImageAdd -> Image, Agents, Operator, [image];
    /// Remove one.
    "OP_IMAGE_REMOVE" ImageRemove -> (), Master, Operator, [image];
    /// Give an asset, a file that machines fetch by name, what was uploaded.
    "OP_ASSET_SET" AssetSet -> AssetWritten, Agents, Operator, [name];
    /// Remove one.
    "OP_ASSET_REMOVE" AssetRemove -> (), Agents, Operator, [name];
    /// Choose kernel parameters of all machines, or of those with a role.
    "OP_KERNEL_SET" KernelSet -> KernelParameters, Agents, Operator, [];
    /// Add a network: prefixes, routers, pools.
    "OP_NETWORK_ADD" NetworkAdd -> (), Master, Operator, [network_name];
    /// Remove a network.
    "OP_NETWORK_REMOVE" NetworkRemove -> (), Master, Operator, [network_name];
    /// Change a network.
    "OP_NETWORK_SET_PARAMS" NetworkSetParams -> (), Master, Operator, [network_name];
    /// Tell how the nodes of a group reach a network.
    "OP_NETWORK_CONNECT" NetworkConnect -> (), Master, Operator, [network_name];
    /// Take a network away from a node group.
    "OP_NETWORK_DISCONNECT" NetworkDisconnect -> (), Master, Operator, [network_name];
    /// Claim addresses of networks, all or none.
    "OP_NETWORK_CLAIM" NetworkClaim -> Vec<Claim>, Master, Operator, [claims];
    /// Give an address of a network back.
    "OP_NETWORK_RELEASE" NetworkRelease -> (), Master, Operator, [network_name];
    /// Add a version of a template of hosts' networks.
    "OP_NETWORK_TEMPLATE_ADD" NetworkTemplateAdd -> NetworkTemplate, Master, Operator, [template_name];
    /// Remove versions of one.
    "OP_NETWORK_TEMPLATE_REMOVE" NetworkTemplateRemove -> (), Master, Operator, [template_name];
    /// Give a machine the newest version of the network template of its role.
    "OP_MACHINE_REAPPLY" MachineReapply -> Machine, Master, Operator, [serial];
    /// Keep the sealed key of a machine's disk.
    "OP_MACHINE_DISK_KEY_ADD" MachineDiskKeyAdd -> (), Master, Operator, [serial];
    /// Forget the keys of a machine's disks: what is on them cannot be read any more.
    "OP_MACHINE_DISK_KEYS_REMOVE" MachineDiskKeysRemove -> Vec<DiskName>, Master, Operator, [serial];
    /// Set how the management controller of a machine is reached, and look whether it is.
    "OP_MACHINE_BMC_SET" MachineBmcSet -> (), Agents, Operator, [serial];
    /// Forget how the management controller of a machine is reached.
    "OP_MACHINE_BMC_REMOVE" MachineBmcRemove -> (), Master, Operator, [serial];
    /// Switch the power of a machine by its management controller.
    "OP_MACHINE_POWER" MachinePower -> PowerState, Agents, Operator, [serial];
    /// Ask the management controller of a machine for its sensors.
    "OP_MACHINE_HEALTH" MachineHealth -> Health, Agents, Operator, [serial];
    /// Find out by its management controller what a machine is made of.
    "OP_MACHINE_INSPECT" MachineInspect -> Inspection, Agents, Operator, [serial];
    /// Prepare a machine for what is wanted of it, and restart it.
    "OP_MACHINE_PROVISION" MachineProvision -> Machine, Agents, Operator, [target serial];
    /// Wait until what was begun on a machine is done.
    "OP_MACHINE_AWAIT" MachineAwait -> Machine, Master, Operator, [serial];
    /// Add a version of a template of what machines of a role boot with.
    "OP_BOOT_TEMPLATE_ADD" BootTemplateAdd -> String, Agents, Operator, [role];
    /// Remove versions of one.
    "OP_BOOT_TEMPLATE_REMOVE" BootTemplateRemove -> (), Agents, Operator, [role];
    /// Add a token, by which a program logs in at the front door.
    "OP_TOKEN_ADD" TokenAdd -> (), Master, Administrator, [token_name];
    /// End a token at once.
    "OP_TOKEN_REMOVE" TokenRemove -> (), Master, Administrator, [token_name];
    /// End the lease of an address at the agents of its rack; tells who had it.
    "OP_LEASE_RELEASE" LeaseRelease -> String, Agents, Operator, [address];
    /// Send racks' documents to their agents.
    "OP_RACK_PUSH" RackPush -> Vec<(u32, String)>, Agents, Operator, [racks];
    /// Add a switch, and read its ports.
    "OP_SWITCH_ADD" SwitchAdd -> Switch, Agents, Operator, [switch_name];
    /// Change how a switch is reached, and what its ports may be.
    "OP_SWITCH_SET_PARAMS" SwitchSetParams -> Switch, Agents, Operator, [switch_name];
    /// Have the ports of a switch rest, and forget it.
    "OP_SWITCH_REMOVE" SwitchRemove -> (), Agents, Operator, [switch_name];
    /// Compare the ports of a switch with what they are to be, changing nothing.
    "OP_SWITCH_VERIFY" SwitchVerify -> Vec<PortVerified>, Agents, Operator, [switch_name];
    /// Bring ports of a switch to what they are to be.
    "OP_SWITCH_SETTLE" SwitchSettle -> Vec<SwitchPort>, Agents, Operator, [switch_name];
    /// Say which card ports serve, and what they have.
    "OP_PORT_SET_PARAMS" PortSetParams -> Vec<SwitchPort>, Agents, Operator, [ports];
    /// Say which configuration ports have in each phase of their machines' lives.
    "OP_PORT_POLICY_SET" PortPolicySet -> PortPolicy, Master, Operator, [];
    /// Add a configuration of ports, which never changes.
    "OP_PORT_CONFIGURATION_ADD" PortConfigurationAdd -> PortConfiguration, Master, Operator, [configuration_name];
    /// Remove a configuration of ports that nothing names.
    "OP_PORT_CONFIGURATION_REMOVE" PortConfigurationRemove -> (), Master, Operator, [configuration_name];
    /// Add a tenant, with its users and its limits.
    "OP_TENANT_ADD" TenantAdd -> Tenant, Master, Administrator, [tenant_name];
    /// Change the users and limits of a tenant.
    "OP_TENANT_SET_PARAMS" TenantSetParams -> Tenant, Master, Administrator, [tenant_name];
    /// Remove a tenant that has nothing.
    "OP_TENANT_REMOVE" TenantRemove -> (), Master, Administrator, [tenant_name];
    /// Give machines to a tenant.
    "OP_TENANT_GIVE" TenantGive -> Tenant, Master, Operator, [tenant_name];
    /// Take machines from a tenant; their ports follow the cluster's policy from then on.
    "OP_TENANT_TAKE" TenantTake -> Tenant, Master, Operator, [tenant_name];
    /// Make an instance: reserve what it takes, make its disks, and start it.
    "OP_INSTANCE_CREATE" InstanceCreate -> Vec<NodeName>, Agents, Operator, [instance_name];
    /// Shut an instance down, and remove it with its disks.
    "OP_INSTANCE_REMOVE" InstanceRemove -> (), Agents, Operator, [instance_name];
    /// Start an instance.
    "OP_INSTANCE_STARTUP" InstanceStartup -> (), Agents, Operator, [instance_name];
    /// Shut an instance down; its process is killed where its guest does not end in time.
    "OP_INSTANCE_SHUTDOWN" InstanceShutdown -> (), Agents, Operator, [instance_name];
    /// Restart an instance, or start it if it does not run.
    "OP_INSTANCE_REBOOT" InstanceReboot -> (), Agents, Operator, [instance_name];
    /// Change parameters, NICs and disks of an instance, and its marks.
    "OP_INSTANCE_SET_PARAMS" InstanceSetParams -> Vec<(String, serde_json::Value)>, Agents, Operator, [instance_name];
    /// Write an operating system anew onto an instance that is stopped.
    "OP_INSTANCE_REINSTALL" InstanceReinstall -> (), Agents, Operator, [instance_name];
    /// Give an instance that is stopped another name.
    "OP_INSTANCE_RENAME" InstanceRename -> InstanceName, Agents, Operator, [instance_name];
    /// Make a disk of an instance larger.
    "OP_INSTANCE_GROW_DISK" InstanceGrowDisk -> (), Agents, Operator, [instance_name];
    /// Make disks of an instance anew, without their content.
    "OP_INSTANCE_RECREATE_DISKS" InstanceRecreateDisks -> (), Agents, Operator, [instance_name];
    /// Have the disks of an instance active on its node.
    "OP_INSTANCE_ACTIVATE_DISKS" InstanceActivateDisks -> Vec<(NodeName, String, Option<String>)>, Agents, Operator, [instance_name];
    /// Have the disks of an instance inactive.
    "OP_INSTANCE_DEACTIVATE_DISKS" InstanceDeactivateDisks -> (), Agents, Operator, [instance_name];
    /// Record that copies of disks lack writes, which a run lost, and have it go on without them.
    "OP_INSTANCE_DETACH_COPIES" InstanceDetachCopies -> (), Agents, Operator, [instance_name];
    /// Have a run fill copies of its disks that lack writes; and record those that it has filled.
    "OP_INSTANCE_RESYNC" InstanceResync -> (), Agents, Operator, [instance_name];
    /// Tell how the console of an instance is reached.
    "OP_INSTANCE_CONSOLE" InstanceConsole -> serde_json::Value, Master, Operator, [instance_name];
    /// Take a running instance to another node.
    "OP_INSTANCE_MIGRATE" InstanceMigrate -> (), Agents, Operator, [instance_name];
    /// Stop an instance, and start it on another node.
    "OP_INSTANCE_FAILOVER" InstanceFailover -> (), Agents, Operator, [instance_name];
    /// Take an instance whose disks are on its node to another node, with what is on them.
    "OP_INSTANCE_MOVE" InstanceMove -> (), Agents, Operator, [instance_name];
    /// Replace copies of disks; refused, as no disk of this version has copies.
    "OP_INSTANCE_REPLACE_DISKS" InstanceReplaceDisks -> (), Master, Operator, [instance_name];
    /// Place several instances, and make each by a job.
    "OP_INSTANCE_MULTI_ALLOC" InstanceMultiAlloc -> instance::MultiAllocated, Master, Operator, [];
    /// Take an instance to a node of another group, by a job.
    "OP_INSTANCE_CHANGE_GROUP" InstanceChangeGroup -> SubmittedJobs, Master, Operator, [instance_name];
    /// Take the instances of a node to others, each by a job.
    "OP_NODE_EVACUATE" NodeEvacuate -> SubmittedJobs, Master, Operator, [node_name];
    /// Migrate all instances of a node, each by a job.
    "OP_NODE_MIGRATE" NodeMigrate -> SubmittedJobs, Master, Operator, [node_name];
    /// Take the instances of a node group to others, each by a job.
    "OP_GROUP_EVACUATE" GroupEvacuate -> SubmittedJobs, Master, Operator, [group_name];
    /// Describe instances.
    "OP_INSTANCE_QUERY_DATA" InstanceQueryData -> serde_json::Value, Master, Read, [];
    /// Prepare the export of an instance.
    "OP_BACKUP_PREPARE" BackupPrepare -> (), Master, Operator, [instance_name];
    /// Export an instance: the content of its disks, and a description, in a directory on a node.
    "OP_BACKUP_EXPORT" BackupExport -> instance::backup::Exported, Agents, Operator, [instance_name];
    /// Remove the exports of an instance.
    "OP_BACKUP_REMOVE" BackupRemove -> (), Agents, Operator, [instance_name];
    /// Tell how much there is of a kind of storage on nodes.
    "OP_NODE_QUERY_STORAGE" NodeQueryStorage -> Vec<Vec<serde_json::Value>>, Agents, Read, [];
    /// List volumes of nodes; there are none, as this version has disks in files.
    "OP_NODE_QUERYVOLS" NodeQueryvols -> Vec<serde_json::Value>, Master, Read, [];
    /// Change a unit of storage; refused, as no storage of this version can be changed.
    "OP_NODE_MODIFY_STORAGE" NodeModifyStorage -> (), Master, Operator, [node_name];
    /// Repair a unit of storage; refused, as no storage of this version can be repaired.
    "OP_REPAIR_NODE_STORAGE" RepairNodeStorage -> (), Master, Operator, [node_name];
    /// Give records of disks the sizes that the disks have.
    "OP_CLUSTER_REPAIR_DISK_SIZES" ClusterRepairDiskSizes -> Vec<storage::RepairedSize>, Agents, Operator, [];
    /// List operating systems for instances; there are none yet.
    "OP_OS_DIAGNOSE" OsDiagnose -> Vec<Vec<serde_json::Value>>, Master, Read, [];
    /// List providers of storage; there are none yet.
    "OP_EXT_STORAGE_DIAGNOSE" ExtStorageDiagnose -> Vec<Vec<serde_json::Value>>, Master, Read, [];
    /// List objects that no LUXI method lists.
    "OP_QUERY" Query -> serde_json::Value, Master, Read, [what];
    /// Describe the fields of such objects.
    "OP_QUERY_FIELDS" QueryFields -> serde_json::Value, Master, Read, [what];
    /// Tell an object's tags.
    "OP_TAGS_GET" TagsGet -> Vec<String>, Master, Read, [name];
    /// Look for tags by a regular expression: pairs of an object's path and a tag.
    "OP_TAGS_SEARCH" TagsSearch -> Vec<(String, String)>, Master, Read, [pattern];
    /// Add tags to an object.
    "OP_TAGS_SET" TagsSet -> (), Master, Operator, [];
    /// Take tags away from an object; all of them must be there.
    "OP_TAGS_DEL" TagsDel -> (), Master, Operator, [];
    /// Sleep, on the master or on nodes; for tests.
    "OP_TEST_DELAY" TestDelay -> (), Agents, Operator, [duration];
    /// Show what an allocator is asked, or what it answers.
    "OP_TEST_ALLOCATOR" TestAllocator -> String, Master, Operator, [iallocator];
    /// Exercise the job queue; for tests.
    "OP_TEST_JQUEUE" TestJqueue -> bool, Master, Administrator, [];
}

impl OpCode {
    /// `OP_ID` without `OP_`, with the telling parameter: `TEST_DELAY(10.0)`.
    pub fn summary(&self) -> String {
        let verb = self.id().trim_start_matches("OP_");
        match self.summary_field() {
            Some(field) => format!("{verb}({field})"),
            None => verb.to_owned(),
        }
    }

    /// Whether it only tests the queue.
    pub const fn is_test(&self) -> bool {
        matches!(self, Self::TestDelay(_) | Self::TestJqueue(_))
    }
}
