//! Core: the cluster's settings for instances, and their changes as Ganeti's clients send them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parameters::{
    BACKEND, NIC, NODE, ParameterError, Parameters, Table, filled, hypervisor, read, template,
};
use super::policy::{Policy, PolicyError};

/// Hypervisors that run instances here, by their names.
pub const HYPERVISORS: [&str; 4] = ["kvm", "xen-pvm", "xen-hvm", "fake"];
/// Most operating systems with settings of their own, and most entries of each list.
pub const ENTRIES_MAX: usize = 1_000;
/// Greatest user that a pool has.
const UID_MAX: u32 = u32::MAX - 1;

/// Values by name, as a client sends them.
pub type Told = Map<String, Value>;
/// The first and the last user of a range, from 1 on.
pub type UidRange = (u32, u32);
/// A change of a list: `add` or `remove`, and the entry.
pub type ListChange = (String, String);

/// The document `config/instances`. Only what differs from a default is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceSettings {
    /// The hypervisors that instances may have; the first one is usual.
    pub enabled_hypervisors: Vec<String>,
    pub hvparams: BTreeMap<String, Parameters>,
    /// By operating system and hypervisor.
    pub os_hvp: BTreeMap<String, BTreeMap<String, Parameters>>,
    pub beparams: Parameters,
    pub nicparams: Parameters,
    pub ndparams: Parameters,
    /// By disk template.
    pub diskparams: BTreeMap<String, Parameters>,
    /// By operating system.
    pub osparams: BTreeMap<String, Parameters>,
    pub ipolicy: Policy,
    pub enabled_disk_templates: Vec<String>,
    pub volume_group_name: Option<String>,
    pub drbd_usermode_helper: Option<String>,
    pub file_storage_dir: String,
    pub shared_file_storage_dir: String,
    pub gluster_storage_dir: String,
    /// The program that places instances; the built-in one where it is empty.
    pub default_iallocator: String,
    pub default_iallocator_params: Told,
    /// Users for processes of instances: the first and the last of each range.
    pub uid_pool: Vec<UidRange>,
    /// Volumes that are nobody's business, by regular expressions.
    pub reserved_lvs: Vec<String>,
    pub hidden_os: Vec<String>,
    pub blacklisted_os: Vec<String>,
    pub prealloc_wipe_disks: bool,
    /// Whether an instance that its own user shuts down stays so.
    pub enabled_user_shutdown: bool,
    pub maintain_node_health: bool,
}

