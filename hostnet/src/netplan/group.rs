//! Core: what the groups of netplan's devices have of their own.

use model::json::Malformed;

use super::Names;
use super::device::{Device, Parameters, Scalar};
use crate::model::address::ip;
use crate::model::link::{Bond, BondMode, BondOption, Kind, LinkName, Tuning, VXLAN_PORT, Vxlan};
use crate::model::written::{self, number, read_mac, word, wrong};

/// A group of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Ethernets,
    Bonds,
    Bridges,
    Vlans,
    Tunnels,
    DummyDevices,
}

/// The name that a device gets.
pub(super) fn named(place: &str, id: &str, names: &Names) -> Result<LinkName, Malformed> {
    let name = names.get(id).cloned();
    name.ok_or_else(|| wrong(place, format!("there is no device {}", id.escape_debug())))
}

impl Group {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ethernets => "ethernets",
            Self::Bonds => "bonds",
            Self::Bridges => "bridges",
            Self::Vlans => "vlans",
            Self::Tunnels => "tunnels",
            Self::DummyDevices => "dummy-devices",
        }
    }

    /// Takes out of a device what makes it one of its group.
    pub(super) fn kind(
        self,
        place: &str,
        id: &str,
        device: &mut Device,
        names: &Names,
    ) -> Result<Kind, Malformed> {
        let at = |field: &str| format!("{place}.{field}");
        let missing = |field: &str| wrong(&at(field), "is missing");
        Ok(match self {
            Self::Ethernets => card(place, id, device)?,
            Self::DummyDevices => Kind::Dummy,
            Self::Vlans => {
                let id = device.id.take().ok_or_else(|| missing("id"))?;
                let link = device.link.take().ok_or_else(|| missing("link"))?;
                Kind::Vlan {
                    id: number(&at("id"), id, 1..=4094)?,
                    parent: named(&at("link"), &link, names)?,
                }
            }
            Self::Bridges => bridge(place, device, names)?,
            Self::Bonds => {
                let members = members(place, device, names)?;
                let parameters = device.parameters.take().unwrap_or_default();
                match device.openvswitch.take() {
                    Some(ovs) => Kind::OvsBond {
                        members,
                        primary: None,
                        options: ovs_options(place, parameters, ovs.lacp)?,
                    },
                    None => Kind::Bond(bond(&at("parameters"), members, parameters, names)?),
                }
            }
            Self::Tunnels => Kind::Vxlan(tunnel(place, device, names)?),
        })
    }
}

/// A card is found by its address, or by the name that it has.
fn card(place: &str, id: &str, device: &mut Device) -> Result<Kind, Malformed> {
    let (matches, set_name) = (device.matches.take(), device.set_name.take());
    let place = format!("{place}.match");
    let Some(matches) = matches else {
        return match set_name {
            Some(_) => Err(wrong(&place, "`set-name` needs the `macaddress` of a card")),
            None => Ok(Kind::Ethernet { permanent_mac: None }),
        };
    };
    let is_own = |name: &String| name == id || Some(name) == set_name.as_ref();
    if let Some(name) = matches.name.filter(|name| !is_own(name)) {
        let why = format!("`{}`: a card is found by its `macaddress` here", name.escape_debug());
        return Err(wrong(&format!("{place}.name"), why));
    }
    let mac = matches.macaddress.map(|text| read_mac(&format!("{place}.macaddress"), &text));
    Ok(Kind::Ethernet { permanent_mac: mac.transpose()? })
}

fn members(place: &str, device: &mut Device, names: &Names) -> Result<Vec<LinkName>, Malformed> {
    let list = device.interfaces.take().unwrap_or_default();
    let list = list.iter().enumerate();
    list.map(|(at, id)| named(&format!("{place}.interfaces[{at}]"), id, names)).collect()
}

fn bridge(place: &str, device: &mut Device, names: &Names) -> Result<Kind, Malformed> {
    let members = members(place, device, names)?;
    let mut parameters = device.parameters.take().unwrap_or_default();
    let stp = parameters.stp.take();
    if !parameters.is_empty() {
        return Err(wrong(
            &format!("{place}.parameters"),
            "of a bridge, `stp` alone is known here",
        ));
    }
    match device.openvswitch.take() {
        Some(ovs) if stp.is_some() || ovs.lacp.is_some() => {
            let why = "options of a bridge of Open vSwitch have no counterpart here";
            Err(wrong(&format!("{place}.openvswitch"), why))
        }
        Some(_) => Ok(Kind::OvsBridge { members, primary: None }),
        None => Ok(Kind::Bridge { members, stp }),
    }
}

