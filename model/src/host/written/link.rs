//! Core: links in files.

mod kind;

use crate::MacAddress;
use crate::json::Malformed;
use serde::{Deserialize, Serialize};

use super::route::Route;
use super::{number, wrong};
use crate::host::address::{Address, Dns, ip};
use crate::host::link::{Link, LinkName};

/// The least MTU of IPv4 (RFC 791), and the largest that the kernel gives: `lo` has it.
const MTU: std::ops::RangeInclusive<i64> = 68..=65_536;

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// A link, with the options of all kinds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<i64>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    up: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dhcp4: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dhcp6: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dns_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    search_domains: Vec<String>,

    // Fields of some kinds only.
    #[serde(skip_serializing_if = "Option::is_none")]
    permanent_mac: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    primary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    miimon_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lacp_rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    xmit_hash_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updelay_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    downdelay_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arp_interval_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arp_ip_targets: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_links: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ad_select: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fail_over_mac: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ovs_options: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stp: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vni: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<i64>,
}

pub(super) fn read(place: &str, mut written: Written) -> Result<Link, Malformed> {
    let name = name(&format!("{place}.name"), &written.name)?;
    let kind = kind::read(place, &mut written)?;
    let at = |field: &str, index: usize| format!("{place}.{field}[{index}]");
    let addresses = written.addresses.iter().enumerate();
    let addresses = addresses
        .map(|(i, text)| Address::new(text).map_err(|why| wrong(&at("addresses", i), why)));
    let routes = written.routes.into_iter().enumerate();
    let routes = routes.map(|(i, route)| route.read(&at("routes", i)));
    let dns = dns(
        (&format!("{place}.dns_servers"), &written.dns_servers),
        (&format!("{place}.search_domains"), written.search_domains),
    )?;
    Ok(Link {
        name,
        kind,
        mac: written.mac.map(|text| mac(&format!("{place}.mac"), &text)).transpose()?,
        mtu: written.mtu.map(|mtu| number(&format!("{place}.mtu"), mtu, MTU)).transpose()?,
        up: written.up,
        dhcp4: written.dhcp4,
        dhcp6: written.dhcp6,
        addresses: addresses.collect::<Result<_, _>>()?,
        routes: routes.collect::<Result<_, _>>()?,
        dns,
    })
}

pub(super) fn write(link: Link) -> Written {
    let mut written = Written {
        name: link.name.to_string(),
        mac: link.mac.map(String::from),
        mtu: link.mtu.map(i64::from),
        up: link.up,
        dhcp4: link.dhcp4,
        dhcp6: link.dhcp6,
        addresses: link.addresses.into_iter().map(String::from).collect(),
        routes: link.routes.into_iter().map(Route::from).collect(),
        dns_servers: link.dns.servers.iter().map(ToString::to_string).collect(),
        search_domains: link.dns.search,
        ..Written::default()
    };
    kind::write(link.kind, &mut written);
    written
}

fn name(place: &str, text: &str) -> Result<LinkName, Malformed> {
    LinkName::new(text).map_err(|why| wrong(place, why))
}

/// An address that a link can have.
///
/// # Errors
/// Why it cannot, with its place.
pub fn mac(place: &str, text: &str) -> Result<MacAddress, Malformed> {
    let mac: MacAddress = text.parse().map_err(|error| wrong(place, format!("{error}")))?;
    match mac.unusable() {
        Some(why) => Err(wrong(place, format!("{mac} {why}"))),
        None => Ok(mac),
    }
}

/// Name servers and search domains, each list with its place.
///
/// # Errors
/// What of them is wrong, with its place.
pub fn dns(
    (servers_at, servers): (&str, &[String]),
    (search_at, search): (&str, Vec<String>),
) -> Result<Dns, Malformed> {
    let servers = servers.iter().enumerate();
    let servers =
        servers.map(|(i, text)| ip(text).map_err(|why| wrong(&format!("{servers_at}[{i}]"), why)));
    for (i, domain) in search.iter().enumerate() {
        check_domain(domain).map_err(|why| wrong(&format!("{search_at}[{i}]"), why))?;
    }
    Ok(Dns { servers: servers.collect::<Result<_, _>>()?, search })
}

/// A domain is written into files of other programs, where white space would end it.
fn check_domain(domain: &str) -> Result<(), String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if domain.is_empty() || domain.len() > 253 || !domain.chars().all(is_fit) {
        return Err(format!("`{}` is no domain", domain.escape_debug()));
    }
    Ok(())
}
