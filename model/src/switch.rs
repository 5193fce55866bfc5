//! Core: switches, their ports, and how those follow the machines behind them (Metal3's automatic network
//! configuration).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mac::MacAddress;
use crate::vault::Sealed;
use crate::{NodeName, Timestamp, Uuid, Word};

pub mod acl;
pub mod change;
pub mod configuration;
pub mod policy;
pub mod port;
pub mod settings;
pub mod vlan;

pub use acl::AclRule;
pub use change::{Actual, Actuals, PortChange, PortOutcome, SwitchTarget};
pub use configuration::{PortConfiguration, VlanOf, Wanted};
pub use policy::{OnDeadSwitch, OnDrift, Phases, PortPhase, PortPolicy};
pub use port::{Applied, PortEvent, PortKey, PortState, PortVerified, Served, SwitchPort};
pub use settings::PortSettings;
pub use vlan::{Vlan, VlanError, VlanSet};

/// Most switches of a cluster: two in each of a thousand racks.
pub const SWITCHES_MAX: usize = 2_048;
/// Most ports of a switch: a chassis has some hundreds, a software switch more.
pub const PORTS_MAX: usize = 2_048;
/// Most agents that a switch names.
pub const AGENTS_MAX: usize = 16;
/// Most options of a switch.
pub const OPTIONS_MAX: usize = 16;
/// Longest option.
const OPTION_CHARS_MAX: usize = 256;
/// Longest name of a port on its switch.
const REAL_NAME_MAX: usize = 128;
/// Longest certificate, PEM: a chain of some authorities.
pub const CERTIFICATE_MAX: usize = 16_384;
/// The port that IANA gave to OVSDB.
const OVSDB_PORT: u16 = 6640;
/// Longest name of a host: that of the domain name system.
const HOST_MAX: usize = 253;

/// The document `switches/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    pub name: Word,
    pub uuid: Uuid,
    /// Counts its changes, from 1.
    pub serial_no: u64,
    /// When it was made.
    pub ctime: Timestamp,
    /// When it was changed last.
    pub mtime: Timestamp,
    /// How it is reached.
    pub url: SwitchUrl,
    /// The rack whose agents reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<u32>,
    /// The nodes whose agents reach it, the first one first. Without these and a rack it is the master's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<NodeName>,
    /// Further words for its program, such as the kind of its operating system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<Word, String>,
    /// The Ethernet address by which LLDP names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAddress>,
    /// The VLANs that its ports may be in, where theirs do not say otherwise.
    #[serde(default = "VlanSet::all")]
    pub vlans: VlanSet,
    /// The ports that Gantry sets, by our names.
    #[serde(default)]
    pub ports: BTreeMap<Word, PortSpec>,
    /// Whether it is being removed: its ports come to rest, and nothing else is set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

/// A port as its switch has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSpec {
    /// Its name on the switch.
    pub name: String,
    /// Whether it is not available.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// The VLANs that it may be in; those of the switch where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlans: Option<VlanSet>,
    /// Whether it may carry packets with tags.
    #[serde(default = "yes")]
    pub trunk: bool,
}

const fn yes() -> bool {
    true
}

impl PortSpec {
    /// A port that may do all that its switch can.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), disabled: false, vlans: None, trunk: true }
    }
}

/// How Gantry logs in at a switch: the document `switch-access/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchAccess {
    pub switch: Word,
    /// The user, where the provider has users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password, or the private key (PEM) of `certificate`.
    pub sealed: Sealed,
    /// Our certificate, PEM, where the switch asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The authority that signed the switch's own, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

impl SwitchAccess {
    /// The purpose to which the secret is bound, so that it opens for no other switch.
    pub fn purpose(switch: &Word) -> String {
        format!("switch/{switch}")
    }
}

/// The way to a switch, which also says what it speaks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SwitchUrl {
    /// OVSDB (RFC 7047), and the bridge.
    Ovsdb { at: OvsdbAt, bridge: Word },
    /// A program on the agent's node that takes JSON and answers JSON.
    Command { program: Word },
}

/// The address of an OVSDB server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OvsdbAt {
    Tls { host: String, port: u16 },
    Tcp { host: String, port: u16 },
    Unix { path: String },
}

crate::text_form!(SwitchUrl);

/// A text that is no [`SwitchUrl`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no way to a switch; write ovsdb+ssl://HOST[:PORT]#BRIDGE, ovsdb+tcp://…, \
     ovsdb+unix:///PATH#BRIDGE, or command:PROGRAM"
)]
pub struct SwitchUrlError(String);

impl SwitchUrl {
    /// The word for what it speaks.
    pub const fn provider(&self) -> &'static str {
        match self {
            Self::Ovsdb { .. } => "ovsdb",
            Self::Command { .. } => "command",
        }
    }

    /// Whether the switch wants a certificate of ours.
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Ovsdb { at: OvsdbAt::Tls { .. }, .. })
    }
}

