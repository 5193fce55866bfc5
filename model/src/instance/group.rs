//! Core: the settings of a node group for instances and nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::parameters::{DEFAULT, NODE, Parameters, template};
use super::settings::{InstanceSettings, SettingsError, Told, over};

/// The settings of a node group that differ from the cluster's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSettings {
    pub ndparams: Parameters,
    /// By disk template.
    pub diskparams: BTreeMap<String, Parameters>,
    /// Parts of the limits of instances.
    pub ipolicy: Told,
}

/// A change of a node group's settings.
#[derive(Debug, Clone, Copy)]
pub struct GroupTold<'t> {
    pub ndparams: Option<&'t Told>,
    pub diskparams: Option<&'t BTreeMap<String, Told>>,
    pub ipolicy: Option<&'t Told>,
}

impl GroupTold<'_> {
    /// Whether nothing is told.
    pub fn is_empty(self) -> bool {
        let Self { ndparams, diskparams, ipolicy } = self;
        ndparams.is_none_or(Map::is_empty)
            && diskparams.is_none_or(BTreeMap::is_empty)
            && ipolicy.is_none_or(Map::is_empty)
    }
}

impl GroupSettings {
    /// Whether all are the cluster's.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same after a change; `default` in a part of the limits gives it the cluster's again.
    ///
    /// # Errors
    /// It does not read, or cannot hold together with the cluster's.
    pub fn changed(
        &self,
        told: GroupTold<'_>,
        cluster: &InstanceSettings,
    ) -> Result<Self, SettingsError> {
        let mut own = self.clone();
        if let Some(told) = told.ndparams {
            over("ndparams", NODE, told, &mut own.ndparams)?;
        }
        for (name, told) in told.diskparams.into_iter().flatten() {
            let table = template(name).ok_or_else(|| SettingsError::Template(name.clone()))?;
            over(name, table, told, own.diskparams.entry(name.clone()).or_default())?;
        }
        own.diskparams.retain(|_, values| !values.is_empty());
        for (name, value) in told.ipolicy.into_iter().flatten() {
            match value == DEFAULT {
                true => drop(own.ipolicy.remove(name)),
                false => drop(own.ipolicy.insert(name.clone(), value.clone())),
            }
        }
        cluster.clone().set_policy(&own.ipolicy)?;
        Ok(own)
    }
}

impl InstanceSettings {
    /// Those that count in a node group: its own before the cluster's.
    pub fn in_group(&self, group: &GroupSettings) -> Self {
        let mut settings = self.clone();
        settings.ndparams.extend(group.ndparams.clone());
        for (name, own) in &group.diskparams {
            settings.diskparams.entry(name.clone()).or_default().extend(own.clone());
        }
        // The cluster's may have changed since the group's were told; then those count alone.
        let mut with_own = settings.clone();
        if with_own.set_policy(&group.ipolicy).is_ok() {
            settings.ipolicy = with_own.ipolicy;
        }
        settings
    }
}
