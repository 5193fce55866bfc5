//! Opcodes on the rules of addresses.

use std::net::IpAddr;

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::ipam::IpamConfig;
use model::machine::{BOOT_ROLE, Machine};
use model::opcode::IpamSet;

use super::machine::register::network;
use super::network::meets_no_rules;
use super::rack;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for IpamSet {
    type Plan = ();

    /// All machines, present and future: none may be registered while their addresses change.
    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(match level {
            Level::Machine => vec![(LockName::set(Level::Machine), Mode::Exclusive)],
            _ => Vec::new(),
        })
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        self.config
            .validate()
            .map_err(|error| Exception::prereq(error.to_string(), ErrorCode::WrongInput))?;
        Ok(may_change(&context.config(), &self.config)?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let rules = self.config;
        context
            .transact(move |config| {
                may_change(config, &rules)?;
                Ok((vec![ConfigChange::Ipam(rules)], ()))
            })
            .await?;
        give_ipv6(context).await?;
        rack::push_all(context).await.map(drop)
    }
}

/// Machines that get their IPv6 addresses in one transaction: a few hundred kilobytes.
const GIVEN_AT_ONCE: usize = 250;

/// Gives machines that were registered before there was a pool their IPv6 addresses.
async fn give_ipv6(context: &mut Context) -> Result<(), Failure> {
    let mut count = 0;
    loop {
        let given = context
            .transact(|config| {
                let rules = config.ipam()?;
                let changed = config.machines.values().filter_map(|m| with_ipv6(m, rules));
                let changed: Vec<_> = changed.take(GIVEN_AT_ONCE).collect();
                let given = changed.len();
                Ok((changed.into_iter().map(ConfigChange::Machine).collect(), given))
            })
            .await?;
        count += given;
        if given < GIVEN_AT_ONCE {
            break;
        }
    }
    if count > 0 {
        context.say(format!("{count} machines got their IPv6 addresses")).await;
    }
    Ok(())
}

/// The machine with the IPv6 addresses that it lacks.
fn with_ipv6(machine: &Machine, rules: &IpamConfig) -> Option<Machine> {
    let (rack, index) = (machine.rack, machine.index_in_rack);
    let mut changed = machine.clone();
    for (name, by_rules) in network(rules, rack, index).ok()? {
        if let Some(held) = changed.network.get_mut(&name).filter(|held| held.ipv6.is_none()) {
            held.ipv6 = by_rules.ipv6;
        }
    }
    if changed.bmc.ipv6.is_none() {
        changed.bmc.ipv6 = rules.bmc_ipv6(rack, index).ok()?.map(|address| vec![address]);
    }
    (changed != *machine).then_some(changed)
}

/// # Errors
/// A network gives addresses of the new pools, or somebody claims one of them.
fn is_nobodys(config: &Config, rules: &IpamConfig) -> Result<(), Exception> {
    let pools = rules.pools();
    for network in config.networks.values() {
        meets_no_rules(network, &pools)?;
    }
    for claim in config.claims.values() {
        let within = |address: &&IpAddr| pools.iter().any(|(_field, pool)| pool.contains(*address));
        if let Some(address) = claim.addresses().iter().find(within) {
            let (owner, network) = (&claim.owner, &claim.network);
            let text = format!(
                "{address} of the new rules belongs to {owner} of network {network}; release it first"
            );
            return Err(Exception::prereq(text, ErrorCode::ResourceNotUnique));
        }
    }
    Ok(())
}

/// Once machines have addresses by rules, other rules must give them the same (sabakan's specification).
fn may_change(config: &Config, rules: &IpamConfig) -> Result<(), Exception> {
    is_nobodys(config, rules)?;
    let Some(before) = config.ipam.as_deref().filter(|before| *before != rules) else {
        return Ok(());
    };
    let moved = config.machines.values().filter(|machine| moves(machine, before, rules));
    let serials: Vec<&str> = moved.map(|machine| machine.serial.as_str()).collect();
    let [first, more @ ..] = serials.as_slice() else { return Ok(()) };
    let others = match more.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Err(Exception::prereq(
        format!(
            "the new rules would change addresses of machine {first}{others}; remove machines whose \
             addresses change first"
        ),
        ErrorCode::WrongState,
    ))
}

