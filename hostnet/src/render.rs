//! Core: the files that other programs configure a host by, all from one type.

mod document;
mod keyfile;
mod netplan;
mod network_data;
mod network_manager;
mod networkd;
mod nmstate;
mod os_net_config;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use model::json::Malformed;

use crate::model::HostNetwork;
use crate::model::address::Rule;
use crate::model::link::{Kind, Link, LinkName};
use crate::model::written::wrong;

/// A program's form of a network configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// os-net-config of OpenStack, with its mapping of cards.
    OsNetConfig,
    /// netplan, version 2 of its form; also cloud-init's `network-config`.
    Netplan,
    /// Units of systemd-networkd.
    Networkd,
    /// Keyfiles of NetworkManager.
    NetworkManager,
    /// `network_data.json` of OpenStack's config drive.
    NetworkData,
    Nmstate,
}

/// The metric of routes that a client of DHCP, or an advertisement of a router, gives. It is netplan's
/// own; other programs have others, so that a second card would win or lose by the format of its file.
pub(crate) const DHCP_METRIC: u32 = 100;

/// A file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Its path on the host, without the leading slash.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    pub content: String,
}

/// The word, and the renderer, of each format.
type Renderer = fn(&HostNetwork, Option<&HostNetwork>) -> Result<Vec<RenderedFile>, Malformed>;

impl Format {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::OsNetConfig,
        Self::Netplan,
        Self::Networkd,
        Self::NetworkManager,
        Self::NetworkData,
        Self::Nmstate,
    ];

    fn row(self) -> (&'static str, Renderer) {
        match self {
            Self::OsNetConfig => ("os-net-config", os_net_config::render),
            Self::Netplan => ("netplan", |network, _| netplan::render(network)),
            Self::Networkd => ("networkd", |network, _| networkd::render(network)),
            Self::NetworkManager => {
                ("network-manager", |network, _| network_manager::render(network))
            }
            Self::NetworkData => ("network-data", |network, _| network_data::render(network)),
            Self::Nmstate => ("nmstate", |network, _| nmstate::render(network)),
        }
    }

    /// Its word for command lines.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The format of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.word() == word)
    }
}

/// The files of a network. Only os-net-config has a place for the second one, which a host gets when
/// the first one fails.
///
/// # Errors
/// What [`HostNetwork::check`] refuses, or what the format cannot say, with its place.
pub fn render(
    format: Format,
    network: &HostNetwork,
    fallback: Option<&HostNetwork>,
) -> Result<Vec<RenderedFile>, Malformed> {
    network.check()?;
    if let Some(fallback) = fallback {
        fallback.check()?;
    }
    if format != Format::Nmstate && network.links.is_empty() && !network.rules.is_empty() {
        let why = format!("files of {} have rules beside a link, and there is none", format.word());
        return Err(wrong("rules", why));
    }
    if format != Format::OsNetConfig {
        refuse_numbered_cards(network)?;
    }
    (format.row().1)(network, fallback)
}

/// Of all programs os-net-config alone counts the active cards of its host.
fn refuse_numbered_cards(network: &HostNetwork) -> Result<(), Malformed> {
    let unknown = |link: &Link| {
        let is_unnamed = matches!(link.kind, Kind::Ethernet { permanent_mac: None });
        is_unnamed && link.name.is_numbered_card()
    };
    let Some(at) = network.links.iter().position(unknown) else { return Ok(()) };
    let name = network.links.get(at).map(|link| link.name.as_str()).unwrap_or_default();
    let why = format!(
        "{name} is os-net-config's word for an active card, and nobody said which one that is; give the \
         card of the machine that name: `gnt machine modify SERIAL --interface {name}=ADDRESS`"
    );
    Err(wrong(&format!("links[{at}].name"), why))
}

fn file(path: impl Into<String>, content: String) -> RenderedFile {
    RenderedFile { path: path.into(), mode: 0o644, content }
}

/// Refuses links of a kind that the format does not know.
fn only_kinds(
    format: &str,
    network: &HostNetwork,
    is_known: impl Fn(&Kind) -> bool,
) -> Result<(), Malformed> {
    for (at, link) in network.links.iter().enumerate() {
        if !is_known(&link.kind) {
            let why = format!("{format} has no {}", link.kind.word());
            return Err(wrong(&format!("links[{at}].kind"), why));
        }
    }
    Ok(())
}

/// The rules beside the link that formats write them at: it holds the source, or has routes in the
/// table, or is the first one.
fn rules_by_link(network: &HostNetwork) -> BTreeMap<&LinkName, Vec<&Rule>> {
    let mut placed: BTreeMap<&LinkName, Vec<&Rule>> = BTreeMap::new();
    for rule in &network.rules {
        let holds = network.links.iter().find(|link| {
            let from = rule.from;
            link.addresses.iter().any(|own| from.is_some_and(|from| from.contains(&own.ip())))
        });
        let routes = || {
            let in_table = |table: Option<u32>| table == Some(rule.table);
            network.links.iter().find(|link| link.routes.iter().any(|one| in_table(one.table)))
        };
        if let Some(link) = holds.or_else(routes).or_else(|| network.links.first()) {
            placed.entry(&link.name).or_default().push(rule);
        }
    }
    placed
}
