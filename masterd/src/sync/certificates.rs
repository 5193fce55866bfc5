//! Signs the certificates that agents show machines. An agent names the addresses at which it serves
//! them. Its certificate gets those that are nobody else's, so that it cannot pass for another host of
//! the cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::node::Node;
use rpc::calls::{
    CertificateWanted, KEY_REQUESTS_MAX, SERVED_ADDRESSES_MAX, SetMachineCertificate,
};
use stdx::daemon::chain;
use tokio::task::JoinSet;

use super::AgentSync;
use crate::config::Config;

impl AgentSync {
    /// Gives an agent the certificate that it asked for, while its exchanges go on.
    pub(super) fn certify(
        self: &Arc<Self>,
        node: &Arc<Node>,
        answering: &mut JoinSet<()>,
        wanted: Option<CertificateWanted>,
    ) {
        let Some(wanted) = wanted.filter(|_| answering.len() < 2 * KEY_REQUESTS_MAX) else {
            return;
        };
        let (sync, node) = (Arc::clone(self), Arc::clone(node));
        answering.spawn(async move {
            if let Err(why) = sync.certified(&node, wanted).await {
                tracing::warn!(node = %node.name, why, "machines are shown the certificate of the node alone");
            }
        });
    }

    async fn certified(&self, node: &Node, wanted: CertificateWanted) -> Result<(), String> {
        let CertificateWanted { request, addresses } = wanted;
        let config = self.published.snapshot().config;
        let mut granted = BTreeSet::from([node.primary_ip]);
        for address in addresses.iter().copied().take(SERVED_ADDRESSES_MAX) {
            match owner(&config, node, address) {
                None => drop(granted.insert(address)),
                Some(owner) => {
                    let name = &node.name;
                    tracing::warn!(node = %name, %address, owner, "an agent serves at another's address");
                }
            }
        }
        let certificate = self.agents.certify_for_machines(node, &request, &granted);
        let certificate = certificate.map_err(|error| chain(&error))?;
        tracing::info!(node = %node.name, addresses = ?granted, "certificate for machines is signed");
        let call = SetMachineCertificate { certificate, addresses };
        self.agents.call(node, call, None).await.map_err(|error| chain(&error))
    }
}

/// The owner of the address, where that is another than the node.
fn owner(config: &Config, node: &Node, address: IpAddr) -> Option<String> {
    let moves = config.cluster.master_ip == Some(address);
    let is_its = |other: &Node| other.primary_ip == address || other.secondary_ip == address;
    let mut nodes = config.nodes.values().filter(|other| other.name != node.name);
    let other = nodes.find(|other| is_its(other)).map(|other| format!("node {}", other.name));
    let claimed = || config.claimed(address).map(|claim| claim.owner.to_string());
    moves
        .then(|| "the master, with which it moves".to_owned())
        .or(other)
        .or_else(|| machine_at(config, node, address))
        .or_else(claimed)
}

/// The machine that has an address, or whoever leases it, or the gateway.
fn machine_at(config: &Config, node: &Node, address: IpAddr) -> Option<String> {
    let IpAddr::V4(address) = address else { return None };
    let rack = config.nodes.get(&node.name)?.rack?;
    let mut machines = config.machines_in(rack);
    let of_machine = machines.find(|machine| {
        let cards = machine.network.values().flat_map(|card| &card.ipv4);
        cards.chain(&machine.bmc.ipv4).any(|own| *own == address)
    });
    let ranges = config.ipam.as_deref().and_then(|ipam| ipam.lease_ranges(rack).ok());
    let of_lease = || {
        let mut ranges = ranges.iter().flatten();
        ranges
            .find(|range| (range.first..=range.last).contains(&address) || range.gateway == address)
    };
    of_machine
        .map(|machine| format!("machine {}", machine.serial))
        .or_else(|| of_lease().map(|range| format!("leases or the gateway of {}", range.subnet)))
}

#[cfg(test)]
mod tests {
    use model::node::NodeRole;

    use super::*;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, node, spec};

    #[test]
    fn an_agent_serves_at_no_other_hosts_address() {
        let agent = Node { rack: Some(0), ..node("n2.example", NodeRole::Regular) };
        let mut config = config(std::slice::from_ref(&agent));
        let machines = register(&config, &[spec("s1", 0, "worker")], NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        for (address, whose) in [
            ("10.69.0.3", None),
            ("10.0.0.2", None),
            ("192.0.2.9", None),
            ("fd00::3", None),
            ("10.0.0.1", Some("node n1.example")),
            ("10.69.0.4", Some("machine s1")),
            ("10.72.16.4", Some("machine s1")),
            ("10.69.0.1", Some("leases or the gateway of 10.69.0.0/26")),
            ("10.69.0.40", Some("leases or the gateway of 10.69.0.0/26")),
        ] {
            let owner = owner(&config, &agent, address.parse().unwrap());
            assert_eq!(owner.as_deref(), whose, "{address}");
        }
    }
}