/// Whether the rules give a machine another place or other addresses.
fn moves(machine: &Machine, before: &IpamConfig, after: &IpamConfig) -> bool {
    let (rack, index) = (machine.rack, machine.index_in_rack);
    let of = |rules: &IpamConfig| {
        let bmc = rules.bmc_address(rack, index).ok()?;
        Some((rules.node_addresses(rack, index).ok()?, bmc))
    };
    let ipv6 = |rules: &IpamConfig| {
        let bmc = rules.bmc_ipv6(rack, index).ok()?;
        Some((rules.node_ipv6(rack, index).ok()?, bmc))
    };
    // A pool may come: then there are addresses where none were.
    let (had, has) = (ipv6(before), ipv6(after));
    let is_kept = match (&had, &has) {
        (Some((nodes, bmc)), Some((later, bmc_later))) => {
            (nodes.is_empty() || nodes == later) && (bmc.is_none() || bmc == bmc_later)
        }
        _ => false,
    };
    if !is_kept {
        return true;
    }
    let is_boot = machine.role == BOOT_ROLE;
    is_boot != (index == after.node_index_offset) || of(after).is_none() || of(before) != of(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, spec};

    #[test]
    fn rules_change_while_every_address_stays() {
        type Change = fn(&mut IpamConfig);
        let cases: [(Change, bool); 11] = [
            (|_| {}, true),
            (|c| c.max_nodes_in_rack = 20, true),
            (|c| c.node_ipv4_range_mask = 25, true),
            (|c| c.node_gateway_offset = Some(2), true),
            (|c| c.node_ipv4_pool = "10.69.0.0/17".parse().unwrap(), true),
            (|c| c.node_ipv6_pool = "fd00:69::/48".parse().ok(), true),
            (|c| c.max_nodes_in_rack = 1, false),
            (|c| c.node_index_offset = 2, false),
            (|c| c.node_ip_per_node = 2, false),
            (|c| c.bmc_ipv4_offset = Some([0, 0, 1, 0].into()), false),
            (|c| c.node_ipv4_pool = "10.70.0.0/16".parse().unwrap(), false),
        ];
        let mut present = config(&[]);
        let specs = [spec("b", 0, "boot"), spec("w1", 0, "worker"), spec("w2", 0, "worker")];
        for (change, _) in cases {
            let mut rules = crate::testing::ipam();
            change(&mut rules);
            assert!(may_change(&present, &rules).is_ok(), "no machine is there");
        }
        let machines = register(&present, &specs, NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        for (at, (change, taken)) in cases.into_iter().enumerate() {
            let mut rules = crate::testing::ipam();
            change(&mut rules);
            assert_eq!(may_change(&present, &rules).is_ok(), taken, "case {at}");
        }
        let mut rules = crate::testing::ipam();
        rules.node_ip_per_node = 2;
        let told = may_change(&present, &rules).unwrap_err().to_string();
        assert!(told.contains("addresses of machine b and 2 more"), "{told}");
    }

    #[test]
    fn machines_that_are_there_get_addresses_of_a_new_pool() {
        let mut present = config(&[]);
        let specs = [spec("b", 0, "boot"), spec("w1", 0, "worker")];
        let machines = register(&present, &specs, NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        let mut rules = crate::testing::ipam();
        let given = |config: &Config, rules: &IpamConfig| -> Vec<Machine> {
            config.machines.values().filter_map(|machine| with_ipv6(machine, rules)).collect()
        };
        assert_eq!(given(&present, &rules), []);
        rules.node_ipv6_pool = Some("fd00:69::/48".parse().unwrap());
        rules.bmc_ipv6_pool = Some("fd00:72::/48".parse().unwrap());
        let changed = given(&present, &rules);
        assert_eq!(changed[1].network["node1"].ipv6, Some(vec!["fd00:69:0:1::4".parse().unwrap()]));
        assert_eq!(changed[1].bmc.ipv6, Some(vec!["fd00:72::4".parse().unwrap()]));
        present.apply([ConfigChange::Ipam(rules.clone())]);
        present.apply(changed.into_iter().map(ConfigChange::Machine));
        assert_eq!(given(&present, &rules), []);
        assert!(may_change(&present, &rules).is_ok());
        assert!(may_change(&present, &crate::testing::ipam()).is_err(), "they would lose them");
        // A machine that comes later has them from the beginning.
        let later = register(&present, &[spec("w2", 0, "worker")], NOW).unwrap();
        assert_eq!(
            given(
                &{
                    present.apply(later.into_iter().map(ConfigChange::Machine));
                    present
                },
                &rules
            ),
            []
        );
    }
}
