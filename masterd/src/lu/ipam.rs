//! Opcodes on the rules of addresses.

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::ipam::IpamConfig;
use model::machine::{BOOT_ROLE, Machine};
use model::opcode::IpamSet;

use super::{Context, Failure, LogicalUnit, Wanted, rack};
use crate::config::{Config, ConfigChange};

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
        rack::push_all(context).await.map(drop)
    }
}

/// Once machines have addresses by rules, other rules must give them the same (document 1).
fn may_change(config: &Config, rules: &IpamConfig) -> Result<(), Exception> {
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
    let is_boot = machine.role == BOOT_ROLE;
    is_boot != (index == after.node_index_offset) || of(after).is_none() || of(before) != of(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lu::machine::register;
    use crate::testing::{NOW, config, spec};

    #[test]
    fn rules_change_while_every_address_stays() {
        type Change = fn(&mut IpamConfig);
        let cases: [(Change, bool); 10] = [
            (|_| {}, true),
            (|c| c.max_nodes_in_rack = 20, true),
            (|c| c.node_ipv4_range_mask = 25, true),
            (|c| c.node_gateway_offset = Some(2), true),
            (|c| c.node_ipv4_pool = "10.69.0.0/17".parse().unwrap(), true),
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
}
