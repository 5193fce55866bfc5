//! Core: what belongs to a tenant, and what it may have.

use std::sync::Arc;

use model::machine::Machine;
use model::switch::{PortKey, PortSettings};
use model::tenant::{Tenant, owner};
use model::{Serial, Word};

use crate::config::Config;

impl Config {
    /// The tenant that a machine was given to.
    pub fn tenant_of_machine(&self, serial: &Serial) -> Option<&Arc<Tenant>> {
        self.tenants.by.machine.of(serial.clone()).next()
    }

    /// The tenant whose machine is behind a port.
    pub fn tenant_of_port(&self, key: &PortKey) -> Option<&Arc<Tenant>> {
        self.tenant_of_machine(&self.behind(key).served()?.serial)
    }

    /// The tenant that a configuration of ports belongs to, as its name says.
    pub fn tenant_of_configuration(&self, name: &Word) -> Option<&Arc<Tenant>> {
        self.tenants.get(owner(name.as_str())?)
    }

    /// How many ports are at machines of a tenant.
    pub fn ports_of_tenant(&self, tenant: &Tenant) -> usize {
        tenant.machines.iter().map(|serial| self.ports_of(serial).len()).sum()
    }

    /// Looks whether a configuration of ports may mean this, where a tenant made it.
    ///
    /// # Errors
    /// Its tenant may not use one of its VLANs. The text names the rule, and who can change it.
    pub fn within_limits(&self, name: &Word, settings: &PortSettings) -> Result<(), String> {
        let Some(tenant) = self.tenant_of_configuration(name) else { return Ok(()) };
        match settings.vlans().first_outside(&tenant.limits.vlans) {
            None => Ok(()),
            Some(vlan) => {
                let (tenant, vlans) = (&tenant.name, &tenant.limits.vlans);
                let may = if vlans.is_empty() { "none".to_owned() } else { vlans.to_string() };
                Err(format!(
                    "VLAN {vlan} is not one of tenant {tenant}, which may use {may}; an administrator changes \
                     that: `gnt tenant modify {tenant} --vlans`"
                ))
            }
        }
    }

    /// Looks whether a port with this machine behind it may have a configuration.
    ///
    /// # Errors
    /// The configuration belongs to a tenant, and the machine does not.
    pub fn is_for(&self, name: &Word, machine: Option<&Machine>) -> Result<(), String> {
        let Some(tenant) = self.tenant_of_configuration(name) else { return Ok(()) };
        match machine.is_some_and(|machine| tenant.machines.contains(&machine.serial)) {
            true => Ok(()),
            false => Err(format!(
                "configuration {name} is one of tenant {}, and no machine of its is behind the port",
                tenant.name
            )),
        }
    }
}
