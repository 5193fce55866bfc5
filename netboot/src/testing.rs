//! Parts for tests of agents: a rack, a membership, names.

use model::ipam::LeaseRange;
use model::power_cycle::{ExpectedRamdisk, Ramdisk, RamdiskToken};
use model::rack::{BootChoice, DocumentVersion, RackDocument, RackMachine};
use model::{NodeName, Timestamp};
use queue_format::Epoch;
use rpc::calls::{AllowList, Membership};
use uuid::Uuid;

/// A name that is written well.
pub fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

/// The time of the system.
pub fn now() -> Timestamp {
    Timestamp::from_micros(stdx::Clock::system().now_micros())
}

/// The epoch of this term, of the first member.
pub fn epoch(term: u64) -> Epoch {
    Epoch { term, node: 1 }
}

/// Bytes of a journal segment: two are made for every store.
pub const SMALL: u64 = 1 << 20;

/// The membership that a node of this name has from its enrolment.
pub fn membership(node: &str) -> Membership {
    Membership {
        cluster_uuid: Uuid::from_u128(7),
        cluster_name: name("cluster.example.com"),
        node: name(node),
        node_id: 2,
        allow: AllowList::default(),
        epoch: epoch(1),
        enrolled: Timestamp::default(),
    }
}

pub fn ramdisk() -> ExpectedRamdisk {
    let token = RamdiskToken::new("dG9rZW4".to_owned());
    ExpectedRamdisk { token, boots: true, enrols: None, heard: Ramdisk::default() }
}

/// A rack with one range and the machine `S1`.
pub fn rack(rack: u32, version: u64) -> RackDocument {
    RackDocument {
        assets: Vec::new(),
        cluster_name: name("cluster.example.com"),
        rack,
        version: DocumentVersion { term: 1, position: version },
        ranges: vec![LeaseRange {
            subnet: "10.69.0.0/26".parse().unwrap(),
            first: "10.69.0.32".parse().unwrap(),
            last: "10.69.0.62".parse().unwrap(),
            gateway: "10.69.0.1".parse().unwrap(),
        }],
        lease_seconds: 3_600,
        parts: Vec::new(),
        agents: Vec::new(),
        dhcp: model::dhcp::RackDhcp::default(),
        machines: vec![RackMachine {
            serial: "S1".parse().unwrap(),
            role: "worker".to_owned(),
            index: 4,
            mac: Vec::new(),
            uuid: None,
            addresses: vec!["10.69.0.4".parse().unwrap()],
            boot: BootChoice::Local,
            registered: None,
            cycle: 0,
            ramdisk: None,
            documents: Vec::new(),
        }],
    }
}
