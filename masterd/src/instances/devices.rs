//! Core: NICs and disks as clients send them.

use std::net::IpAddr;

use model::error::ErrorCode;
use model::group::Group;
use model::instance::disk::DISK_MIB_MAX;
use model::instance::parameters::{DEFAULT, NIC, NONE, Parameters, mib, read};
use model::instance::settings::Told;
use model::instance::{DiskMode, InstanceSettings, Nic};
use model::network::Owner;
use model::opcode::network::ClaimSpec;
use model::{Exception, MacAddress, Uuid, Word};
use serde_json::Value;

use crate::config::Config;
use crate::units::wrong;

/// Longest name of a NIC or disk.
const NAME_CHARS_MAX: usize = 64;
/// Tries to find an Ethernet address that nobody has; each fails once in ten thousand times at most.
const MAC_TRIES_MAX: u128 = 64;

/// A NIC as a client wants it, with the claim on the address that it gets.
#[derive(Debug, Clone)]
pub(super) struct WantedNic {
    pub(super) nic: Nic,
    pub(super) claim: Option<ClaimSpec>,
}

/// The surroundings of a NIC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'c> {
    pub(super) config: &'c Config,
    pub(super) group: &'c Group,
    pub(super) settings: &'c InstanceSettings,
    pub(super) conflicts_check: bool,
    /// A number that nobody foresees.
    pub(super) seed: u128,
    /// Ethernet addresses that others get at the same time.
    pub(super) given: &'c [MacAddress],
}

fn text<'t>(told: &'t Told, name: &str) -> Result<Option<&'t str>, Exception> {
    match told.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(format!("{name}: {other} is not a text"))),
    }
}

/// The name of a NIC or disk: none, and the empty one, are no name.
pub(super) fn device_name(told: &Told) -> Result<Option<String>, Exception> {
    let Some(name) = text(told, "name")?.filter(|name| !["", NONE].contains(name)) else {
        return Ok(None);
    };
    let is_good = name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(|one| one.is_control() || one.is_whitespace() || one == '/')
        && name.parse::<i64>().is_err();
    match is_good {
        true => Ok(Some(name.to_owned())),
        false => Err(wrong(format!(
            "`{name}` is no name of a device: it has 1 to {NAME_CHARS_MAX} characters without spaces and \
             slashes, and is no number"
        ))),
    }
}

/// Reads a NIC over another one, which is new or is changed.
pub(super) fn nic(told: &Told, before: Nic, around: Around<'_>) -> Result<WantedNic, Exception> {
    const KNOWN: [&str; 10] =
        ["mac", "ip", "mode", "link", "vlan", "network", "name", "bridge", "hotplug", "vlans"];
    if let Some(unknown) = told.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(wrong(format!("there is no parameter `{unknown}` of NICs")));
    }
    let mut nic = before;
    if told.contains_key("name") {
        nic.name = device_name(told)?;
    }
    let network = text(told, "network")?;
    let network = match network {
        None => nic.network.clone(),
        Some(network) if ["", NONE].contains(&network) => None,
        Some(network) => Some(around.config.network(network)?.name.clone()),
    };
    let is_other_network = network != nic.network;
    nic.network = network;
    read_parameters(told, &mut nic, around, is_other_network)?;
    let claim = read_address(told, &mut nic, around, is_other_network)?;
    if let Some(mac) = text(told, "mac")? {
        nic.mac = mac_address(mac, &nic, around)?;
    }
    Ok(WantedNic { nic, claim })
}

