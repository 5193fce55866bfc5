//! Core: management controllers of machines: how they are reached, and what they do with the power.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::enrol::Fingerprint;
use crate::inventory::Inventory;
use crate::serial::Serial;
use crate::time::Timestamp;
use crate::vault::Sealed;

/// Longest name of a host in a [`BmcUrl`]: that of the domain name system.
const HOST_MAX: usize = 253;

crate::words! {
    /// Whether a machine runs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    PowerState {
        /// It has power and runs.
        On = "on",
        Off = "off",
    }
}

crate::words! {
    /// An action on the power of a machine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    PowerAction {
        /// Switch it on.
        On = "on",
        /// Switch it off at once.
        Off = "off",
        /// Ask its operating system to switch it off.
        SoftOff = "soft-off",
        /// Switch it off at once, and on again.
        Cycle = "cycle",
    }
}

impl PowerAction {
    /// How the machine is afterwards.
    pub const fn ends_in(self) -> PowerState {
        match self {
            Self::On | Self::Cycle => PowerState::On,
            Self::Off | Self::SoftOff => PowerState::Off,
        }
    }
}

crate::words! {
    /// The source from which a machine boots at its next start, and only then.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    BootOnce {
        /// The network: UEFI HTTP boot where the controller knows it, PXE otherwise.
        Network = "network",
        Disk = "disk",
    }
}

/// The language of a management controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BmcProtocol {
    /// DMTF's Redfish (DSP0266), over HTTPS.
    RedfishHttps,
    /// The same without TLS: for controllers in a protected network, and for simulators.
    RedfishHttp,
    /// IPMI 2.0 over LAN (RMCP+).
    Ipmi,
}

impl BmcProtocol {
    const ALL: [Self; 3] = [Self::RedfishHttps, Self::RedfishHttp, Self::Ipmi];

    const fn scheme(self) -> &'static str {
        match self {
            Self::RedfishHttps => "https",
            Self::RedfishHttp => "http",
            Self::Ipmi => "ipmi",
        }
    }

    /// The port that the standard gives it.
    pub const fn port(self) -> u16 {
        match self {
            Self::RedfishHttps => 443,
            Self::RedfishHttp => 80,
            Self::Ipmi => 623,
        }
    }
}

/// The address of a management controller: `https://HOST[:PORT]`, `http://…`, `ipmi://…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BmcUrl {
    /// What it speaks.
    pub protocol: BmcProtocol,
    /// Its name or address; an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
}

/// A text that is no [`BmcUrl`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no address of a management controller; write https://HOST[:PORT], http://… for Redfish \
     without TLS, or ipmi://HOST[:PORT]"
)]
pub struct BmcUrlError(String);

impl BmcUrl {
    /// Whether a password sent there is read by nobody between.
    pub const fn is_secured(&self) -> bool {
        !matches!(self.protocol, BmcProtocol::RedfishHttp)
    }

    /// The host's address, where it has no name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The host as it stands in URLs: an IPv6 address in brackets.
    pub fn url_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl FromStr for BmcUrl {
    type Err = BmcUrlError;

    fn from_str(text: &str) -> Result<Self, BmcUrlError> {
        let wrong = || BmcUrlError(text.chars().take(80).collect());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let mut all = BmcProtocol::ALL.into_iter();
        let protocol = all.find(|protocol| protocol.scheme() == scheme).ok_or_else(wrong)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None if port.is_empty() => protocol.port(),
            None => return Err(wrong()),
        };
        let is_name = |host: &str| {
            let good = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
            !host.starts_with('-') && !host.is_empty() && host.bytes().all(good)
        };
        let is_host = match rest.starts_with('[') {
            true => host.parse::<std::net::Ipv6Addr>().is_ok(),
            false => is_name(host),
        };
        if host.len() > HOST_MAX || !is_host {
            return Err(wrong());
        }
        Ok(Self { protocol, host: host.to_owned(), port })
    }
}

impl fmt::Display for BmcUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.scheme(), self.url_host())?;
        if self.port == self.protocol.port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

crate::text_form!(BmcUrl);

/// Which certificate a controller may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BmcTrust {
    /// One of a public authority, for its name.
    Authority,
    /// This one alone: most controllers have signed theirs themselves.
    Certificate(Fingerprint),
    /// Any; whoever sits between may read the password.
    #[default]
    Any,
}

crate::words! {
    /// The level at which a user acts (IPMI 2.0, 6.8). Switching the power takes an operator.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    BmcPrivilege {
        /// It reads.
        User = "user",
        /// It switches the power, too.
        Operator = "operator",
        /// It may do everything.
        Administrator = "administrator",
    }
}

