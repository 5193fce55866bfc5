//! Core: reads the files of os-net-config.

mod entry;
mod read;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use model::MacAddress;
use model::json::Malformed;
use serde::Deserialize;

use crate::model::HostNetwork;
use crate::model::link::LinkName;
use crate::yaml;

/// The networks that a file of os-net-config asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsNetConfig {
    /// The section `network_config`.
    pub network: HostNetwork,
    /// The section `fallback_config`: what the host gets when the first one fails.
    pub fallback: Option<HostNetwork>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    network_config: Vec<entry::Entry>,
    fallback_config: Option<Vec<entry::Entry>>,
}

/// The keys below which tools that call os-net-config put its file.
pub(crate) const WRAPPERS: &[&str] = &["os_net_config", "network_config"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    #[serde(alias = "os_net_config")]
    network_config: File,
}

/// Reads such a file.
///
/// # Errors
/// What of it is wrong, or has no counterpart here, with its place.
pub fn from_os_net_config(text: &str) -> Result<OsNetConfig, Malformed> {
    sections("", yaml::read_foreign(text)?)
}

/// Reads one that stands below a key.
pub(crate) fn from_wrapped(wrapper: &str, text: &str) -> Result<OsNetConfig, Malformed> {
    let wrapped: Wrapped = yaml::read_foreign(text)?;
    sections(&format!("{wrapper}."), wrapped.network_config)
}

fn sections(prefix: &str, file: File) -> Result<OsNetConfig, Malformed> {
    let section = |name: &str, list| read::section(&format!("{prefix}{name}"), list);
    let fallback = file.fallback_config.map(|list| section("fallback_config", list));
    Ok(OsNetConfig {
        network: section("network_config", file.network_config)?,
        fallback: fallback.transpose()?,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapping {
    interface_mapping: BTreeMap<LinkName, MacAddress>,
}

/// Reads its `mapping.yaml`: names of cards, and their addresses.
///
/// # Errors
/// What of it is wrong, with its place.
pub fn from_mapping(text: &str) -> Result<BTreeMap<LinkName, MacAddress>, Malformed> {
    yaml::read::<Mapping>(text).map(|mapping| mapping.interface_mapping)
}
