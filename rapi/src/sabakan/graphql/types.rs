//! Core: sabakan's objects in GraphQL. They read from what the REST interface shows.

use std::collections::BTreeMap;

use async_graphql::{Enum, ID, InputObject, SimpleObject, scalar};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// An IPv4 or IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IpAddress(String);
scalar!(IpAddress, "IPAddress", "An IPv4 or IPv6 address.");

/// A moment, as RFC 3339 writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DateTime(String);
scalar!(DateTime, "DateTime", "A moment, as RFC 3339 writes it.");

/// How it stands with a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MachineState {
    /// It has no system that is ready.
    Uninitialized,
    /// It works.
    Healthy,
    /// Something of it does not work.
    Unhealthy,
    /// It does not answer.
    Unreachable,
    /// A program is at work on it.
    Updating,
    /// It goes out of service.
    Retiring,
    /// It is out of service.
    Retired,
}

impl MachineState {
    /// The word of the REST interface.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Uninitialized => "uninitialized",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Unreachable => "unreachable",
            Self::Updating => "updating",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

/// A search: of several values of one field, any may hold; of labels, all must.
#[derive(Debug, Clone, Default, InputObject)]
pub(super) struct MachineParams {
    /// Labels.
    pub labels: Option<Vec<LabelInput>>,
    /// Numbers of racks.
    pub racks: Option<Vec<i32>>,
    /// The roles of machines.
    pub roles: Option<Vec<String>>,
    /// States.
    pub states: Option<Vec<MachineState>>,
    /// Days that are left until they are to be taken out of use.
    pub min_days_before_retire: Option<i32>,
}

/// A label to search for.
#[derive(Debug, Clone, InputObject)]
pub(super) struct LabelInput {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A physical server in a rack.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
pub(super) struct Machine {
    spec: MachineSpec,
    status: MachineStatus,
    info: MachineInfo,
}

/// The facts about a machine.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct MachineSpec {
    serial: ID,
    #[serde(deserialize_with = "labels")]
    labels: Option<Vec<Label>>,
    rack: u32,
    index_in_rack: u32,
    role: String,
    ipv4: Vec<IpAddress>,
    register_date: DateTime,
    retire_date: DateTime,
    bmc: Bmc,
}

/// A label.
#[derive(Debug, Clone, SimpleObject)]
pub(super) struct Label {
    name: String,
    value: String,
}

fn labels<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Label>>, D::Error> {
    let labels = BTreeMap::<String, String>::deserialize(from)?;
    Ok(Some(labels.into_iter().map(|(name, value)| Label { name, value }).collect()))
}

/// A management controller.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
#[graphql(name = "BMC")]
pub(super) struct Bmc {
    #[serde(rename = "type")]
    bmc_type: String,
    ipv4: IpAddress,
}

/// How it stands with a machine, since when, and for how many seconds.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
pub(super) struct MachineStatus {
    state: MachineState,
    timestamp: DateTime,
    duration: f64,
}

/// The values that follow from the rules of addresses.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
pub(super) struct MachineInfo {
    network: NetworkInfo,
    bmc: BmcInfo,
}

/// The settings of network interfaces.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
pub(super) struct NetworkInfo {
    /// None where there are no rules.
    ipv4: Vec<NicConfig>,
}

/// The settings of a management controller.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
#[graphql(name = "BMCInfo")]
pub(super) struct BmcInfo {
    /// Null where there are no rules.
    #[serde(deserialize_with = "where_there_is_one")]
    ipv4: Option<NicConfig>,
}

/// An address with what an interface needs beside it.
#[derive(Debug, Clone, SimpleObject, Deserialize)]
#[graphql(name = "NICConfig")]
pub(super) struct NicConfig {
    address: IpAddress,
    netmask: IpAddress,
    maskbits: u32,
    gateway: IpAddress,
}

/// The REST interface shows an empty object where there is none.
fn where_there_is_one<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NicConfig>, D::Error> {
    let value = Value::deserialize(from)?;
    if value.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(None);
    }
    serde_json::from_value(value).map(Some).map_err(serde::de::Error::custom)
}
