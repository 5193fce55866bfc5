//! Core: what only some types of nmstate's interfaces have.

use model::json::Malformed;

use super::interface::{Aggregation, Bridge, Interface, OvsAggregation, Scalar};
use super::name;
use crate::model::address::ip;
use crate::model::link::{Bond, Kind, Link, LinkName, MacvlanMode, Tuning, VXLAN_PORT, Vxlan};
use crate::model::written::{self, number, set_bond_option, word_or_number, wrong};

/// Takes out of an interface what makes it one of its type, with the bonds of Open vSwitch in it.
pub(super) fn kind(place: &str, interface: &mut Interface) -> Result<(Kind, Vec<Link>), Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let missing = |field: &str| wrong(&at(field), "is missing");
    let kind = match interface.kind.as_deref().unwrap_or("ethernet") {
        "ethernet" => Kind::Ethernet { permanent_mac: None },
        "dummy" => Kind::Dummy,
        "bond" => {
            let own = interface.link_aggregation.take();
            let own = own.ok_or_else(|| missing("link-aggregation"))?;
            Kind::Bond(bond(&at("link-aggregation"), own)?)
        }
        "vlan" => {
            let own = interface.vlan.take().ok_or_else(|| missing("vlan"))?;
            let id = own.id.ok_or_else(|| missing("vlan.id"))?;
            Kind::Vlan {
                id: number(&at("vlan.id"), id, 1..=4094)?,
                parent: name(&at("vlan.base-iface"), &own.base_iface)?,
            }
        }
        "linux-bridge" => bridge(&at("bridge"), interface.bridge.take())?,
        "ovs-bridge" => return ovs_bridge(place, interface),
        "mac-vlan" => {
            let own = interface.mac_vlan.take().ok_or_else(|| missing("mac-vlan"))?;
            if own.promiscuous == Some(false) {
                let why = "`false` has no counterpart here";
                return Err(wrong(&at("mac-vlan.promiscuous"), why));
            }
            let mode: MacvlanMode = word_or_number(&at("mac-vlan.mode"), &own.mode)?;
            Kind::Macvlan { parent: name(&at("mac-vlan.base-iface"), &own.base_iface)?, mode }
        }
        "vxlan" => Kind::Vxlan(vxlan(&at("vxlan"), interface)?),
        other => {
            let why = format!("`{}` has no counterpart here", other.escape_debug());
            return Err(wrong(&at("type"), why));
        }
    };
    Ok((kind, Vec::new()))
}

fn bond(place: &str, own: Aggregation) -> Result<Bond, Malformed> {
    let ports = own.port.iter().enumerate();
    let members = ports.map(|(i, text)| name(&format!("{place}.port[{i}]"), text));
    let mut bond = Bond {
        members: members.collect::<Result<_, _>>()?,
        mode: word_or_number(&format!("{place}.mode"), &own.mode)?,
        miimon_ms: None,
        lacp_rate: None,
        xmit_hash_policy: None,
        primary: None,
        tuning: Tuning::default(),
    };
    for (option, value) in own.options {
        let place = format!("{place}.options.{option}");
        let value = match value {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text,
        };
        set_bond_option(&place, &mut bond, &option, &value)?;
    }
    Ok(bond)
}

fn bridge(place: &str, own: Option<Bridge>) -> Result<Kind, Malformed> {
    let Some(own) = own else { return Ok(Kind::Bridge { members: Vec::new(), stp: None }) };
    let mut members = Vec::new();
    for (i, port) in own.port.iter().enumerate() {
        if port.link_aggregation.is_some() {
            let why = "a port of a Linux bridge has none; the bond is an interface of its own";
            return Err(wrong(&format!("{place}.port[{i}].link-aggregation"), why));
        }
        members.push(name(&format!("{place}.port[{i}].name"), &port.name)?);
    }
    Ok(Kind::Bridge { members, stp: own.options.stp.map(|stp| stp.enabled) })
}

fn ovs_bridge(place: &str, interface: &mut Interface) -> Result<(Kind, Vec<Link>), Malformed> {
    let place = format!("{place}.bridge");
    let (mut members, mut bonds) = (Vec::new(), Vec::new());
    let Some(own) = interface.bridge.take() else {
        return Ok((Kind::OvsBridge { members, primary: None }, bonds));
    };
    if own.options.stp.is_some_and(|stp| stp.enabled) {
        let why = "a bridge of Open vSwitch has none here";
        return Err(wrong(&format!("{place}.options.stp"), why));
    }
    for (i, port) in own.port.into_iter().enumerate() {
        let place = format!("{place}.port[{i}]");
        // Its own port is the bridge itself here.
        if port.name == interface.name {
            continue;
        }
        let port_name = name(&format!("{place}.name"), &port.name)?;
        if let Some(bond) = port.link_aggregation {
            bonds.push(ovs_bond(&format!("{place}.link-aggregation"), &port_name, &bond)?);
        }
        members.push(port_name);
    }
    Ok((Kind::OvsBridge { members, primary: None }, bonds))
}

fn ovs_bond(place: &str, bond: &LinkName, own: &OvsAggregation) -> Result<Link, Malformed> {
    let is_word = own.mode.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !is_word || own.mode.is_empty() {
        let why = format!("`{}` is no mode", own.mode.escape_debug());
        return Err(wrong(&format!("{place}.mode"), why));
    }
    let members = own.port.iter().enumerate();
    let members = members.map(|(i, one)| name(&format!("{place}.port[{i}].name"), &one.name));
    let kind = Kind::OvsBond {
        members: members.collect::<Result<_, _>>()?,
        primary: None,
        options: Some(format!("bond_mode={}", own.mode)),
    };
    Ok(Link::new(bond.clone(), kind))
}

fn vxlan(place: &str, interface: &mut Interface) -> Result<Vxlan, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let own = interface.vxlan.take().ok_or_else(|| wrong(place, "is missing"))?;
    let vni = own.id.ok_or_else(|| wrong(&at("id"), "is missing"))?;
    let address = |field: &str, text: Option<String>| {
        text.map(|text| ip(&text).map_err(|why| wrong(&at(field), why))).transpose()
    };
    let (local, remote) = (address("local", own.local)?, address("remote", own.remote)?);
    if local.zip(remote).is_some_and(|(local, remote)| local.is_ipv4() != remote.is_ipv4()) {
        return Err(wrong(&at("remote"), "it is of another family than `local`"));
    }
    let port = own.destination_port;
    let port = port.map(|port| number(&at("destination-port"), port, 1..=65_535)).transpose()?;
    Ok(Vxlan {
        vni: number(&at("id"), vni, 0..=0xFF_FFFF)?,
        parent: own.base_iface.map(|text| name(&at("base-iface"), &text)).transpose()?,
        local,
        remote,
        port: port.unwrap_or(VXLAN_PORT),
    })
}

/// Refuses what the type of the interface does not have.
pub(super) fn nothing_is_left(place: &str, interface: &Interface) -> Result<(), Malformed> {
    let left = [
        ("link-aggregation", interface.link_aggregation.is_some()),
        ("bridge", interface.bridge.is_some()),
        ("vlan", interface.vlan.is_some()),
        ("mac-vlan", interface.mac_vlan.is_some()),
        ("vxlan", interface.vxlan.is_some()),
    ];
    written::nothing_is_left(place, &left, "an interface of this type has none")
}
