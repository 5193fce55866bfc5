//! The network interfaces of this machine (of this network namespace).

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use nix::ifaddrs::{InterfaceAddress as Entry, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};

/// Length of an Ethernet address.
const MAC_LEN: usize = 6;

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number, as the kernel counts.
    pub index: u32,
    /// Its Ethernet address; the loopback interface and tunnels have none.
    pub mac: Option<[u8; 6]>,
    /// Its IPv4 addresses, in the kernel's order.
    pub addresses: Vec<InterfaceAddress>,
    /// Whether it is switched on (not whether a cable is plugged in).
    pub up: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
}

/// An IPv4 address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub address: Ipv4Addr,
    /// Leading bits that name the network, 0 to 32.
    pub prefix_len: u8,
}

/// All interfaces, by name.
///
/// # Errors
/// The system's error. An interface that vanishes while the list is made is left out.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for entry in getifaddrs()? {
        let Ok(index) = if_nametoindex(entry.interface_name.as_str()) else { continue };
        let interface = found
            .entry(entry.interface_name.clone())
            .or_insert_with(|| without_addresses(&entry, index));
        if let Some(mac) = mac(&entry) {
            interface.mac = Some(mac);
        }
        interface.addresses.extend(ipv4(&entry));
    }
    Ok(found.into_values().collect())
}

fn without_addresses(entry: &Entry, index: u32) -> Interface {
    Interface {
        name: entry.interface_name.clone(),
        index,
        mac: None,
        addresses: Vec::new(),
        up: entry.flags.contains(InterfaceFlags::IFF_UP),
        loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
    }
}

fn mac(entry: &Entry) -> Option<[u8; 6]> {
    let link = entry.address.as_ref()?.as_link_addr()?;
    let mac = (link.halen() == MAC_LEN).then(|| link.addr()).flatten()?;
    (mac != [0; MAC_LEN]).then_some(mac)
}

fn ipv4(entry: &Entry) -> Option<InterfaceAddress> {
    let address = entry.address.as_ref()?.as_sockaddr_in()?.ip();
    let mask = entry.netmask.as_ref()?.as_sockaddr_in()?.ip();
    let prefix_len = u8::try_from(u32::from(mask).leading_ones()).ok()?;
    Some(InterfaceAddress { address, prefix_len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|i| i.loopback).unwrap();
        assert!(lo.index > 0);
        assert_eq!(lo.mac, None);
        let home = InterfaceAddress { address: Ipv4Addr::LOCALHOST, prefix_len: 8 };
        assert!(!lo.up || lo.addresses.contains(&home), "{lo:?}");
    }
}
