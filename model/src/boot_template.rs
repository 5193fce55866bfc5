//! Core: templates by which machines configure themselves when they boot, by kind, role and version. A
//! template makes an Ignition configuration, or user data of cloud-init. This file also has the
//! documents that templates become for a machine.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::blob::BlobDigest;
use crate::name::{NameError, Word};
use crate::time::Timestamp;

/// Bytes of a template's text: some dozen files of a few KiB. An opcode holds it, and a job's file.
/// Larger files belong on a server of their own, which the template names.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Versions that are kept of a role's template, as sabakan keeps them; the oldest one goes.
pub const VERSIONS_MAX: usize = 10;
/// Roles that have a template of a kind.
pub const ROLES_MAX: usize = 64;
/// Bytes of what a template becomes for one machine: the text of a template with some values.
pub const RENDERED_BYTES_MAX: usize = 512 * 1024;
/// Bytes of all that the machines of one rack get, as the rack's document writes them. With the rest of
/// the document, they must fit half a segment of an agent's journal.
pub const RACK_BYTES_MAX: usize = 6 * 1024 * 1024;
/// The placeholder of the agent's URL in a document: the agent that serves it knows by which address it
/// is reached. The text has no character that JSON, a URL or a shell would escape.
pub const MY_URL: &str = "gantry-my-url-7f3a";
/// The same for the URL of its HTTPS side.
pub const MY_URL_HTTPS: &str = "gantry-my-https-url-7f3a";
/// The placeholder of the token by which a machine becomes a node, likewise.
pub const ENROL_TOKEN: &str = "gantry-enrol-token-7f3a";

crate::words! {
    /// The product of a template.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    TemplateKind {
        /// A configuration of Ignition.
        Ignition = "ignition",
        /// User data of cloud-init.
        CloudInit = "cloud-init",
    }
}

/// The version of a template, by the rules of semver.org or in the wider form of sabakan. The latter has
/// one to three numbers, also with zeros or a `v` before them. Build metadata is in none, since two
/// versions that differ in nothing else have no order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateId {
    /// Its value in comparisons.
    version: semver::Version,
    /// As it was given.
    text: String,
}

/// How compressed files begin, each with the program that unpacks it.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x1f, 0x8b], "gzip"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (b"BZh", "bzip2"),
];

/// The format of a file that is compressed, of one that is no text.
pub fn compression(file: &[u8]) -> Option<&'static str> {
    COMPRESSED.iter().find(|(begin, _)| file.starts_with(begin)).map(|(_, format)| *format)
}

/// Longest version: it is a part of keys and URLs.
const ID_BYTES_MAX: usize = 63;

impl FromStr for TemplateId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let why = "it must be a version such as 1.2.3, 1.2.3-rc.1 or 2026.01.31-7, of at most 63 \
                   characters and without build metadata";
        let wrong = || NameError::new(text, "version", why);
        let version = (text.len() <= ID_BYTES_MAX).then(|| counted_as(text)).flatten();
        let version = version.filter(|version| version.build.is_empty()).ok_or_else(wrong)?;
        Ok(Self { version, text: text.to_owned() })
    }
}

/// The version of semver.org that a text counts as.
fn counted_as(text: &str) -> Option<semver::Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, before) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
    let mut numbers: Vec<&str> = numbers.split('.').map(without_zeros).collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    let mut text = numbers.join(".");
    if let Some(before) = before {
        let parts: Vec<&str> = before.split('.').map(without_zeros).collect();
        text = format!("{text}-{}", parts.join("."));
    }
    semver::Version::parse(&text).ok()
}

/// A number without the zeros before it; any other text as it is.
fn without_zeros(number: &str) -> &str {
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let short = number.trim_start_matches('0');
    if !is_number || number.is_empty() {
        number
    } else if short.is_empty() {
        "0"
    } else {
        short
    }
}

crate::text_form!(TemplateId);

