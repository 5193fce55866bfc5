//! Opcodes on networks.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::network::{IpRange, Network, Owner, Prefix, Subnet, range};
use model::opcode::network::OrNone;
use model::opcode::{NetworkAdd, NetworkRemove, NetworkSetParams};
use model::{Exception, Timestamp, Uuid, tag};

use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

pub(crate) mod claim;
mod connect;

pub(crate) use claim::released_by;

/// Networks of a cluster: VLANs have 4,094 numbers.
const NETWORKS_MAX: usize = 4_094;

/// The lock of a network, and those of its node group where it has one.
fn lock(network: &Network, level: Level) -> Wanted {
    match level {
        Level::Network => {
            vec![(LockName::member(level, network.uuid.to_string()), Mode::Exclusive)]
        }
        _ => Vec::new(),
    }
}

impl LogicalUnit for NetworkAdd {
    type Plan = ();

    /// None: no other job knows it yet, and the transaction refuses a name that is taken.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let network = self.network(context.now())?;
        is_new(&context.config(), &network)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let network = self.network(context.now())?;
        for text in parts_within(&context.config(), &network) {
            context.say(text).await;
        }
        context
            .transact(move |config| {
                is_new(config, &network)?;
                Ok((vec![ConfigChange::Network(network)], ()))
            })
            .await
    }
}

/// An opcode that makes a network.
trait Makes {
    /// # Errors
    /// A parameter that cannot be.
    fn network(&self, now: Timestamp) -> Result<Network, Exception>;
}

impl Makes for NetworkAdd {
    fn network(&self, now: Timestamp) -> Result<Network, Exception> {
        tag::check(&self.tags)?;
        let subnets = self.subnets().map_err(wrong)?;
        let pools = match &self.pools {
            Some(pools) => pools.clone(),
            None => subnets.first().map(Subnet::hosts).into_iter().collect(),
        };
        let mut network = Network {
            name: self.network_name.clone(),
            uuid: Uuid::new_v4(),
            serial_no: 1,
            ctime: now,
            mtime: now,
            tags: tag::with(&[], &self.tags)?,
            subnets,
            dns_servers: self.dns_servers.clone(),
            mtu: self.mtu,
            vlan: self.vlan,
            mac_prefix: self.mac_prefix.clone(),
            strategy: self.strategy,
            groups: BTreeMap::new(),
        };
        place(&mut network, "pools", &pools, |subnet| &mut subnet.pools)?;
        let reserved = self.add_reserved_ips.as_deref().unwrap_or_default();
        place(&mut network, "add_reserved_ips", reserved, |subnet| &mut subnet.reserved)?;
        for (owner, address) in &self.pre_allocated {
            keep(&mut network, owner, *address)?;
        }
        checked(network)
    }
}

/// Puts each range into the subnet that holds it.
fn place(
    network: &mut Network,
    field: &str,
    ranges: &[IpRange],
    of: impl Fn(&mut Subnet) -> &mut Vec<IpRange>,
) -> Result<(), Exception> {
    for range in ranges {
        let holds = |subnet: &&mut Subnet| subnet.all().contains(range.first());
        let Some(subnet) = network.subnets.iter_mut().find(holds) else {
            return Err(wrong(format!(
                "{field}: {range} is of no subnet of network {}",
                network.name
            )));
        };
        of(subnet).push(*range);
    }
    Ok(())
}

fn keep(network: &mut Network, owner: &Owner, address: IpAddr) -> Result<(), Exception> {
    let name = network.name.clone();
    let holds = |subnet: &&mut Subnet| subnet.prefix.contains(&address);
    let subnet = network.subnets.iter_mut().find(holds).ok_or_else(|| {
        wrong(format!("pre_allocated: {address} of {owner} is of no subnet of network {name}"))
    })?;
    match subnet.pre_allocated.insert(address, owner.clone()) {
        Some(other) if other != *owner => {
            Err(wrong(format!("pre_allocated: {address} is kept for {other} and for {owner}")))
        }
        _ => Ok(()),
    }
}

fn checked(network: Network) -> Result<Network, Exception> {
    let network = network.normalized();
    network.check().map_err(|fault| wrong(fault.to_string()))?;
    Ok(network)
}