fn bond(
    place: &str,
    members: Vec<LinkName>,
    parameters: Parameters,
    names: &Names,
) -> Result<Bond, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    if parameters.stp.is_some() {
        return Err(wrong(&at("stp"), "a bond has none"));
    }
    let mode = parameters.mode.map(|text| word(&at("mode"), &text)).transpose()?;
    let lacp_rate = parameters.lacp_rate.map(|text| word(&at("lacp-rate"), &text)).transpose()?;
    let policy = parameters.transmit_hash_policy;
    let policy = policy.map(|text| word(&at("transmit-hash-policy"), &text)).transpose()?;
    let primary = parameters.primary.map(|id| named(&at("primary"), &id, names)).transpose()?;
    let mut tuning = Tuning::default();
    for (option, text) in [
        (BondOption::UpDelay, parameters.up_delay.map(Scalar::into_ms)),
        (BondOption::DownDelay, parameters.down_delay.map(Scalar::into_ms)),
        (BondOption::ArpInterval, parameters.arp_interval.map(Scalar::into_ms)),
        (BondOption::ArpIpTargets, parameters.arp_ip_targets.map(|list| list.join(","))),
        (BondOption::MinLinks, parameters.min_links.map(Scalar::into_text)),
        (BondOption::AdSelect, parameters.ad_select),
        (BondOption::FailOverMac, parameters.fail_over_mac_policy),
    ] {
        if let Some(text) = text {
            let set = tuning.set(option, &text);
            set.map_err(|why| wrong(&at(option.names().netplan), why))?;
        }
    }
    let miimon_at = at("mii-monitor-interval");
    let miimon = parameters.mii_monitor_interval.map(Scalar::into_ms);
    let miimon = miimon.map(|text| {
        let ms = text.parse().map_err(|_e| wrong(&miimon_at, format!("`{text}` is no time")))?;
        number(&miimon_at, ms, 0..=60_000)
    });
    Ok(Bond {
        members,
        // The default of netplan's renderers.
        mode: mode.unwrap_or(BondMode::BalanceRr),
        miimon_ms: miimon.transpose()?,
        lacp_rate,
        xmit_hash_policy: policy,
        primary,
        tuning,
    })
}

/// The options of a bond of Open vSwitch, as os-net-config has them.
fn ovs_options(
    place: &str,
    mut parameters: Parameters,
    lacp: Option<String>,
) -> Result<Option<String>, Malformed> {
    let mode = parameters.mode.take();
    if !parameters.is_empty() {
        let why = "of a bond of Open vSwitch, `mode` alone is known here";
        return Err(wrong(&format!("{place}.parameters"), why));
    }
    let is_word = |text: &String| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if let Some(odd) = mode.iter().chain(&lacp).find(|text| !is_word(text)) {
        return Err(wrong(place, format!("`{}` is no option", odd.escape_debug())));
    }
    let mode = mode.map(|mode| format!("bond_mode={mode}"));
    let options: Vec<String> =
        mode.into_iter().chain(lacp.map(|lacp| format!("lacp={lacp}"))).collect();
    Ok(Some(options.join(" ")).filter(|text| !text.is_empty()))
}

fn tunnel(place: &str, device: &mut Device, names: &Names) -> Result<Vxlan, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let mode = device.mode.take();
    if mode.as_deref() != Some("vxlan") {
        return Err(wrong(&at("mode"), "of the tunnels, vxlan alone has a counterpart here"));
    }
    let vni = device.id.take().ok_or_else(|| wrong(&at("id"), "is missing"))?;
    let address = |field: &str, text: Option<String>| {
        text.map(|text| ip(&text).map_err(|why| wrong(&at(field), why))).transpose()
    };
    let (local, remote) =
        (address("local", device.local.take())?, address("remote", device.remote.take())?);
    if local.zip(remote).is_some_and(|(local, remote)| local.is_ipv4() != remote.is_ipv4()) {
        return Err(wrong(&at("remote"), "it is of another family than `local`"));
    }
    let link = device.link.take();
    let port = device.port.take().map(|port| number(&at("port"), port, 1..=65_535)).transpose()?;
    Ok(Vxlan {
        vni: number(&at("id"), vni, 0..=0xFF_FFFF)?,
        parent: link.map(|id| named(&at("link"), &id, names)).transpose()?,
        local,
        remote,
        port: port.unwrap_or(VXLAN_PORT),
    })
}

/// Refuses options that the group of the device does not have.
pub(super) fn nothing_is_left(place: &str, device: &Device) -> Result<(), Malformed> {
    let left = [
        ("match", device.matches.is_some()),
        ("set-name", device.set_name.is_some()),
        ("interfaces", device.interfaces.is_some()),
        ("parameters", device.parameters.is_some()),
        ("openvswitch", device.openvswitch.is_some()),
        ("id", device.id.is_some()),
        ("link", device.link.is_some()),
        ("mode", device.mode.is_some()),
        ("local", device.local.is_some()),
        ("remote", device.remote.is_some()),
        ("port", device.port.is_some()),
    ];
    written::nothing_is_left(place, &left, "has no counterpart on such a device here")
}