impl FromStr for SwitchUrl {
    type Err = SwitchUrlError;

    fn from_str(text: &str) -> Result<Self, SwitchUrlError> {
        let wrong = || SwitchUrlError(text.chars().take(80).collect());
        let word = |text: &str| text.parse::<Word>().map_err(|_none| wrong());
        if let Some(program) = text.strip_prefix("command:") {
            return Ok(Self::Command { program: word(program)? });
        }
        let (way, bridge) = text.split_once('#').ok_or_else(wrong)?;
        let bridge = word(bridge)?;
        let (scheme, rest) = way.split_once("://").ok_or_else(wrong)?;
        let at = match scheme {
            "ovsdb+unix" => {
                let is_path = rest.starts_with('/') && !rest.contains('\0') && rest.len() < 108;
                is_path.then(|| OvsdbAt::Unix { path: rest.to_owned() })
            }
            "ovsdb+ssl" => host_and_port(rest).map(|(host, port)| OvsdbAt::Tls { host, port }),
            "ovsdb+tcp" => host_and_port(rest).map(|(host, port)| OvsdbAt::Tcp { host, port }),
            _ => None,
        };
        Ok(Self::Ovsdb { at: at.ok_or_else(wrong)?, bridge })
    }
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => digits.parse().ok().filter(|port| *port > 0)?,
        None if port.is_empty() => OVSDB_PORT,
        None => return None,
    };
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let is_name = !host.is_empty() && host.len() <= HOST_MAX && host.bytes().all(is_good);
    let is_host = if text.starts_with('[') { host.parse::<IpAddr>().is_ok() } else { is_name };
    is_host.then(|| (host.to_owned(), port))
}

impl fmt::Display for SwitchUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ovsdb { at: OvsdbAt::Tls { host, port }, bridge } => {
                write!(f, "ovsdb+ssl://{}:{port}#{bridge}", in_brackets(host))
            }
            Self::Ovsdb { at: OvsdbAt::Tcp { host, port }, bridge } => {
                write!(f, "ovsdb+tcp://{}:{port}#{bridge}", in_brackets(host))
            }
            Self::Ovsdb { at: OvsdbAt::Unix { path }, bridge } => {
                write!(f, "ovsdb+unix://{path}#{bridge}")
            }
            Self::Command { program } => write!(f, "command:{program}"),
        }
    }
}

fn in_brackets(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// A fault of a switch's description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// There are more ports than a switch has.
    #[error("it has {0} ports; at most {PORTS_MAX} are taken")]
    Ports(usize),
    /// A name of a port that no switch knows.
    #[error(
        "port {port}: `{name}` is no name of a port on a switch: 1 to {REAL_NAME_MAX} visible characters"
    )]
    Name { port: Word, name: String },
    /// Two ports of ours are one of the switch's.
    #[error("ports {0} and {1} are both `{2}` on the switch")]
    Twice(Word, Word, String),
    /// Options that no program needs.
    #[error(
        "its options are more than {OPTIONS_MAX}, or one has more than {OPTION_CHARS_MAX} characters or a line break"
    )]
    Options,
    /// Only programs have options.
    #[error("options are for programs; `{0}` takes none")]
    NoOptions(&'static str),
    /// More agents are named than are of use.
    #[error("it names {0} agents; at most {AGENTS_MAX} are taken")]
    Agents(usize),
}

impl Switch {
    /// # Errors
    /// Its parts contradict each other, or are too many.
    pub fn check(&self) -> Result<(), SwitchError> {
        if self.ports.len() > PORTS_MAX {
            return Err(SwitchError::Ports(self.ports.len()));
        }
        if self.agents.len() > AGENTS_MAX {
            return Err(SwitchError::Agents(self.agents.len()));
        }
        let is_good = |text: &String| {
            text.chars().count() <= OPTION_CHARS_MAX && !text.chars().any(char::is_control)
        };
        if self.options.len() > OPTIONS_MAX || !self.options.values().all(is_good) {
            return Err(SwitchError::Options);
        }
        if !self.options.is_empty() && !matches!(self.url, SwitchUrl::Command { .. }) {
            return Err(SwitchError::NoOptions(self.url.provider()));
        }
        let mut names: BTreeMap<&str, &Word> = BTreeMap::new();
        for (port, spec) in &self.ports {
            let name = &spec.name;
            let is_visible = name.chars().all(|c| !c.is_control() && !c.is_whitespace());
            if name.is_empty() || name.len() > REAL_NAME_MAX || !is_visible {
                let name = name.chars().take(40).collect();
                return Err(SwitchError::Name { port: port.clone(), name });
            }
            if let Some(other) = names.insert(name, port) {
                return Err(SwitchError::Twice(other.clone(), port.clone(), name.clone()));
            }
        }
        Ok(())
    }