impl fmt::Display for TemplateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The document `boot-templates/KIND/ROLE/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootTemplate {
    /// What it makes.
    pub kind: TemplateKind,
    /// The role of the machines that use it.
    pub role: Word,
    /// Its version.
    pub id: TemplateId,
    /// The text, in the syntax of Go's templates.
    pub text: String,
    /// The version of Ignition's specification that it declares; empty where it makes something else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec: String,
    /// When it was uploaded.
    pub ctime: Timestamp,
}

/// The key of a template, as text `KIND/ROLE/ID`. In order, versions of one role follow each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTemplateKey {
    /// What it makes.
    pub kind: TemplateKind,
    pub role: Word,
    /// Its version.
    pub id: TemplateId,
}

impl BootTemplate {
    pub fn key(&self) -> BootTemplateKey {
        BootTemplateKey { kind: self.kind, role: self.role.clone(), id: self.id.clone() }
    }
}

impl fmt::Display for BootTemplateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.as_str(), self.role, self.id)
    }
}

impl FromStr for BootTemplateKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::new(text, "template", "it must be KIND/ROLE/VERSION");
        let (kind, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (role, id) = rest.split_once('/').ok_or_else(wrong)?;
        let kind = [TemplateKind::Ignition, TemplateKind::CloudInit]
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(wrong)?;
        Ok(Self { kind, role: role.parse()?, id: id.parse()? })
    }
}

crate::words! {
    /// A document that a machine can fetch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    DocumentKind {
        /// Its configuration of Ignition.
        Ignition = "ignition",
        /// Its user data of cloud-init.
        UserData = "user-data",
        /// Its meta-data of cloud-init.
        MetaData = "meta-data",
        /// Its network, as netplan has it.
        NetworkConfig = "network-config",
    }
}

impl DocumentKind {
    /// The kind of template that it comes from.
    pub const fn template(self) -> TemplateKind {
        match self {
            Self::Ignition => TemplateKind::Ignition,
            Self::UserData | Self::MetaData | Self::NetworkConfig => TemplateKind::CloudInit,
        }
    }
}

impl FromStr for DocumentKind {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let why = "it must be ignition, user-data, meta-data or network-config";
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| NameError::new(text, "document of a machine", why))
    }
}

/// A document that a template became for a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootDocument {
    pub kind: DocumentKind,
    /// The version of the template.
    pub id: TemplateId,
    /// The text; [`MY_URL`] stands for the agent's URL.
    pub text: Arc<str>,
}

/// A document that a machine fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    pub kind: DocumentKind,
    /// The version of the template.
    pub id: TemplateId,
    /// The digest of the bytes that it got.
    pub sha256: BlobDigest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_semver() {
        let mut ids: Vec<TemplateId> =
            ["1.10.0", "1.9.0", "1.10.0-rc.1", "0.9.12"].map(|text| text.parse().unwrap()).into();
        ids.sort();
        let told: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["0.9.12", "1.9.0", "1.10.0-rc.1", "1.10.0"]);
        let ordered = ["v1", "2018.11.07-1", "2018.11.07-03", "2018.11.7-20", "2018.11.30"];
        let read = ordered.map(|text| text.parse::<TemplateId>().unwrap());
        assert!(read.is_sorted(), "{read:?}");
        assert_eq!(read.map(|id| id.to_string()), ordered);
        let long = format!("1.2.3-{}", "x".repeat(ID_BYTES_MAX));
        for wrong in [
            "",
            "v",
            "vv1",
            "1.",
            ".1",
            "1.2.3.4",
            "1.2.3+a",
            "1-",
            "1.2.3-a..b",
            "1.2.3/4",
            "1.2.3\n",
            "x",
            "-1",
            "1.-2",
            &long,
        ] {
            assert!(wrong.parse::<TemplateId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn compressed_files_are_known() {
        assert_eq!(compression(&[0x1f, 0x8b, 8, 0]), Some("gzip"));
        assert_eq!(compression(b"\xfd7zXZ\0\0"), Some("xz"));
        assert_eq!(compression(&[0xff, 0xfe]), None);
    }

    #[test]
    fn keys_read_as_they_were_written() {
        for text in ["ignition/worker/1.2.3", "cloud-init/boot/0.1.0-rc.1"] {
            assert_eq!(text.parse::<BootTemplateKey>().unwrap().to_string(), text);
        }
        for wrong in ["ignition/worker", "x/worker/1.2.3", "ignition/a b/1.2.3", "ignition//1.0.0"]
        {
            assert!(wrong.parse::<BootTemplateKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_stands_for_the_url_is_never_escaped() {
        for token in [MY_URL, MY_URL_HTTPS] {
            assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{token}");
        }
        assert!(!MY_URL_HTTPS.contains(MY_URL));
    }
}
