//! Core: the parameters that count for an instance: its own before those of its operating system, its group
//! and its cluster.

use super::parameters::{BACKEND, NIC, Parameters, filled, hypervisor};
use super::record::{Instance, Nic};
use super::settings::InstanceSettings;

/// The names under which settings of an operating system may stand: with its variant, then without.
fn systems(os: &str) -> impl Iterator<Item = &str> {
    let plain = os.split_once('+').map(|(name, _variant)| name);
    std::iter::once(os).chain(plain).filter(|name| !name.is_empty())
}

impl InstanceSettings {
    /// Parameters of an instance's hypervisor, filled.
    pub fn hypervisor_of(&self, instance: &Instance) -> Parameters {
        let Some(table) = hypervisor(&instance.hypervisor) else { return Parameters::new() };
        let of_systems = systems(&instance.os)
            .filter_map(|name| self.os_hvp.get(name)?.get(&instance.hypervisor));
        let cluster = self.hvparams.get(&instance.hypervisor);
        let layers: Vec<&Parameters> =
            std::iter::once(&instance.hvparams).chain(of_systems).chain(cluster).collect();
        filled(table, &layers)
    }

    /// Backend parameters of an instance, filled.
    pub fn backend_of(&self, instance: &Instance) -> Parameters {
        filled(BACKEND, &[&instance.beparams, &self.beparams])
    }

    /// One backend parameter of an instance that is a number, without filling the others.
    pub fn backend_number(&self, instance: &Instance, name: &str) -> u64 {
        let given = instance.beparams.get(name).or_else(|| self.beparams.get(name));
        let usual = || {
            let parameter = BACKEND.iter().find(|parameter| parameter.name == name)?;
            parameter.usual.value().as_u64()
        };
        given.and_then(serde_json::Value::as_u64).or_else(usual).unwrap_or_default()
    }

    /// Parameters of a NIC, filled.
    pub fn nic_of(&self, nic: &Nic) -> Parameters {
        filled(NIC, &[&nic.nicparams, &self.nicparams])
    }

    /// Parameters of an instance's operating system, as far as somebody gave them.
    pub fn system_of(&self, instance: &Instance) -> Parameters {
        let mut values = Parameters::new();
        let of_systems: Vec<&Parameters> =
            systems(&instance.os).filter_map(|name| self.osparams.get(name)).collect();
        for layer in of_systems.into_iter().rev().chain([&instance.osparams]) {
            values.extend(layer.clone());
        }
        values
    }
}
