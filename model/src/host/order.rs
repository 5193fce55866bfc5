//! Core: links in the order in which they lie on each other.

use std::collections::{BTreeMap, BTreeSet};

use super::HostNetwork;
use super::check::below;
use super::link::{Link, LinkName};

/// The links of a network, each after those that it lies on.
pub fn upwards(network: &HostNetwork) -> Vec<&Link> {
    let links: BTreeMap<&LinkName, &Link> =
        network.links.iter().map(|link| (&link.name, link)).collect();
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    for link in &network.links {
        // Entries that wait for what is below them, and whether that was looked at.
        let mut waiting = vec![(link, false)];
        while let Some((link, is_ready)) = waiting.pop() {
            if is_ready {
                order.push(link);
            } else if seen.insert(&link.name) {
                waiting.push((link, true));
                let below = below(link).into_iter().filter_map(|name| links.get(name).copied());
                waiting.extend(below.map(|link| (link, false)));
            }
        }
    }
    order
}
