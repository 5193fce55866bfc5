//! Core: addresses, routes, rules and name servers, compared by what they mean.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An address of an interface with its prefix, as `192.0.2.10/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(IpNet);

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Why no interface has it.
    pub fn new(text: &str) -> Result<Self, String> {
        let Some((address, prefix)) = text.split_once('/') else {
            return Err(match ip(text) {
                Ok(_) => format!("{text} lacks its prefix, as in {text}/24"),
                Err(why) => why,
            });
        };
        let address = ip(address)?;
        let prefix = prefix_length(text, prefix, address)?;
        let net = IpNet::new(address, prefix).map_err(|error| error.to_string())?;
        Self::from_net(net)
    }

    /// Takes an address with its prefix.
    ///
    /// # Errors
    /// Why no interface has it.
    pub fn from_net(net: IpNet) -> Result<Self, String> {
        let address = net.addr();
        let host_bits = net.max_prefix_len() - net.prefix_len();
        if address.is_unspecified() || address.is_multicast() {
            return Err(format!("{net} is no address of an interface"));
        }
        // RFC 3021 and RFC 6164: links of two addresses have neither.
        if host_bits > 1 && address == net.network() {
            return Err(match net {
                IpNet::V4(_) => format!("{net} is the address of the network itself"),
                IpNet::V6(_) => format!("{net} is the anycast address of the network's routers"),
            });
        }
        if host_bits > 1 && address.is_ipv4() && address == net.broadcast() {
            return Err(format!("{net} is the broadcast address"));
        }
        Ok(Self(net))
    }

    /// Address and prefix.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// The address alone.
    pub fn ip(self) -> IpAddr {
        self.0.addr()
    }
}

impl TryFrom<String> for Address {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Reads an address without a prefix. An IPv4 address in the clothes of IPv6 is refused: programs
/// do not agree which of the two it is.
///
/// # Errors
/// Why it is none.
pub fn ip(text: &str) -> Result<IpAddr, String> {
    let has_zero = |part: &str| part.len() > 1 && part.starts_with('0');
    let hint = match text.contains(':') || !text.split('.').any(has_zero) {
        true => "",
        false => "; write it without leading zeros",
    };
    let address: IpAddr = text.parse().map_err(|_e| format!("`{text}` is no IP address{hint}"))?;
    match address {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => {
            Err(format!("{text} is an IPv4 address written as IPv6; write it as IPv4"))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(address),
    }
}

fn prefix_length(text: &str, prefix: &str, address: IpAddr) -> Result<u8, String> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.parse::<u8>().ok().filter(|prefix| *prefix <= bits);
    prefix.ok_or_else(|| format!("the prefix of {text} is none of 0 to {bits}"))
}

/// Reads a network, as `192.0.2.0/24`. Its host bits must be zero.
///
/// # Errors
/// Why it is none.
pub fn network(text: &str) -> Result<IpNet, String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address = ip(address).map_err(|why| format!("`{text}` is no network: {why}"))?;
    let net = match prefix {
        Some(prefix) => IpNet::new(address, prefix_length(text, prefix, address)?)
            .map_err(|error| error.to_string())?,
        None => IpNet::from(address),
    };
    if net.trunc() != net {
        return Err(format!("{net} has bits behind its prefix; the network is {}", net.trunc()));
    }
    Ok(net)
}

/// The main table of routes.
pub const TABLE_MAIN: u32 = 254;
/// The metric that the kernel gives to an IPv6 route that has none.
const METRIC_V6: u32 = 1024;

/// A static route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The destination; a prefix of length zero is everywhere.
    pub to: IpNet,
    /// The next hop; without one, the destination is on the link.
    pub via: Option<IpAddr>,
    /// The lower, the better.
    pub metric: Option<u32>,
    /// The table that holds it; without one, the main table.
    pub table: Option<u32>,
    /// The next hop is on this link although no prefix says so.
    pub on_link: bool,
}

impl Route {
    /// The same route with all that the kernel fills in, for comparison.
    pub fn canonical(&self) -> Self {
        let unset = if self.to.addr().is_ipv4() { 0 } else { METRIC_V6 };
        Self {
            to: self.to.trunc(),
            via: self.via,
            metric: Some(self.metric.filter(|metric| *metric != 0).unwrap_or(unset)),
            table: Some(self.table.filter(|table| *table != 0).unwrap_or(TABLE_MAIN)),
            on_link: self.on_link && self.via.is_some(),
        }
    }

    /// Whether it leads everywhere.
    pub fn is_default(&self) -> bool {
        self.to.prefix_len() == 0
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(metric) = self.metric {
            write!(f, " metric {metric}")?;
        }
        if let Some(table) = self.table {
            write!(f, " table {table}")?;
        }
        if self.on_link { f.write_str(" onlink") } else { Ok(()) }
    }
}

/// A rule of policy routing: which packets look into which table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Packets from there.
    pub from: Option<IpNet>,
    /// Packets to there.
    pub to: Option<IpNet>,
    pub table: u32,
    /// The lower, the earlier; without one, the kernel chooses.
    pub priority: Option<u32>,
}

impl Rule {
    /// Whether it is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.from.or(self.to).is_none_or(|net| net.addr().is_ipv4())
    }

    /// Whether a rule of the kernel is this one.
    pub fn is_met_by(&self, actual: &Self) -> bool {
        (self.from, self.to, self.table) == (actual.from, actual.to, actual.table)
            && self.priority.is_none_or(|priority| actual.priority == Some(priority))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = self.from {
            write!(f, "from {from} ")?;
        }
        if let Some(to) = self.to {
            write!(f, "to {to} ")?;
        }
        write!(f, "table {}", self.table)?;
        match self.priority {
            Some(priority) => write!(f, " priority {priority}"),
            None => Ok(()),
        }
    }
}

/// Name servers of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// The servers, the first one first.
    pub servers: Vec<IpAddr>,
    /// Domains that are appended to short names.
    pub search: Vec<String>,
}
