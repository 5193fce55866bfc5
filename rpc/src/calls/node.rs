//! Core: parameters and replies of the calls that an agent answers.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use model::enrol::Fingerprint;
use model::instance::launch::{Sights, SightsKnown};
use model::instance::os::OsDefinition;
use model::node::Node;
use model::rack::{DocumentVersion, Event, RackDocument};
use model::rack_fault::RackFault;
use model::{InstanceName, NodeName, Serial, Timestamp};
use queue_format::Epoch;

use crate::wire::Versions;

/// Longest wait of one exchange, in milliseconds: two thirds of its class, so that an answer that
/// came late in the wait still arrives in time.
pub const EXCHANGE_WAIT_MS_MAX: u32 = 20_000;
/// Longest test delay, in seconds: the slow class less a minute.
pub const TEST_DELAY_SECONDS_MAX: u32 = 3_540;
/// Most events in one reply: what is left comes with the next exchange.
pub const EXCHANGE_EVENTS_MAX: usize = 1_000;
/// Most candidates on an allow-list: Ganeti's candidate pools hold ten or so.
pub const ALLOW_LIST_MAX: usize = 256;

/// Parameters of `version`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {}

/// The node that answers, and its software.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersion {
    /// The node's name.
    pub node: NodeName,
    /// The node's id.
    pub node_id: u64,
    /// The cluster that it belongs to.
    pub cluster_uuid: Uuid,
    /// Version of its software.
    pub software: String,
    /// Versions of the protocol that it understands.
    pub protocol: Versions,
    /// Identity of the agent's store: another one after the node lost its disk.
    pub incarnation: Uuid,
    /// The epoch that it obeys.
    pub epoch: Epoch,
}

/// Parameters of `master_view`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MasterView {}

/// The master that a node obeys, as the node keeps it durably.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterViewed {
    /// The highest epoch under which a call came that changes the node; the default before any.
    pub obeys: Epoch,
    /// The master that made that call; null where the epoch came with the enrolment, and nobody has
    /// called under it yet.
    pub master: Option<NodeName>,
    /// The cluster that the node belongs to.
    pub cluster_uuid: Uuid,
}

/// Parameters of `facts`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {}

/// The hardware of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Its own host name.
    pub hostname: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Its processor architecture, such as `x86_64`.
    pub architecture: String,
    /// Identity of this boot: another one after a restart of the machine.
    pub boot_id: String,
    /// Seconds since it booted.
    pub uptime_seconds: u64,
    /// Processors that are online.
    pub cpus: u32,
    pub memory_total_mib: u64,
    /// Memory that could be given out, in MiB.
    pub memory_free_mib: u64,
    /// Size of the file system with the agent's data, in MiB.
    pub disk_total_mib: u64,
    /// Its free space for the agent, in MiB.
    pub disk_free_mib: u64,
    /// The exports of instances that lie there.
    #[serde(default)]
    pub exports: Vec<InstanceName>,
    /// The definitions of operating systems that lie there.
    #[serde(default)]
    pub systems: Vec<OsDefinition>,
}

/// Parameters of `verify`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {}

/// The state that a node holds, for a comparison with what it should hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHeld {
    /// The node that answers, and its software.
    pub version: NodeVersion,
    /// Its clock.
    pub time: Timestamp,
    /// Its certificate.
    pub fingerprint: Fingerprint,
    /// Until when that is valid.
    pub certificate_ends: Timestamp,
    pub callers: AllowList,
    /// The rack documents that it serves from.
    pub racks: Vec<RackHeld>,
    /// Size of the file system with its data, in MiB.
    pub disk_total_mib: u64,
    /// Its free space for the agent, in MiB.
    pub disk_free_mib: u64,
    /// Faults that keep it from serving its racks; at most [`TROUBLES_MAX`].
    #[serde(default)]
    pub faults: Vec<RackFault>,
}

/// Parameters of `rack_push`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackPush {
    /// Version that the master believes the agent to hold; null where it does not know.
    pub base: Option<DocumentVersion>,
    /// The whole document.
    pub document: RackDocument,
}

/// A rack document that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RackHeld {
    pub rack: u32,
    /// The document's version.
    pub version: DocumentVersion,
    /// The digest of its content, by [`RackDocument::digest`].
    pub digest: String,
}

impl From<&RackDocument> for RackHeld {
    fn from(document: &RackDocument) -> Self {
        Self { rack: document.rack, version: document.version, digest: document.digest() }
    }
}

/// Parameters of `rack_withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackWithdraw {
    /// The rack; nothing happens where the agent does not serve it.
    pub rack: u32,
}

/// Parameters of `exchange`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The agent's store that the acknowledged number belongs to; null for the first exchange.
    /// The agent ignores the number where its store is another one.
    pub incarnation: Option<Uuid>,
    /// Number of the last event that the master committed; the agent forgets up to it.
    pub acknowledged: u64,
    /// How long to wait for an event where there is none, in milliseconds; at most
    /// [`EXCHANGE_WAIT_MS_MAX`].
    pub wait_ms: u32,
    /// The last of the agent's words on instances that the master knows; null where it knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sights: Option<SightsKnown>,
}

