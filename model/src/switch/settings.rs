//! Core: how a port of a switch is set, as far as Gantry sets it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::acl::AclRule;
use super::vlan::{Vlan, VlanSet};

/// How a port is, or is to be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSettings {
    /// Whether it carries no packets. Then nothing else counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// The VLAN of packets without a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untagged: Option<Vlan>,
    /// The VLANs of packets with a tag; never the untagged one.
    #[serde(default, skip_serializing_if = "VlanSet::is_empty")]
    pub tagged: VlanSet,
    /// Rules for packets that come in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acl: Vec<AclRule>,
    /// Largest packet in bytes, 576 to 65,535; that of the switch where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
}

impl PortSettings {
    /// Those of a port that carries nothing.
    pub fn disabled() -> Self {
        Self { disabled: true, ..Self::default() }
    }

    /// Those of a port in one VLAN without tags.
    pub fn untagged(vlan: Vlan) -> Self {
        Self { untagged: Some(vlan), ..Self::default() }
    }

    /// All VLANs that it is in.
    pub fn vlans(&self) -> VlanSet {
        self.tagged.iter().chain(self.untagged).collect()
    }
}

/// As people read it: `10 tagged 20-30 acl 2 mtu 9000`.
impl fmt::Display for PortSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.disabled {
            return f.write_str("disabled");
        }
        match self.untagged {
            Some(vlan) => write!(f, "{vlan}")?,
            None => f.write_str("-")?,
        }
        if !self.tagged.is_empty() {
            write!(f, " tagged {}", self.tagged)?;
        }
        if !self.acl.is_empty() {
            write!(f, " acl {}", self.acl.len())?;
        }
        match self.mtu {
            Some(mtu) => write!(f, " mtu {mtu}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_people() {
        let vlan = |number: u16| Vlan::try_from(number).unwrap();
        let trunk = PortSettings {
            tagged: "20-30".parse().unwrap(),
            mtu: Some(9000),
            ..PortSettings::untagged(vlan(10))
        };
        assert_eq!(trunk.to_string(), "10 tagged 20-30 mtu 9000");
        assert_eq!(trunk.vlans().to_string(), "10,20-30");
        assert_eq!(PortSettings::disabled().to_string(), "disabled");
        assert_eq!(PortSettings::untagged(vlan(5)).to_string(), "5");
        assert_eq!(PortSettings::default().to_string(), "-");
    }
}
