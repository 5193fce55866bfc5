//! Reading the state when the agent starts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use model::Timestamp;
use queue_format::{Key, Store};
use rpc::calls::Membership;

use super::{LedgerError, Restored, keys, parse};
use crate::dhcp::LeaseRecord;
use crate::outbox::Outbox;

/// Whose state a store holds.
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

/// What a store holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) restored: Restored,
    pub(super) outbox: Outbox,
    pub(super) leases: BTreeMap<Ipv4Addr, LeaseRecord>,
    /// What belongs to somebody else, to be removed.
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
    let outbox = Outbox::restore(numbers, all(store, path, keys::EVENTS)?);
    let leases: Vec<LeaseRecord> = all(store, path, keys::LEASES)?;
    let leases = leases.into_iter().map(|lease| (lease.address, lease)).collect();
    Ok(Found { restored, outbox, leases, foreign: Vec::new() })
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