/// The agent's report of its events and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchanged {
    /// The agent's store: numbers start anew with another one.
    pub incarnation: Uuid,
    /// Events that are not acknowledged yet, oldest first, at most [`EXCHANGE_EVENTS_MAX`]. Numbers
    /// rise; where an event was overtaken by a later one of the same object, its number is missing.
    pub events: Vec<Event>,
    /// The rack documents that the agent serves from.
    pub racks: Vec<RackHeld>,
    /// Events that were given up because the outbox was full, since the store was made.
    pub dropped: u64,
    /// The digest of its allowed callers, by [`Caller::digest`]; null of an agent whose software does
    /// not tell.
    #[serde(default)]
    pub callers: Option<String>,
    /// When its certificate ends; null of an agent whose software does not tell.
    #[serde(default)]
    pub certificate_ends: Option<Timestamp>,
    /// Its clock when it answered; null of an agent whose software does not tell.
    #[serde(default)]
    pub time: Option<Timestamp>,
    /// Faults that keep it from serving its racks; at most [`TROUBLES_MAX`].
    #[serde(default)]
    pub faults: Vec<RackFault>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lease_ranges: Vec<LeaseRangeServed>,
    /// Steps that would bring its host's network back to what was applied, each in a line; at most
    /// [`TROUBLES_MAX`].
    #[serde(default)]
    pub network_drift: Vec<String>,
    /// Requests of machines for the keys of their disks, at most [`super::KEY_REQUESTS_MAX`]. Each is
    /// told once, and lost with an answer that does not arrive: its machine asks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_requests: Vec<super::KeyRequest>,
    /// The certificate that the agent wants to show machines; null where it has the right one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_certificate: Option<super::CertificateWanted>,
    /// Machines whose systems gave a sign of life since they were told last; all of them in the first exchange
    /// with a master; at most [`SIGNS_TOLD_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<Sign>,
    /// Its words on its instances; null of an agent whose software does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sights: Option<Sights>,
    /// The hardware of its machine, with what is free; null of an agent whose software does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<NodeFacts>,
}

/// A lease range that an agent serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRangeServed {
    pub rack: u32,
    /// Its first address.
    pub first: Ipv4Addr,
    /// Its last address.
    pub last: Ipv4Addr,
    /// How many of its addresses all agents of the rack give together.
    pub addresses: usize,
    /// How many of these this agent gives.
    pub own: usize,
}

/// Signs that one exchange tells: a third of what an answer holds; the others go with the next one.
pub const SIGNS_TOLD_MAX: usize = 2_000;

/// The last sign of life of a machine's system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sign {
    /// The machine.
    pub serial: Serial,
    /// Which registration of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<Timestamp>,
    /// Its power cycle.
    pub cycle: u64,
    /// How many seconds ago it was heard: no clock of another host counts.
    pub age_s: u32,
    /// Seconds since the one before, in the same boot; none where it is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u32>,
}

/// Faults that an agent tells, and steps of its network: the first ones say enough.
pub const TROUBLES_MAX: usize = 8;

/// Those who may call: the candidates, any of which may be or become the master.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowList {
    /// The epoch in which it was made.
    pub epoch: Epoch,
    /// The candidates.
    pub callers: Vec<Caller>,
}

/// One who may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// Its name, which its certificate must carry too.
    pub name: NodeName,
    /// Its certificate.
    pub fingerprint: Fingerprint,
}

impl Caller {
    /// A node as a caller: twice while its certificate is renewed, since either may be shown.
    pub fn of(node: &Node) -> impl Iterator<Item = Self> {
        node.fingerprints().map(|fingerprint| Self { name: node.name.clone(), fingerprint })
    }

    /// The digest of a list of callers, whatever its order and its epoch: SHA-256, in hex.
    pub fn digest(callers: &[Self]) -> String {
        let mut all: Vec<_> =
            callers.iter().map(|one| (one.name.as_str(), one.fingerprint)).collect();
        all.sort_unstable();
        let text = serde_json::to_vec(&all).expect("names and fingerprints are texts");
        hex::encode(Sha256::digest(text))
    }
}

/// Parameters of `allow_list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetAllowList {
    /// The new list; must not be empty, or nobody could ever call again.
    pub list: AllowList,
}

/// Parameters of `test_delay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestDelay {
    /// How long, in seconds; 0 to [`TEST_DELAY_SECONDS_MAX`].
    pub seconds: f64,
}

/// Parameters of `renew_begin`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewBegin {}

/// The offer of a node whose certificate is to be renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewOffer {
    /// The certificate that it shows at this moment: the new one of an earlier renewal, if that was
    /// handed over and its end never reported.
    pub fingerprint: Fingerprint,
    /// Certificate request for the new key, PEM; any before it is void.
    pub request: String,
}

/// Parameters of `renew_finish`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewFinish {
    /// The certificate of the new key, PEM.
    pub certificate: String,
}

/// Parameters of `leave`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// The cluster to leave: a node of another one stays.
    pub cluster_uuid: Uuid,
}

/// Parameters of `powercycle`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Powercycle {}

/// A restart of the machine that is about to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowercycleScheduled {
    /// In how many seconds.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_one_digest_in_whatever_order() {
        let caller = |name: &str, byte| Caller {
            name: name.parse().unwrap(),
            fingerprint: Fingerprint::from_bytes([byte; 32]),
        };
        let digest = |callers: &[Caller]| Caller::digest(callers);
        let (one, two) = (caller("n1", 1), caller("n2", 2));
        let both = digest(&[one.clone(), two.clone()]);
        assert_eq!(both, digest(&[two.clone(), one.clone()]));
        for other in [vec![], vec![one.clone()], vec![one, caller("n2", 3)]] {
            assert_ne!(both, digest(&other), "{other:?}");
        }
    }

    #[test]
    fn an_agent_that_does_not_tell_its_list_is_understood() {
        let told = r#"{"incarnation": "00000000-0000-0000-0000-000000000001", "events": [],
                       "racks": [], "dropped": 0}"#;
        let exchanged: Exchanged = serde_json::from_str(told).unwrap();
        assert_eq!(exchanged.callers, None);
    }
}
