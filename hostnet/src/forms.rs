//! Core: which form a file has. The keys at its top say so, in YAML and JSON alike.

use std::collections::BTreeMap;

use model::json::Malformed;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::os_net_config::{self, OsNetConfig};
use crate::{from_yaml, yaml};

/// The keys of a file, and those one level below.
type Keys = BTreeMap<String, Below>;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Below {
    Map(BTreeMap<String, IgnoredAny>),
    Other(IgnoredAny),
}

/// Reads a file of our own form or of os-net-config's.
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
    from_yaml(text).map(|network| OsNetConfig { network, fallback: None })
}
