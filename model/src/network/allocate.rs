//! Core: which addresses a claim gets.
//!
//! Used addresses are known as runs of addresses that follow each other. A search passes over a run at
//! once, so that its cost does not grow with the number of addresses in use.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use super::range::{self, IpRange};
use super::{Network, Owner, Strategy, Subnet};
use crate::{Uuid, Word};

/// Which addresses of a network are used.
pub trait Used {
    /// The last address of the run of used ones that holds `address`, if it is used.
    fn run_end(&self, address: IpAddr) -> Option<IpAddr>;

    fn owner(&self, address: IpAddr) -> Option<String>;
}

/// Why a claim gets nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// Every address of the pools is used. It ends when one becomes free.
    #[error("the {family} pools of network {network} are full")]
    Full {
        network: Word,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// There is nothing to give.
    #[error(
        "network {network} has no pool; give it one by `gnt network modify {network} --pool FIRST-LAST`, \
         or ask for an address"
    )]
    NoPool { network: Word },
    /// The address lies outside.
    #[error("{address} is of no subnet of network {network}")]
    Outside {
        /// The address that was asked for.
        address: IpAddr,
        network: Word,
    },
    /// No host may have the address, or another one has it.
    #[error("{address} {why}")]
    Unusable {
        /// The address that was asked for.
        address: IpAddr,
        /// Why it is not to be had.
        why: String,
    },
}

