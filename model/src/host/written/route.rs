//! Core: routes and rules in files.

use std::net::IpAddr;

use crate::json::Malformed;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{number, wrong};
use crate::host::address::{self, ip, network};

/// The largest number of 32 bits.
const U32_MAX: i64 = 0xFFFF_FFFF;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    on_link: bool,
}

/// Everywhere, in the family of an address.
pub fn whole_prefix(like: IpAddr) -> IpNet {
    match like {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

impl Route {
    pub(super) fn read(self, place: &str) -> Result<address::Route, Malformed> {
        let at = |field: &str| format!("{place}.{field}");
        let via = self.via.as_deref().map(ip).transpose();
        let via = via.map_err(|why| wrong(&at("via"), why))?;
        let to = match (self.to.as_str(), via) {
            ("default", Some(via)) => whole_prefix(via),
            ("default", None) => {
                let why = "default without `via` has no family; write 0.0.0.0/0 or ::/0";
                return Err(wrong(&at("to"), why));
            }
            (to, _) => network(to).map_err(|why| wrong(&at("to"), why))?,
        };
        let read = |field: &str, value: Option<i64>, from| {
            value.map(|value| number(&at(field), value, from..=U32_MAX)).transpose()
        };
        Ok(address::Route {
            to,
            via,
            metric: read("metric", self.metric, 0)?,
            table: read("table", self.table, 1)?,
            on_link: self.on_link,
        })
    }
}

impl From<address::Route> for Route {
    fn from(route: address::Route) -> Self {
        let is_default = route.is_default() && route.via.is_some();
        Self {
            to: if is_default { "default".to_owned() } else { route.to.to_string() },
            via: route.via.map(|via| via.to_string()),
            metric: route.metric.map(i64::from),
            table: route.table.map(i64::from),
            on_link: route.on_link,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    table: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
}

impl Rule {
    pub(super) fn read(self, place: &str) -> Result<address::Rule, Malformed> {
        rule(place, (self.from.as_deref(), self.to.as_deref()), self.table, self.priority)
    }
}

/// A rule between two networks, `from` and `to`.
///
/// # Errors
/// What of it is wrong, with its place.
pub fn rule(
    place: &str,
    (from, to): (Option<&str>, Option<&str>),
    table: i64,
    priority: Option<i64>,
) -> Result<address::Rule, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let from = from.map(network).transpose().map_err(|why| wrong(&at("from"), why))?;
    let to = to.map(network).transpose().map_err(|why| wrong(&at("to"), why))?;
    match (from, to) {
        (None, None) => return Err(wrong(place, "a rule has `from`, `to` or both")),
        (Some(from), Some(to)) if from.addr().is_ipv4() != to.addr().is_ipv4() => {
            return Err(wrong(&at("to"), format!("{to} is of another family than {from}")));
        }
        (Some(_), _) | (None, Some(_)) => {}
    }
    let priority = priority.map(|value| number(&at("priority"), value, 1..=32_765)).transpose()?;
    let table = number(&at("table"), table, 1..=U32_MAX)?;
    Ok(address::Rule { from, to, table, priority })
}

impl From<address::Rule> for Rule {
    fn from(rule: address::Rule) -> Self {
        Self {
            from: rule.from.map(|net| net.to_string()),
            to: rule.to.map(|net| net.to_string()),
            table: i64::from(rule.table),
            priority: rule.priority.map(i64::from),
        }
    }
}
