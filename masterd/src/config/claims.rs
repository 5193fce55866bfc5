//! Core: claims by address and owner, and the runs of used addresses of each network. The runs give a
//! free address at the same cost however many are used.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use model::error::ErrorCode;
use model::ipam::IpamConfig;
use model::network::allocate::Used;
use model::network::{Claim, Owner, Subnet, range};
use model::{Exception, Timestamp, Word};

use super::Config;
use super::objects::{Index, Indices};

/// Secondary indices of [`Claim`].
#[derive(Debug, Clone, Default)]
pub struct ClaimsBy {
    pub network: Index<Word, Claim>,
    /// Network and address.
    pub address: Index<(Word, IpAddr), Claim>,
    /// Who claims.
    pub owner: Index<Owner, Claim>,
    /// Network and time of claims that wait.
    pub waiting: Index<(Word, Timestamp), Claim>,
    /// The last address of each run of used ones, by network and first address.
    runs: OrdMap<(Word, IpAddr), IpAddr>,
}

impl Indices<Claim> for ClaimsBy {
    fn set(&mut self, before: Option<&Arc<Claim>>, after: Option<&Arc<Claim>>) {
        let addresses = |claim: &Claim| {
            let network = claim.network.clone();
            claim.addresses().iter().map(|address| (network.clone(), *address)).collect()
        };
        self.network.set(before, after, |claim| vec![claim.network.clone()]);
        self.address.set(before, after, addresses);
        self.owner.set(before, after, |claim| vec![claim.owner.clone()]);
        self.waiting.set(before, after, |claim| {
            let waits = claim.is_waiting().then(|| (claim.network.clone(), claim.ctime));
            waits.into_iter().collect()
        });
        let of =
            |claim: Option<&Arc<Claim>>| claim.map(|claim| addresses(claim)).unwrap_or_default();
        for place in of(before) {
            // A store that was damaged may have it twice.
            if self.address.of(place.clone()).next().is_none() {
                self.free(&place);
            }
        }
        for place in of(after) {
            self.occupy(&place);
        }
    }
}

impl ClaimsBy {
    /// The first and the last address of the run of used ones that holds an address.
    fn run(&self, (network, address): &(Word, IpAddr)) -> Option<(IpAddr, IpAddr)> {
        let ((of, first), last) = self.runs.get_prev(&(network.clone(), *address))?;
        (of == network && last >= address && last.is_ipv4() == address.is_ipv4())
            .then_some((*first, *last))
    }

    fn occupy(&mut self, place: &(Word, IpAddr)) {
        if self.run(place).is_some() {
            return;
        }
        let (network, address) = place;
        let neighbour = |address| self.run(&(network.clone(), address?));
        let before = neighbour(range::previous(*address));
        let after = neighbour(range::next(*address));
        if let Some((first, _)) = after {
            self.runs.remove(&(network.clone(), first));
        }
        let first = before.map_or(*address, |(first, _)| first);
        let last = after.map_or(*address, |(_, last)| last);
        self.runs.insert((network.clone(), first), last);
    }

    fn free(&mut self, place: &(Word, IpAddr)) {
        let Some((first, last)) = self.run(place) else { return };
        let (network, address) = place;
        self.runs.remove(&(network.clone(), first));
        if let Some(end) = range::previous(*address).filter(|end| *end >= first) {
            self.runs.insert((network.clone(), first), end);
        }
        if let Some(begin) = range::next(*address).filter(|begin| *begin <= last) {
            self.runs.insert((network.clone(), begin), last);
        }
    }
}

/// Why nobody may claim an address of the pools of the rules.
const BY_RULES: &str = "the rules of addresses (gnt ipam get)";

impl Config {
    /// The pools of the rules of addresses, each by its field: machines, controllers and DHCP get theirs.
    pub(crate) fn pools_of_rules(&self) -> impl Iterator<Item = (&'static str, IpNet)> + use<> {
        let pools = self.ipam.as_deref().map(IpamConfig::pools);
        pools.into_iter().flatten()
    }

    /// The claim on an address, if there is one.
    pub(crate) fn claimed(&self, address: IpAddr) -> Option<&Arc<Claim>> {
        let mut networks = self.networks.values();
        let network = networks.find(|network| network.subnet_of(address).is_some())?;
        self.claims.by.address.of((network.name.clone(), address)).next()
    }

