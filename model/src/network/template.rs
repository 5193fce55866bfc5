//! Core: templates of hosts' network configurations, by name and version (Metal3's IPAM study).
//!
//! A machine uses the template that has the name of its role. It keeps the version that it got first, until
//! somebody applies the newest one to it.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, Word};

/// Bytes of a template: thousands of lines, and nothing of a journal's group.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Versions that are kept of a template, those that nobody uses beyond the newest ones not counted.
pub const VERSIONS_MAX: usize = 10;
/// Templates of a cluster.
pub const TEMPLATES_MAX: usize = 256;

/// The document `network-templates/NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTemplate {
    /// Its name: a role, or any word that nodes are given.
    pub name: Word,
    /// Counts the texts of this name, from 1.
    pub version: u32,
    /// The text, in Jinja's syntax.
    pub text: String,
    /// The networks that it takes addresses of, in order.
    pub networks: Vec<Word>,
    /// When it was uploaded.
    pub ctime: Timestamp,
}

/// The key of a template, as text `NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateKey {
    pub name: Word,
    pub version: u32,
}

/// A file that configures a host's network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFile {
    /// Its path, without the leading slash.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    pub content: String,
}

impl NetworkTemplate {
    pub fn key(&self) -> TemplateKey {
        TemplateKey { name: self.name.clone(), version: self.version }
    }
}

impl std::fmt::Display for TemplateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

impl std::str::FromStr for TemplateKey {
    type Err = crate::name::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || crate::name::NameError::new(text, "template", "it must be NAME/VERSION");
        let (name, version) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Self { name: name.parse()?, version: version.parse().map_err(|_error| wrong())? })
    }
}
