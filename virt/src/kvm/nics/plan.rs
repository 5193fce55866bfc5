//! Core: what becomes of a card: its interface, the place that it gets, and its filter.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::instance::launch::NicLaunch;
use serde_json::Value;
use stdx::net::tap::NAME_BYTES_MAX;

use super::filter;

/// The numbers that a VLAN may have (IEEE 802.1Q keeps 0 and 4095).
const VLANS: std::ops::RangeInclusive<u16> = 1..=4_094;
/// Routing tables whose numbers every kernel has (`linux/rtnetlink.h`).
const TABLES: [(&str, u32); 3] = [("default", 253), ("main", MAIN_TABLE), ("local", 255)];
/// The routing table that is asked for every packet, without a rule.
pub(crate) const MAIN_TABLE: u32 = 254;
/// The first byte of an interface's address: a bridge takes the lowest address of its ports as its own.
const ADDRESS_BYTE: u8 = 0xfe;
/// The first byte where the card itself has that one.
const OTHER_ADDRESS_BYTE: u8 = 0xfa;

/// A card that is not connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CardError {
    #[error(
        "mode `{0}` is none that a node knows: it connects bridged, routed and openvswitch cards"
    )]
    Mode(String),
    #[error(
        "link `{0}` cannot be the name of a bridge: these have up to {NAME_BYTES_MAX} letters, digits, or `.`, `_` and `-`"
    )]
    Link(String),
    #[error(
        "VLAN `{0}` does not read: `.100` is VLAN 100 without a tag, `:1:2` is VLANs 1 and 2 with tags, `.100:1:2` is both"
    )]
    Vlan(String),
    #[error("a routed card needs an address: give it one, as by `--net N:modify,ip=ADDRESS`")]
    NoAddress,
    #[error(
        "link `{0}` is no routing table of this node: name one of /etc/iproute2/rt_tables, or give a number, or nothing for the main one"
    )]
    NoTable(String),
    #[error("there is no bridge {0} on this node: make it, or give the card another link")]
    NoBridge(String),
    #[error(
        "{0} is no Linux bridge: give the card another link, or mode openvswitch if it is a bridge of Open vSwitch"
    )]
    NoLinuxBridge(String),
    #[error(
        "bridge {0} cannot keep VLANs apart: this node's kernel is built without CONFIG_BRIDGE_VLAN_FILTERING"
    )]
    NoVlans(String),
    #[error(
        "bridge {0} does not keep VLANs apart: `ip link set {0} type bridge vlan_filtering 1` makes it"
    )]
    VlansOff(String),
}

/// The VLANs of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vlans {
    /// The one whose frames have no tag.
    pub(super) untagged: Option<u16>,
    /// Those whose frames have their tag.
    pub(super) tagged: BTreeSet<u16>,
}

/// The way of a card's frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Into a bridge of the kernel.
    Bridge { bridge: String, vlans: Option<Vlans> },
    /// Into a bridge of Open vSwitch.
    Switch { bridge: String, vlans: Option<Vlans> },
    /// Nowhere but through the host, which routes its packets.
    Routed { address: IpAddr, table: u32 },
}

/// All that is done for a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CardPlan {
    pub(super) interface: String,
    /// The address of the interface itself.
    pub(super) address: [u8; 6],
    pub(crate) place: Place,
    /// Rules of nftables.
    pub(super) filter: String,
}

/// A bridge as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundLink {
    pub(super) index: u32,
    pub(super) mtu: u32,
    pub(super) is_bridge: bool,
    /// Whether it keeps VLANs apart; none where the kernel cannot.
    pub(super) has_vlans: Option<bool>,
    /// The VLAN that each of its ports gets by itself.
    pub(super) usual_vlan: u16,
}

/// A change of the VLANs of a bridge's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VlanStep {
    Remove(u16),
    Tagged(u16),
    Untagged(u16),
}

/// The name of a card's interface: unique on the host, and told by the card's UUID.
pub(crate) fn interface(nic: &NicLaunch) -> String {
    let digits =
        nic.uuid.to_string().chars().filter(char::is_ascii_hexdigit).take(11).collect::<String>();
    format!("gnt{digits}")
}

/// Decides what is done for a card. `tables` is the text of the node's list of routing tables.
///
/// # Errors
/// Its mode, link, VLAN or address is none with which it can be connected.
pub(crate) fn plan(nic: &NicLaunch, tables: &str) -> Result<CardPlan, CardError> {
    let (link, vlan) = (parameter(nic, "link"), parameter(nic, "vlan"));
    let place = match parameter(nic, "mode") {
        "bridged" => Place::Bridge { bridge: bridge(link)?, vlans: vlans(vlan)? },
        "openvswitch" => Place::Switch { bridge: bridge(link)?, vlans: vlans(vlan)? },
        "routed" => {
            let address = nic.ip.ok_or(CardError::NoAddress)?;
            Place::Routed { address, table: table(link, tables)? }
        }
        other => return Err(CardError::Mode(other.to_owned())),
    };
    let interface = interface(nic);
    let is_routed = matches!(place, Place::Routed { .. });
    let filter = filter::rules(&interface, nic.mac, nic.ip, is_routed);
    Ok(CardPlan { interface, address: address(nic.mac.bytes()), place, filter })
}

