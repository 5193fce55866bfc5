//! Core: fields of networks: Ganeti's, then ours.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use luxi::query::CellStatus;
use model::network::allocate::Used as _;
use model::network::{Network, Subnet};

use crate::config::Config;
use crate::config::claims::UsedIn;
use crate::units::list::seconds;
use crate::units::list::{Cell, Field, fields, json};

/// Longest map, in addresses: that of a /16, as in Ganeti.
const MAP_MAX: u128 = 1 << 16;

/// A network with what is to be told of its use.
#[derive(Debug, Clone)]
pub struct NetworkRow {
    pub network: Arc<Network>,
    /// Claims, nodes, groups.
    pub config: Arc<Config>,
}

impl NetworkRow {
    /// The subnet that Ganeti's fields of IPv4, or of IPv6, are about.
    fn subnet(&self, is_ipv4: bool) -> Option<&Subnet> {
        self.network.subnet(is_ipv4)
    }

    fn prefix(&self, is_ipv4: bool) -> Cell {
        optional(self.subnet(is_ipv4).map(|subnet| subnet.prefix))
    }

    fn gateway(&self, is_ipv4: bool) -> Cell {
        optional(self.subnet(is_ipv4).and_then(|subnet| subnet.gateway))
    }

    /// Ganeti's list: each address that instances never get, the network's own two and the router's among
    /// them. Ours of a larger network, or of IPv6, stand in `subnets`.
    fn external_reservations(&self) -> Cell {
        let Some(subnet) = self.subnet(true).filter(|subnet| subnet.all().count() <= MAP_MAX)
        else {
            return Cell::without(CellStatus::Unavailable);
        };
        let (all, hosts) = (subnet.all(), subnet.hosts());
        let edges = [all.first(), all.last()].into_iter().filter(|edge| !hosts.contains(*edge));
        let mut addresses: BTreeSet<IpAddr> = edges.chain(subnet.gateway).collect();
        addresses.extend(subnet.reserved.iter().flat_map(|range| range.addresses()));
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        json(&texts.join(", "))
    }

    fn used(&self) -> UsedIn<'_> {
        UsedIn { config: &self.config, network: &self.network.name }
    }

    /// Addresses that a claim could get now.
    fn free(&self, subnet: &Subnet) -> u128 {
        let name = self.network.name.clone();
        let all = subnet.all();
        let claims = &self.config.claims.by.address;
        let taken = claims.within((name.clone(), all.first())..=(name, all.last()));
        let taken = taken.filter(|((_, address), _)| subnet.gives(*address)).count();
        let parts = self.used().parts_within(subnet);
        let parts = parts.filter(|address| subnet.gives(*address)).count();
        subnet.capacity().saturating_sub(u128::try_from(taken + parts).unwrap_or(u128::MAX))
    }

    fn counted(&self, count: impl Fn(u128, u128) -> u128) -> Cell {
        let Some(subnet) = self.subnet(true) else { return Cell::normal(0) };
        json(&u64::try_from(count(self.free(subnet), subnet.all().count())).unwrap_or(u64::MAX))
    }

    /// `.` for each address that a claim could get, and `X` for each other one.
    fn map(&self) -> Cell {
        let Some(subnet) = self.subnet(true).filter(|subnet| subnet.all().count() <= MAP_MAX)
        else {
            return Cell::without(CellStatus::Unavailable);
        };
        let used = self.used();
        let is_free = |address: &IpAddr| subnet.gives(*address) && used.run_end(*address).is_none();
        let mark = |address| if is_free(&address) { '.' } else { 'X' };
        json(&subnet.all().addresses().map(mark).collect::<String>())
    }

    fn claims(&self, waiting: bool) -> Cell {
        let claims = self.config.claims.by.network.of(self.network.name.clone());
        Cell::normal(claims.filter(|claim| claim.is_waiting() == waiting).count())
    }

    /// Name, mode, link and VLAN of each group, as Ganeti tells them.
    fn groups(&self) -> Cell {
        let of = |(uuid, connection): (&String, &model::network::Connection)| {
            let name = self.config.group(uuid).map_or_else(|_| uuid.clone(), |g| g.name.clone());
            serde_json::json!([name, connection.mode, connection.link, connection.vlan])
        };
        json(&self.network.groups.iter().map(of).collect::<Vec<_>>())
    }
}

/// An unset parameter is no value, as in Ganeti.
fn optional(value: Option<impl ToString>) -> Cell {
    Cell::optional(value.map(|value| value.to_string()))
}

/// The table.
pub const FIELDS: &[Field<NetworkRow>] = fields! {
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&seconds(r.network.ctime));
    "external_reservations", "ExternalReservations", Text, "IPv4 addresses that are never given out",
        NetworkRow::external_reservations;
    "free_count", "FreeCount", Number, "IPv4 addresses that a claim could get",
        |r| r.counted(|free, _all| free);
    "gateway", "Gateway", Other, "IPv4 gateway", |r| r.gateway(true);
    "gateway6", "IPv6Gateway", Other, "IPv6 gateway", |r| r.gateway(false);
    "group_cnt", "NodeGroups", Number, "Number of node groups that it is connected to",
        |r| Cell::normal(r.network.groups.len());
    "group_list", "GroupList", Other, "Node groups with mode, link and VLAN", NetworkRow::groups;
    "inst_cnt", "Instances", Number, "Number of instances", |_| Cell::normal(0);
    "inst_list", "InstanceList", Other, "List of instances", |_| json(&Vec::<String>::new());
    "mac_prefix", "MacPrefix", Other, "First bytes of Ethernet addresses",
        |r| optional(r.network.mac_prefix.as_deref());
    "map", "Map", Text, "`.` for each free IPv4 address, `X` for each other one", NetworkRow::map;
    "mtime", "MTime", Timestamp, "When it last changed", |r| json(&seconds(r.network.mtime));
    "name", "Network", Text, "Network name", |r| Cell::normal(r.network.name.as_str());
    "network", "Subnet", Text, "IPv4 subnet", |r| r.prefix(true);
    "network6", "IPv6Subnet", Other, "IPv6 subnet", |r| r.prefix(false);
    "reserved_count", "ReservedCount", Number, "IPv4 addresses that no claim can get",
        |r| r.counted(|free, all| all - free);
    "serial_no", "SerialNo", Number, "Number of changes of the network object",
        |r| Cell::normal(r.network.serial_no);
    "tags", "Tags", Other, "Tags", |r| json(&r.network.tags);
    "uuid", "UUID", Text, "Network UUID", |r| json(&r.network.uuid);
    "claims", "Claims", Number, "Claims that have addresses", |r| r.claims(false);
    "waiting", "Waiting", Number, "Claims that wait for an address", |r| r.claims(true);
    "subnets", "Subnets", Other, "Prefixes with router, pools and reserved addresses",
        |r| json(&r.network.subnets);
    "dns_servers", "DNSServers", Other, "What resolves names", |r| json(&r.network.dns_servers);
    "mtu", "MTU", Other, "Largest packet in bytes", |r| Cell::optional(r.network.mtu);
    "vlan", "VLAN", Other, "Its VLAN", |r| Cell::optional(r.network.vlan);
    "strategy", "Strategy", Text, "Which free address is given", |r| json(&r.network.strategy);
};
