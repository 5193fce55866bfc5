//! Core: what the kernel is told, one message for each thing.

use std::net::IpAddr;

use model::MacAddress;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{
    BondLacpRate, BondMode, BondXmitHashPolicy, BridgeStpState, InfoBond, InfoBridge, InfoData,
    InfoKind, InfoMacVlan, InfoVlan, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
    MacVlanMode,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

use crate::model::address::{Address, Route, Rule, TABLE_MAIN};
use crate::model::link::{Kind, Link, LinkName, Tuning, Vxlan, Word as _};

pub(super) fn with(attributes: impl IntoIterator<Item = LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.extend(attributes);
    message
}

pub(super) fn up(up: bool) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    message.header.change_mask = LinkFlags::Up;
    message
}

/// The name of a link that is never made.
pub(super) fn probe_name() -> LinkName {
    LinkName::new("gantry-probe").expect("it is short and plain")
}

/// A link that the kernel refuses: at once if it does not know the kind, else for its address.
pub(super) fn probe(kind: InfoKind) -> LinkMessage {
    with([
        LinkAttribute::IfName(probe_name().to_string()),
        LinkAttribute::Address(vec![0; 6]),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]),
    ])
}

/// A new link, above that of the given index.
pub(super) fn create(link: &Link, parent: Option<u32>) -> LinkMessage {
    let mut info = vec![LinkInfo::Kind(kind(&link.kind))];
    info.extend(options(&link.kind, parent).map(LinkInfo::Data));
    let mut message = with([LinkAttribute::IfName(link.name.to_string())]);
    let mac = link.mac.map(|mac: MacAddress| LinkAttribute::Address(mac.bytes().to_vec()));
    message.attributes.extend(mac);
    message.attributes.extend(link.mtu.map(LinkAttribute::Mtu));
    if matches!(link.kind, Kind::Vlan { .. } | Kind::Macvlan { .. }) {
        message.attributes.extend(parent.map(LinkAttribute::Link));
    }
    message.attributes.push(LinkAttribute::LinkInfo(info));
    message
}

pub(super) fn kind(kind: &Kind) -> InfoKind {
    match kind {
        Kind::Bond(_) => InfoKind::Bond,
        Kind::Vlan { .. } => InfoKind::Vlan,
        Kind::Bridge { .. } => InfoKind::Bridge,
        Kind::Macvlan { .. } => InfoKind::MacVlan,
        Kind::Vxlan(_) => InfoKind::Vxlan,
        Kind::Dummy => InfoKind::Dummy,
        Kind::Ethernet { .. } | Kind::OvsBridge { .. } | Kind::OvsBond { .. } => {
            InfoKind::Other(kind.word().to_owned())
        }
    }
}

fn options(kind: &Kind, parent: Option<u32>) -> Option<InfoData> {
    Some(match kind {
        Kind::Bond(bond) => {
            let mut options = vec![InfoBond::Mode(BondMode::from(bond.mode.number()))];
            options.extend(bond.miimon_ms.map(InfoBond::MiiMon));
            let rate = bond.lacp_rate.map(|rate| BondLacpRate::from(rate.number()));
            options.extend(rate.map(InfoBond::AdLacpRate));
            let policy = bond.xmit_hash_policy;
            let policy = policy.map(|policy| BondXmitHashPolicy::from(policy.number()));
            options.extend(policy.map(InfoBond::XmitHashPolicy));
            options.extend(tuning(&bond.tuning));
            InfoData::Bond(options)
        }
        Kind::Vlan { id, .. } => InfoData::Vlan(vec![InfoVlan::Id(*id)]),
        Kind::Bridge { stp, .. } => {
            InfoData::Bridge(stp.map(stp_state).into_iter().map(InfoBridge::StpState).collect())
        }
        Kind::Macvlan { mode, .. } => {
            let mode = MacVlanMode::from(u32::from(mode.number()));
            InfoData::MacVlan(vec![InfoMacVlan::Mode(mode)])
        }
        Kind::Vxlan(vxlan) => InfoData::Vxlan(tunnel(vxlan, parent)),
        Kind::Ethernet { .. } | Kind::Dummy | Kind::OvsBridge { .. } | Kind::OvsBond { .. } => {
            return None;
        }
    })
}

