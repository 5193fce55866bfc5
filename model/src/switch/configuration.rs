//! Core: configurations of ports (Metal3's `SwitchPortConfiguration`). They never change: who wants
//! another one makes it, and links it in place of the first.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::acl::{AclError, AclRule, RULES_MAX};
use super::vlan::{Vlan, VlanSet};
use crate::{Timestamp, Word};

/// Most configurations of a cluster: one for each VLAN and each tenant's wishes.
pub const CONFIGURATIONS_MAX: usize = 10_000;
/// Most networks whose VLANs a configuration tags.
pub const NETWORKS_TAGGED_MAX: usize = 64;

/// The document `port-configurations/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortConfiguration {
    pub name: Word,
    /// When it was made.
    pub ctime: Timestamp,
    #[serde(flatten)]
    pub wanted: Wanted,
}

/// The wishes of a configuration for a port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// The VLAN of packets without a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untagged: Option<VlanOf>,
    /// The VLANs of packets with a tag.
    #[serde(default, skip_serializing_if = "VlanSet::is_empty")]
    pub tagged: VlanSet,
    /// Networks whose VLANs are tagged, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tagged_networks: Vec<Word>,
    /// Rules for packets that come in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acl: Vec<AclRule>,
    /// Largest packet in bytes, 576 to 65,535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Whether the port carries no packets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

/// A VLAN, by its number or as that of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VlanOf {
    Number(Vlan),
    Network(Word),
}

impl fmt::Display for VlanOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(vlan) => vlan.fmt(f),
            Self::Network(name) => name.fmt(f),
        }
    }
}

/// A fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It says nothing.
    #[error("it names no VLAN; a port that is to carry nothing is `disabled`")]
    Empty,
    /// It is to carry nothing, and something.
    #[error("it is disabled and names VLANs or rules; give one of both")]
    DisabledWithMore,
    /// A VLAN is wanted in both ways.
    #[error("VLAN {0} cannot be both untagged and tagged on a port")]
    Both(Vlan),
    /// There are more rules than switches hold.
    #[error("it has {0} rules; at most {RULES_MAX} are taken")]
    Rules(usize),
    /// There are more networks than that.
    #[error("it tags {0} networks; at most {NETWORKS_TAGGED_MAX} are taken")]
    Networks(usize),
    /// A packet size that no network has.
    #[error("an MTU of {0}; it is 576 to 65535")]
    Mtu(u16),
    /// A rule contradicts itself.
    #[error("rule {number}: {source}")]
    Rule {
        /// Its place, from 1.
        number: usize,
        source: AclError,
    },
}

impl Wanted {
    /// The networks that it names.
    pub fn networks(&self) -> impl Iterator<Item = &Word> {
        let untagged = match &self.untagged {
            Some(VlanOf::Network(name)) => Some(name),
            Some(VlanOf::Number(_)) | None => None,
        };
        untagged.into_iter().chain(&self.tagged_networks)
    }

    /// Whether it names a VLAN.
    fn has_vlan(&self) -> bool {
        self.untagged.is_some() || !self.tagged.is_empty() || !self.tagged_networks.is_empty()
    }

    /// # Errors
    /// It can be applied to no port.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        use ConfigurationError as Error;
        match (self.disabled, self.has_vlan()) {
            (true, has_vlan) if has_vlan || !self.acl.is_empty() || self.mtu.is_some() => {
                return Err(Error::DisabledWithMore);
            }
            (false, false) => return Err(Error::Empty),
            _ => {}
        }
        if let Some(VlanOf::Number(vlan)) = self.untagged
            && self.tagged.contains(vlan)
        {
            return Err(Error::Both(vlan));
        }
        if self.acl.len() > RULES_MAX {
            return Err(Error::Rules(self.acl.len()));
        }
        if self.tagged_networks.len() > NETWORKS_TAGGED_MAX {
            return Err(Error::Networks(self.tagged_networks.len()));
        }
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu < 576) {
            return Err(Error::Mtu(mtu));
        }
        for (place, rule) in self.acl.iter().enumerate() {
            rule.check().map_err(|source| Error::Rule { number: place + 1, source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Result<(), String> {
        let wanted: Wanted = serde_json::from_str(text).map_err(|error| error.to_string())?;
        wanted.check().map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_port_can_be_told() {
        for good in [
            r#"{"untagged": 5}"#,
            r#"{"untagged": "storage", "tagged": "6-10", "mtu": 9000}"#,
            r#"{"tagged_networks": ["a", "b"]}"#,
            r#"{"disabled": true}"#,
        ] {
            assert_eq!(wanted(good), Ok(()), "{good}");
        }
        for (bad, told) in [
            ("{}", "it names no VLAN"),
            (r#"{"disabled": true, "untagged": 5}"#, "it is disabled and names VLANs"),
            (r#"{"untagged": 5, "tagged": "1-10"}"#, "VLAN 5 cannot be both"),
            (r#"{"untagged": 5, "mtu": 100}"#, "an MTU of 100"),
            (r#"{"untagged": 0}"#, "data did not match"),
            (r#"{"untagged": 4095}"#, "data did not match"),
            (
                r#"{"untagged": 5, "acl": [{"type": "ipv4", "action": "deny"},
                    {"type": "ipv6", "action": "deny", "src": "10.0.0.0/8"}]}"#,
                "rule 2: 10.0.0.0/8 is no address of ipv6",
            ),
        ] {
            let error = wanted(bad).unwrap_err();
            assert!(error.starts_with(told), "{bad}: {error}");
        }
    }
}