    /// # Errors
    /// Somebody claims the address, which `what` is to have.
    pub(crate) fn unclaimed(&self, what: &str, address: IpAddr) -> Result<(), Exception> {
        let Some(claim) = self.claimed(address) else { return Ok(()) };
        let (owner, network) = (&claim.owner, &claim.network);
        let text = format!(
            "{what}: {address} belongs to {owner} of network {network}; `gnt network release {network} \
             {owner}` ends that"
        );
        Err(Exception::prereq(text, ErrorCode::ResourceNotUnique))
    }
}

/// The addresses of a network that are used: by claims, by the rules of addresses, by nodes, by the master and by controllers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedIn<'a> {
    /// Everything.
    pub config: &'a Config,
    pub network: &'a Word,
}

impl UsedIn<'_> {
    /// Addresses of nodes, of the master and of controllers in a subnet, each once.
    pub(crate) fn parts_within(&self, subnet: &Subnet) -> impl Iterator<Item = IpAddr> + use<> {
        let all = subnet.all();
        let nodes = self.config.nodes.values();
        let nodes = nodes.flat_map(|node| [node.primary_ip, node.secondary_ip]);
        let parts = nodes.chain(self.config.cluster.master_ip);
        let mut parts: BTreeSet<_> = parts.filter(|address| all.contains(*address)).collect();
        let told = self.config.bmcs.by.address.within(all.first()..=all.last());
        parts.extend(told.map(|(address, _access)| *address));
        if let (IpAddr::V4(first), IpAddr::V4(last)) = (all.first(), all.last()) {
            let known = self.config.machines.by.bmc.within(first..=last);
            parts.extend(known.map(|(address, _machine)| IpAddr::from(*address)));
        }
        parts.into_iter()
    }

    /// The part of the cluster, other than a claim, that has an address.
    fn part(&self, address: IpAddr) -> Option<&str> {
        let config = self.config;
        if config.cluster.master_ip == Some(address) {
            return Some("master");
        }
        let has = |node: &&Arc<model::node::Node>| {
            [node.primary_ip, node.secondary_ip].contains(&address)
        };
        if let Some(node) = config.nodes.values().find(has) {
            return Some(node.name.as_str());
        }
        if self.config.pools_of_rules().any(|(_field, pool)| pool.contains(&address)) {
            return Some(BY_RULES);
        }
        if let Some(access) = config.bmcs.by.address.of(address).next() {
            return Some(access.serial.as_str());
        }
        let IpAddr::V4(address) = address else { return None };
        config.machines.by.bmc.of(address).next().map(|machine| machine.serial.as_str())
    }
}

impl Used for UsedIn<'_> {
    fn run_end(&self, address: IpAddr) -> Option<IpAddr> {
        let run = self.config.claims.by.run(&(self.network.clone(), address));
        run.map(|(_, last)| last).or_else(|| self.part(address).map(|_| address))
    }

    fn owner(&self, address: IpAddr) -> Option<String> {
        let mut claims = self.config.claims.by.address.of((self.network.clone(), address));
        let claim = claims.next().map(|claim| claim.owner.to_string());
        claim.or_else(|| self.part(address).map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use model::network::ClaimState;
    use proptest::prelude::*;

    use super::*;

    fn claim(number: u8) -> Arc<Claim> {
        Arc::new(Claim {
            network: "net0".parse().unwrap(),
            owner: Owner::Name(format!("n{number}").parse().unwrap()),
            wanted: None,
            state: ClaimState::Bound(vec![IpAddr::from([192, 0, 2, number])]),
            ctime: Timestamp::default(),
        })
    }

    proptest! {
        /// After any history the runs are those of the addresses in use, none of which touches another.
        #[test]
        fn runs_are_the_addresses_in_use(steps in proptest::collection::vec((any::<bool>(), 0_u8..20), 0..60)) {
            let mut by = ClaimsBy::default();
            let mut used = std::collections::BTreeSet::new();
            for (adds, number) in steps {
                match adds {
                    true if used.insert(number) => by.set(None, Some(&claim(number))),
                    false if used.remove(&number) => by.set(Some(&claim(number)), None),
                    _ => {}
                }
            }
            for number in 0..=21 {
                let place = ("net0".parse().unwrap(), IpAddr::from([192, 0, 2, number]));
                let end = used.contains(&number).then(|| {
                    (number..).find(|next| !used.contains(&(next + 1))).unwrap()
                });
                let end = end.map(|last| IpAddr::from([192, 0, 2, last]));
                prop_assert_eq!(by.run(&place).map(|(_, last)| last), end);
            }
            let firsts = used.iter().filter(|number| !used.contains(&number.wrapping_sub(1))).count();
            prop_assert_eq!(by.runs.len(), firsts);
        }
    }
}
