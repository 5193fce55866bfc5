//! Core: the address that moves with the master, and what it can be.

use std::fmt;
use std::net::IpAddr;

use super::Cluster;

/// Bits of an IPv4 address.
const IPV4_BITS: u8 = 32;
/// Longest name of an interface, in bytes (`IFNAMSIZ`, less the zero at its end).
const NETDEV_BYTES_MAX: usize = 15;

/// An address, and where it belongs on the master node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterAddress {
    pub address: IpAddr,
    /// Leading bits that name its network; all of them where the cluster does not say.
    pub prefix: u8,
    /// Interface that carries it.
    pub netdev: String,
}

impl fmt::Display for MasterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, prefix, netdev } = self;
        write!(f, "{address}/{prefix} on {netdev}")
    }
}

/// The reason why a text or an address cannot be the master's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MasterAddressError {
    /// There is an address, and no interface for it.
    #[error("the master's address {0} needs an interface: give --master-netdev NAME too")]
    NoInterface(IpAddr),
    /// An interface has another name.
    #[error(
        "`{0}` is no name of an interface: 1 to {NETDEV_BYTES_MAX} characters without blanks, `/` \
         and `:`"
    )]
    Interface(String),
    /// There is no address, and only one of IPv6 has so many bits.
    #[error(
        "master_netmask {0} without an address must be 1 to {IPV4_BITS}; for a longer prefix of an \
         IPv6 address give --master-ip too"
    )]
    PrefixAlone(u8),
    /// The address has fewer bits.
    #[error("master_netmask {prefix} is no prefix length of {address}, which has {most} bits")]
    Prefix {
        address: IpAddr,
        /// What was given.
        prefix: u8,
        /// Its bits.
        most: u8,
    },
    /// No host can have it.
    #[error("{0} cannot be the master's address: no single host has it")]
    NoHost(IpAddr),
}

/// The address of a cluster with these parameters, if it has one.
///
/// # Errors
/// They do not make an address that a host can have. Interface and prefix are looked at without an
/// address, too.
pub fn of(
    address: Option<IpAddr>,
    netdev: Option<&str>,
    prefix: Option<u8>,
) -> Result<Option<MasterAddress>, MasterAddressError> {
    let is_name = |name: &str| {
        (1..=NETDEV_BYTES_MAX).contains(&name.len())
            && ![".", ".."].contains(&name)
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/:".contains(&byte))
    };
    if let Some(name) = netdev.filter(|name| !is_name(name)) {
        return Err(MasterAddressError::Interface(name.to_owned()));
    }
    let Some(address) = address else {
        let alone = prefix.filter(|prefix| *prefix > IPV4_BITS);
        return alone.map_or(Ok(None), |prefix| Err(MasterAddressError::PrefixAlone(prefix)));
    };
    let most = if address.is_ipv4() { IPV4_BITS } else { 128 };
    let prefix = prefix.unwrap_or(most);
    if prefix > most {
        return Err(MasterAddressError::Prefix { address, prefix, most });
    }
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || is_broadcast {
        return Err(MasterAddressError::NoHost(address));
    }
    let netdev = netdev.ok_or(MasterAddressError::NoInterface(address))?.to_owned();
    Ok(Some(MasterAddress { address, prefix, netdev }))
}

impl Cluster {
    /// The address that moves with the master, if the cluster has one.
    pub fn master_address(&self) -> Option<MasterAddress> {
        of(self.master_ip, self.master_netdev.as_deref(), self.master_netmask).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_one() {
        let of = |address: &str, netdev, prefix| {
            let made = of(address.parse().ok(), netdev, prefix);
            made.map(|made| made.map(|made| made.to_string())).map_err(|error| error.to_string())
        };
        let is = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(of("10.0.0.9", Some("eth0"), None), is("10.0.0.9/32 on eth0"));
        assert_eq!(of("10.0.0.9", Some("br0.7"), Some(24)), is("10.0.0.9/24 on br0.7"));
        assert_eq!(of("fd00::9", Some("eth0"), None), is("fd00::9/128 on eth0"));
        assert_eq!(of("", Some("eth0"), Some(32)), Ok(None));
        assert!(of("", Some("eth0"), Some(99)).unwrap_err().contains("must be 1 to 32"));
        let why = |address, netdev, prefix| of(address, netdev, prefix).unwrap_err();
        assert!(why("10.0.0.9", None, None).contains("--master-netdev"));
        assert!(why("10.0.0.9", Some("eth0"), Some(33)).contains("32 bits"));
        for address in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "ff02::1"] {
            assert!(why(address, Some("eth0"), None).contains("no single host"), "{address}");
        }
        for netdev in ["", "a b", "eth0:1", "../x", "..", "a-name-too-long-x"] {
            assert!(why("10.0.0.9", Some(netdev), None).contains("no name"), "{netdev}");
        }
    }
}
