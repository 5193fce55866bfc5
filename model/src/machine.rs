//! Core: a machine, a bare-metal server of the inventory.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::Word;
use crate::boot_template::Fetched;
use crate::image::{BootTarget, Parameter};
use crate::job_id::JobId;
use crate::mac::MacAddress;
pub use crate::name::{BOOT_ROLE, SWITCH_ROLE};
use crate::range::{RACK_MAX, ranges};
use crate::serial::Serial;
use crate::time::Timestamp;

pub mod check;
pub mod life;

use life::Life;

/// Labels of a machine: values by name.
pub type Labels = BTreeMap<String, String>;

/// The description by which an operator registers a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MachineSpec {
    /// Its serial number, as its firmware (SMBIOS) tells it.
    pub serial: Serial,
    /// Its product name.
    #[serde(default)]
    pub product: String,
    /// Where it stands.
    #[serde(default)]
    pub datacenter: String,
    /// Its logical rack number; 0 to 65,535.
    #[serde(default)]
    pub rack: u32,
    /// Its role: `boot` (one a rack), or any word.
    pub role: String,
    /// Ethernet addresses that are known beforehand.
    #[serde(default)]
    pub mac: Vec<MacAddress>,
    /// Its system UUID, as its firmware (SMBIOS) tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Its management controller.
    #[serde(default, skip_serializing_if = "BmcSpec::is_empty")]
    pub bmc: BmcSpec,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Its cards by the names that network templates call them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<Word, MacAddress>,
    /// When it is to be taken out of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retire_date: Option<Timestamp>,
}

/// The description of a management controller by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BmcSpec {
    /// Its type, such as `IPMI-2.0` or `iDRAC-9`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its address, where the rules of addresses do not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
}

/// The UUID by which ramdisks know a machine: that of its system where it is known, and one made of the
/// serial number otherwise (RFC 9562, version 8).
pub fn node_uuid(uuid: Option<Uuid>, serial: &Serial) -> Uuid {
    uuid.unwrap_or_else(|| {
        let digest: [u8; 32] = Sha256::digest(format!("machine {serial}")).into();
        let (first, _) = digest.split_first_chunk().expect("a digest is longer");
        uuid::Builder::from_custom_bytes(*first).into_uuid()
    })
}

impl BmcSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

ranges! {
    MachineSpec {
        rack: 0 to RACK_MAX,
    }
}

/// The document `machines/SERIAL`, in the form of the REST interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Machine {
    /// Its serial number.
    pub serial: Serial,
    /// Its product name.
    pub product: String,
    /// Where it stands.
    pub datacenter: String,
    /// Its logical rack number.
    pub rack: u32,
    /// Its number within the rack; has nothing to do with its place.
    pub index_in_rack: u32,
    pub role: String,
    /// Addresses of its operating system, by interface `node0`, `node1`, …
    pub network: BTreeMap<String, Addresses>,
    /// Its management controller.
    pub bmc: Bmc,
    /// Its system UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Its Ethernet addresses, told at registration or learnt when it booted.
    #[serde(default)]
    pub mac: Vec<MacAddress>,
    /// Whether the operator told its Ethernet addresses: then its boots teach no further ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mac_told: bool,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "BootTarget::is_local")]
    pub boot: BootTarget,
    /// Kernel parameters behind those of its image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_parameters: Vec<Parameter>,
    /// Its cards by the names that templates call them, where the operator told them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<Word, MacAddress>,
    /// The version of the network template of its role that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_template: Option<u32>,
    /// When it was registered.
    pub register_date: Timestamp,
    /// When it is to be taken out of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retire_date: Option<Timestamp>,
    /// The job that gave it its system, where one did: a system of another deployment is another instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_by: Option<JobId>,
    /// Its state in its life, since when and why.
    #[serde(default, skip_serializing_if = "Life::is_new")]
    pub life: Life,
    /// Why somebody works on it; its deadlines are silent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<String>,
}

impl Machine {
    /// The target that it boots now: a ramdisk that is wanted comes before its own target.
    pub fn boots(&self) -> &BootTarget {
        self.life.boot.as_ref().unwrap_or(&self.boot)
    }

