//! Core: rules of which packets a port lets in (Metal3's `SwitchPortConfiguration`).
//!
//! The rules are tried in their order on each packet that enters the switch at the port; the first that
//! fits decides. A packet that fits none is let through, as without rules.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most rules of a configuration: switches keep them in memory that is small.
pub const RULES_MAX: usize = 64;

crate::words! {
    /// The family of addresses that a rule is about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Family {
        Ipv4 = "ipv4",
        Ipv6 = "ipv6",
    }
}

crate::words! {
    /// The fate of a packet that fits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Action {
        Allow = "allow",
        Deny = "deny",
    }
}

crate::words! {
    /// The protocol above IP.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    Protocol {
        Tcp = "TCP",
        Udp = "UDP",
        /// ICMP, and ICMPv6 in rules of IPv6.
        Icmp = "ICMP",
        /// Whatever it is.
        #[default]
        All = "ALL",
    }
}

impl Protocol {
    /// Whether it has ports.
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }
}

/// Ports of TCP or UDP, both ends among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

/// A text that is no range of ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no range of ports; write a port of 0 to 65535, or two as 22-30")]
pub struct PortRangeError(String);

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let wrong = || PortRangeError(text.chars().take(40).collect());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |end: &str| {
            let end = end.trim();
            let is_number = !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { end.parse::<u16>().map_err(|_large| wrong()) } else { Err(wrong()) }
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last { Err(wrong()) } else { Ok(Self { first, last }) }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // YAML makes a number of a port alone.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(u64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::One(port) => port.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(D::Error::custom)
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclRule {
    #[serde(rename = "type")]
    pub family: Family,
    pub action: Action,
    #[serde(default)]
    pub protocol: Protocol,
    /// The addresses that a packet comes from; any where there are none.
    #[serde(default, rename = "src", skip_serializing_if = "Option::is_none")]
    pub source: Option<IpNet>,
    /// The ports that it comes from.
    #[serde(default, rename = "srcPortRange", skip_serializing_if = "Option::is_none")]
    pub source_ports: Option<PortRange>,
    /// The addresses that it goes to.
    #[serde(default, rename = "des", skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpNet>,
    /// The ports that it goes to.
    #[serde(default, rename = "desPortRange", skip_serializing_if = "Option::is_none")]
    pub destination_ports: Option<PortRange>,
}

/// A fault of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// An address is of the other family.
    #[error("{address} is no address of {}, which the rule is about", family.as_str())]
    Family { family: Family, address: IpNet },
    /// It has ports and a protocol that has none.
    #[error("{} has no ports; ports go with TCP or UDP", .0.as_str())]
    Ports(Protocol),
    /// An address has bits behind its prefix.
    #[error("{0} has bits behind its prefix; write {whole}", whole = .0.trunc())]
    HostBits(IpNet),
}

impl AclRule {
    /// # Errors
    /// Its parts contradict each other.
    pub fn check(&self) -> Result<(), AclError> {
        for address in [self.source, self.destination].into_iter().flatten() {
            let family = if address.addr().is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
            if family != self.family {
                return Err(AclError::Family { family: self.family, address });
            }
            if address != address.trunc() {
                return Err(AclError::HostBits(address));
            }
        }
        let has_ports = self.source_ports.is_some() || self.destination_ports.is_some();
        if has_ports && !self.protocol.has_ports() {
            return Err(AclError::Ports(self.protocol));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_by_metal3s_names() {
        let text = r#"{"type": "ipv4", "action": "deny", "protocol": "TCP", "src": "10.0.0.0/8",
            "srcPortRange": 22, "des": "192.168.0.0/16", "desPortRange": "22-30"}"#;
        let rule: AclRule = serde_json::from_str(text).unwrap();
        assert_eq!(rule.check(), Ok(()));
        assert_eq!(rule.source_ports, Some(PortRange { first: 22, last: 22 }));
        assert_eq!(rule.destination_ports, Some(PortRange { first: 22, last: 30 }));
        let again = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<AclRule>(&again).unwrap(), rule);
    }

    #[test]
    fn what_makes_no_rule_is_told() {
        for (rest, told) in [
            (r#""src": "fe80::/64""#, "fe80::/64 is no address of ipv4"),
            (r#""des": "10.0.0.1/8""#, "10.0.0.1/8 has bits behind its prefix; write 10.0.0.0/8"),
            (r#""desPortRange": "22""#, "ALL has no ports"),
            (r#""protocol": "ICMP", "srcPortRange": "22""#, "ICMP has no ports"),
        ] {
            let text = format!(r#"{{"type": "ipv4", "action": "allow", {rest}}}"#);
            let rule: AclRule = serde_json::from_str(&text).unwrap();
            let error = rule.check().unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
        for ports in ["\"0-70000\"", "\"30-22\"", "\"\"", "\"22-\"", "70000", "\"ssh\"", "\"+1\""] {
            assert!(serde_json::from_str::<PortRange>(ports).is_err(), "{ports}");
        }
        for wrong in [
            r#"{"type": "ipx", "action": "allow"}"#,
            r#"{"type": "ipv4", "action": "drop"}"#,
            r#"{"type": "ipv4"}"#,
            r#"{"type": "ipv4", "action": "allow", "port": 5}"#,
            r#"{"type": "ipv4", "action": "allow", "src": "10.0.0.0/33"}"#,
        ] {
            assert!(serde_json::from_str::<AclRule>(wrong).is_err(), "{wrong}");
        }
    }
}
