//! Reading the state when the agent starts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use model::rack::Event;
use model::{MacAddress, Timestamp};
use queue_format::{Key, Store};
use rpc::calls::{Membership, RamdiskTold};
use stdx::daemon::chain;

use super::{LedgerError, Ramdisks, Restored, keys, parse};
use crate::dhcp::packet::Identity;
use crate::dhcp::{LeaseRecord, LeaseState};
use crate::outbox::Outbox;

/// The node that a store belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    cluster_uuid: Uuid,
    node_id: u64,
}

impl Owner {
    pub(super) fn of(membership: &Membership) -> Self {
        Self { cluster_uuid: membership.cluster_uuid, node_id: membership.node_id }
    }
}

/// The content of a store.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) restored: Restored,
    pub(super) outbox: Outbox,
    pub(super) leases: BTreeMap<Ipv4Addr, LeaseRecord>,
    pub(super) ramdisks: Ramdisks,
    /// Keys of another owner, to be removed.
    pub(super) foreign: Vec<Key>,
}

pub(super) fn read(
    store: &Store,
    path: &Path,
    membership: &Membership,
) -> Result<Found, LedgerError> {
    let owner = Owner::of(membership);
    let kept: Option<Owner> = one(store, path, &keys::owner())?;
    // Numbers are never given twice by one store, whoever owns it.
    let numbers = one(store, path, &keys::numbers())?.unwrap_or_default();
    if kept.as_ref() != Some(&owner) {
        if kept.is_some() {
            tracing::warn!("the agent's store is that of another membership; it is emptied");
        }
        let mut foreign = Vec::new();
        for item in store.scan("")? {
            foreign.push(item?.0);
        }
        foreign.retain(|key| *key != keys::numbers());
        return Ok(Found { foreign, outbox: Outbox::restore(numbers, []), ..Found::default() });
    }
    // An enrolment brings a list of its own, which is the later one though the master's epoch may
    // be the same.
    let enrolled: Timestamp = one(store, path, &keys::enrolled())?.unwrap_or_default();
    let of_this_enrolment = enrolled == membership.enrolled;
    let restored = Restored {
        obeyed: one(store, path, &keys::epoch())?.unwrap_or_default(),
        allow: one(store, path, &keys::allow_list())?.filter(|_list| of_this_enrolment),
        racks: all(store, path, keys::RACKS)?,
    };
    let events = readable::<Event>(store, path, keys::EVENTS)?.into_iter();
    let events = events.filter_map(|(_key, event)| event);
    let outbox = Outbox::restore(numbers, events);
    let leases = readable(store, path, keys::LEASES)?.into_iter().filter_map(|(key, lease)| {
        let address = key.as_str().strip_prefix(keys::LEASES)?.parse().ok()?;
        let lease = lease.filter(|lease: &LeaseRecord| lease.address == address);
        Some((address, lease.unwrap_or_else(|| held_back(address))))
    });
    let leases = leases.collect();
    let ramdisks = readable::<RamdiskTold>(store, path, keys::RAMDISKS)?.into_iter();
    let ramdisks = ramdisks.filter_map(|(_key, record)| record);
    let ramdisks = ramdisks.map(|record| ((record.rack, record.serial.clone()), record)).collect();
    Ok(Found { restored, outbox, leases, ramdisks, foreign: Vec::new() })
}

fn one<T: DeserializeOwned>(
    store: &Store,
    path: &Path,
    key: &Key,
) -> Result<Option<T>, LedgerError> {
    store.read(key)?.map(|content| parse(path, key, &content)).transpose()
}

fn all<T: DeserializeOwned>(
    store: &Store,
    path: &Path,
    prefix: &str,
) -> Result<Vec<T>, LedgerError> {
    let mut documents = Vec::new();
    for item in store.scan(prefix)? {
        let (key, content) = item?;
        documents.push(parse(path, &key, &content)?);
    }
    Ok(documents)
}

/// The documents below a prefix, each with its key; none where it does not read: one record that is damaged
/// blocks no other.
fn readable<T: DeserializeOwned>(
    store: &Store,
    path: &Path,
    prefix: &str,
) -> Result<Vec<(Key, Option<T>)>, LedgerError> {
    let mut documents = Vec::new();
    for item in store.scan(prefix)? {
        let (key, content) = item?;
        let document = parse(path, &key, &content);
        if let Err(error) = &document {
            tracing::error!(error = chain(error), "a damaged record is passed over");
        }
        documents.push((key, document.ok()));
    }
    Ok(documents)
}

/// Nobody knows who has the address of a damaged record: it is kept back as one that is in use, which the
/// engine shortens to its usual time.
fn held_back(address: Ipv4Addr) -> LeaseRecord {
    tracing::error!(%address, "the lease of this address is damaged; the address is kept back for an hour");
    let client = Identity::Ethernet(MacAddress::new([0; 6]));
    let state = LeaseState::Declined { until_us: i64::MAX };
    LeaseRecord { address, client, state, since_us: None }
}
