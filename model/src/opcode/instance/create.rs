//! Core: the opcodes that make instances.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Timeout, Told, Withheld, yes};

/// The source of a new instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CreateMode {
    /// Its operating system's scripts, or nothing.
    Create,
    /// An export on a node.
    Import,
    /// An instance of another cluster.
    RemoteImport,
}

/// Parameters of `OP_INSTANCE_CREATE`, in a place of their own: they are many.
pub type InstanceCreate = Box<CreateParameters>;

/// Parameters of `OP_INSTANCE_CREATE`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateParameters {
    pub instance_name: String,
    pub mode: CreateMode,
    /// Sizes, or what else a template asks for.
    pub disks: Vec<Told>,
    pub nics: Vec<Told>,
    #[serde(default)]
    pub disk_template: Option<String>,
    #[serde(default)]
    pub hypervisor: Option<String>,
    #[serde(default)]
    pub hvparams: Told,
    #[serde(default)]
    pub beparams: Told,
    #[serde(default)]
    pub os_type: Option<String>,
    #[serde(default)]
    pub osparams: Told,
    #[serde(default, skip_serializing_if = "Withheld::is_empty")]
    pub osparams_private: Withheld,
    #[serde(default, skip_serializing_if = "Withheld::is_empty")]
    pub osparams_secret: Withheld,
    /// Whether a variant is taken that the operating system does not list.
    #[serde(default)]
    pub force_variant: bool,
    /// Whether its operating system is left out.
    #[serde(default)]
    pub no_install: Option<bool>,
    /// Its node; none has the allocator choose.
    #[serde(default)]
    pub pnode: Option<String>,
    #[serde(default)]
    pub pnode_uuid: Option<String>,
    #[serde(default)]
    pub snode: Option<String>,
    #[serde(default)]
    pub snode_uuid: Option<String>,
    /// The allocator; an empty one and `.` are the cluster's.
    #[serde(default)]
    pub iallocator: Option<String>,
    /// The node group within which the allocator chooses.
    #[serde(default)]
    pub group_name: Option<String>,
    #[serde(default)]
    pub opportunistic_locking: bool,
    #[serde(default)]
    pub ignore_ipolicy: bool,
    /// Whether its name must be known to the resolver.
    #[serde(default = "yes")]
    pub name_check: bool,
    /// Whether its address must not answer.
    #[serde(default = "yes")]
    pub ip_check: bool,
    /// Whether addresses must not be of a network that its NIC is not in.
    #[serde(default = "yes")]
    pub conflicts_check: bool,
    #[serde(default = "yes")]
    pub wait_for_sync: bool,
    /// Whether it starts.
    #[serde(default = "yes")]
    pub start: bool,
    /// Whether it is only planned: it gets its share of its node, and nothing there.
    #[serde(default)]
    pub forthcoming: bool,
    /// Whether a planned one is made now.
    #[serde(default)]
    pub commit: bool,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub file_driver: Option<String>,
    /// A directory below the cluster's for files of disks.
    #[serde(default)]
    pub file_storage_dir: Option<String>,
    /// Whether values that are the cluster's are not its own: of imports.
    #[serde(default)]
    pub identify_defaults: bool,
    #[serde(default)]
    pub source_handshake: Option<Vec<Value>>,
    #[serde(default)]
    pub source_instance_name: Option<String>,
    #[serde(default)]
    pub source_shutdown_timeout: Timeout,
    #[serde(default)]
    pub source_x509_ca: Option<String>,
    #[serde(default)]
    pub src_node: Option<String>,
    #[serde(default)]
    pub src_node_uuid: Option<String>,
    #[serde(default)]
    pub src_path: Option<String>,
    #[serde(default)]
    pub compress: Option<String>,
    #[serde(default)]
    pub instance_communication: bool,
    #[serde(default)]
    pub helper_startup_timeout: Option<Timeout>,
    #[serde(default)]
    pub helper_shutdown_timeout: Option<Timeout>,
}

impl CreateParameters {
    /// One without disks, NICs and parameters.
    pub fn named(instance_name: String) -> Self {
        Self {
            instance_name,
            mode: CreateMode::Create,
            disks: Vec::new(),
            nics: Vec::new(),
            disk_template: None,
            hypervisor: None,
            hvparams: Told::new(),
            beparams: Told::new(),
            os_type: None,
            osparams: Told::new(),
            osparams_private: Withheld,
            osparams_secret: Withheld,
            force_variant: false,
            no_install: None,
            pnode: None,
            pnode_uuid: None,
            snode: None,
            snode_uuid: None,
            iallocator: None,
            group_name: None,
            opportunistic_locking: false,
            ignore_ipolicy: false,
            name_check: true,
            ip_check: true,
            conflicts_check: true,
            wait_for_sync: true,
            start: true,
            forthcoming: false,
            commit: false,
            tags: Vec::new(),
            file_driver: None,
            file_storage_dir: None,
            identify_defaults: false,
            source_handshake: None,
            source_instance_name: None,
            source_shutdown_timeout: Timeout::default(),
            source_x509_ca: None,
            src_node: None,
            src_node_uuid: None,
            src_path: None,
            compress: None,
            instance_communication: false,
            helper_startup_timeout: None,
            helper_shutdown_timeout: None,
        }
    }
}

/// Parameters of `OP_INSTANCE_MULTI_ALLOC`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceMultiAlloc {
    /// Opcodes `OP_INSTANCE_CREATE`.
    #[serde(default)]
    pub instances: Vec<Value>,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub opportunistic_locking: bool,
}

/// The outcome of `OP_INSTANCE_MULTI_ALLOC`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MultiAllocated {
    /// Whether each job was taken, with its number or the reason.
    pub jobs: Vec<(bool, Value)>,
    /// Names of instances that have room.
    pub allocatable: Vec<String>,
    /// Names of those that have none.
    pub failed: Vec<String>,
}

/// Whether an allocator is only to be shown its question, or to answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocatorDirection {
    /// The question.
    In,
    /// The answer.
    Out,
}

/// The kind of a question to an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocatorMode {
    /// A node for a new instance.
    Allocate,
    /// Nodes for several that are alike.
    MultiAllocate,
    /// Another node for an instance.
    Relocate,
    /// A node for another copy of disks.
    AllocateSecondary,
    /// How instances leave their node.
    NodeEvacuate,
    /// How instances come to other groups.
    ChangeGroup,
}

/// Parameters of `OP_TEST_ALLOCATOR`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestAllocator {
    pub direction: AllocatorDirection,
    pub mode: AllocatorMode,
    /// The new instance, or the one that goes.
    pub name: String,
    #[serde(default)]
    pub nics: Option<Vec<Told>>,
    #[serde(default)]
    pub disks: Option<Vec<Told>>,
    #[serde(default)]
    pub hypervisor: Option<String>,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// MiB.
    #[serde(default)]
    pub memory: Option<u64>,
    #[serde(default)]
    pub vcpus: Option<u64>,
    #[serde(default)]
    pub os: Option<String>,
    #[serde(default)]
    pub disk_template: Option<String>,
    /// Those that go.
    #[serde(default)]
    pub instances: Option<Vec<String>>,
    #[serde(default)]
    pub evac_mode: Option<super::moves::EvacuationMode>,
    #[serde(default)]
    pub target_groups: Option<Vec<String>>,
    #[serde(default = "one")]
    pub spindle_use: u64,
    /// How many instances that are alike.
    #[serde(default = "one")]
    pub count: u64,
    #[serde(default)]
    pub group_name: Option<String>,
}

const fn one() -> u64 {
    1
}
