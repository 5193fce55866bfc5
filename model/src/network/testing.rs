//! Networks for tests.

use super::{Network, Owner, Strategy, Subnet};
use crate::{Timestamp, Uuid};

pub(crate) fn named(name: &str) -> Owner {
    Owner::Name(name.parse().unwrap())
}

/// A subnet with these pools; an empty gateway is none.
pub(crate) fn subnet(prefix: &str, gateway: &str, pools: &[&str]) -> Subnet {
    let gateway = (!gateway.is_empty()).then(|| gateway.parse().unwrap());
    let pools = pools.iter().map(|pool| pool.parse().unwrap()).collect();
    Subnet { pools, ..Subnet::new(prefix.parse().unwrap(), gateway) }
}

/// The network `net0`.
pub(crate) fn network(subnets: impl Into<Vec<Subnet>>) -> Network {
    Network {
        name: "net0".parse().unwrap(),
        uuid: Uuid::from_u128(1),
        serial_no: 1,
        ctime: Timestamp::default(),
        mtime: Timestamp::default(),
        tags: Vec::new(),
        subnets: subnets.into(),
        dns_servers: Vec::new(),
        mtu: None,
        vlan: None,
        mac_prefix: None,
        strategy: Strategy::default(),
        groups: std::collections::BTreeMap::new(),
    }
}
