//! Core: the rules by which no guest speaks in another one's name.
//!
//! Each card has a table of its own at the very entry of its interface, before bridges, switches and
//! routes. Its transaction replaces the table that was there, so that no frame meets half of it.

use std::net::IpAddr;

use model::MacAddress;

/// Messages that a host sends before it has an address (RFC 4861, RFC 4862, RFC 3590).
const UNADDRESSED: &str =
    "nd-neighbor-solicit, nd-router-solicit, mld-listener-report, mld2-listener-report";

/// The name of a card's table.
fn table(interface: &str) -> String {
    format!("gantry-{interface}")
}

/// The rules of a card, for `nft -f -`. Each value is a name of ours or has a type, so nothing else gets in.
pub(super) fn rules(
    interface: &str,
    mac: MacAddress,
    ip: Option<IpAddr>,
    is_routed: bool,
) -> String {
    let mut rules =
        vec![format!("ether saddr != {mac} drop"), format!("arp saddr ether != {mac} drop")];
    if is_routed {
        // The host would take a guest for its own router.
        rules.push("icmpv6 type { nd-router-advert, nd-redirect } drop".to_owned());
    }
    if ip.is_some() {
        // The kernel has taken the first tag off. A second one would hide what is inside.
        rules.push("meta protocol { 8021q, 8021ad } drop".to_owned());
    }
    match ip {
        Some(IpAddr::V4(ip)) => rules.extend([
            // A host asks from 0.0.0.0 whether somebody has its address.
            format!("arp saddr ip != 0.0.0.0 arp saddr ip != {ip} drop"),
            "ip saddr 0.0.0.0 udp dport 67 accept".to_owned(),
            format!("ip saddr != {ip} drop"),
        ]),
        Some(IpAddr::V6(ip)) => {
            let bits = ip.to_bits();
            rules.extend([
                // The target is the address that a neighbour claims: its own, or one of the link.
                format!(
                    "icmpv6 type nd-neighbor-advert @th,64,128 != {bits:#034x} @th,64,10 != 0x3fa drop"
                ),
                // A host without an address looks for routers, and whether somebody has its address.
                format!("ip6 saddr :: icmpv6 type != {{ {UNADDRESSED} }} drop"),
                "ip6 saddr :: meta l4proto != ipv6-icmp drop".to_owned(),
                format!("ip6 saddr != :: ip6 saddr != fe80::/10 ip6 saddr != {ip} drop"),
            ]);
        }
        None => {}
    }
    let head =
        format!("type filter hook ingress device \"{interface}\" priority filter; policy accept;");
    let lines: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
    let table = table(interface);
    format!(
        "{}table netdev {table} {{\n\tchain ingress {{\n\t\t{head}\n{lines}\t}}\n}}\n",
        removal(interface),
    )
}

/// Removes the rules of a card, whether or not they are there.
pub(super) fn removal(interface: &str) -> String {
    let table = table(interface);
    format!("add table netdev {table}\ndelete table netdev {table}\n")
}

#[cfg(test)]
mod tests;
