//! Core: names of interfaces.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// The longest name of an interface, in bytes (`IFNAMSIZ` less its zero).
const NAME_BYTES_MAX: usize = 15;

/// The name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkName(String);

impl LinkName {
    /// Reads a name.
    ///
    /// # Errors
    /// Why the kernel takes no such name.
    pub fn new(name: &str) -> Result<Self, String> {
        let is_odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if name.is_empty() || matches!(name, "." | "..") {
            return Err(format!("`{name}` is no name of an interface"));
        }
        if name.len() > NAME_BYTES_MAX {
            let bytes = name.len();
            return Err(format!("`{name}` has {bytes} bytes; a name has at most {NAME_BYTES_MAX}"));
        }
        if name.chars().any(is_odd) || !name.is_ascii() {
            return Err(format!("`{}` has a character that no name has", name.escape_debug()));
        }
        Ok(Self(name.to_owned()))
    }

    /// Whether it is os-net-config's word for an active card by its number, as `nic1`. Cables decide which
    /// card that is, so nothing but a name that an operator gave stands for it.
    pub fn is_numbered_card(&self) -> bool {
        let number = self.0.strip_prefix("nic").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LinkName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        Self::new(&name)
    }
}

impl From<LinkName> for String {
    fn from(name: LinkName) -> Self {
        name.0
    }
}

impl Deref for LinkName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