/// The document `bmcs/SERIAL`: how the management controller of a machine is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BmcAccess {
    /// The machine.
    pub serial: Serial,
    /// Where it is.
    pub url: BmcUrl,
    /// Which certificate it may show.
    pub trust: BmcTrust,
    /// The user by which it knows us.
    pub user: String,
    /// The level at which that user acts; none where it is an administrator, or where no levels are
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privilege: Option<BmcPrivilege>,
    /// The user's password.
    pub sealed: Sealed,
    /// When this was set.
    pub ctime: Timestamp,
}

impl BmcAccess {
    /// The purpose to which the sealed password is bound, so that it opens for no other machine.
    pub fn purpose(serial: &Serial) -> String {
        format!("bmc/{}", serial.escaped())
    }
}

/// The document `inspections/SERIAL`: what a machine was found to be made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The machine.
    pub serial: Serial,
    /// When it was looked at last.
    pub at: Timestamp,
    /// Who told.
    pub source: Source,
    /// What was found.
    pub inventory: Inventory,
    /// The last inventory from the other source: two sources name parts differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Box<Inventory>>,
    /// When other hardware was found, unless that was accepted since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Timestamp>,
    /// The changes until then, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// Changes of hardware that are kept: more than a machine has parts that break before somebody looks.
/// The oldest are forgotten.
pub const HARDWARE_CHANGES_MAX: usize = 64;

impl Inspection {
    /// The ends of its cables as LLDP told them: the switch, and the port by its name or description.
    pub fn neighbours(&self) -> BTreeSet<(String, String)> {
        let ends = self.inventory.cards.iter().filter_map(|card| card.neighbour.as_ref());
        let named = ends.flat_map(|end| {
            let names = [&end.port, &end.port_description].into_iter();
            let names = names.filter(|name| !name.is_empty());
            names.map(|name| (end.chassis.to_ascii_lowercase(), name.clone()))
        });
        named.collect()
    }

    /// The same after another look.
    pub fn after(
        before: Option<&Self>,
        serial: Serial,
        at: Timestamp,
        (source, inventory): (Source, Inventory),
    ) -> Self {
        let (same, other) = match before {
            Some(before) if before.source == source => {
                (Some(&before.inventory), before.other.clone())
            }
            Some(before) => (before.other.as_deref(), Some(Box::new(before.inventory.clone()))),
            None => (None, None),
        };
        let inventory = match same {
            Some(same) => inventory.completed(same),
            None => inventory,
        };
        let fresh = same.map(|same| same.changes(&inventory)).unwrap_or_default();
        let changed = if fresh.is_empty() { before.and_then(|b| b.changed) } else { Some(at) };
        let mut changes = before.map(|before| before.changes.clone()).unwrap_or_default();
        changes.retain(|known| !fresh.contains(known));
        changes.extend(fresh);
        changes.drain(..changes.len().saturating_sub(HARDWARE_CHANGES_MAX));
        Self { serial, at, source, inventory, other, changed, changes }
    }

    /// The same where its changes are accepted.
    pub fn accepted(&self) -> Self {
        Self { changed: None, changes: Vec::new(), ..self.clone() }
    }
}

/// The source of an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Its management controller.
    Bmc,
    /// A ramdisk that runs on it.
    Ramdisk,
}

/// A sensor of a machine, as its management controller tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensor {
    pub name: String,
    /// Its reading with the unit, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<String>,
    /// `OK`, `Warning`, `Critical`, or the controller's own word.
    pub health: String,
}

/// Power and health of a machine, as its management controller tells them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Whether it runs.
    pub power: PowerState,
    /// `OK`, `Warning`, `Critical`, where the controller has one word for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    #[serde(default)]
    pub sensors: Vec<Sensor>,
    /// Why there may be more sensors than those, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_print() {
        for (text, protocol, host, port, printed) in [
            ("https://10.72.17.4", BmcProtocol::RedfishHttps, "10.72.17.4", 443, None),
            (
                "https://bmc1.example:8443/",
                BmcProtocol::RedfishHttps,
                "bmc1.example",
                8443,
                Some("https://bmc1.example:8443"),
            ),
            ("http://127.0.0.1:8000", BmcProtocol::RedfishHttp, "127.0.0.1", 8000, None),
            ("ipmi://[fd00::1]", BmcProtocol::Ipmi, "fd00::1", 623, None),
            ("ipmi://[fd00::1]:6230", BmcProtocol::Ipmi, "fd00::1", 6230, None),
        ] {
            let url: BmcUrl = text.parse().unwrap();
            assert_eq!((url.protocol, url.host.as_str(), url.port), (protocol, host, port));
            assert_eq!(url.to_string(), printed.unwrap_or(text));
        }
        for wrong in [
            "",
            "10.1.1.1",
            "ftp://x",
            "https://",
            "https://a b",
            "https://x:0",
            "https://x:70000",
            "https://user@x",
            "https://x/redfish",
            "ipmi://-h",
            "https://[x]",
            "https://[fd00::1]x",
            "https://x?y",
            "https://fd00::1",
        ] {
            assert!(wrong.parse::<BmcUrl>().is_err(), "{wrong}");
        }
    }
}
