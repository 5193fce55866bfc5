//! Core: one device of netplan, with the options of all groups.

use serde::Deserialize;

use crate::yaml::{flag, number, some_flag};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Device {
    #[serde(rename = "match")]
    pub(super) matches: Option<Match>,
    pub(super) set_name: Option<String>,
    pub(super) macaddress: Option<String>,
    #[serde(deserialize_with = "number")]
    pub(super) mtu: Option<i64>,
    pub(super) activation_mode: Option<String>,
    #[serde(deserialize_with = "flag")]
    pub(super) dhcp4: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) dhcp6: bool,
    pub(super) dhcp4_overrides: Option<Overrides>,
    pub(super) dhcp6_overrides: Option<Overrides>,
    pub(super) addresses: Vec<String>,
    pub(super) gateway4: Option<String>,
    pub(super) gateway6: Option<String>,
    pub(super) nameservers: Nameservers,
    pub(super) routes: Vec<Route>,
    pub(super) routing_policy: Vec<Rule>,
    // The program that brings the device up, and whether the start of the host waits for it.
    #[serde(rename = "renderer")]
    _renderer: Option<String>,
    #[serde(rename = "optional", deserialize_with = "some_flag")]
    _optional: Option<bool>,

    // Settings of some groups only.
    pub(super) interfaces: Option<Vec<String>>,
    pub(super) parameters: Option<Parameters>,
    pub(super) openvswitch: Option<OpenVSwitch>,
    #[serde(deserialize_with = "number")]
    pub(super) id: Option<i64>,
    pub(super) link: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) local: Option<String>,
    pub(super) remote: Option<String>,
    #[serde(deserialize_with = "number")]
    pub(super) port: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Match {
    pub(super) macaddress: Option<String>,
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Overrides {
    pub(super) route_metric: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Nameservers {
    pub(super) addresses: Vec<String>,
    pub(super) search: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Route {
    pub(super) to: String,
    pub(super) via: Option<String>,
    pub(super) metric: Option<i64>,
    pub(super) table: Option<i64>,
    #[serde(default, deserialize_with = "flag")]
    pub(super) on_link: bool,
    pub(super) scope: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) table: Option<i64>,
    pub(super) priority: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenVSwitch {
    pub(super) lacp: Option<String>,
}

/// Parameters of bonds, and the one of bridges.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Parameters {
    pub(super) mode: Option<String>,
    pub(super) mii_monitor_interval: Option<Scalar>,
    pub(super) lacp_rate: Option<String>,
    pub(super) transmit_hash_policy: Option<String>,
    pub(super) primary: Option<String>,
    pub(super) up_delay: Option<Scalar>,
    pub(super) down_delay: Option<Scalar>,
    pub(super) arp_interval: Option<Scalar>,
    pub(super) arp_ip_targets: Option<Vec<String>>,
    pub(super) min_links: Option<Scalar>,
    pub(super) ad_select: Option<String>,
    pub(super) fail_over_mac_policy: Option<String>,
    #[serde(deserialize_with = "some_flag")]
    pub(super) stp: Option<bool>,
}

impl Parameters {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A number, which may be a text with a unit of time.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "this is neither a number nor a time")]
pub(super) enum Scalar {
    Number(u32),
    Text(String),
}

impl Scalar {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }

    /// In milliseconds, which is the unit of a bare number.
    pub(super) fn into_ms(self) -> String {
        let text = self.into_text();
        let seconds = || text.strip_suffix('s')?.parse::<u32>().ok()?.checked_mul(1000);
        match text.strip_suffix("ms") {
            Some(ms) => ms.to_owned(),
            None => seconds().map_or_else(|| text.clone(), |ms| ms.to_string()),
        }
    }
}
