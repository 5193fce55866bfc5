//! The kernel's part of cards, over rtnetlink: their interfaces, bridges, routes and rules.

use std::io;
use std::net::IpAddr;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_core::{DefaultNla, Emitable as _, NLA_F_NESTED};
use rtnetlink::packet_route::link::{
    AfSpecInet, AfSpecUnspec, BridgeVlanInfoFlags, InfoBridge, InfoData, InfoKind, LinkAttribute,
    LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Error, Handle, IpVersion, LinkBridgeVlan, LinkUnspec, RouteMessageBuilder};

use super::plan::{FoundLink, MAIN_TABLE, VlanStep};

/// The size of packets of an interface that says nothing of it.
const USUAL_MTU: u32 = 1_500;
/// `IFLA_INET_CONF` (`linux/if_link.h`): settings of IPv4 of an interface, each an attribute in it.
const SETTINGS: u16 = 1;
/// Settings of IPv4 by their numbers (`linux/ip.h`).
const FORWARDING: u16 = 1;
const PROXY_ARP: u16 = 3;
const SOURCE_CHECK: u16 = 8;

/// The interface of this name, if there is one.
pub(super) async fn find(handle: &Handle, name: &str) -> Result<Option<FoundLink>, Error> {
    let mut found = std::pin::pin!(handle.link().get().match_name(name).execute());
    match found.try_next().await {
        Ok(message) => Ok(message.as_ref().map(link)),
        Err(error) if is(&error, nix::errno::Errno::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

fn link(message: &LinkMessage) -> FoundLink {
    let mut link = FoundLink {
        index: message.header.index,
        mtu: USUAL_MTU,
        is_bridge: false,
        has_vlans: None,
        usual_vlan: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::LinkInfo(info) => info.iter().for_each(|info| kind(info, &mut link)),
            _ => {}
        }
    }
    link
}

fn kind(info: &LinkInfo, link: &mut FoundLink) {
    match info {
        LinkInfo::Kind(kind) => link.is_bridge = *kind == InfoKind::Bridge,
        LinkInfo::Data(InfoData::Bridge(data)) => {
            for setting in data {
                match setting {
                    InfoBridge::VlanFiltering(is_on) => link.has_vlans = Some(*is_on),
                    InfoBridge::VlanDefaultPvid(vlan) => link.usual_vlan = *vlan,
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Gives an interface its address and the size of its packets.
pub(super) async fn dress(
    handle: &Handle,
    index: u32,
    address: [u8; 6],
    mtu: Option<u32>,
) -> Result<(), Error> {
    let mut message = LinkUnspec::new_with_index(index).address(address.to_vec());
    if let Some(mtu) = mtu {
        message = message.mtu(mtu);
    }
    handle.link().set(message.build()).execute().await
}

/// Puts an interface into a bridge, where it has these VLANs before the first frame.
pub(super) async fn join(
    handle: &Handle,
    index: u32,
    bridge: u32,
    vlans: &[VlanStep],
) -> Result<(), Error> {
    let message = LinkUnspec::new_with_index(index).controller(bridge).build();
    handle.link().set(message).execute().await?;
    let mut added = Vec::new();
    for step in vlans {
        match *step {
            VlanStep::Remove(vlan) => {
                let message = LinkBridgeVlan::new(index).vlan(vlan, BridgeVlanInfoFlags::empty());
                handle.link().del_with_message(message.build()).execute().await?;
            }
            VlanStep::Tagged(vlan) => added.push((vlan, BridgeVlanInfoFlags::empty())),
            VlanStep::Untagged(vlan) => {
                added.push((vlan, BridgeVlanInfoFlags::Pvid | BridgeVlanInfoFlags::Untagged));
            }
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    let message = LinkBridgeVlan::new(index);
    let message =
        added.into_iter().fold(message, |message, (vlan, flags)| message.vlan(vlan, flags));
    handle.link().set(message.build()).execute().await
}

/// Lets frames through.
pub(super) async fn up(handle: &Handle, index: u32) -> Result<(), Error> {
    handle.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await
}

/// Routes an address to an interface, which is up, and packets of the interface by the table.
pub(super) async fn route(
    handle: &Handle,
    name: &str,
    index: u32,
    address: IpAddr,
    table: u32,
) -> Result<(), Error> {
    unrule(handle, name).await?;
    if address.is_ipv4() {
        // They go this way because /proc/sys is read-only to the agent's unit. IPv6 needs none of an
        // interface: `all/forwarding` counts alone, and neighbours are answered by name.
        let mut settings = vec![(FORWARDING, 1), (PROXY_ARP, 1)];
        if table != MAIN_TABLE {
            // The way back is looked for in the tables of all packets. The filter has looked at the source.
            settings.push((SOURCE_CHECK, 0));
        }
        let settings = AfSpecUnspec::Inet(vec![AfSpecInet::Other(nested(&settings))]);
        let message = LinkUnspec::new_with_index(index)
            .append_extra_attribute(LinkAttribute::AfSpecUnspec(vec![settings]));
        handle.link().set(message.build()).execute().await?;
    }
    let message = match address {
        IpAddr::V4(address) => RouteMessageBuilder::<std::net::Ipv4Addr>::new()
            .destination_prefix(address, 32)
            .scope(RouteScope::Link)
            .output_interface(index)
            .table_id(table)
            .build(),
        IpAddr::V6(address) => RouteMessageBuilder::<std::net::Ipv6Addr>::new()
            .destination_prefix(address, 128)
            .output_interface(index)
            .table_id(table)
            .build(),
    };
    handle.route().add(message).replace().execute().await?;
    if table == MAIN_TABLE {
        return Ok(());
    }
    let rule = handle.rule().add().input_interface(name).table_id(table);
    let rule = rule.action(RuleAction::ToTable);
    match address {
        IpAddr::V4(_) => rule.v4().execute().await,
        IpAddr::V6(_) => rule.v6().execute().await,
    }
}

/// Settings as attributes within one: the library's own form leaves out those that become 0.
fn nested(settings: &[(u16, u32)]) -> DefaultNla {
    let mut bytes = Vec::new();
    for (kind, value) in settings {
        let setting = DefaultNla::new(*kind, value.to_ne_bytes().to_vec());
        let start = bytes.len();
        bytes.resize(start + setting.buffer_len(), 0);
        setting.emit(&mut bytes[start..]);
    }
    DefaultNla::new(SETTINGS | NLA_F_NESTED, bytes)
}

/// Removes the rules that name an interface: they stay when it goes.
pub(super) async fn unrule(handle: &Handle, name: &str) -> Result<(), Error> {
    for version in [IpVersion::V4, IpVersion::V6] {
        let all: Vec<RuleMessage> = handle.rule().get(version).execute().try_collect().await?;
        let names = |rule: &RuleMessage| {
            let mut attributes = rule.attributes.iter();
            attributes.any(|one| matches!(one, RuleAttribute::Iifname(own) if own == name))
        };
        for rule in all.into_iter().filter(names) {
            match handle.rule().del(rule).execute().await {
                Err(error) if is(&error, nix::errno::Errno::ENOENT) => {}
                done => done?,
            }
        }
    }
    Ok(())
}

fn is(error: &Error, wanted: nix::errno::Errno) -> bool {
    matches!(error, Error::NetlinkError(message) if message.raw_code() == -(wanted as i32))
}

/// An error as the system's own, whose text is for people.
pub(super) fn told(error: Error) -> io::Error {
    match error {
        Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}
