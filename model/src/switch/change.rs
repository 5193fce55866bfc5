//! Core: what is asked of a switch about its ports, and what it answers.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SwitchUrl;
use super::settings::PortSettings;
use crate::{Secret, Word};

/// Most changes that one question carries: those of the largest switch.
pub const CHANGES_MAX: usize = super::PORTS_MAX;

/// A secret on its way to an agent. It never prints.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedSecret(pub Secret<String>);

impl fmt::Debug for CarriedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for CarriedSecret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.expose().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CarriedSecret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

/// A switch, as an agent needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTarget {
    /// Its name, for messages, and so that one switch has one session.
    pub name: Word,
    pub url: SwitchUrl,
    /// Further words for a program.
    #[serde(default)]
    pub options: BTreeMap<Word, String>,
    #[serde(default)]
    pub user: Option<String>,
    /// The password, or the private key (PEM) of `certificate`.
    #[serde(default)]
    pub secret: Option<CarriedSecret>,
    /// Our certificate, PEM.
    #[serde(default)]
    pub certificate: Option<String>,
    /// The authority that signed the switch's own, PEM.
    #[serde(default)]
    pub authority: Option<String>,
}

/// How a port is on its switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actual {
    /// As Gantry may have set it.
    Set(PortSettings),
    /// As Gantry never sets it, in words.
    Other(String),
}

impl Actual {
    /// Whether it is so.
    pub fn is(&self, settings: &PortSettings) -> bool {
        matches!(self, Self::Set(its) if its == settings)
    }
}

impl fmt::Display for Actual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(settings) => settings.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// All ports of a switch, by their names there.
pub type Actuals = BTreeMap<String, Actual>;

/// Tells one look at a switch from another one in which something differs.
pub fn digest(actuals: &Actuals) -> String {
    let text = serde_json::to_vec(actuals).expect("names and settings have a form in JSON");
    hex::encode(Sha256::digest(text))
}

/// A change of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortChange {
    /// Its name on the switch.
    pub port: String,
    /// The change after which it was wanted: one that comes behind a greater one is not made.
    #[serde(default)]
    pub revision: u64,
    pub wanted: PortSettings,
    /// Only if it is still so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_current: Option<Actual>,
}

/// The outcome of one change. A change that is none is told to be applied, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortOutcome {
    /// The switch has it, and was read back.
    Applied,
    /// The port was not as the change expects it, and is untouched.
    Differs(Actual),
    /// A change with a greater revision came before it; the port is as that one left it.
    Superseded,
    /// The switch cannot do that, or did not. The text says what, and the remedy.
    Refused(String),
}
