//! Opcodes on ports, and on which configuration they have when.

use std::collections::BTreeSet;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::machine::check;
use model::opcode::{PortPolicySet, PortSetParams};
use model::switch::policy::ROLES_MAX;
use model::switch::{PortKey, PortPhase, PortPolicy, SwitchPort};
use model::{Exception, Word};

use super::settle::{How, settle};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Most ports of one opcode.
const PORTS_MAX: usize = model::switch::PORTS_MAX;

impl Config {
    /// A port by its key.
    ///
    /// # Errors
    /// There is none.
    pub fn port(&self, key: &PortKey) -> Result<&std::sync::Arc<SwitchPort>, Exception> {
        self.switch(key.switch.as_str())?;
        self.switch_ports.get(key).ok_or_else(|| {
            let text = format!(
                "switch {} has no port {}; `gnt port list` names all",
                key.switch, key.port
            );
            Exception::prereq(text, ErrorCode::UnknownEntity)
        })
    }

    fn has_configuration(&self, name: &Word) -> Result<(), Exception> {
        match self.port_configurations.contains_key(name) {
            true => Ok(()),
            false => {
                let text = format!("Port configuration '{name}' not known");
                Err(Exception::prereq(text, ErrorCode::UnknownEntity))
            }
        }
    }
}

/// Puts names of configurations into phases, or takes them away.
fn phases_after<'p>(
    config: &Config,
    phases: &mut model::switch::Phases,
    told: impl IntoIterator<Item = (&'p PortPhase, &'p Option<Word>)>,
) -> Result<(), Exception> {
    for (phase, name) in told {
        match name {
            None => drop(phases.remove(phase)),
            Some(name) => {
                config.has_configuration(name)?;
                phases.insert(*phase, name.clone());
            }
        }
    }
    Ok(())
}

impl LogicalUnit for PortSetParams {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Switch {
            return Ok(Vec::new());
        }
        let switches: BTreeSet<&Word> = self.ports.iter().map(|key| &key.switch).collect();
        let lock = |name: &Word| LockName::member(Level::Switch, name.as_str());
        Ok(switches.into_iter().map(|name| (lock(name), Mode::Shared)).collect())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        changed(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<SwitchPort>, Failure> {
        let keys: BTreeSet<PortKey> = self.ports.iter().cloned().collect();
        context
            .transact(move |config| {
                let ports = changed(&self, config)?;
                Ok((ports.into_iter().map(ConfigChange::SwitchPort).collect(), ()))
            })
            .await?;
        let how = How { reset: true, ..How::default() };
        let ports = settle(context, &keys, how).await?;
        for port in &ports {
            if let Some(why) = context.config().behind(&port.key()).contradiction() {
                context.say(format!("{}: {why}", port.key())).await;
            }
        }
        Ok(ports)
    }
}

pub(crate) fn changed(op: &PortSetParams, config: &Config) -> Result<Vec<SwitchPort>, Exception> {
    if op.ports.is_empty() || op.ports.len() > PORTS_MAX {
        return Err(wrong(format!("{} ports; name 1 to {PORTS_MAX}", op.ports.len())));
    }
    let serves = op.serves.clone().map(model::opcode::network::OrNone::value);
    if let Some(Some(served)) = &serves {
        if op.ports.len() > 1 {
            return Err(wrong("one card is on one port: name one port"));
        }
        let machine = config.machines.get(&served.serial).ok_or_else(|| {
            let text = format!("Machine '{}' not known", served.serial);
            Exception::prereq(text, ErrorCode::UnknownEntity)
        })?;
        let mut others = config.switch_ports.by.machine.of(machine.serial.clone());
        let is_same = |port: &&std::sync::Arc<SwitchPort>| {
            port.serves.as_ref().is_some_and(|its| its.mac == served.mac)
                && op.ports.iter().all(|key| *key != port.key())
        };
        if let Some(other) = others.find(is_same) {
            let (mac, serial, key) = (served.mac, &served.serial, other.key());
            return Err(wrong(format!("card {mac} of machine {serial} is on port {key} already")));
        }
        if let Some(tenant) = config.tenant_of_machine(&machine.serial)
            && !op.ports.iter().all(|key| config.ports_of(&machine.serial).contains(key))
            && config.ports_of_tenant(tenant) >= tenant.limits.ports as usize
        {
            return Err(wrong(format!(
                "tenant {0} may have {1} ports, and has them; an administrator changes that: `gnt tenant modify \
                 {0} --ports`",
                tenant.name, tenant.limits.ports
            )));
        }
        let taken = config.machines.by.mac.of(served.mac).find(|m| m.serial != machine.serial);
        if let Some(other) = taken {
            return Err(wrong(format!("card {} is one of machine {}", served.mac, other.serial)));
        }
    }
    let mut ports = Vec::new();
    for key in &op.ports {
        let mut port = config.port(key)?.as_ref().clone();
        if let Some(serves) = &serves {
            port.serves.clone_from(serves);
        }
        if let Some(told) = &op.configuration {
            port.set = told.clone().value().filter(|name| name.as_str() != "none");
            if let Some(name) = &port.set {
                config.has_configuration(name)?;
            }
        }
        phases_after(config, &mut port.phases, &op.phases)?;
        ports.push(port);
    }
    Ok(ports)
}

impl LogicalUnit for PortPolicySet {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        policy(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<PortPolicy, Failure> {
        context
            .transact(move |config| {
                let policy = policy(&self, config)?;
                Ok((vec![ConfigChange::PortPolicy(policy.clone())], policy))
            })
            .await
    }
}

fn policy(op: &PortPolicySet, config: &Config) -> Result<PortPolicy, Exception> {
    let mut policy = config.port_policy.as_deref().cloned().unwrap_or_default();
    match &op.role {
        None => phases_after(config, &mut policy.all, &op.phases)?,
        Some(role) => {
            if let Some(problem) = check::role(role) {
                return Err(wrong(problem.to_string()));
            }
            let mut phases = policy.roles.remove(role).unwrap_or_default();
            phases_after(config, &mut phases, &op.phases)?;
            if !phases.is_empty() {
                policy.roles.insert(role.clone(), phases);
            }
        }
    }
    if policy.roles.len() > ROLES_MAX {
        return Err(wrong(format!(
            "{ROLES_MAX} roles have configurations of ports, which is the limit"
        )));
    }
    policy.on_drift = op.on_drift.unwrap_or(policy.on_drift);
    policy.on_dead_switch = op.on_dead_switch.unwrap_or(policy.on_dead_switch);
    Ok(policy)
}
