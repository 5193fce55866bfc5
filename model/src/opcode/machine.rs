//! Core: opcodes on racks, addresses and machines.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Word;
use crate::bmc::{BmcPrivilege, BmcTrust, BmcUrl, BootOnce, PowerAction};
use crate::dhcp::DhcpConfig;
use crate::disk_key::DiskName;
use crate::image::{BootTarget, Parameter};
use crate::ipam::IpamConfig;
use crate::mac::MacAddress;
use crate::machine::MachineSpec;
use crate::machine::life::{Intent, State, Status};
use crate::serial::Serial;
use crate::time::Timestamp;
use crate::vault::Sealed;

/// Parameters of `OP_IPAM_SET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpamSet {
    /// The new rules; refused when they would change addresses of registered machines.
    pub config: IpamConfig,
}

/// Parameters of `OP_DHCP_SET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DhcpSet {
    /// The new settings, all of them.
    pub config: DhcpConfig,
}

/// Parameters of `OP_MACHINE_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineAdd {
    /// The machines to register: all of them, or none.
    pub machines: Vec<MachineSpec>,
}

/// Parameters of `OP_MACHINE_SET_PARAMS`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSetParams {
    /// Which machine.
    pub serial: String,
    /// Values of labels to set, by name; null removes a label.
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
    /// Its boot target; null leaves that alone.
    #[serde(default)]
    pub boot: Option<BootTarget>,
    /// Kernel parameters behind those of its image; null leaves them alone.
    #[serde(default)]
    pub kernel_parameters: Option<Vec<Parameter>>,
    /// Its role; `boot` can be neither given nor taken away.
    #[serde(default)]
    pub role: Option<String>,
    /// Its product name; null leaves it alone.
    #[serde(default)]
    pub product: Option<String>,
    /// Its data centre; null leaves it alone.
    #[serde(default)]
    pub datacenter: Option<String>,
    /// Ethernet addresses that it has, too.
    #[serde(default)]
    pub add_mac: Vec<MacAddress>,
    /// Ethernet addresses that it has no longer.
    #[serde(default)]
    pub remove_mac: Vec<MacAddress>,
    /// Its cards by the names that network templates call them; null forgets a name.
    #[serde(default)]
    pub interfaces: BTreeMap<Word, Option<MacAddress>>,
    /// Its system UUID; null leaves it alone.
    #[serde(default)]
    pub uuid: Option<Uuid>,
    /// The type of its management controller; null leaves it alone.
    #[serde(default)]
    pub bmc_type: Option<String>,
    /// The address of its management controller; null leaves it alone.
    #[serde(default)]
    pub bmc_ipv4: Option<Ipv4Addr>,
    /// The IPv6 address of its management controller; null leaves it alone.
    #[serde(default)]
    pub bmc_ipv6: Option<Ipv6Addr>,
    /// When it is to be taken out of use; null leaves it alone.
    #[serde(default)]
    pub retire_date: Option<Timestamp>,
    /// Why somebody works on it, which silences its deadlines; null leaves that alone.
    #[serde(default)]
    pub maintenance: Option<String>,
    /// The properties to forget.
    #[serde(default)]
    pub clear: Vec<Clearable>,
}

/// A property of a machine that can be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clearable {
    /// Its system UUID.
    Uuid,
    /// The type of its management controller.
    BmcType,
    /// The address of its management controller: it has that of the rules again.
    BmcIpv4,
    /// The IPv6 address of its management controller.
    BmcIpv6,
    /// When it is to be taken out of use.
    RetireDate,
    /// The mark that somebody works on it: its deadlines count again.
    Maintenance,
    /// The changes of its hardware: it is as it should be.
    HardwareChanges,
}

impl Clearable {
    /// All of them.
    pub const ALL: [(&'static str, Self); 7] = [
        ("uuid", Self::Uuid),
        ("bmc-type", Self::BmcType),
        ("bmc-ipv4", Self::BmcIpv4),
        ("bmc-ipv6", Self::BmcIpv6),
        ("retire-date", Self::RetireDate),
        ("maintenance", Self::Maintenance),
        ("hardware-changes", Self::HardwareChanges),
    ];
}

/// Parameters of `OP_MACHINE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRemove {
    /// Which machine.
    pub serial: String,
    /// The state in its life that it must have.
    #[serde(default)]
    pub only: Removable,
}

