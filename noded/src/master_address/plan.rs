//! Core: what must be done to the machine's addresses so that it has the master's, or has it not.

use std::net::{IpAddr, Ipv4Addr};

use stdx::net::{Interface, LinkAddress};

/// The mark that the agent writes beside an address, so that its own ones are told from others after a
/// crash. It is a number for `ip address show`, which has it as `proto`.
pub(super) const ORIGIN: u8 = 0x67;
/// The same as a label, for kernels that keep no such number, and for people.
const LABEL: &str = ":gnt";
/// Longest label, in bytes (`IFNAMSIZ`, less the zero at its end).
const LABEL_BYTES_MAX: usize = 15;

/// One step towards what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Remove(LinkAddress),
    Add(LinkAddress),
}

/// An address that cannot be taken as things are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The prefix is longer than the address.
    #[error("{address}/{prefix}: an address of this kind has at most {most} leading bits")]
    Prefix {
        address: IpAddr,
        prefix: u8,
        /// Bits of the address.
        most: u8,
    },
    /// There is no such interface.
    #[error("this node has no interface `{netdev}`, it has {has}")]
    NoInterface {
        /// The interface that was asked for.
        netdev: String,
        /// The interfaces that there are.
        has: String,
        /// The one that is most likely meant.
        likely: Option<String>,
    },
    /// The interface is off.
    #[error("the interface `{netdev}` of this node is down")]
    Down { netdev: String },
    /// Somebody gave the address to another interface.
    #[error(
        "{address}/{prefix} is on the interface `{other}` of this node already, and no agent put it there"
    )]
    OnOther {
        address: IpAddr,
        /// Its prefix there.
        prefix: u8,
        /// The other interface.
        other: String,
    },
}

/// The address with the interface that is to carry it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
    pub(super) netdev: &'a str,
}

impl Refused {
    /// The command that ends it, where `node` is this one.
    pub(super) fn remedy(&self, node: &str) -> String {
        match self {
            Self::Prefix { most, .. } => {
                format!("`gnt cluster modify --master-netmask {most}`, or fewer bits")
            }
            Self::NoInterface { likely, .. } => {
                let likely = likely.as_deref().unwrap_or("NAME");
                format!("`gnt cluster modify --master-netdev {likely}`")
            }
            Self::Down { netdev } => format!("`ip link set {netdev} up` on {node}"),
            Self::OnOther { address, prefix, other } => {
                format!("`ip address del {address}/{prefix} dev {other}` on {node}")
            }
        }
    }
}

impl Wanted<'_> {
    /// The interface, which must be there and on.
    pub(super) fn interface<'i>(&self, all: &'i [Interface]) -> Result<&'i Interface, Refused> {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.prefix > most {
            return Err(Refused::Prefix { address: self.address, prefix: self.prefix, most });
        }
        let netdev = self.netdev.to_owned();
        match all.iter().find(|interface| interface.name == netdev) {
            Some(interface) if interface.up => Ok(interface),
            Some(_off) => Err(Refused::Down { netdev }),
            None => {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                let likely = self.likely(all).map(|one| one.name.clone());
                Err(Refused::NoInterface { netdev, has: names.join(", "), likely })
            }
        }
    }

    /// The interface that is in the network of the address, or else any card that is on.
    fn likely<'i>(&self, all: &'i [Interface]) -> Option<&'i Interface> {
        let network = |address: Ipv4Addr| {
            let bits = u32::from(self.prefix).min(32);
            u32::from(address) & u32::MAX.checked_shl(32 - bits).unwrap_or(0)
        };
        let is_near = |one: &&Interface| match self.address {
            IpAddr::V4(wanted) => {
                one.addresses.iter().any(|held| network(held.address) == network(wanted))
            }
            IpAddr::V6(_) => false,
        };
        let cards = || all.iter().filter(|one| one.up && !one.loopback);
        cards().find(is_near).or_else(|| cards().next())
    }

    /// The steps to have the address on its interface, and nowhere else.
    pub(super) fn up(&self, all: &[Interface], held: &[LinkAddress]) -> Result<Vec<Step>, Refused> {
        let interface = self.interface(all)?;
        let mut steps = Vec::new();
        let mut there = false;
        for one in held.iter().filter(|one| one.address == self.address) {
            if one.index == interface.index && one.prefix_len == self.prefix {
                there = true;
            } else if one.index == interface.index || is_ours(one) {
                steps.push(Step::Remove(one.clone()));
            } else {
                let other = all.iter().find(|other| other.index == one.index);
                let other = other.map_or_else(|| one.index.to_string(), |other| other.name.clone());
                let (address, prefix) = (one.address, one.prefix_len);
                return Err(Refused::OnOther { address, prefix, other });
            }
        }
        if !there {
            let label = format!("{}{LABEL}", self.netdev);
            steps.push(Step::Add(LinkAddress {
                index: interface.index,
                address: self.address,
                prefix_len: self.prefix,
                origin: ORIGIN,
                label: (label.len() <= LABEL_BYTES_MAX).then_some(label),
            }));
        }
        Ok(steps)
    }

    /// The steps to have the address neither on its interface nor where an agent has put it.
    pub(super) fn down(&self, all: &[Interface], held: &[LinkAddress]) -> Vec<Step> {
        let interface = all.iter().find(|interface| interface.name == self.netdev);
        let here = |one: &LinkAddress| interface.is_some_and(|i| i.index == one.index);
        let gone = |one: &&LinkAddress| one.address == self.address && (here(one) || is_ours(one));
        held.iter().filter(gone).cloned().map(Step::Remove).collect()
    }
}