impl AllocateError {
    /// Whether it ends by itself, when others release addresses.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// The addresses that `owner` gets: the one that is kept for it or that it asks for, and one of the pools
/// of each other family. `seed` is a random number, which [`Strategy::Random`] uses.
///
/// # Errors
/// A family has no free address, or what is asked for cannot be had: then nothing is given.
pub fn allocate(
    network: &Network,
    owner: &Owner,
    wanted: Option<IpAddr>,
    used: &impl Used,
    seed: u128,
) -> Result<Vec<IpAddr>, AllocateError> {
    if let Some(address) = wanted {
        network.may_have(owner, address)?;
    }
    let start = match network.strategy {
        Strategy::Sequential => 0,
        Strategy::Random => seed,
        Strategy::Sticky => number_of(network.uuid, owner),
    };
    let mut given = Vec::new();
    for (family, is_ipv4) in [("IPv4", true), ("IPv6", false)] {
        let subnets = || network.subnets.iter().filter(|subnet| subnet.is_ipv4() == is_ipv4);
        let kept = subnets().find_map(|subnet| kept_for(subnet, owner));
        if let Some(address) = wanted.filter(|address| address.is_ipv4() == is_ipv4).or(kept) {
            given.push(free(address, owner, used)?);
            continue;
        }
        let mut pools =
            subnets().flat_map(|s| s.pools.iter().map(move |pool| (s, *pool))).peekable();
        if pools.peek().is_none() {
            continue;
        }
        let found = pools.find_map(|(subnet, pool)| of_pool(subnet, pool, used, start));
        let full = || AllocateError::Full { network: network.name.clone(), family };
        given.push(found.ok_or_else(full)?);
    }
    if given.is_empty() {
        return Err(AllocateError::NoPool { network: network.name.clone() });
    }
    Ok(given)
}

/// A number of an owner in a network, the same for ever.
fn number_of(network: Uuid, owner: &Owner) -> u128 {
    let digest = Sha256::new().chain_update(network).chain_update(owner.to_string()).finalize();
    digest.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The address that is kept for an owner.
fn kept_for(subnet: &Subnet, owner: &Owner) -> Option<IpAddr> {
    let mut kept = subnet.pre_allocated.iter();
    kept.find(|(_, its)| *its == owner).map(|(address, _)| *address)
}

/// The address, if nobody else has it.
fn free(address: IpAddr, owner: &Owner, used: &impl Used) -> Result<IpAddr, AllocateError> {
    match used.owner(address) {
        Some(other) if other != owner.to_string() => {
            Err(AllocateError::Unusable { address, why: format!("belongs to {other}") })
        }
        _ => Ok(address),
    }
}

/// The first free address of a pool from its address number `start` on, modulo its size, and around.
fn of_pool(subnet: &Subnet, pool: IpRange, used: &impl Used, start: u128) -> Option<IpAddr> {
    let first = pool.first();
    let start = range::address(range::number(first) + start % pool.count(), first)?;
    first_free(subnet, IpRange::new(start, pool.last()).ok()?, used).or_else(|| {
        let before = range::previous(start).filter(|last| *last >= first)?;
        first_free(subnet, IpRange::new(first, before).ok()?, used)
    })
}

/// Passes over one run of used or blocked addresses after the other.
fn first_free(subnet: &Subnet, within: IpRange, used: &impl Used) -> Option<IpAddr> {
    let mut at = within.first();
    while within.contains(at) {
        match subnet.blocked_end(at).or_else(|| used.run_end(at)) {
            Some(last) => at = range::next(last)?,
            None => return Some(at),
        }
    }
    None
}

impl Network {
    /// Whether `owner` may have an address that lies in no pool, or has it already.
    ///
    /// # Errors
    /// Why not.
    pub fn may_have(&self, owner: &Owner, address: IpAddr) -> Result<(), AllocateError> {
        let subnet = self
            .subnet_of(address)
            .ok_or_else(|| AllocateError::Outside { address, network: self.name.clone() })?;
        let unusable = |why: String| Err(AllocateError::Unusable { address, why });
        match subnet.pre_allocated.get(&address) {
            Some(its) if its == owner => return Ok(()),
            Some(other) => return unusable(format!("is kept for {other}")),
            None => {}
        }
        if let Some(kept) = kept_for(subnet, owner) {
            return unusable(format!("is not {kept}, which is kept for {owner}"));
        }
        if !subnet.hosts().contains(address) {
            return unusable(format!("is no address of a host in {}", subnet.prefix));
        }
        if subnet.gateway == Some(address) {
            return unusable(format!("is the gateway of {}", subnet.prefix));
        }
        if subnet.reserved_at(address).is_some() {
            return unusable("is reserved".to_owned());
        }
        Ok(())
    }
}

impl Subnet {
    /// The reserved range that holds an address.
    fn reserved_at(&self, address: IpAddr) -> Option<IpRange> {
        let next = self.reserved.partition_point(|range| range.last() < address);
        self.reserved.get(next).copied().filter(|range| range.contains(address))
    }

    /// The last address of the range of never given ones that holds `address`, if one does.
    fn blocked_end(&self, address: IpAddr) -> Option<IpAddr> {
        let hosts = self.hosts();
        if address < hosts.first() {
            return range::previous(hosts.first());
        }
        if address > hosts.last() {
            return Some(self.all().last());
        }
        if self.gateway == Some(address) || self.pre_allocated.contains_key(&address) {
            return Some(address);
        }
        self.reserved_at(address).map(IpRange::last)
    }

    /// Whether a pool gives an address while nobody has it.
    pub fn gives(&self, address: IpAddr) -> bool {
        self.blocked_end(address).is_none() && self.pools.iter().any(|pool| pool.contains(address))
    }

    /// How many addresses of its pools could be given out if nobody had one.
    pub fn capacity(&self) -> u128 {
        let mut blocked: Vec<IpRange> = self.reserved.clone();
        blocked.extend(self.pre_allocated.keys().chain(&self.gateway).copied().map(IpRange::one));
        let (all, hosts) = (self.all(), self.hosts());
        let below =
            range::previous(hosts.first()).and_then(|last| IpRange::new(all.first(), last).ok());
        let above =
            range::next(hosts.last()).and_then(|first| IpRange::new(first, all.last()).ok());
        blocked.extend(below.into_iter().chain(above));
        let blocked = range::merged(blocked);
        let common = |pool: &IpRange| {
            let parts = blocked.iter().filter_map(|range| range.common(*pool)).map(IpRange::count);
            parts.fold(0, u128::saturating_add)
        };
        let usable = self.pools.iter().map(|pool| pool.count().saturating_sub(common(pool)));
        usable.fold(0, u128::saturating_add)
    }
}

#[cfg(test)]
mod tests;
