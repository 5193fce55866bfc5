//! Opcodes on configurations of ports.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::opcode::{PortConfigurationAdd, PortConfigurationRemove};
use model::switch::configuration::CONFIGURATIONS_MAX;
use model::switch::{PortConfiguration, Vlan, VlanOf};
use model::{Exception, Timestamp, Word};

use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Users of a configuration that an error names.
const TOLD_MAX: usize = 5;

impl LogicalUnit for PortConfigurationAdd {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        made(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<PortConfiguration, Failure> {
        let now = context.now();
        context
            .transact(move |config| {
                let made = made(&self, config, now)?;
                Ok((vec![ConfigChange::PortConfiguration(made.clone())], made))
            })
            .await
    }
}

pub(crate) fn made(
    op: &PortConfigurationAdd,
    config: &Config,
    now: Timestamp,
) -> Result<PortConfiguration, Exception> {
    let name = &op.configuration_name;
    let described = |error: String| wrong(format!("port configuration {name}: {error}"));
    op.wanted.check().map_err(|error| described(error.to_string()))?;
    if name.as_str() == "none" {
        return Err(described("`none` means that there is none; choose another name".to_owned()));
    }
    let made = PortConfiguration { name: name.clone(), ctime: now, wanted: op.wanted.clone() };
    own_networks(&made, config).map_err(described)?;
    let settings = config.settings(&made).map_err(described)?;
    config.within_limits(name, &settings).map_err(described)?;
    match config.port_configurations.get(name) {
        Some(known) if known.wanted == made.wanted => return Ok(known.as_ref().clone()),
        Some(_) => {
            let text = format!(
                "Port configuration '{name}' exists, and such never change: make another one, and link that"
            );
            return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
        }
        None => {}
    }
    if config.port_configurations.len() >= CONFIGURATIONS_MAX {
        let text =
            format!("there are {CONFIGURATIONS_MAX} port configurations, which is the limit");
        return Err(wrong(text));
    }
    Ok(made)
}

/// Refuses a network that a tenant may not use in the words for one that is not there.
fn own_networks(made: &PortConfiguration, config: &Config) -> Result<(), String> {
    let Some(tenant) = config.tenant_of_configuration(&made.name) else { return Ok(()) };
    let untagged = match &made.wanted.untagged {
        Some(VlanOf::Network(name)) => Some(name),
        Some(VlanOf::Number(_)) | None => None,
    };
    let is_own = |name: &Word| {
        let vlan = config.networks.get(name).and_then(|network| network.vlan);
        let vlan = vlan.and_then(|vlan| Vlan::try_from(vlan).ok());
        vlan.is_some_and(|vlan| tenant.limits.vlans.contains(vlan))
    };
    let mut named = made.wanted.tagged_networks.iter().chain(untagged);
    match named.find(|name| !is_own(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "tenant {0} has no network {name}; an administrator changes its VLANs: `gnt tenant modify {0} \
             --vlans`",
            tenant.name
        )),
    }
}

impl LogicalUnit for PortConfigurationRemove {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        removable(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        context
            .transact(move |config| {
                let name = removable(&self, config)?;
                Ok((vec![ConfigChange::PortConfigurationRemoved(name)], ()))
            })
            .await
    }
}

fn removable(op: &PortConfigurationRemove, config: &Config) -> Result<Word, Exception> {
    let name = &op.configuration_name;
    let known = config.port_configurations.get(name.as_str()).ok_or_else(|| {
        let text = format!("Port configuration '{name}' not known");
        Exception::prereq(text, ErrorCode::UnknownEntity)
    })?;
    let users = config.users_of_configuration(&known.name);
    if users.is_empty() {
        return Ok(known.name.clone());
    }
    let more = users.len().saturating_sub(TOLD_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let shown: Vec<&str> = users.iter().map(String::as_str).take(TOLD_MAX).collect();
    let text = format!("port configuration {name} is in use by {}{more}", shown.join(", "));
    Err(Exception::prereq(text, ErrorCode::WrongState))
}