    /// Names of the images that it is to boot, now or later.
    pub fn images(&self) -> impl Iterator<Item = Word> {
        let targets = self.life.boot.iter().chain([&self.boot]);
        let names: Vec<Word> = targets.filter_map(BootTarget::image).cloned().collect();
        names.into_iter()
    }
}

/// A management controller.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bmc {
    /// Its type, such as `IPMI-2.0` or `iDRAC-9`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// IPv4 addresses.
    pub ipv4: Vec<Ipv4Addr>,
    /// IPv6 addresses; null where there are none.
    pub ipv6: Option<Vec<Ipv6Addr>>,
}

/// Addresses of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Addresses {
    /// IPv4 addresses.
    pub ipv4: Vec<Ipv4Addr>,
    /// IPv6 addresses; null where there are none.
    pub ipv6: Option<Vec<Ipv6Addr>>,
}

impl Addresses {
    /// One IPv4 address.
    pub fn of(address: Ipv4Addr) -> Self {
        Self { ipv4: vec![address], ipv6: None }
    }
}

/// The last boot of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LastBoot {
    /// The machine.
    #[serde(skip)]
    pub serial: Serial,
    /// Its last boot, as it was seen.
    pub boot: Boot,
}

/// The document `boots/SERIAL`: what was seen of a machine's last boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// How far it came.
    pub stage: BootStage,
    /// Address it had when it was last seen.
    pub address: Ipv4Addr,
    /// Ethernet address that held that lease, if one did.
    pub mac: Option<MacAddress>,
    /// Name of the agent that saw it.
    pub agent: String,
    /// When it was seen.
    pub seen: Timestamp,
    /// The stages of this boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageSeen>,
    /// The stages of the boot before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<StageSeen>,
    /// Seconds between two signs of life of its system; none where that gives one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
}

/// A stage of a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSeen {
    pub stage: BootStage,
    /// When it was seen last.
    pub at: Timestamp,
    /// Name of the agent that saw it; empty in the agent's own events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The document that it fetched, where the stage is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Fetched>,
    /// Its power cycle; 0 where none was begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cycle: u64,
}

/// Whether a number is left out of documents.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

crate::words! {
    /// How far a machine came in its boot.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    BootStage {
        /// Its firmware got a lease.
        Lease = "lease",
        /// It fetched its loader.
        Loader = "loader",
        /// It fetched its boot script.
        Script = "script",
        /// It fetched its kernel.
        Kernel = "kernel",
        /// It fetched its last initial file system.
        Initrd = "initrd",
        /// It fetched its configuration: that of Ignition, or user data of cloud-init.
        Config = "config",
        /// Its operating system told that it runs.
        System = "system",
    }
}

impl BootStage {
    /// Whether a machine comes to it by fetching something, which only one does that boots.
    pub fn is_fetch(self) -> bool {
        !matches!(self, Self::Lease | Self::System)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_own_request_reads() {
        let text = r#"[{"serial": "1234abcd", "product": "R630", "datacenter": "ty3", "rack": 1,
            "role": "boot"}]"#;
        let specs: Vec<MachineSpec> = serde_json::from_str(text).unwrap();
        assert_eq!(specs[0].problems(), []);
        assert_eq!(specs[0].rack, 1);
    }

    #[test]
    fn documents_of_earlier_versions_read_and_stay_the_same() {
        let text = r#"{"serial":"1234abcd","product":"R630","datacenter":"ty3","rack":1,
            "index-in-rack":4,"role":"Worker","network":{"node0":{"ipv4":["10.69.0.4"],"ipv6":null}},
            "bmc":{"ipv4":["10.72.17.4"],"ipv6":null},"mac":[],"register-date":[1700000000,0]}"#;
        let machine: Machine = serde_json::from_str(text).unwrap();
        let written: serde_json::Value = serde_json::to_value(&machine).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(machine.life.state, life::State::Enrolled);
        assert_eq!(machine.state_since(), machine.register_date);
    }
}