/// Whether an agent made it.
fn is_ours(held: &LinkAddress) -> bool {
    held.origin == ORIGIN || held.label.as_deref().is_some_and(|label| label.ends_with(LABEL))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stdx::net::InterfaceAddress;

    use super::*;

    fn interfaces() -> Vec<Interface> {
        ["eth0", "eth1", "a-name-so-long"]
            .iter()
            .zip(1..)
            .map(|(name, index)| Interface {
                name: (*name).to_owned(),
                index,
                mac: Some([2, 0, 0, 0, 0, 1]),
                addresses: Vec::new(),
                up: *name != "eth1",
                loopback: false,
            })
            .collect()
    }

    fn wanted(netdev: &str) -> Wanted<'_> {
        Wanted { address: [10, 0, 0, 9].into(), prefix: 24, netdev }
    }

    fn held(index: u32, prefix_len: u8, origin: u8) -> LinkAddress {
        LinkAddress { index, address: [10, 0, 0, 9].into(), prefix_len, origin, label: None }
    }

    #[test]
    fn it_is_added_with_a_mark() {
        let steps = wanted("eth0").up(&interfaces(), &[]).unwrap();
        let label = Some("eth0:gnt".to_owned());
        assert_eq!(steps, [Step::Add(LinkAddress { label, ..held(1, 24, ORIGIN) })]);
        let steps = wanted("a-name-so-long").up(&interfaces(), &[]).unwrap();
        assert_eq!(steps, [Step::Add(held(3, 24, ORIGIN))]);
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let up = |wanted: Wanted<'_>, held: &[LinkAddress]| {
            let refused = wanted.up(&interfaces(), held).unwrap_err();
            format!("{refused}: {}", refused.remedy("n1"))
        };
        let told = up(wanted("eth9"), &[]);
        assert!(told.contains("`eth9`, it has eth0, eth1, a-name"), "{told}");
        assert!(told.ends_with("`gnt cluster modify --master-netdev eth0`"), "{told}");
        // An interface that has a neighbour of the address is more likely meant.
        let mut all = interfaces();
        let near = InterfaceAddress { address: [10, 0, 0, 4].into(), prefix_len: 24 };
        all[2].addresses.push(near);
        let told = wanted("eth9").up(&all, &[]).unwrap_err().remedy("n1");
        assert_eq!(told, "`gnt cluster modify --master-netdev a-name-so-long`");
        assert!(up(wanted("eth1"), &[]).contains("`ip link set eth1 up`"));
        assert!(up(Wanted { prefix: 33, ..wanted("eth0") }, &[]).contains("at most 32"));
        let told = up(wanted("eth0"), &[held(2, 24, 0)]);
        assert!(told.contains("`ip address del 10.0.0.9/24 dev eth1`"), "{told}");
    }

    #[test]
    fn another_prefix_or_place_is_left_for_the_right_one() {
        for other in [held(1, 32, 0), held(1, 32, ORIGIN), held(2, 24, ORIGIN)] {
            let steps = wanted("eth0").up(&interfaces(), std::slice::from_ref(&other)).unwrap();
            assert_eq!(steps[0], Step::Remove(other));
            assert!(matches!(&steps[1..], [Step::Add(_)]));
        }
    }

    #[test]
    fn down_leaves_what_others_made_elsewhere() {
        let all = [held(1, 24, 0), held(2, 24, 0), held(2, 32, ORIGIN)];
        let steps = wanted("eth0").down(&interfaces(), &all);
        assert_eq!(steps, [Step::Remove(all[0].clone()), Step::Remove(all[2].clone())]);
        let steps = wanted("gone").down(&interfaces(), &all);
        assert_eq!(steps, [Step::Remove(all[2].clone())]);
    }

    fn carried_out(mut held: Vec<LinkAddress>, steps: Vec<Step>) -> Vec<LinkAddress> {
        for step in steps {
            match step {
                Step::Remove(one) => {
                    let at = held.iter().position(|other| *other == one).unwrap();
                    held.remove(at);
                }
                Step::Add(one) => held.push(one),
            }
        }
        held
    }

    proptest! {
        /// Twice is once, and down undoes up, whatever there was before.
        #[test]
        fn steps_lead_there(before in proptest::collection::vec((1_u32..4, 23_u8..25, any::<bool>()), 0..4)) {
            let mut before: Vec<LinkAddress> =
                before.into_iter().map(|(i, p, ours)| held(i, p, if ours { ORIGIN } else { 0 })).collect();
            before.dedup_by_key(|one| (one.index, one.prefix_len));
            let (all, wanted) = (interfaces(), wanted("eth0"));
            if let Ok(steps) = wanted.up(&all, &before) {
                let after = carried_out(before.clone(), steps);
                prop_assert!(after.iter().any(|one| (one.index, one.prefix_len) == (1, 24)));
                prop_assert_eq!(wanted.up(&all, &after), Ok(Vec::new()));
                let gone = carried_out(after.clone(), wanted.down(&all, &after));
                prop_assert_eq!(gone, Vec::new());
            }
            let gone = carried_out(before.clone(), wanted.down(&all, &before));
            prop_assert_eq!(wanted.down(&all, &gone), Vec::new());
        }
    }
}
