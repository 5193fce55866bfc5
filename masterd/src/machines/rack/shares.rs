//! Core: the shares of a rack's agents in its lease range, as the configuration wants them.

use std::net::Ipv4Addr;

use model::node::NodeRole;
use model::shares::{PARTS, RackShares};
use model::{NodeName, Timestamp};

use crate::config::Config;

/// The shares of a rack as they should be, if they are not. The agents in `without` took the document
/// of the configuration as it is.
pub(crate) fn settled(
    config: &Config,
    rack: u32,
    without: &[NodeName],
    now: Timestamp,
) -> Option<RackShares> {
    let agents = config.agents_of(rack).filter(|node| node.role != NodeRole::Offline);
    let agents: Vec<NodeName> = agents.map(|node| node.name.clone()).collect();
    let shares = config.shares.get(&rack);
    let now_held = shares.map_or_else(|| RackShares::new(rack), |shares| shares.as_ref().clone());
    let settled = now_held.settled(&agents, without, now);
    (settled != now_held).then_some(settled)
}

/// Whether a push of the rack's document would change its shares. It would if something changed since
/// the last push, or if this agent, which can be reached, is to give parts away.
pub(crate) fn is_due(config: &Config, rack: u32, agent: &NodeName, now: Timestamp) -> bool {
    let leaves =
        |shares: &RackShares| shares.parts.iter().any(|part| part.leaving.as_ref() == Some(agent));
    config.shares.get(&rack).is_some_and(|shares| leaves(shares))
        || settled(config, rack, &[], now).is_some()
}

/// The agent that gives an address of a lease range to clients, unless it is on its way to another one.
pub(crate) fn giver(
    config: &Config,
    rack: u32,
    first: Ipv4Addr,
    address: Ipv4Addr,
) -> Option<NodeName> {
    let number = u32::from(address).checked_sub(u32::from(first))?;
    let part = usize::try_from(number).ok()? % PARTS;
    config.shares.get(&rack)?.parts.get(part)?.owner.clone()
}

/// The shares for people: who leases how much, from when.
pub(crate) fn told(shares: &RackShares) -> Vec<String> {
    let mut owners: Vec<&NodeName> =
        shares.parts.iter().filter_map(|part| part.owner.as_ref()).collect();
    owners.sort();
    owners.dedup();
    let count = shares.parts.len();
    let told = owners.into_iter().map(|owner| {
        let parts: Vec<_> = shares.of(owner).collect();
        let from = parts.iter().map(|(_, from)| *from).max().unwrap_or_default();
        // The first agent of a rack has its parts from the beginning of time on.
        let from = match from == Timestamp::default() {
            true => String::new(),
            false => format!(", all of them from {from} on"),
        };
        format!(
            "rack {}: {owner} leases {} of {count} parts of the range{from}",
            shares.rack,
            parts.len()
        )
    });
    told.collect()
}