/// Which machines are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Removable {
    /// Machines that are not in service.
    #[default]
    OutOfService,
    /// Machines that are retired, as in sabakan.
    Retired,
    /// All.
    Any,
}

/// Parameters of `OP_MACHINE_SET_STATE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSetState {
    /// Which machine.
    pub serial: String,
    /// sabakan's state. The one that it has is a success.
    pub state: Status,
    /// Why, in a few words.
    #[serde(default)]
    pub why: Option<String>,
}

/// Parameters of `OP_MACHINE_EXPIRE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineExpire {
    /// Which machine.
    pub serial: String,
    /// The state in which it is too long. A machine that has moved since is left alone.
    pub state: State,
    /// When it came there.
    pub since: Timestamp,
    /// Its last sign of life, where that ends the state. A machine in service that says nothing since
    /// becomes unreachable; one that was unreachable by its silence becomes healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sign: Option<Timestamp>,
}

/// Parameters of `OP_MACHINE_DISK_KEY_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineDiskKeyAdd {
    /// Which machine.
    pub serial: String,
    /// Its disk. The same key again is the same success, and another one is refused.
    pub disk: DiskName,
    /// The key, as `GantrySeal` sealed it for `disk-key/SERIAL/DISK`.
    pub sealed: Sealed,
}

/// Parameters of `OP_MACHINE_DISK_KEYS_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineDiskKeysRemove {
    /// Which machine.
    pub serial: String,
    /// Only if it is retiring, as in sabakan.
    #[serde(default)]
    pub only_retiring: bool,
}

/// Parameters of `OP_MACHINE_BMC_SET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineBmcSet {
    /// Which machine.
    pub serial: String,
    /// The URL of its management controller.
    pub url: BmcUrl,
    /// Which certificate it may show; null means the one that it shows now, from now on.
    #[serde(default)]
    pub trust: Option<BmcTrust>,
    /// The user by which it knows us.
    pub user: String,
    /// The level at which the user acts, for IPMI alone; null means that of an administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privilege: Option<BmcPrivilege>,
    /// The user's password, as `GantrySeal` sealed it for `bmc/SERIAL`.
    pub sealed: Sealed,
    /// Whether to set it without asking the controller whether this is right.
    #[serde(default)]
    pub unchecked: bool,
}

/// Parameters of `OP_MACHINE_BMC_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineBmcRemove {
    /// Which machine.
    pub serial: String,
}

/// Parameters of `OP_MACHINE_POWER`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePower {
    /// Which machine.
    pub serial: String,
    /// The action; null only tells whether it runs.
    #[serde(default)]
    pub action: Option<PowerAction>,
    /// From where it boots at its next start alone; null leaves that to its firmware.
    #[serde(default)]
    pub boot_once: Option<BootOnce>,
}

/// Parameters of `OP_MACHINE_HEALTH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineHealth {
    /// Which machine.
    pub serial: String,
}

/// Parameters of `OP_MACHINE_INSPECT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineInspect {
    /// Which machine.
    pub serial: String,
}

/// Parameters of `OP_MACHINE_PROVISION`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineProvision {
    /// Which machine.
    pub serial: String,
    /// The intent to carry out.
    pub target: Intent,
    /// The target that it boots for that: its system from then on, or a ramdisk until that is done. Null
    /// means its own target, or the ramdisk of the cluster.
    #[serde(default)]
    pub image: Option<BootTarget>,
    /// Its role from then on; null leaves that alone.
    #[serde(default)]
    pub role: Option<String>,
    /// Whether somebody switches its power by hand.
    #[serde(default)]
    pub manual_power: bool,
    /// Whether its new system is to become a node: it is told a token, by which `OP_NODE_ADD` knows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enrol: bool,
}

/// Parameters of `OP_MACHINE_AWAIT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineAwait {
    /// Which machine.
    pub serial: String,
}

/// Parameters of `OP_LEASE_RELEASE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseRelease {
    /// The address whose lease ends.
    pub address: Ipv4Addr,
}

/// Parameters of `OP_RACK_PUSH`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackPush {
    /// Which racks, each 0 to 65,535; empty means all that have an agent.
    #[serde(default)]
    pub racks: Vec<u32>,
}

impl super::common::Summary for Intent {
    fn text(&self) -> String {
        self.as_str().to_owned()
    }
}

impl super::common::Summary for Ipv4Addr {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl super::common::Summary for Serial {
    fn text(&self) -> String {
        self.to_string()
    }
}
