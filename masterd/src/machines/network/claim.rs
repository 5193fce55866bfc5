//! Opcodes on claims: who gets addresses of a network.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::network::allocate::{Used, allocate};
use model::network::{Claim, ClaimKey, ClaimState, Owner};
use model::opcode::network::{CLAIMS_MAX, ClaimSpec};
use model::opcode::{NetworkClaim, NetworkRelease};
use model::{Exception, Timestamp, Uuid, Word};

use super::wrong;
use crate::config::claims::UsedIn;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// Claims that wait for one network; those beyond are refused.
const WAITING_MAX: usize = 10_000;
/// Claims that are told of in the job's log.
const TOLD_MAX: usize = 64;

/// The claims of a network.
pub(super) fn of_network<'a>(
    config: &'a Config,
    network: &Word,
) -> impl Iterator<Item = &'a Arc<Claim>> + use<'a> {
    config.claims.by.network.of(network.clone())
}

impl LogicalUnit for NetworkClaim {
    type Plan = ();

    /// Claims of a network exclude each other and changes of the network in their transaction; the lock
    /// keeps it from being removed meanwhile.
    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Network {
            return Ok(Vec::new());
        }
        let names: BTreeSet<&Word> = self.claims.iter().map(|spec| &spec.network).collect();
        let lock = |name: &&Word| -> Result<_, Exception> {
            let network = config.network(name.as_str())?;
            Ok((LockName::member(level, network.uuid.to_string()), Mode::Shared))
        };
        names.iter().map(lock).collect()
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        if self.claims.is_empty() || self.claims.len() > CLAIMS_MAX {
            let text = format!("{} claims; one job makes 1 to {CLAIMS_MAX}", self.claims.len());
            return Err(wrong(text).into());
        }
        made(&context.config(), &self.claims, context.now(), 0)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<Claim>, Failure> {
        let (now, seed) = (context.now(), Uuid::new_v4().as_u128());
        let specs = self.claims;
        let claims = context.transact(move |config| made(config, &specs, now, seed)).await?;
        for claim in claims.iter().take(TOLD_MAX) {
            context.say(told(claim)).await;
        }
        if let Some(more) = claims.len().checked_sub(TOLD_MAX).filter(|&more| more > 0) {
            context.say(format!("and {more} more claims; the result has all of them")).await;
        }
        Ok(claims)
    }
}

fn told(claim: &Claim) -> String {
    let (network, owner) = (&claim.network, &claim.owner);
    match &claim.state {
        ClaimState::Bound(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!("{owner} has {} of network {network}", addresses.join(" and "))
        }
        ClaimState::Waiting => {
            format!("{owner} waits for an address of network {network}, whose pools are full")
        }
    }
}

/// The changes that make these claims, and the claims; those that are there already stay as they are.
///
/// # Errors
/// One that can never be served: then none is made.
pub(crate) fn made(
    config: &Config,
    specs: &[ClaimSpec],
    now: Timestamp,
    seed: u128,
) -> Result<(Vec<ConfigChange>, Vec<Claim>), Exception> {
    let mut after = config.clone();
    let (mut changes, mut claims) = (Vec::new(), Vec::new());
    // First come, first served: an address that became free belongs to those that wait.
    for network in specs.iter().map(|spec| &spec.network).collect::<BTreeSet<_>>() {
        changes.extend(settled(&mut after, network, seed));
    }
    for (number, spec) in (0_u128..).zip(specs) {
        let key = ClaimKey { network: spec.network.clone(), owner: spec.owner.clone() };
        if let Some(there) = after.claims.get(&key) {
            claims.push(same(there, spec)?);
            continue;
        }
        if let Owner::Machine(serial) = &spec.owner {
            after.machine(serial.as_str())?;
        }
        let claim = new(&after, spec, now, seed.wrapping_add(number))?;
        claims.push(claim.clone());
        let change = ConfigChange::Claim(claim);
        after.apply([change.clone()]);
        changes.push(change);
    }
    Ok((changes, claims))
}

/// The claim that is there, if it is what is asked for.
fn same(there: &Claim, spec: &ClaimSpec) -> Result<Claim, Exception> {
    let has = |wanted: IpAddr| there.addresses().contains(&wanted) || there.wanted == Some(wanted);
    match spec.address.filter(|wanted| !has(*wanted)) {
        None => Ok(there.clone()),
        Some(wanted) => Err(Exception::prereq(
            format!(
                "{} cannot have {wanted}: {}; release that claim first",
                spec.owner,
                told(there)
            ),
            ErrorCode::AlreadyExists,
        )),
    }
}

