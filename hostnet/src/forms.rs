//! Core: which form a file has. The keys at its top say so, in YAML and JSON alike.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::json::Malformed;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::os_net_config::{self, OsNetConfig};
use crate::{from_yaml, netplan, nmstate, yaml};

/// The keys of a file, and those one level below.
type Keys = BTreeMap<String, Below>;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Below {
    Map(BTreeMap<String, IgnoredAny>),
    Other(IgnoredAny),
}

/// Reads a file of our own form, or one of os-net-config, netplan or nmstate.
///
/// # Errors
/// What of it is wrong, or has no counterpart here, with its place.
pub fn from_any_form(text: &str) -> Result<OsNetConfig, Malformed> {
    // A file that is no map gets the error of our own form.
    let keys: Keys = yaml::read(text).unwrap_or_default();
    let holds = |key: &str, inner: &str| matches!(keys.get(key), Some(Below::Map(map)) if map.contains_key(inner));
    for wrapper in os_net_config::WRAPPERS {
        if holds(wrapper, "network_config") {
            return os_net_config::from_wrapped(wrapper, text);
        }
    }
    if keys.contains_key("network_config") {
        return os_net_config::from_os_net_config(text);
    }
    let has = |names: &[&str]| names.iter().any(|name| keys.contains_key(*name));
    let network = if has(&["network"]) {
        netplan::read(text)?
    } else if has(nmstate::KEYS) && !has(&["links", "rules", "absent"]) {
        nmstate::read(text)?
    } else {
        from_yaml(text)?
    };
    Ok(OsNetConfig { network, fallback: None })
}
