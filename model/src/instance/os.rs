//! Core: definitions of operating systems: directories with scripts on nodes (ganeti-os-interface(7)).

use serde::{Deserialize, Serialize};

/// Versions of the interface with scripts that are spoken; of the two before them nobody needs the first.
pub const OS_API_VERSIONS: [u32; 3] = [10, 15, 20];
/// The version from which a definition has variants.
pub const OS_API_VARIANTS: u32 = 15;
/// The version from which it has parameters, and a script that verifies them.
pub const OS_API_PARAMETERS: u32 = 20;

crate::words! {
    /// A script of a definition, by the name of its file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    OsScript {
        /// Writes the system onto the disks of a new instance.
        Create = "create",
        /// Reads what `export` wrote.
        Import = "import",
        /// Writes what is on a disk.
        Export = "export",
        /// Tells the system of its instance's new name.
        Rename = "rename",
        /// Says whether it takes parameters.
        Verify = "verify",
    }
}

/// A definition on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OsDefinition {
    pub name: String,
    /// Its directory.
    pub path: String,
    /// Why it is of no use, in Ganeti's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The versions of the interface that it speaks, the highest first.
    pub api_versions: Vec<u32>,
    /// Its variants; a definition that has some is named with one of them, as `NAME+VARIANT`.
    pub variants: Vec<String>,
    /// Its parameters, each with what it is.
    pub parameters: Vec<(String, String)>,
    /// The hypervisors that it is for; none stands for all (document 2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hypervisors: Vec<String>,
    /// The scripts that it has: only `create` must be there (document 2).
    pub scripts: Vec<OsScript>,
}

impl OsDefinition {
    /// The version of the interface by which its scripts are run; none where it speaks none that is known.
    pub fn version(&self) -> Option<u32> {
        self.api_versions.iter().copied().filter(|one| OS_API_VERSIONS.contains(one)).max()
    }
}

/// The name of a definition, and its variant, in the name of a system.
pub fn os_parts(os: &str) -> (&str, Option<&str>) {
    match os.split_once('+') {
        Some((name, variant)) => (name, Some(variant)),
        None => (os, None),
    }
}
