//! Core: a machine, a bare-metal server of the inventory.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::image::{BootTarget, Parameter};
use crate::mac::MacAddress;
use crate::range::{RACK_MAX, ranges};
use crate::serial::Serial;
use crate::time::Timestamp;

/// The role whose machine gets the rack's first index.
pub const BOOT_ROLE: &str = "boot";
/// Longest text of a product, data centre or role.
const WORD_MAX: usize = 64;
/// Most labels of a machine, so that its document stays small.
const LABELS_MAX: usize = 64;

/// Labels of a machine: values by name.
pub type Labels = BTreeMap<String, String>;

/// What an operator tells of a machine to register it.
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
    /// What it is for: `boot` (one a rack), or any word.
    pub role: String,
    /// Ethernet addresses that are known beforehand.
    #[serde(default)]
    pub mac: Vec<MacAddress>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

ranges! {
    MachineSpec {
        rack: 0 to RACK_MAX,
    }
}

/// A machine description that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("machine {serial}: {field} `{value}` must be {wanted}")]
pub struct MachineSpecError {
    serial: Serial,
    field: &'static str,
    value: String,
    wanted: &'static str,
}

impl MachineSpecError {
    fn new(serial: &Serial, field: &'static str, value: &str, wanted: &'static str) -> Self {
        let value = value.chars().take(WORD_MAX).collect();
        Self { serial: serial.clone(), field, value, wanted }
    }
}

impl MachineSpec {
    /// Checks what the types alone do not.
    ///
    /// # Errors
    /// A role, product or data centre that is too long or holds characters that would have to be
    /// quoted where it is used.
    pub fn validate(&self) -> Result<(), MachineSpecError> {
        let wrong = |field, value: &str, wanted| {
            Err(MachineSpecError::new(&self.serial, field, value, wanted))
        };
        if !is_word(&self.role) {
            return wrong("role", &self.role, WORD);
        }
        for (field, value) in [("product", &self.product), ("datacenter", &self.datacenter)] {
            if value.len() > WORD_MAX || value.chars().any(char::is_control) {
                return wrong(field, value, "at most 64 printable characters");
            }
        }
        check_labels(&self.serial, &self.labels)
    }
}

/// Checks the labels of a machine.
///
/// # Errors
/// A name or value is no word, or there are too many.
pub fn check_labels(serial: &Serial, labels: &Labels) -> Result<(), MachineSpecError> {
    let wrong =
        |field, value: &str, wanted| Err(MachineSpecError::new(serial, field, value, wanted));
    if labels.len() > LABELS_MAX {
        return wrong("number of labels", &labels.len().to_string(), "at most 64");
    }
    for (name, value) in labels {
        if !is_word(name) {
            return wrong("label", name, WORD);
        }
        if !value.is_empty() && !is_word(value) {
            return wrong("value of label", &format!("{name}={value}"), WORD);
        }
    }
    Ok(())
}

/// What [`is_word`] takes.
const WORD: &str =
    "1 to 63 letters, digits, `-`, `_` or `.`, beginning and ending with a letter or digit";

/// The rule that sabakan took from Kubernetes for labels.
fn is_word(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
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
    /// What it is for.
    pub role: String,
    /// Addresses of its operating system, by interface `node0`, `node1`, …
    pub network: BTreeMap<String, Addresses>,
    /// Address of its management controller.
    pub bmc: Addresses,
    /// Its Ethernet addresses, told at registration or learnt when it booted.
    #[serde(default)]
    pub mac: Vec<MacAddress>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// What it is to boot.
    #[serde(default, skip_serializing_if = "BootTarget::is_local")]
    pub boot: BootTarget,
    /// Kernel parameters behind those of its image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_parameters: Vec<Parameter>,
    /// When it was registered.
    pub register_date: Timestamp,
}

/// Addresses of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Addresses {
    /// IPv4 addresses.
    pub ipv4: Vec<Ipv4Addr>,
    /// IPv6 addresses; null where there are none.
    pub ipv6: Option<Vec<std::net::Ipv6Addr>>,
}

impl Addresses {
    /// One IPv4 address.
    #[must_use]
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
    /// What was seen of it.
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
}

/// How far a machine came in its boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootStage {
    /// It has a lease.
    Lease,
    /// It fetched its loader.
    Loader,
    /// It fetched its boot script.
    Script,
    /// It fetched its kernel.
    Kernel,
    /// It fetched its last initial file system.
    Initrd,
    /// Its operating system told that it runs.
    System,
}

impl BootStage {
    /// The word on the wire and in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Loader => "loader",
            Self::Script => "script",
            Self::Kernel => "kernel",
            Self::Initrd => "initrd",
            Self::System => "system",
        }
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
        assert!(specs[0].validate().is_ok());
        assert_eq!(specs[0].rack, 1);
    }

    #[test]
    fn labels() {
        let of = |pairs: &[(&str, &str)]| {
            let labels = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            check_labels(&"s1".parse().unwrap(), &labels.collect())
        };
        assert_eq!(of(&[("zone", "a"), ("gpu", "")]), Ok(()));
        for (pair, told) in [(("-", "a"), "label `-` must"), (("zone", "a b"), "`zone=a b` must")] {
            let error = of(&[pair]).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        let many = (0..=LABELS_MAX).map(|n| (n.to_string(), String::new())).collect();
        let error = check_labels(&"s1".parse().unwrap(), &many).unwrap_err().to_string();
        assert!(error.contains("number of labels `65` must be at most 64"), "{error}");
    }

    #[test]
    fn words() {
        for good in ["boot", "worker", "a", "A-1_x.y"] {
            assert!(is_word(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "ä", &"x".repeat(64)] {
            assert!(!is_word(bad), "{bad}");
        }
    }
}
