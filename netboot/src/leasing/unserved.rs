//! Why networks of the racks are not served from this host's interfaces, and what ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::Ipv4Net;
use model::rack::RackDocument;
use model::rack_fault::{RackCause, RackFault};
use stdx::daemon::chain;
use stdx::net::Interface;
use stdx::net::port_owner::{PortOwner, udp_owner};

use super::{BeginError, Leasing};
use crate::dhcp::server::LinkError;
use crate::rack::compile::{Compiled, Listener};

/// Finds the process that has the port of DHCP, for who may not see it from here.
const WHO_HAS_PORT: &str = "$(ss -Hlunp sport = :67 | grep -oP 'pid=\\K\\d+')";

/// The places that served each network since the agent began, to say what is missing of them.
#[derive(Debug)]
pub(super) struct Unserved {
    /// The address of the boot side.
    boot: IpAddr,
    served: BTreeMap<Ipv4Net, Place>,
}

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    interface: String,
    address: Ipv4Addr,
    prefix_len: u8,
}

impl Unserved {
    pub(super) fn new(leasing: &Leasing) -> Self {
        Self { boot: leasing.boot.ip(), served: BTreeMap::new() }
    }

    /// The fault where no network is served, or one is not served any more.
    pub(super) fn missing(
        &mut self,
        wanted: &Compiled,
        interfaces: &[Interface],
        documents: &[Arc<RackDocument>],
    ) -> Option<RackFault> {
        let ranges = || documents.iter().flat_map(|document| &document.ranges);
        let networks: BTreeSet<Ipv4Net> = ranges().map(|range| range.subnet).collect();
        self.served.retain(|network, _| networks.contains(network));
        let places = wanted.places.iter().filter_map(|place| place_of(place, interfaces));
        self.served.extend(places.filter_map(|place| {
            let network = networks.iter().find(|network| network.contains(&place.address))?;
            Some((*network, place))
        }));
        let lost = wanted.unserved.iter().find(|network| self.served.contains_key(network));
        let first = wanted.unserved.first().filter(|_| wanted.places.is_empty());
        let network = *lost.or(first)?;
        let is_down = |one: &&Interface| {
            let mut addresses = one.addresses.iter();
            !one.up && !one.loopback && addresses.any(|held| network.contains(&held.address))
        };
        if let Some(Interface { name, .. }) = interfaces.iter().find(is_down) {
            let text = format!("{name}, which has an address in {network}, is switched off");
            return Some(RackCause::LinkDown.fault(text, &[("INTERFACE", name)]));
        }
        let was = self.served.get(&network).cloned();
        let place = was.clone().unwrap_or_else(|| Place {
            interface: interface_for(interfaces).to_owned(),
            address: self.address_in(network, documents),
            prefix_len: network.prefix_len(),
        });
        let text = match was {
            Some(Place { interface, address, .. }) => {
                format!(
                    "no interface that is up has an address in {network}; {interface} had {address}"
                )
            }
            None => format!("no interface that is up has an address in {network}"),
        };
        Some(address_missing(text, &place))
    }

    /// An address for this host in a network that it was never seen in. This is the address that the
    /// options give to the boot side, or the first that no document gives to anybody.
    fn address_in(&self, network: Ipv4Net, documents: &[Arc<RackDocument>]) -> Ipv4Addr {
        if let IpAddr::V4(boot) = self.boot
            && network.contains(&boot)
        {
            return boot;
        }
        let machines = documents.iter().flat_map(|document| &document.machines);
        let fixed: BTreeSet<Ipv4Addr> =
            machines.flat_map(|machine| machine.addresses.iter().copied()).collect();
        let ranges = || documents.iter().flat_map(|document| &document.ranges);
        let is_free = |address: &Ipv4Addr| {
            let is_of = |range: &model::ipam::LeaseRange| {
                range.gateway == *address || (range.first..=range.last).contains(address)
            };
            !fixed.contains(address) && !ranges().any(is_of)
        };
        network.hosts().find(is_free).unwrap_or(network.network())
    }
}

fn address_missing(text: String, place: &Place) -> RackFault {
    let address = format!("{}/{}", place.address, place.prefix_len);
    RackCause::AddressMissing.fault(text, &[("ADDRESS", &address), ("INTERFACE", &place.interface)])
}

fn place_of(listener: &Listener, interfaces: &[Interface]) -> Option<Place> {
    let Listener::Interface { name, address } = listener else { return None };
    let interface = interfaces.iter().find(|interface| interface.name == *name)?;
    let held = interface.addresses.iter().find(|held| held.address == *address)?;
    let (interface, prefix_len) = (name.clone(), held.prefix_len);
    Some(Place { interface, address: *address, prefix_len })
}

/// The interface that most likely leads to the rack: one that is up and has no address.
fn interface_for(interfaces: &[Interface]) -> &str {
    let cards = || interfaces.iter().filter(|one| !one.loopback && one.mac.is_some());
    let bare = cards().find(|one| one.up && one.addresses.is_empty());
    let found = bare.or_else(|| cards().find(|one| one.up)).or_else(|| cards().next());
    found.map_or("INTERFACE", |one| one.name.as_str())
}