    /// The port with this name on the switch.
    pub fn port_named(&self, name: &str) -> Option<&Word> {
        self.ports.iter().find(|(_, spec)| spec.name == name).map(|(port, _)| port)
    }

    /// Why a port must not be set so, in words for whoever asked.
    pub fn refusal(&self, port: &Word, settings: &PortSettings) -> Option<String> {
        let key = || format!("{}/{port}", self.name);
        let Some(spec) = self.ports.get(port) else {
            return Some(format!("switch {} has no port {port}", self.name));
        };
        if spec.disabled {
            return Some(format!(
                "port {} is not available: switch {} says `disabled`",
                key(),
                self.name
            ));
        }
        if !settings.tagged.is_empty() && !spec.trunk {
            return Some(format!(
                "port {} carries no tagged packets: switch {} says so",
                key(),
                self.name
            ));
        }
        let allowed = spec.vlans.as_ref().unwrap_or(&self.vlans);
        settings.vlans().first_outside(allowed).map(|vlan| {
            format!(
                "VLAN {vlan} is not allowed on port {}; allowed are {allowed}, as switch {} says",
                key(),
                self.name
            )
        })
    }

    /// The keys of its ports.
    pub fn keys(&self) -> BTreeSet<PortKey> {
        let key = |port: &Word| PortKey { switch: self.name.clone(), port: port.clone() };
        self.ports.keys().map(key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_switches() {
        for (text, shown) in [
            ("ovsdb+ssl://tor-1#br0", "ovsdb+ssl://tor-1:6640#br0"),
            ("ovsdb+ssl://10.0.0.1:6641#br0", "ovsdb+ssl://10.0.0.1:6641#br0"),
            ("ovsdb+tcp://[fd00::1]:7#br-ex", "ovsdb+tcp://[fd00::1]:7#br-ex"),
            ("ovsdb+unix:///run/db.sock#br0", "ovsdb+unix:///run/db.sock#br0"),
            ("command:ansible", "command:ansible"),
        ] {
            let url: SwitchUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse(), Ok(url));
        }
        for wrong in [
            "",
            "tor-1",
            "ovsdb+ssl://tor-1",
            "ovsdb+ssl://#br0",
            "ovsdb+ssl://tor-1:0#br0",
            "ovsdb+ssl://tor-1:70000#br0",
            "ovsdb+ssl://to r#br0",
            "ovsdb+unix://run/db.sock#br0",
            "https://tor-1#br0",
            "command:/bin/sh",
            "command:../x",
        ] {
            assert!(wrong.parse::<SwitchUrl>().is_err(), "{wrong}");
        }
    }

    fn switch() -> Switch {
        let text = r#"{"name": "tor-1", "uuid": "00000000-0000-0000-0000-000000000001", "serial_no": 1,
            "ctime": [1, 0], "mtime": [1, 0], "url": "command:x", "vlans": "1-100",
            "ports": {"p1": {"name": "eth1"}, "p2": {"name": "eth2", "vlans": "5", "trunk": false},
                "p3": {"name": "eth3", "disabled": true}}}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_a_port_is_not_allowed() {
        let switch = switch();
        let refusal = |port: &str, settings: &str| {
            switch.refusal(&port.parse().unwrap(), &serde_json::from_str(settings).unwrap())
        };
        assert_eq!(refusal("p1", r#"{"untagged": 100, "tagged": "5-9"}"#), None);
        for (port, settings, told) in [
            (
                "p1",
                r#"{"untagged": 101}"#,
                "VLAN 101 is not allowed on port tor-1/p1; allowed are 1-100",
            ),
            ("p2", r#"{"untagged": 6}"#, "VLAN 6 is not allowed on port tor-1/p2; allowed are 5"),
            ("p2", r#"{"tagged": "5"}"#, "port tor-1/p2 carries no tagged packets"),
            ("p3", r#"{"untagged": 5}"#, "port tor-1/p3 is not available"),
            ("p9", r#"{"untagged": 5}"#, "switch tor-1 has no port p9"),
        ] {
            let why = refusal(port, settings).unwrap();
            assert!(why.starts_with(told), "{why}");
        }
    }

    #[test]
    fn one_port_of_a_switch_is_one_of_ours() {
        let mut switch = switch();
        assert_eq!(switch.check(), Ok(()));
        switch.ports.insert("p9".parse().unwrap(), PortSpec::new("eth1"));
        let error = switch.check().unwrap_err().to_string();
        assert_eq!(error, "ports p1 and p9 are both `eth1` on the switch");
        switch.ports.insert("p9".parse().unwrap(), PortSpec::new("eth 9"));
        assert!(matches!(switch.check(), Err(SwitchError::Name { .. })));
    }
}