/// The kernel refuses a delay of zero where nothing is watched, and zero is what it has anyway.
fn tuning(tuning: &Tuning) -> impl Iterator<Item = InfoBond> {
    let Tuning { updelay_ms, downdelay_ms, arp_interval_ms, arp_ip_targets, .. } = tuning.clone();
    let set = |value: Option<u32>| value.filter(|value| *value != 0);
    [
        set(updelay_ms).map(InfoBond::UpDelay),
        set(downdelay_ms).map(InfoBond::DownDelay),
        set(arp_interval_ms).map(InfoBond::ArpInterval),
        Some(arp_ip_targets).filter(|list| !list.is_empty()).map(InfoBond::ArpIpTarget),
        set(tuning.min_links).map(InfoBond::MinLinks),
        tuning.ad_select.map(|one| InfoBond::AdSelect(one.number().into())),
        tuning.fail_over_mac.map(|one| InfoBond::FailOverMac(one.number().into())),
    ]
    .into_iter()
    .flatten()
}

fn tunnel(vxlan: &Vxlan, parent: Option<u32>) -> Vec<InfoVxlan> {
    let mut options = vec![InfoVxlan::Id(vxlan.vni), InfoVxlan::Port(vxlan.port)];
    options.extend(parent.map(InfoVxlan::Link));
    options.extend(vxlan.local.map(|local| match local {
        IpAddr::V4(four) => InfoVxlan::Local(four),
        IpAddr::V6(six) => InfoVxlan::Local6(six),
    }));
    options.extend(vxlan.remote.map(|remote| match remote {
        IpAddr::V4(four) => InfoVxlan::Group(four),
        IpAddr::V6(six) => InfoVxlan::Group6(six),
    }));
    options
}

fn stp_state(on: bool) -> BridgeStpState {
    if on { BridgeStpState::KernelStp } else { BridgeStpState::Disabled }
}

pub(super) fn stp(on: bool) -> LinkMessage {
    let data = InfoData::Bridge(vec![InfoBridge::StpState(stp_state(on))]);
    with([LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(data)])])
}

/// The member that a bond uses first, by index; zero is none.
pub(super) fn primary(index: u32) -> LinkMessage {
    let data = InfoData::Bond(vec![InfoBond::Primary(index)]);
    with([LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bond), LinkInfo::Data(data)])])
}

pub(super) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

pub(super) fn address(address: Address, index: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address.ip());
    message.header.prefix_len = address.net().prefix_len();
    message.header.index = index;
    message.attributes.push(AddressAttribute::Local(address.ip()));
    message.attributes.push(AddressAttribute::Address(address.ip()));
    if let IpAddr::V4(broadcast) = address.net().broadcast()
        && address.net().prefix_len() < 31
    {
        message.attributes.push(AddressAttribute::Broadcast(broadcast));
    }
    message
}

/// A table of routes, whose number is longer than the header's field.
fn table(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(0)
}

pub(super) fn route(route: &Route, index: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    let number = route.table.unwrap_or(TABLE_MAIN);
    let is_near = route.via.is_none() && route.to.addr().is_ipv4();
    message.header.address_family = family(route.to.addr());
    message.header.destination_prefix_length = route.to.prefix_len();
    message.header.table = table(number);
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = if is_near { RouteScope::Link } else { RouteScope::Universe };
    message.header.kind = RouteType::Unicast;
    message.header.flags = if route.on_link { RouteFlags::Onlink } else { RouteFlags::empty() };
    if !route.is_default() {
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(route.to.addr())));
    }
    let via = route.via.map(|via| RouteAttribute::Gateway(RouteAddress::from(via)));
    message.attributes.extend(via);
    message.attributes.push(RouteAttribute::Oif(index));
    message.attributes.extend(route.metric.map(RouteAttribute::Priority));
    message.attributes.push(RouteAttribute::Table(number));
    message
}

/// The same route, whoever added it.
pub(super) fn any_owner(mut route: RouteMessage) -> RouteMessage {
    route.header.protocol = RouteProtocol::Unspec;
    route.header.scope = RouteScope::NoWhere;
    route.header.flags = RouteFlags::empty();
    route
}

/// Rules of ours have an owner, so that those of others are left alone.
pub(super) fn rule(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.table = table(rule.table);
    message.header.action = RuleAction::ToTable;
    if let Some(from) = rule.from {
        message.header.src_len = from.prefix_len();
        message.attributes.push(RuleAttribute::Source(from.addr()));
    }
    if let Some(to) = rule.to {
        message.header.dst_len = to.prefix_len();
        message.attributes.push(RuleAttribute::Destination(to.addr()));
    }
    message.attributes.extend(rule.priority.map(RuleAttribute::Priority));
    message.attributes.push(RuleAttribute::Table(rule.table));
    message.attributes.push(RuleAttribute::Protocol(RouteProtocol::Static));
    message
}