/// Why DHCP could not be begun. Looks for who has the port.
pub(super) fn fault_of(error: &BeginError, interfaces: &[Interface]) -> RackFault {
    match error {
        BeginError::Link(LinkError::Missing { name, address }) => {
            let (interface, address) = (name.clone(), *address);
            address_missing(error.to_string(), &Place { interface, address, prefix_len: 32 })
        }
        BeginError::Link(LinkError::Listen { at, port, error: why }) => match why.kind() {
            ErrorKind::AddrInUse => {
                let owner = stdx::aside(|| udp_owner(*port));
                port_taken((at, *port), owner.as_ref())
            }
            ErrorKind::AddrNotAvailable => {
                let (interface, address) = (interface_for(interfaces).to_owned(), at.parse());
                let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED);
                let text =
                    format!("no interface has the address {at}, which `--dhcp-address` names");
                address_missing(text, &Place { interface, address, prefix_len: 32 })
            }
            _ => RackCause::DhcpFailed.fault(chain(error).to_string(), &[]),
        },
        _ => RackCause::DhcpFailed.fault(chain(error).to_string(), &[]),
    }
}

fn port_taken((at, port): (&str, u16), owner: Option<&PortOwner>) -> RackFault {
    let by = owner.map_or_else(|| "another program".to_owned(), ToString::to_string);
    let process = owner.and_then(|owner| owner.process.as_ref());
    let pid = process.map_or_else(|| WHO_HAS_PORT.to_owned(), |process| process.pid.to_string());
    let text = format!("UDP port {port} of {at} is taken by {by}");
    RackCause::PortTaken.fault(text, &[("PID", &pid)])
}

#[cfg(test)]
mod tests {
    use stdx::net::InterfaceAddress;
    use stdx::net::port_owner::Process;

    use super::*;
    use crate::rack::compile::{compile, places};
    use crate::testing::{name, rack};

    const MAC: Option<[u8; 6]> = Some([2, 0, 0, 0, 0, 1]);

    fn card(name: &str, address: Option<[u8; 4]>, up: bool) -> Interface {
        let held = |address: [u8; 4]| InterfaceAddress { address: address.into(), prefix_len: 26 };
        Interface {
            name: name.to_owned(),
            index: 1,
            mac: MAC,
            addresses: address.map(held).into_iter().collect(),
            up,
            loopback: false,
        }
    }

    fn unserved(boot: [u8; 4]) -> Unserved {
        Unserved { boot: IpAddr::from(boot), served: BTreeMap::new() }
    }

    fn look(unserved: &mut Unserved, interfaces: &[Interface]) -> Option<(RackCause, String)> {
        let documents = [Arc::new(rack(0, 1))];
        let boot = "0.0.0.0:10080".parse().unwrap();
        let wanted = compile(&documents, &places(interfaces, &[]), boot, &name("n2"));
        let fault = unserved.missing(&wanted, interfaces, &documents)?.at("n2", 0);
        Some((fault.cause, fault.remedy))
    }

    #[test]
    fn an_address_that_was_there_comes_back_by_the_remedy() {
        let mut unserved = unserved([0, 0, 0, 0]);
        let there =
            [card("eth0", Some([192, 0, 2, 7]), true), card("rack0", Some([10, 69, 0, 3]), true)];
        assert_eq!(look(&mut unserved, &there), None);
        let gone = [there[0].clone(), card("rack0", None, true)];
        let remedy = "`ip address add 10.69.0.3/26 dev rack0` on n2".to_owned();
        assert_eq!(look(&mut unserved, &gone), Some((RackCause::AddressMissing, remedy)));
        let down = [there[0].clone(), card("rack0", Some([10, 69, 0, 3]), false)];
        let remedy = "`ip link set rack0 up` on n2".to_owned();
        assert_eq!(look(&mut unserved, &down), Some((RackCause::LinkDown, remedy)));
        assert_eq!(look(&mut unserved, &there), None);
    }

    #[test]
    fn an_address_that_was_never_there_is_one_that_nobody_has() {
        let interfaces = [card("eth0", Some([192, 0, 2, 7]), true), card("rack0", None, true)];
        for (boot, address) in [([0, 0, 0, 0], "10.69.0.2"), ([10, 69, 0, 9], "10.69.0.9")] {
            let told = look(&mut unserved(boot), &interfaces);
            let remedy = format!("`ip address add {address}/26 dev rack0` on n2");
            assert_eq!(told, Some((RackCause::AddressMissing, remedy)));
        }
        let (_, remedy) = look(&mut unserved([0, 0, 0, 0]), &[]).unwrap();
        assert!(remedy.contains("dev INTERFACE"), "{remedy}");
    }

    #[test]
    fn a_taken_port_names_its_owner_as_far_as_it_is_known() {
        let seen = PortOwner {
            process: Some(Process { pid: 812, name: "dnsmasq".to_owned(), unit: None }),
            user: "dnsmasq".to_owned(),
        };
        let unseen = PortOwner { process: None, ..seen.clone() };
        for (owner, by, pid) in [
            (Some(&seen), "by dnsmasq (process 812)", "`kill 812` on"),
            (Some(&unseen), "by a process of the user dnsmasq", "`kill $(ss -Hlunp"),
            (None, "by another program", "`kill $(ss -Hlunp"),
        ] {
            let RackFault { cause, text, remedy } = port_taken(("rack0", 67), owner);
            assert_eq!(cause, RackCause::PortTaken);
            assert!(text.contains(by) && remedy.contains(pid), "{text}: {remedy}");
        }
    }

    #[test]
    fn what_the_system_refuses_has_a_cause() {
        let listen = |at: &str, kind: ErrorKind| {
            let (at, error) = (at.to_owned(), kind.into());
            BeginError::Link(LinkError::Listen { at, port: 67, error })
        };
        let missing = fault_of(&listen("10.69.0.9", ErrorKind::AddrNotAvailable), &[]);
        assert_eq!(missing.cause, RackCause::AddressMissing);
        assert!(missing.remedy.contains("10.69.0.9/32"), "{missing:?}");
        let refused = fault_of(&listen("rack0", ErrorKind::PermissionDenied), &[]);
        assert_eq!(refused.cause, RackCause::DhcpFailed);
    }
}
