//! Core: a machine as today's sabakan shows it. Fields stand in the order of their names, as in every object
//! that we answer with.

use std::net::Ipv4Addr;

use serde::Serialize;

use super::time;
use crate::Serial;
use crate::ipam::IpamConfig;
use crate::machine::life::Status as State;
use crate::machine::{Addresses, Labels, Machine};
use crate::time::Timestamp;

/// When a machine is to be taken out of use. The default is the time of its registration, as in sabakan.
pub fn retire_date(machine: &Machine) -> Timestamp {
    machine.retire_date.unwrap_or(machine.register_date)
}

/// A machine at a moment. Product and data centre, which are labels there, are shown as labels, too.
#[derive(Debug, Serialize)]
pub struct Today<'m> {
    info: Info,
    spec: Spec<'m>,
    status: Status,
}

#[derive(Debug, Serialize)]
struct Info {
    bmc: InfoBmc,
    network: Network,
}

#[derive(Debug, Serialize)]
struct InfoBmc {
    ipv4: OptionalPlace,
}

#[derive(Debug, Serialize)]
struct Network {
    ipv4: Vec<Place>,
}

/// An object without fields where there is none.
#[derive(Debug, Default, Serialize)]
struct OptionalPlace {
    #[serde(flatten)]
    place: Option<Place>,
}

/// An address with what an interface needs beside it.
#[derive(Debug, Serialize)]
struct Place {
    address: Ipv4Addr,
    gateway: Ipv4Addr,
    maskbits: u8,
    netmask: Ipv4Addr,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Spec<'m> {
    bmc: SpecBmc<'m>,
    index_in_rack: u32,
    ipv4: Vec<Ipv4Addr>,
    ipv6: Vec<String>,
    labels: Labels,
    rack: u32,
    register_date: String,
    retire_date: String,
    role: &'m str,
    serial: &'m Serial,
}

#[derive(Debug, Serialize)]
struct SpecBmc<'m> {
    ipv4: String,
    ipv6: String,
    r#type: &'m str,
}

#[derive(Debug, Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<i64>,
    state: State,
    timestamp: String,
}

impl<'m> Today<'m> {
    /// The machine at this moment, by these rules of addresses.
    pub fn of(machine: &'m Machine, rules: Option<&IpamConfig>, now: Timestamp) -> Self {
        let mut labels = machine.labels.clone();
        for (name, value) in [("product", &machine.product), ("datacenter", &machine.datacenter)] {
            if !value.is_empty() {
                labels.entry(name.to_owned()).or_insert_with(|| value.clone());
            }
        }
        let interfaces = interfaces(machine);
        let ipv4: Vec<Ipv4Addr> = interfaces.iter().flat_map(|of| &of.ipv4).copied().collect();
        let ipv6 = interfaces.iter().flat_map(|of| of.ipv6.iter().flatten());
        let ipv6 = ipv6.map(ToString::to_string).collect();
        let bmc = &machine.bmc;
        let bmc = SpecBmc {
            ipv4: bmc.ipv4.first().map(ToString::to_string).unwrap_or_default(),
            ipv6: bmc.ipv6.iter().flatten().next().map(ToString::to_string).unwrap_or_default(),
            r#type: bmc.kind.as_deref().unwrap_or_default(),
        };
        let info = Info::of(machine, rules, &ipv4);
        let spec = Spec {
            bmc,
            index_in_rack: machine.index_in_rack,
            ipv4,
            ipv6,
            labels,
            rack: machine.rack,
            register_date: time::shown(machine.register_date),
            retire_date: time::shown(retire_date(machine)),
            role: &machine.role,
            serial: &machine.serial,
        };
        Self { info, spec, status: Status::of(machine, now) }
    }

    /// The same without what is another a moment later.
    pub fn lasting(mut self) -> Self {
        self.status.duration = None;
        self
    }
}

impl Info {
    fn of(machine: &Machine, rules: Option<&IpamConfig>, addresses: &[Ipv4Addr]) -> Self {
        let nodes = rules.map(|r| (r.node_ipv4_range_mask, r.node_gateway_offset.unwrap_or(1)));
        let controllers =
            rules.map(|r| (r.bmc_ipv4_range_mask, r.bmc_ipv4_gateway_offset.unwrap_or(1)));
        let network = |(mask, gateway)| {
            addresses.iter().map(|&address| Place::of(address, mask, gateway)).collect()
        };
        let bmc = machine.bmc.ipv4.first().copied().zip(controllers);
        let place = bmc.map(|(address, (mask, gateway))| Place::of(address, mask, gateway));
        let ipv4 = nodes.map(network).unwrap_or_default();
        Self { bmc: InfoBmc { ipv4: OptionalPlace { place } }, network: Network { ipv4 } }
    }
}

impl Place {
    fn of(address: Ipv4Addr, maskbits: u8, gateway: u32) -> Self {
        let mask = u32::MAX.checked_shl(32 - u32::from(maskbits.min(32))).unwrap_or(0);
        let network = u32::from(address) & mask;
        let gateway = Ipv4Addr::from(network.wrapping_add(gateway));
        Self { address, gateway, maskbits, netmask: Ipv4Addr::from(mask) }
    }
}

impl Status {
    /// Its state, since when it is in it, and for how many seconds.
    fn of(machine: &Machine, now: Timestamp) -> Self {
        let since = machine.state_since();
        let duration = Some((now.seconds() - since.seconds()).max(0));
        Self { duration, state: machine.life.state.status(), timestamp: time::shown(since) }
    }
}

/// The interfaces by their numbers: as text, `node10` stands before `node2`.
fn interfaces(machine: &Machine) -> Vec<&Addresses> {
    let number = |name: &str| name.trim_start_matches("node").parse::<u32>().unwrap_or(u32::MAX);
    let mut named: Vec<_> = machine.network.iter().collect();
    named.sort_by_key(|(name, _)| number(name));
    named.into_iter().map(|(_, addresses)| addresses).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_all_addresses_has_no_mask() {
        let place = Place::of(Ipv4Addr::new(10, 0, 0, 1), 0, 1);
        assert_eq!(
            (place.netmask, place.gateway),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(0, 0, 0, 1))
        );
    }

    #[test]
    fn what_lasts_has_no_duration() {
        let text = r#"{"serial":"s1","product":"","datacenter":"","rack":1,"index-in-rack":5,
            "role":"worker","network":{},"bmc":{"ipv4":[],"ipv6":null},"register-date":[1542763425,0]}"#;
        let machine: Machine = serde_json::from_str(text).unwrap();
        let shown = |seconds| {
            let now = machine.register_date.plus_seconds(seconds);
            let today = Today::of(&machine, None, now);
            (
                serde_json::to_string(&today).unwrap(),
                serde_json::to_string(&today.lasting()).unwrap(),
            )
        };
        let [(now, lasting), (later, same)] = [shown(1), shown(9)];
        assert!(now.contains("\"status\":{\"duration\":1,\"state\"") && now != later, "{now}");
        assert!(lasting == same && !lasting.contains("duration"), "{lasting}");
        assert!(
            now.contains("\"info\":{\"bmc\":{\"ipv4\":{}},\"network\":{\"ipv4\":[]}}"),
            "{now}"
        );
    }
}