/// A network that there is not yet, and whose addresses no other one gives out.
fn is_new(config: &Config, network: &Network) -> Result<(), Exception> {
    if config.networks.contains_key(&network.name) {
        let text = format!("Network '{}' already registered", network.name);
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    if config.networks.len() >= NETWORKS_MAX {
        return Err(wrong(format!("there are {NETWORKS_MAX} networks, which is the limit")));
    }
    is_alone(config, network)
}

/// # Errors
/// Another network, or the rules of addresses, give addresses of this one.
fn is_alone(config: &Config, network: &Network) -> Result<(), Exception> {
    for subnet in &network.subnets {
        for other in config.networks.values().filter(|other| other.name != network.name) {
            if let Some(theirs) =
                other.subnets.iter().find(|theirs| theirs.all().meets(subnet.all()))
            {
                return Err(wrong(format!(
                    "network {}: {} overlaps {} of network {}",
                    network.name, subnet.prefix, theirs.prefix, other.name
                )));
            }
        }
    }
    meets_no_rules(network, &config.pools_of_rules().collect::<Vec<_>>())
}

/// # Errors
/// The network gives addresses of these pools of the rules.
pub(super) fn meets_no_rules(
    network: &Network,
    rules: &[(&'static str, IpNet)],
) -> Result<(), Exception> {
    let name = &network.name;
    for (field, pool) in rules {
        let all = Subnet::new(*pool, None).all();
        for subnet in &network.subnets {
            let kept = subnet.pre_allocated.keys().find(|address| pool.contains(*address));
            let range = subnet.pools.iter().find(|range| range.meets(all)).map(ToString::to_string);
            if let Some(what) = range.or_else(|| kept.map(ToString::to_string)) {
                return Err(wrong(format!(
                    "network {name}: {what} meets {field} of the rules of addresses, whose addresses the \
                     rules and DHCP give; see gnt ipam get"
                )));
            }
        }
    }
    Ok(())
}

/// Addresses of the cluster's own that lie in a network: nobody gets them.
fn parts_within(config: &Config, network: &Network) -> Vec<String> {
    let nodes = config.nodes.values().map(|node| (node.name.to_string(), node.primary_ip));
    let master = config.cluster.master_ip.map(|address| ("the master".to_owned(), address));
    let within = nodes.chain(master).filter(|(_, address)| network.subnet_of(*address).is_some());
    within.map(|(part, address)| format!("{address} of {part} is never given out")).collect()
}

impl Config {
    /// A network by its name or UUID.
    ///
    /// # Errors
    /// There is none.
    pub fn network(&self, name: &str) -> Result<&Arc<Network>, Exception> {
        let by_uuid = || self.networks.by.uuid.of(name.parse().ok()?).next();
        self.networks.get(name).or_else(by_uuid).ok_or_else(|| {
            Exception::prereq(format!("Network '{name}' not found"), ErrorCode::UnknownEntity)
        })
    }
}

/// Changes a network in one transaction.
async fn change(
    context: &mut Context,
    name: String,
    decide: impl FnOnce(&Config, &mut Network) -> Result<(), Exception> + Send + 'static,
) -> Result<(), Failure> {
    let now = context.now();
    let seed = Uuid::new_v4().as_u128();
    context
        .transact(move |config| {
            let mut network = config.network(&name)?.as_ref().clone();
            decide(config, &mut network)?;
            network.serial_no += 1;
            network.mtime = now;
            let mut after = config.clone();
            let mut changes = vec![ConfigChange::Network(network.clone())];
            after.apply(changes.clone());
            // A waiting claim may have room now.
            changes.extend(claim::settled(&mut after, &network.name, seed));
            Ok((changes, ()))
        })
        .await
}

impl LogicalUnit for NetworkSetParams {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(config.network(&self.network_name)?, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let mut network = config.network(&self.network_name)?.as_ref().clone();
        self.change(&config, &mut network)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let name = self.network_name.clone();
        change(context, name, move |config, network| self.change(config, network)).await
    }
}

/// An opcode that changes a network.
trait Changes {
    /// # Errors
    /// The change cannot be, or would cut off an address in use.
    fn change(&self, config: &Config, network: &mut Network) -> Result<(), Exception>;
}

impl Changes for NetworkSetParams {
    fn change(&self, config: &Config, network: &mut Network) -> Result<(), Exception> {
        if let Some(wanted) = self.if_serial_no.filter(|wanted| *wanted != network.serial_no) {
            return Err(Exception::prereq(
                format!(
                    "network {} has serial number {} and not {wanted}: somebody changed it meanwhile; look \
                     at it, and try again",
                    network.name, network.serial_no
                ),
                ErrorCode::WrongState,
            ));
        }
        self.change_subnets(network)?;
        if let Some(pools) = &self.pools {
            network.subnets.iter_mut().for_each(|subnet| subnet.pools.clear());
            place(network, "pools", pools, |subnet| &mut subnet.pools)?;
        }
        let added = self.add_reserved_ips.as_deref().unwrap_or_default();
        place(network, "add_reserved_ips", added, |subnet| &mut subnet.reserved)?;
        for range in self.remove_reserved_ips.iter().flatten() {
            network.subnets.iter_mut().for_each(|subnet| {
                subnet.reserved = range::without(&subnet.reserved, *range);
            });
        }
        for (owner, address) in &self.pre_allocated {
            let subnets = network.subnets.iter_mut();
            match address {
                None => {
                    subnets.for_each(|subnet| subnet.pre_allocated.retain(|_, its| its != owner));
                }
                Some(address) => keep(network, owner, *address)?,
            }
        }
        if let Some(servers) = &self.dns_servers {
            network.dns_servers.clone_from(servers);
        }
        if let Some(prefix) = &self.mac_prefix {
            network.mac_prefix = Some(prefix.clone()).filter(|prefix| prefix != "none");
        }
        network.mtu = self.mtu.map_or(network.mtu, OrNone::value);
        network.vlan = self.vlan.map_or(network.vlan, OrNone::value);
        network.strategy = self.strategy.unwrap_or(network.strategy);
        *network = checked(network.clone())?;
        is_alone(config, network)?;
        nothing_is_cut_off(config, network)
    }
}

/// The part of a change that is about subnets.
trait ChangesSubnets {
    fn change_subnets(&self, network: &mut Network) -> Result<(), Exception>;
}

impl ChangesSubnets for NetworkSetParams {
    fn change_subnets(&self, network: &mut Network) -> Result<(), Exception> {
        if let Some(prefix) = self.network6 {
            network.subnets.retain(Subnet::is_ipv4);
            match prefix.value() {
                Some(Prefix(prefix)) if prefix.addr().is_ipv6() => {
                    let mut subnet = Subnet::new(prefix, None);
                    // The only one gives all its addresses, as a new network does.
                    let is_only = network.subnets.is_empty();
                    subnet.pools.extend(is_only.then(|| subnet.hosts()));
                    network.subnets.push(subnet);
                }
                Some(prefix) => return Err(wrong(format!("network6: {} is of IPv4", prefix.0))),
                None => {}
            }
        }
        for (field, is_ipv4, gateway) in
            [("gateway", true, self.gateway), ("gateway6", false, self.gateway6)]
        {
            let Some(gateway) = gateway else { continue };
            let mut subnets = network.subnets.iter_mut();
            let subnet = subnets.find(|subnet| subnet.is_ipv4() == is_ipv4).ok_or_else(|| {
                wrong(format!("{field}: network {} has no subnet of that family", network.name))
            })?;
            subnet.gateway = gateway.value();
        }
        Ok(())
    }
}

/// # Errors
/// A claim has an address that the network could not have given.
fn nothing_is_cut_off(config: &Config, network: &Network) -> Result<(), Exception> {
    for claim in claim::of_network(config, &network.name).filter(|claim| claim.is_waiting()) {
        let Some(wanted) = claim.wanted else { continue };
        if let Err(why) = network.may_have(&claim.owner, wanted) {
            let text = format!(
                "{} waits for {wanted}, which it could then never have: {why}; release its claim first",
                claim.owner
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
    }
    let all = claim::of_network(config, &network.name);
    for (claim, address) in all.flat_map(|c| c.addresses().iter().map(move |a| (c, *a))) {
        let refuse = |why: String| {
            let text =
                format!("{address} is in use by {}, and {why}; release it first", claim.owner);
            Err(Exception::prereq(text, ErrorCode::WrongState))
        };
        if let Err(why) = network.may_have(&claim.owner, address) {
            return refuse(why.to_string());
        }
        let of_pool = network.subnet_of(address).is_some_and(|subnet| {
            subnet.pools.iter().any(|pool| pool.contains(address))
                || subnet.pre_allocated.contains_key(&address)
        });
        if !of_pool && claim.wanted != Some(address) {
            return refuse("no pool would hold it any longer".to_owned());
        }
    }
    Ok(())
}

impl LogicalUnit for NetworkRemove {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(config.network(&self.network_name)?, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        removal(&context.config(), self)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        context.transact(move |config| Ok((removal(config, &self)?, ()))).await
    }
}

/// The changes that remove a network, its claims first.
fn removal(config: &Config, op: &NetworkRemove) -> Result<Vec<ConfigChange>, Exception> {
    let network = config.network(&op.network_name)?;
    let refuse = |text: String| Err(Exception::prereq(text, ErrorCode::WrongState));
    if let Some(group) = network.groups.keys().next() {
        let group = config.group(group).map_or(group.as_str(), |group| group.name.as_str());
        return refuse(format!(
            "network {} is connected to node group {group}; disconnect it first",
            network.name
        ));
    }
    let claims: Vec<_> = claim::of_network(config, &network.name).collect();
    if let (Some(one), false) = (claims.first(), op.force) {
        return refuse(format!(
            "network {} has {} claims, such as that of {}; release them, or give --force",
            network.name,
            claims.len(),
            one.owner
        ));
    }
    let released = claims.into_iter().map(|claim| ConfigChange::ClaimRemoved(claim.key()));
    Ok(released.chain([ConfigChange::NetworkRemoved(network.name.clone())]).collect())
}

pub mod fields;
#[cfg(test)]
pub(crate) mod tests;
