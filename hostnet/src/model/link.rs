//! Core: the kinds of links, and what each of them has.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use model::MacAddress;
use serde::{Deserialize, Serialize};

use super::address::{Address, Dns, Route};

/// The longest name of an interface, in bytes (`IFNAMSIZ` less its zero).
const NAME_BYTES_MAX: usize = 15;

/// The name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkName(String);

impl LinkName {
    /// Reads a name.
    ///
    /// # Errors
    /// Why the kernel takes no such name.
    pub fn new(name: &str) -> Result<Self, String> {
        let is_odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if name.is_empty() || matches!(name, "." | "..") {
            return Err(format!("`{name}` is no name of an interface"));
        }
        if name.len() > NAME_BYTES_MAX {
            let bytes = name.len();
            return Err(format!("`{name}` has {bytes} bytes; a name has at most {NAME_BYTES_MAX}"));
        }
        if name.chars().any(is_odd) || !name.is_ascii() {
            return Err(format!("`{}` has a character that no name has", name.escape_debug()));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LinkName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        Self::new(&name)
    }
}

impl From<LinkName> for String {
    fn from(name: LinkName) -> Self {
        name.0
    }
}

impl Deref for LinkName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An interface and what lies on it.
///
/// What is `None` is left as the host has it. Lists are complete: an address that is not listed goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: LinkName,
    /// What it is.
    pub kind: Kind,
    /// The address that it is given. A card keeps its permanent one besides.
    pub mac: Option<MacAddress>,
    /// The largest packet, in bytes.
    pub mtu: Option<u32>,
    /// Whether it is up.
    pub up: bool,
    /// Whether it asks for an IPv4 address by DHCP. Who asks is the distribution's program.
    pub dhcp4: bool,
    /// Whether it asks for an IPv6 address by DHCP.
    pub dhcp6: bool,
    /// Its static addresses.
    pub addresses: Vec<Address>,
    /// The static routes through it.
    pub routes: Vec<Route>,
    /// The name servers that are asked through it.
    pub dns: Dns,
}

/// What a link is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A card, or any other device that is there without being asked for.
    Ethernet {
        /// The address by which the card is found. The current address would not do: members of a
        /// bond share theirs.
        permanent_mac: Option<MacAddress>,
    },
    /// Several links as one.
    Bond(Bond),
    /// A VLAN of another link.
    Vlan {
        /// 1 to 4094.
        id: u16,
        /// The link that carries it.
        parent: LinkName,
    },
    /// A Linux bridge.
    Bridge {
        /// Its ports.
        members: Vec<LinkName>,
        /// Whether it speaks the spanning tree protocol.
        stp: Option<bool>,
    },
    /// Another address of a link.
    Macvlan {
        /// The link.
        parent: LinkName,
        /// Who hears whom.
        mode: MacvlanMode,
    },
    /// A tunnel over UDP.
    Vxlan(Vxlan),
    /// A link that leads nowhere.
    Dummy,
    /// A bridge of Open vSwitch, which only files can ask for.
    OvsBridge {
        /// Its ports.
        members: Vec<LinkName>,
        /// The port whose address it takes.
        primary: Option<LinkName>,
    },
    /// A bond of Open vSwitch, which is always a port of one of its bridges.
    OvsBond {
        /// Its links.
        members: Vec<LinkName>,
        /// The link that is used first.
        primary: Option<LinkName>,
        /// Further options, as `ovs_options` of os-net-config has them.
        options: Option<String>,
    },
}

/// Several links as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bond {
    /// The links.
    pub members: Vec<LinkName>,
    /// How they share the work.
    pub mode: BondMode,
    /// How often members are looked at, in milliseconds.
    pub miimon_ms: Option<u32>,
    /// How often partners of 802.3ad speak.
    pub lacp_rate: Option<LacpRate>,
    /// What decides over the member that a packet takes.
    pub xmit_hash_policy: Option<HashPolicy>,
    /// The member that is used first, with `active-backup`.
    pub primary: Option<LinkName>,
}

/// A tunnel over UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vxlan {
    /// The identifier of the network, 0 to 16777215.
    pub vni: u32,
    /// The link below it.
    pub parent: Option<LinkName>,
    /// The address that it sends from.
    pub local: Option<IpAddr>,
    /// The other end, or a multicast group.
    pub remote: Option<IpAddr>,
    /// The UDP port.
    pub port: u16,
}

/// The port that IANA gave to VXLAN; Linux has another one for want of it.
pub(crate) const VXLAN_PORT: u16 = 4789;

/// One of a list of words, which the kernel knows by number.
pub(crate) trait Word: Copy + 'static {
    const ALL: &'static [Self];

    /// The word of files.
    fn word(self) -> &'static str;

    /// The number that the kernel has for it.
    fn number(self) -> u8;

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.word() == word)
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.number() == number)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal / $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $variant,)+ }

        impl Word for $name {
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            fn word(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            fn number(self) -> u8 {
                match self { $(Self::$variant => $number,)+ }
            }
        }
    };
}