/// A parameter of a card; nothing where it has no value.
pub(crate) fn parameter<'a>(nic: &'a NicLaunch, name: &str) -> &'a str {
    nic.nicparams.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn address([first, rest @ ..]: [u8; 6]) -> [u8; 6] {
    let other = if first == ADDRESS_BYTE { OTHER_ADDRESS_BYTE } else { ADDRESS_BYTE };
    let [b, c, d, e, f] = rest;
    [other, b, c, d, e, f]
}

fn bridge(link: &str) -> Result<String, CardError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = (1..=NAME_BYTES_MAX).contains(&link.len())
        && link.chars().all(is_plain)
        // Programs would take it for an option, and the kernel takes no name of dots.
        && !link.starts_with(['-', '.']);
    if is_name { Ok(link.to_owned()) } else { Err(CardError::Link(link.to_owned())) }
}

/// Reads VLANs as Ganeti writes them; none where nothing is said.
fn vlans(text: &str) -> Result<Option<Vlans>, CardError> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || CardError::Vlan(text.to_owned());
    let number = |word: &str| {
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|_| is_number);
        number.filter(|number| VLANS.contains(number)).ok_or_else(wrong)
    };
    let mut words = text.split(':');
    let first = words.next().unwrap_or_default();
    let untagged = match first {
        "" => None,
        word => Some(number(word.strip_prefix('.').unwrap_or(word))?),
    };
    let tagged = words.map(number).collect::<Result<BTreeSet<u16>, _>>()?;
    // A frame of a VLAN has a tag or has none.
    if untagged.is_some_and(|untagged| tagged.contains(&untagged)) {
        return Err(wrong());
    }
    Ok(Some(Vlans { untagged, tagged }))
}

/// The number of a routing table, whose list reads as that of `ip`: a number and a name in each line.
fn table(link: &str, tables: &str) -> Result<u32, CardError> {
    if link.is_empty() {
        return Ok(MAIN_TABLE);
    }
    let listed = tables.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let number = words.next()?;
        words.next().filter(|name| *name == link)?;
        number.parse().ok()
    });
    let usual = || TABLES.iter().find(|(name, _)| *name == link).map(|(_, number)| *number);
    let number = link.parse().ok().or(listed).or_else(usual);
    number.filter(|number| *number != 0).ok_or_else(|| CardError::NoTable(link.to_owned()))
}

/// Decides which VLANs the port of a bridge gets.
///
/// # Errors
/// It is no bridge, or it does not keep VLANs apart.
pub(super) fn joins(
    bridge: &str,
    found: &FoundLink,
    vlans: Option<&Vlans>,
) -> Result<Vec<VlanStep>, CardError> {
    if !found.is_bridge {
        return Err(CardError::NoLinuxBridge(bridge.to_owned()));
    }
    let Some(vlans) = vlans else { return Ok(Vec::new()) };
    match found.has_vlans {
        None => return Err(CardError::NoVlans(bridge.to_owned())),
        Some(false) => return Err(CardError::VlansOff(bridge.to_owned())),
        Some(true) => {}
    }
    let usual = Some(found.usual_vlan).filter(|usual| *usual != 0);
    let removed = usual.map(VlanStep::Remove).into_iter();
    let untagged = vlans.untagged.map(VlanStep::Untagged);
    let tagged = vlans.tagged.iter().copied().map(VlanStep::Tagged);
    Ok(removed.chain(untagged).chain(tagged).collect())
}

/// The VLANs of a port in the words of Open vSwitch: columns of its table `Port`.
pub(super) fn columns(vlans: Option<&Vlans>) -> Vec<String> {
    let Some(Vlans { untagged, tagged }) = vlans else { return Vec::new() };
    let trunks = tagged.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    match untagged {
        Some(vlan) if tagged.is_empty() => vec![format!("tag={vlan}"), "vlan_mode=access".into()],
        Some(vlan) => {
            // Without the mode, a port with a tag carries nothing else.
            vec![
                format!("tag={vlan}"),
                format!("trunks={trunks}"),
                "vlan_mode=native-untagged".into(),
            ]
        }
        None => vec![format!("trunks={trunks}"), "vlan_mode=trunk".into()],
    }
}

#[cfg(test)]
mod tests;