fn new(config: &Config, spec: &ClaimSpec, now: Timestamp, seed: u128) -> Result<Claim, Exception> {
    let ClaimSpec { network: name, owner, address: wanted } = spec.clone();
    let network = config.network(name.as_str())?;
    let used = UsedIn { config, network: &network.name };
    let state = match allocate(network, &owner, wanted, &used, seed) {
        Ok(addresses) => ClaimState::Bound(addresses),
        Err(error) if error.is_temporary() => {
            // Would it be served if nobody had any address?
            let ever = allocate(network, &owner, wanted, &Nobody { config }, seed);
            ever.map_err(|_never| {
                wrong(format!(
                    "{owner} gets no address: the pools of network {name} have none that a host may have"
                ))
            })?;
            ClaimState::Waiting
        }
        Err(error) => return Err(wrong(format!("{owner} gets no address: {error}"))),
    };
    if state == ClaimState::Waiting && config.waiting(&name).count() >= WAITING_MAX {
        return Err(Exception::prereq(
            format!(
                "{WAITING_MAX} claims wait for addresses of network {name}, which is the limit"
            ),
            ErrorCode::TempInsufficientResources,
        ));
    }
    Ok(Claim { network: name, owner, wanted, state, ctime: now })
}

/// Nobody claims anything.
struct Nobody<'a> {
    config: &'a Config,
}

impl Used for Nobody<'_> {
    fn run_end(&self, address: IpAddr) -> Option<IpAddr> {
        let mut rules = self.config.pools_of_rules();
        rules.any(|(_field, pool)| pool.contains(&address)).then_some(address)
    }

    fn owner(&self, _address: IpAddr) -> Option<String> {
        None
    }
}

impl Config {
    /// Claims that wait for a network, in the order in which they came.
    fn waiting(&self, network: &Word) -> impl Iterator<Item = &Arc<Claim>> {
        let first = (network.clone(), Timestamp::from_micros(i64::MIN));
        let last = (network.clone(), Timestamp::from_micros(i64::MAX));
        self.claims.by.waiting.within(first..=last).map(|(_place, claim)| claim)
    }
}

/// Gives addresses of a network to claims that wait, as far as there are some; `config` is the state after
/// the changes so far.
pub(super) fn settled(config: &mut Config, network: &Word, seed: u128) -> Vec<ConfigChange> {
    let mut changes = Vec::new();
    let waiting: Vec<Arc<Claim>> = config.waiting(network).cloned().collect();
    let mut is_full = false;
    for (number, claim) in (0_u128..).zip(waiting) {
        let Some(of) = config.networks.get(network) else { break };
        // Nobody else gets an address of the pools either.
        if is_full && claim.wanted.is_none() && !of.keeps_for(&claim.owner) {
            continue;
        }
        let used = UsedIn { config, network };
        let seed = seed.wrapping_add(number);
        let addresses = match allocate(of, &claim.owner, claim.wanted, &used, seed) {
            Ok(addresses) => addresses,
            // A claim that cannot be served now holds up nobody behind it.
            Err(error) => {
                is_full |= error.is_temporary();
                continue;
            }
        };
        let served = Claim { state: ClaimState::Bound(addresses), ..claim.as_ref().clone() };
        let change = ConfigChange::Claim(served);
        config.apply([change.clone()]);
        changes.push(change);
    }
    changes
}

/// The changes that end all claims of an owner, and serve those that wait.
pub(crate) fn released_by(config: &Config, owner: &Owner, seed: u128) -> Vec<ConfigChange> {
    let claims: Vec<Arc<Claim>> = config.claims.by.owner.of(owner.clone()).cloned().collect();
    released(config, &claims, seed)
}

pub(crate) fn released(config: &Config, claims: &[Arc<Claim>], seed: u128) -> Vec<ConfigChange> {
    let mut after = config.clone();
    let mut changes = Vec::new();
    for claim in claims {
        let change = ConfigChange::ClaimRemoved(claim.key());
        after.apply([change.clone()]);
        changes.push(change);
        changes.extend(settled(&mut after, &claim.network, seed));
    }
    changes
}

impl LogicalUnit for NetworkRelease {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        match level {
            Level::Network => {
                let network = config.network(self.network_name.as_str())?;
                Ok(vec![(LockName::member(level, network.uuid.to_string()), Mode::Shared)])
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        release(self, &context.config(), 0)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let seed = Uuid::new_v4().as_u128();
        let changes = context
            .transact(move |config| {
                let changes = release(&self, config, seed)?;
                Ok((changes.clone(), changes))
            })
            .await?;
        for change in changes {
            if let ConfigChange::Claim(claim) = change {
                context.say(told(&claim)).await;
            }
        }
        Ok(())
    }
}

fn release(
    op: &NetworkRelease,
    config: &Config,
    seed: u128,
) -> Result<Vec<ConfigChange>, Exception> {
    let key = ClaimKey { network: op.network_name.clone(), owner: op.owner.clone() };
    let claim = config.claims.get(&key).ok_or_else(|| {
        let text = format!("{} has no claim on network {}", op.owner, op.network_name);
        Exception::prereq(text, ErrorCode::UnknownEntity)
    })?;
    Ok(released(config, std::slice::from_ref(claim), seed))
}

pub(crate) mod fields;
#[cfg(test)]
mod tests;