words! {
    /// How members of a bond share the work.
    BondMode {
        /// In turn.
        BalanceRr = "balance-rr" / 0,
        /// One works, the others wait.
        ActiveBackup = "active-backup" / 1,
        /// By a hash of the packet.
        BalanceXor = "balance-xor" / 2,
        /// All send everything.
        Broadcast = "broadcast" / 3,
        /// LACP.
        Lacp = "802.3ad" / 4,
        /// By load, when sending.
        BalanceTlb = "balance-tlb" / 5,
        /// By load.
        BalanceAlb = "balance-alb" / 6,
    }
}
words! {
    /// How often partners of 802.3ad speak.
    LacpRate {
        /// Every 30 s.
        Slow = "slow" / 0,
        /// Every second.
        Fast = "fast" / 1,
    }
}
words! {
    /// What decides over the member that a packet takes.
    HashPolicy {
        /// Ethernet addresses.
        Layer2 = "layer2" / 0,
        /// IP addresses and ports.
        Layer34 = "layer3+4" / 1,
        /// Ethernet and IP addresses.
        Layer23 = "layer2+3" / 2,
        /// As `layer2+3`, inside tunnels.
        Encap23 = "encap2+3" / 3,
        /// As `layer3+4`, inside tunnels.
        Encap34 = "encap3+4" / 4,
    }
}
words! {
    /// Who hears whom.
    MacvlanMode {
        /// Only the world outside.
        Private = "private" / 1,
        /// Each other, over the switch.
        Vepa = "vepa" / 2,
        /// Each other.
        Bridge = "bridge" / 4,
        /// One has the link alone.
        Passthru = "passthru" / 8,
    }
}

impl Link {
    /// A link of that kind: up, with nothing on it.
    #[must_use]
    pub fn new(name: LinkName, kind: Kind) -> Self {
        Self {
            name,
            kind,
            mac: None,
            mtu: None,
            up: true,
            dhcp4: false,
            dhcp6: false,
            addresses: Vec::new(),
            routes: Vec::new(),
            dns: Dns::default(),
        }
    }
}

impl Bond {
    /// The member that is used first; other modes have none.
    pub(crate) fn working_primary(&self) -> Option<&LinkName> {
        self.primary.as_ref().filter(|_| self.mode == BondMode::ActiveBackup)
    }
}

impl Kind {
    /// Its word in files.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ethernet { .. } => "ethernet",
            Self::Bond(_) => "bond",
            Self::Vlan { .. } => "vlan",
            Self::Bridge { .. } => "bridge",
            Self::Macvlan { .. } => "macvlan",
            Self::Vxlan(_) => "vxlan",
            Self::Dummy => "dummy",
            Self::OvsBridge { .. } => "ovs_bridge",
            Self::OvsBond { .. } => "ovs_bond",
        }
    }

    /// The links that belong to it.
    #[must_use]
    pub fn members(&self) -> &[LinkName] {
        match self {
            Self::Bond(Bond { members, .. })
            | Self::Bridge { members, .. }
            | Self::OvsBridge { members, .. }
            | Self::OvsBond { members, .. } => members,
            Self::Ethernet { .. }
            | Self::Vlan { .. }
            | Self::Macvlan { .. }
            | Self::Vxlan(_)
            | Self::Dummy => &[],
        }
    }

    pub(crate) fn members_mut(&mut self) -> Option<&mut Vec<LinkName>> {
        match self {
            Self::Bond(Bond { members, .. })
            | Self::Bridge { members, .. }
            | Self::OvsBridge { members, .. }
            | Self::OvsBond { members, .. } => Some(members),
            Self::Ethernet { .. }
            | Self::Vlan { .. }
            | Self::Macvlan { .. }
            | Self::Vxlan(_)
            | Self::Dummy => None,
        }
    }

    pub(crate) fn parent_mut(&mut self) -> Option<&mut LinkName> {
        match self {
            Self::Vlan { parent, .. } | Self::Macvlan { parent, .. } => Some(parent),
            Self::Vxlan(vxlan) => vxlan.parent.as_mut(),
            Self::Ethernet { .. }
            | Self::Bond(_)
            | Self::Bridge { .. }
            | Self::Dummy
            | Self::OvsBridge { .. }
            | Self::OvsBond { .. } => None,
        }
    }

    /// The link below it.
    #[must_use]
    pub fn parent(&self) -> Option<&LinkName> {
        match self {
            Self::Vlan { parent, .. } | Self::Macvlan { parent, .. } => Some(parent),
            Self::Vxlan(vxlan) => vxlan.parent.as_ref(),
            Self::Ethernet { .. }
            | Self::Bond(_)
            | Self::Bridge { .. }
            | Self::Dummy
            | Self::OvsBridge { .. }
            | Self::OvsBond { .. } => None,
        }
    }

    pub(crate) fn primary(&self) -> Option<&LinkName> {
        match self {
            Self::Bond(Bond { primary, .. })
            | Self::OvsBridge { primary, .. }
            | Self::OvsBond { primary, .. } => primary.as_ref(),
            Self::Ethernet { .. }
            | Self::Vlan { .. }
            | Self::Bridge { .. }
            | Self::Macvlan { .. }
            | Self::Vxlan(_)
            | Self::Dummy => None,
        }
    }
}