/// Mode, link and VLAN: the network's, or those that are told.
fn read_parameters(
    told: &Told,
    nic: &mut Nic,
    around: Around<'_>,
    is_other_network: bool,
) -> Result<(), Exception> {
    let mut own: Told = ["mode", "link", "vlan"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), told.get(name)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    if let Some(bridge) = text(told, "bridge")? {
        if own.contains_key("link") {
            return Err(wrong("Cannot pass 'bridge' and 'link' at the same time"));
        }
        own.insert("link".to_owned(), bridge.into());
    }
    own.retain(|_, value| value != "auto");
    if let Some(name) = &nic.network {
        if !own.is_empty() {
            return Err(wrong("If network is given, no mode or link is allowed to be passed"));
        }
        let network = around.config.network(name.as_str())?;
        let Some(connection) = network.groups.get(&around.group.uuid) else {
            let text = format!("Network {name} is not connected to group {}", around.group.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        };
        nic.nicparams = Parameters::from([
            ("mode".to_owned(), serde_json::to_value(connection.mode).unwrap_or_default()),
            ("link".to_owned(), connection.link.as_str().into()),
            ("vlan".to_owned(), connection.vlan.as_str().into()),
        ]);
        return Ok(());
    }
    if is_other_network {
        nic.nicparams.clear();
    }
    let given = read(NIC, &own, false).map_err(|error| wrong(error.to_string()))?;
    nic.nicparams = given.over(&nic.nicparams);
    Ok(())
}

/// The address: a given one, one of the network's pools, or none.
fn read_address(
    told: &Told,
    nic: &mut Nic,
    around: Around<'_>,
    is_other_network: bool,
) -> Result<Option<ClaimSpec>, Exception> {
    let told = text(told, "ip")?;
    let mut wanted = None;
    let mut from_pool = false;
    match told {
        None if is_other_network => nic.ip = None,
        None => {}
        Some(none) if ["", NONE].contains(&none) => nic.ip = None,
        Some("pool") if nic.network.is_none() => {
            return Err(wrong("if ip=pool, parameter network must be passed too"));
        }
        Some("pool") => from_pool = true,
        Some("auto") => {
            let text = "ip=auto asks the resolver for the instance's name; give the address itself";
            return Err(wrong(text));
        }
        Some(address) => {
            let parsed = address.parse::<IpAddr>();
            let parsed =
                parsed.map_err(|_error| wrong(format!("Invalid IP address '{address}'")))?;
            nic.ip = Some(parsed);
            wanted = nic.ip;
        }
    }
    let mode = around.settings.nic_of(nic).get("mode").cloned().unwrap_or_default();
    if mode == "routed" && nic.ip.is_none() && !from_pool {
        return Err(wrong("Routed nic mode requires an ip address"));
    }
    if nic.network.is_none() {
        if let Some(address) = wanted.filter(|_| around.conflicts_check) {
            no_other_network(address, around)?;
            nobody_has(address, nic, around)?;
        }
        return Ok(None);
    }
    let network = nic.network.clone().filter(|_| from_pool || wanted.is_some());
    let owner = Owner::Nic(nic.uuid);
    Ok(network.map(|network| ClaimSpec { network, owner, address: wanted }))
}

/// Refuses an address that another NIC of the same link has: no network keeps count of it.
fn nobody_has(address: IpAddr, nic: &Nic, around: Around<'_>) -> Result<(), Exception> {
    let link = |nic: &Nic| around.settings.nic_of(nic).remove("link");
    let is_it = |other: &&Nic| {
        other.ip == Some(address) && other.uuid != nic.uuid && link(other) == link(nic)
    };
    for instance in around.config.instances.by.address.of(address) {
        if instance.nics.iter().any(|other| is_it(&other)) {
            let text = format!("IP address {address} is that of instance {}", instance.name);
            return Err(Exception::prereq(text, ErrorCode::ResourceNotUnique));
        }
    }
    Ok(())
}

/// Refuses an address that is of a network which the NIC is not in.
fn no_other_network(address: IpAddr, around: Around<'_>) -> Result<(), Exception> {
    let connected = around.config.networks.values().find(|network| {
        network.groups.contains_key(&around.group.uuid) && network.subnet_of(address).is_some()
    });
    match connected {
        None => Ok(()),
        Some(network) => Err(Exception::prereq(
            format!(
                "The requested IP address ({address}) belongs to network {}, but the target NIC does not",
                network.name
            ),
            ErrorCode::WrongState,
        )),
    }
}

/// The Ethernet address that is told, or one that nobody has.
fn mac_address(told: &str, nic: &Nic, around: Around<'_>) -> Result<MacAddress, Exception> {
    let is_taken = |mac: MacAddress| {
        around.given.contains(&mac) || around.config.instances.by.mac.of(mac).next().is_some()
    };
    if !["auto", "generate"].contains(&told) {
        let mac: MacAddress = told.parse().map_err(|error| wrong(format!("{error}")))?;
        if let Some(why) = mac.unusable() {
            return Err(wrong(format!("MAC address {mac} {why}")));
        }
        return match mac != nic.mac && is_taken(mac) {
            false => Ok(mac),
            true => {
                let text = format!("MAC address {mac} already in use in cluster");
                Err(Exception::prereq(text, ErrorCode::ResourceNotUnique))
            }
        };
    }
    let network = nic.network.as_ref().and_then(|name| around.config.networks.get(name));
    let prefix = network.and_then(|network| network.mac_prefix.as_deref());
    let prefix = prefix.unwrap_or(around.config.cluster.mac_prefix.as_str());
    let made = |turn: u128| {
        let random = around.seed.wrapping_add(turn.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060));
        let [.., a, b, c, _] = (random ^ (random >> 64)).to_le_bytes();
        format!("{prefix}:{a:02x}:{b:02x}:{c:02x}").parse::<MacAddress>().ok()
    };
    (0..MAC_TRIES_MAX).filter_map(made).find(|mac| !is_taken(*mac)).ok_or_else(|| {
        let text = format!("no Ethernet address that begins with {prefix} is free");
        Exception::prereq(text, ErrorCode::InsufficientResources)
    })
}

