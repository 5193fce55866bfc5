//! Core: one link, as the kernel tells of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::MacAddress;
use rtnetlink::packet_route::link::{
    BridgeStpState, InfoBond, InfoBridge, InfoData, InfoKind, InfoMacVlan, InfoVlan, InfoVxlan,
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};

use crate::model::link::{
    AdSelect, Bond, BondMode, FailOverMac, HashPolicy, Kind, LacpRate, Link, LinkName, MacvlanMode,
    Tuning, Vxlan, Word as _,
};

type Names = BTreeMap<u32, LinkName>;

pub(super) fn name(message: &LinkMessage) -> Option<LinkName> {
    message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => LinkName::new(name).ok(),
        _ => None,
    })
}

pub(super) fn controller(message: &LinkMessage) -> Option<u32> {
    message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Controller(index) => Some(*index).filter(|index| *index != 0),
        _ => None,
    })
}

pub(super) fn link(message: &LinkMessage, names: &Names) -> Option<Link> {
    let (mut mac, mut permanent_mac, mut mtu, mut parent) = (None, None, None, None);
    let (mut kind, mut data, mut is_elsewhere) = (None, None, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => mac = address(bytes),
            LinkAttribute::PermAddress(bytes) => permanent_mac = address(bytes),
            LinkAttribute::Mtu(bytes) => mtu = Some(*bytes),
            LinkAttribute::Link(index) => parent = names.get(index).cloned(),
            // The link below is in another namespace, where its number is that of another link.
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(found) => kind = Some(found),
                        LinkInfo::Data(found) => data = Some(found),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let parent = parent.filter(|_| !is_elsewhere);
    let kind = kind.and_then(|kind| virtual_kind(kind, data, parent, names));
    let mut link = Link::new(name(message)?, kind.unwrap_or(Kind::Ethernet { permanent_mac }));
    (link.mac, link.mtu) = (mac, mtu);
    link.up = message.header.flags.contains(LinkFlags::Up);
    Some(link)
}

fn address(bytes: &[u8]) -> Option<MacAddress> {
    let bytes = <[u8; 6]>::try_from(bytes).ok()?;
    Some(MacAddress::new(bytes)).filter(|mac| mac.unusable().is_none())
}

/// A link of a kind that is made. All others are taken as they are.
fn virtual_kind(
    kind: &InfoKind,
    data: Option<&InfoData>,
    parent: Option<LinkName>,
    names: &Names,
) -> Option<Kind> {
    Some(match (kind, data) {
        (InfoKind::Dummy, _) => Kind::Dummy,
        (InfoKind::Bridge, Some(InfoData::Bridge(options))) => {
            let stp = options.iter().find_map(|option| match option {
                InfoBridge::StpState(state) => Some(*state != BridgeStpState::Disabled),
                _ => None,
            });
            Kind::Bridge { members: Vec::new(), stp }
        }
        (InfoKind::Vlan, Some(InfoData::Vlan(options))) => {
            let id = options.iter().find_map(|option| match option {
                InfoVlan::Id(id) => Some(*id),
                _ => None,
            });
            Kind::Vlan { id: id?, parent: parent? }
        }
        (InfoKind::MacVlan, Some(InfoData::MacVlan(options))) => {
            let mode = options.iter().find_map(|option| match option {
                InfoMacVlan::Mode(mode) => u8::try_from(u32::from(*mode)).ok(),
                _ => None,
            });
            Kind::Macvlan { parent: parent?, mode: MacvlanMode::from_number(mode?)? }
        }
        (InfoKind::Vxlan, Some(InfoData::Vxlan(options))) => Kind::Vxlan(vxlan(options, names)?),
        (InfoKind::Bond, Some(InfoData::Bond(options))) => Kind::Bond(bond(options, names)?),
        _ => return None,
    })
}

fn vxlan(options: &[InfoVxlan], names: &Names) -> Option<Vxlan> {
    let (mut vni, mut port, mut parent) = (None, None, None);
    let (mut local, mut remote) = (None, None);
    for option in options {
        match option {
            InfoVxlan::Id(id) => vni = Some(*id),
            InfoVxlan::Port(number) => port = Some(*number),
            InfoVxlan::Link(index) => parent = names.get(index).cloned(),
            InfoVxlan::Local(four) => local = Some(IpAddr::V4(*four)),
            InfoVxlan::Local6(six) => local = Some(IpAddr::V6(*six)),
            InfoVxlan::Group(four) => remote = Some(IpAddr::V4(*four)),
            InfoVxlan::Group6(six) => remote = Some(IpAddr::V6(*six)),
            _ => {}
        }
    }
    Some(Vxlan { vni: vni?, parent, local, remote, port: port? })
}

fn bond(options: &[InfoBond], names: &Names) -> Option<Bond> {
    let (mut mode, mut miimon_ms, mut primary) = (None, None, None);
    let (mut lacp_rate, mut xmit_hash_policy, mut tuning) = (None, None, Tuning::default());
    for option in options {
        match option {
            InfoBond::Mode(found) => mode = BondMode::from_number(u8::from(*found)),
            InfoBond::MiiMon(ms) => miimon_ms = Some(*ms),
            InfoBond::UpDelay(ms) => tuning.updelay_ms = Some(*ms),
            InfoBond::DownDelay(ms) => tuning.downdelay_ms = Some(*ms),
            InfoBond::ArpInterval(ms) => tuning.arp_interval_ms = Some(*ms),
            InfoBond::ArpIpTarget(targets) => tuning.arp_ip_targets.clone_from(targets),
            InfoBond::MinLinks(links) => tuning.min_links = Some(*links),
            InfoBond::AdSelect(one) => tuning.ad_select = AdSelect::from_number(u8::from(*one)),
            InfoBond::FailOverMac(one) => {
                tuning.fail_over_mac = FailOverMac::from_number(u8::from(*one));
            }
            InfoBond::Primary(index) => primary = names.get(index).cloned(),
            InfoBond::AdLacpRate(rate) => lacp_rate = LacpRate::from_number(u8::from(*rate)),
            InfoBond::XmitHashPolicy(policy) => {
                xmit_hash_policy = HashPolicy::from_number(u8::from(*policy));
            }
            _ => {}
        }
    }
    let mode = mode?;
    // The kernel tells of a rate that only this mode uses.
    let lacp_rate = lacp_rate.filter(|_| mode == BondMode::Lacp);
    Some(Bond {
        members: Vec::new(),
        mode,
        miimon_ms,
        lacp_rate,
        xmit_hash_policy,
        primary,
        tuning,
    })
}