impl Default for InstanceSettings {
    fn default() -> Self {
        Self {
            enabled_hypervisors: vec!["kvm".to_owned()],
            hvparams: BTreeMap::new(),
            os_hvp: BTreeMap::new(),
            beparams: Parameters::new(),
            nicparams: Parameters::new(),
            ndparams: Parameters::new(),
            diskparams: BTreeMap::new(),
            osparams: BTreeMap::new(),
            ipolicy: Policy::default(),
            enabled_disk_templates: vec!["file".to_owned()],
            volume_group_name: None,
            drbd_usermode_helper: None,
            file_storage_dir: "/srv/gantry/file-storage".to_owned(),
            shared_file_storage_dir: "/srv/gantry/shared-file-storage".to_owned(),
            gluster_storage_dir: String::new(),
            default_iallocator: String::new(),
            default_iallocator_params: Told::new(),
            uid_pool: Vec::new(),
            reserved_lvs: Vec::new(),
            hidden_os: Vec::new(),
            blacklisted_os: Vec::new(),
            prealloc_wipe_disks: false,
            enabled_user_shutdown: false,
            maintain_node_health: false,
        }
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A parameter of something.
    #[error("{of}: {source}")]
    Parameter {
        of: String,
        #[source]
        source: ParameterError,
    },
    /// The limits of instances.
    #[error("ipolicy: {0}")]
    Policy(#[from] PolicyError),
    /// The limits do not read.
    #[error("ipolicy: {0}")]
    Shape(String),
    /// A hypervisor that runs nothing here.
    #[error("hypervisor `{0}` runs no instances here; there are kvm, xen-pvm, xen-hvm and fake")]
    Hypervisor(String),
    /// A disk template that there is not.
    #[error("there is no disk template `{0}`")]
    Template(String),
    /// Nothing would be left.
    #[error("{0} is empty; name one at least")]
    Empty(&'static str),
    /// Templates of LVM need a volume group.
    #[error("disk template `{0}` needs a volume group: --vg-name")]
    NoVolumeGroup(String),
    /// Less memory at most than at least.
    #[error("minmem {0} MiB is more than maxmem {1} MiB")]
    Memory(i64, i64),
    /// A path that is none, or of another place.
    #[error("{what} `{path}` is not an absolute path without `..`")]
    Path { what: &'static str, path: String },
    /// Users that are not free to give.
    #[error("users {0}-{1}: a range has its least number first, and 0, which is root, is in none")]
    Users(u32, u32),
    /// An entry that is there, or is not.
    #[error("{what}: `{entry}` {why}")]
    Entry { what: &'static str, entry: String, why: &'static str },
    /// More entries than anybody manages.
    #[error("{0} would have more than {ENTRIES_MAX} entries")]
    Entries(&'static str),
    /// A regular expression that does not read.
    #[error("reserved_lvs: `{0}` is no regular expression")]
    Pattern(String),
}

/// Values of one table over those that are stored.
pub(super) fn over(
    of: &str,
    table: Table,
    told: &Told,
    stored: &mut Parameters,
) -> Result<(), SettingsError> {
    let given = read(table, told, true)
        .map_err(|source| SettingsError::Parameter { of: of.to_owned(), source })?;
    *stored = given.over(stored);
    Ok(())
}

impl InstanceSettings {
    /// All parameters of a hypervisor, filled.
    pub fn hypervisor(&self, name: &str) -> Parameters {
        let none = Parameters::new();
        let own = self.hvparams.get(name).unwrap_or(&none);
        hypervisor(name).map(|table| filled(table, &[own])).unwrap_or_default()
    }

    /// All parameters of a disk template, filled.
    pub fn template(&self, name: &str) -> Parameters {
        let none = Parameters::new();
        let own = self.diskparams.get(name).unwrap_or(&none);
        template(name).map(|table| filled(table, &[own])).unwrap_or_default()
    }

    /// Backend parameters, filled.
    pub fn backend(&self) -> Parameters {
        filled(BACKEND, &[&self.beparams])
    }

    /// Parameters of NICs, filled.
    pub fn nic(&self) -> Parameters {
        filled(NIC, &[&self.nicparams])
    }

    /// Parameters of nodes, filled.
    pub fn node(&self) -> Parameters {
        filled(NODE, &[&self.ndparams])
    }

    /// Changes parameters of hypervisors.
    ///
    /// # Errors
    /// One of them is none, or does not read.
    pub fn set_hypervisors(&mut self, told: &BTreeMap<String, Told>) -> Result<(), SettingsError> {
        for (name, told) in told {
            let table = hypervisor(name).ok_or_else(|| SettingsError::Hypervisor(name.clone()))?;
            over(name, table, told, self.hvparams.entry(name.clone()).or_default())?;
        }
        self.hvparams.retain(|_, values| !values.is_empty());
        Ok(())
    }

    /// Changes parameters of hypervisors for operating systems.
    ///
    /// # Errors
    /// One of them is none, or does not read.
    pub fn set_of_systems(
        &mut self,
        told: &BTreeMap<String, BTreeMap<String, Told>>,
    ) -> Result<(), SettingsError> {
        for (system, by_hypervisor) in told {
            let stored = self.os_hvp.entry(system.clone()).or_default();
            for (name, told) in by_hypervisor {
                let table =
                    hypervisor(name).ok_or_else(|| SettingsError::Hypervisor(name.clone()))?;
                let of = format!("{system}, {name}");
                over(&of, table, told, stored.entry(name.clone()).or_default())?;
            }
            stored.retain(|_, values| !values.is_empty());
        }
        self.os_hvp.retain(|_, stored| !stored.is_empty());
        bounded("os_hvp", self.os_hvp.len())
    }

    /// Changes backend parameters; `memory` sets the least and the most of it.
    ///
    /// # Errors
    /// One of them does not read, or memory has no room.
    pub fn set_backend(&mut self, told: &Told) -> Result<(), SettingsError> {
        over("beparams", BACKEND, &with_memory(told), &mut self.beparams)?;
        memory_fits(&self.backend())
    }

    /// Changes parameters of NICs.
    ///
    /// # Errors
    /// One of them does not read.
    pub fn set_nic(&mut self, told: &Told) -> Result<(), SettingsError> {
        over("nicparams", NIC, told, &mut self.nicparams)
    }

    /// Changes parameters of nodes.
    ///
    /// # Errors
    /// One of them does not read.
    pub fn set_node(&mut self, told: &Told) -> Result<(), SettingsError> {
        over("ndparams", NODE, told, &mut self.ndparams)
    }

    /// Changes parameters of disk templates.
    ///
    /// # Errors
    /// One of them is none, or does not read.
    pub fn set_templates(&mut self, told: &BTreeMap<String, Told>) -> Result<(), SettingsError> {
        for (name, told) in told {
            let table = template(name).ok_or_else(|| SettingsError::Template(name.clone()))?;
            over(name, table, told, self.diskparams.entry(name.clone()).or_default())?;
        }
        self.diskparams.retain(|_, values| !values.is_empty());
        Ok(())
    }

    /// Changes parameters of operating systems: any names, with texts.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_systems(&mut self, told: &BTreeMap<String, Told>) -> Result<(), SettingsError> {
        for (system, told) in told {
            let stored = self.osparams.entry(system.clone()).or_default();
            for (name, value) in told {
                match value.is_null() || value == super::parameters::DEFAULT {
                    true => drop(stored.remove(name)),
                    false => drop(stored.insert(name.clone(), value.clone())),
                }
            }
        }
        self.osparams.retain(|_, values| !values.is_empty());
        bounded("osparams", self.osparams.len())
    }

    /// Changes the limits of instances: parts that are not told stay.
    ///
    /// # Errors
    /// They do not read, or cannot hold.
    pub fn set_policy(&mut self, told: &Told) -> Result<(), SettingsError> {
        let shape = |error: serde_json::Error| SettingsError::Shape(error.to_string());
        let mut whole = serde_json::to_value(&self.ipolicy).map_err(shape)?;
        for (name, value) in told {
            match (whole.get_mut(name), value) {
                (Some(Value::Object(stored)), Value::Object(told)) => stored.extend(told.clone()),
                _ => whole[name.as_str()] = value.clone(),
            }
        }
        self.ipolicy = serde_json::from_value(whole).map_err(shape)?;
        Ok(self.ipolicy.check()?)
    }

    /// Whether all of it can be at the same time.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.enabled_hypervisors.is_empty() {
            return Err(SettingsError::Empty("enabled_hypervisors"));
        }
        let is_none = |name: &&String| !HYPERVISORS.contains(&name.as_str());
        if let Some(name) = self.enabled_hypervisors.iter().find(is_none) {
            return Err(SettingsError::Hypervisor(name.clone()));
        }
        if self.enabled_disk_templates.is_empty() {
            return Err(SettingsError::Empty("enabled_disk_templates"));
        }
        for name in &self.enabled_disk_templates {
            if template(name).is_none() {
                return Err(SettingsError::Template(name.clone()));
            }
            if ["plain", "drbd"].contains(&name.as_str()) && self.volume_group_name.is_none() {
                return Err(SettingsError::NoVolumeGroup(name.clone()));
            }
        }
        for (what, path) in [
            ("file_storage_dir", Some(&self.file_storage_dir)),
            ("shared_file_storage_dir", Some(&self.shared_file_storage_dir)),
            ("gluster_storage_dir", Some(&self.gluster_storage_dir)),
            ("drbd_helper", self.drbd_usermode_helper.as_ref()),
        ] {
            let Some(path) = path.filter(|path| !path.is_empty()) else { continue };
            let is_absolute = path.starts_with('/') && !path.chars().any(char::is_control);
            if !is_absolute || path.split('/').any(|part| part == "..") {
                return Err(SettingsError::Path { what, path: path.escape_debug().to_string() });
            }
        }
        for (first, last) in &self.uid_pool {
            if *first == 0 || first > last || *last > UID_MAX {
                return Err(SettingsError::Users(*first, *last));
            }
        }
        let is_none = |pattern: &&String| regex::Regex::new(pattern).is_err();
        if let Some(pattern) = self.reserved_lvs.iter().find(is_none) {
            return Err(SettingsError::Pattern(pattern.clone()));
        }
        bounded("reserved_lvs", self.reserved_lvs.len())?;
        bounded("uid_pool", self.uid_pool.len())
    }
}

fn bounded(what: &'static str, entries: usize) -> Result<(), SettingsError> {
    if entries > ENTRIES_MAX { Err(SettingsError::Entries(what)) } else { Ok(()) }
}

/// Backend parameters with `memory` as what it stands for.
pub fn with_memory(told: &Told) -> Told {
    let mut told = told.clone();
    if let Some(memory) = told.remove("memory") {
        for name in ["maxmem", "minmem"] {
            told.entry(name).or_insert_with(|| memory.clone());
        }
    }
    told
}

/// Refuses more memory at least than at most.
///
/// # Errors
/// It is so.
pub fn memory_fits(filled: &Parameters) -> Result<(), SettingsError> {
    let of = |name: &str| filled.get(name).and_then(Value::as_i64).unwrap_or_default();
    let (least, most) = (of("minmem"), of("maxmem"));
    if least > most { Err(SettingsError::Memory(least, most)) } else { Ok(()) }
}

/// Adds entries to a list, and removes some.
///
/// # Errors
/// One to add is there, one to remove is not, or the verb is another one.
pub fn change_list(
    what: &'static str,
    list: &mut Vec<String>,
    changes: &[ListChange],
) -> Result<(), SettingsError> {
    for (verb, entry) in changes {
        let place = list.iter().position(|known| known == entry);
        let wrong = |why| SettingsError::Entry { what, entry: entry.clone(), why };
        match (verb.as_str(), place) {
            ("add", None) => list.push(entry.clone()),
            ("add", Some(_)) => return Err(wrong("is in it already")),
            ("remove", Some(place)) => drop(list.remove(place)),
            ("remove", None) => return Err(wrong("is not in it")),
            _ => return Err(wrong("is neither added nor removed")),
        }
    }
    list.sort_unstable();
    bounded(what, list.len())
}

#[cfg(test)]
mod tests;