/// A new NIC before anything is read of it.
pub(super) fn new_nic(uuid: Uuid) -> Nic {
    Nic {
        uuid,
        name: None,
        mac: MacAddress::new([0; 6]),
        ip: None,
        network: None,
        nicparams: Parameters::new(),
    }
}

/// A disk as a client wants it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WantedDisk {
    pub(super) name: Option<String>,
    /// MiB.
    pub(super) size: u64,
    pub(super) mode: DiskMode,
    pub(super) spindles: Option<u32>,
}

/// Most spindles of a disk.
const SPINDLES_MAX: u64 = 1_024;

/// Reads a new disk; `usual` is its size where none is told.
pub(super) fn disk(told: &Told, template: &str, usual: i64) -> Result<WantedDisk, Exception> {
    const KNOWN: [&str; 11] = [
        "size", "mode", "name", "spindles", "access", "vg", "metavg", "adopt", "provider", "uuid",
        "dev_type",
    ];
    if let Some(unknown) = told.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(wrong(format!(
            "there is no parameter `{unknown}` of disks of template {template}"
        )));
    }
    for name in ["vg", "metavg", "adopt", "provider"] {
        if told.get(name).is_some_and(|value| !value.is_null()) {
            return Err(wrong(format!("disks of template {template} take no parameter `{name}`")));
        }
    }
    Ok(WantedDisk {
        name: device_name(told)?,
        size: disk_size(told.get("size"), usual)?,
        mode: disk_mode(told)?.unwrap_or_default(),
        spindles: spindles(told)?,
    })
}

/// A size in MiB, also written as `4G`; `auto` is the usual one.
pub(super) fn disk_size(told: Option<&Value>, usual: i64) -> Result<u64, Exception> {
    let size = match told {
        None | Some(Value::Null) => return Err(wrong("Missing disk size")),
        Some(Value::String(text)) if text == "auto" || text == DEFAULT => Some(usual),
        Some(Value::String(text)) => mib(text),
        Some(value) => value.as_i64(),
    };
    let size = size.and_then(|size| u64::try_from(size).ok());
    size.filter(|size| (1..=DISK_MIB_MAX).contains(size)).ok_or_else(|| {
        let told = told.cloned().unwrap_or_default();
        wrong(format!(
            "Invalid disk size '{told}': it is a number of MiB from 1 to {DISK_MIB_MAX}, or one such as 4G"
        ))
    })
}

pub(super) fn disk_mode(told: &Told) -> Result<Option<DiskMode>, Exception> {
    let Some(mode) = told.get("mode").filter(|mode| !mode.is_null()) else { return Ok(None) };
    let read = serde_json::from_value(mode.clone());
    read.map(Some)
        .map_err(|_error| wrong(format!("Invalid disk access mode '{mode}': it is rw or ro")))
}

fn spindles(told: &Told) -> Result<Option<u32>, Exception> {
    let Some(value) = told.get("spindles").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let number = number.filter(|number| (1..=SPINDLES_MAX).contains(number));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number
        .map(Some)
        .ok_or_else(|| wrong(format!("spindles: {value} is not a number from 1 to {SPINDLES_MAX}")))
}

/// The names that claims of NICs have are words; that of a network is one already.
pub(super) fn claims_of<'n>(nics: impl IntoIterator<Item = &'n Nic>) -> Vec<(Word, Owner)> {
    let claim = |nic: &Nic| Some((nic.network.clone()?, Owner::Nic(nic.uuid)));
    nics.into_iter().filter_map(claim).collect()
}
