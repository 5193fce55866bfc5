//! Core: kernel parameters of all machines, and of those with a role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::image::Parameter;

/// Most roles that have parameters of their own.
pub const ROLES_MAX: usize = 64;

/// The document `config/kernel`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KernelParameters {
    /// Those of all machines.
    #[serde(default)]
    pub all: Vec<Parameter>,
    /// Those of machines with a role, behind those of all; no role has an empty list.
    #[serde(default)]
    pub roles: BTreeMap<String, Vec<Parameter>>,
}

impl KernelParameters {
    /// Those of a machine with this role, in the order in which a kernel reads them.
    pub fn of_role(&self, role: &str) -> impl Iterator<Item = &Parameter> {
        self.all.iter().chain(self.roles.get(role).into_iter().flatten())
    }

    /// The same with other parameters of a role, or of all machines.
    pub fn with(mut self, role: Option<String>, parameters: Vec<Parameter>) -> Self {
        match role {
            None => self.all = parameters,
            Some(role) if parameters.is_empty() => drop(self.roles.remove(&role)),
            Some(role) => drop(self.roles.insert(role, parameters)),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_its_own_behind_those_of_all() {
        let words = |text: &str| -> Vec<Parameter> {
            text.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        let worker = || Some("worker".to_owned());
        let parameters = KernelParameters::default().with(worker(), words("isolcpus=2"));
        let parameters = parameters.with(None, words("quiet audit=1"));
        let of = |parameters: &KernelParameters, role| {
            parameters.of_role(role).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of(&parameters, "worker"), words("quiet audit=1 isolcpus=2"));
        assert_eq!(of(&parameters, "boot"), words("quiet audit=1"));
        let parameters = parameters.with(worker(), Vec::new());
        assert!(parameters.roles.is_empty());
        assert_eq!(of(&parameters.with(None, Vec::new()), "worker"), []);
    }
}
