//! Core: versions of the API, which client and server agree on by headers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The oldest version that is taken.
pub const VERSION_MIN: Version = Version(1);
/// The newest one: of it, all is done that it says of the routes that are here.
pub const VERSION_MAX: Version = Version(115);
/// The header of a request, and the ones of each answer: which version it has, and which are taken.
pub const HEADERS: [&str; 3] = [
    "x-openstack-ironic-api-version",
    "x-openstack-ironic-api-minimum-version",
    "x-openstack-ironic-api-maximum-version",
];

/// A version 1.n, by n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u16);

impl Version {
    /// The first with lookup and heartbeat.
    pub(crate) const RAMDISK: Self = Self(22);
    /// The first whose heartbeats tell a version of the agent.
    pub(crate) const AGENT_VERSION: Self = Self(36);
    /// The first whose heartbeats have a token.
    pub(crate) const AGENT_TOKEN: Self = Self(62);
    /// The first whose heartbeats tell a certificate.
    pub(crate) const VERIFY_CA: Self = Self(68);
    /// The first whose heartbeats tell what became of a work.
    pub(crate) const STATUS: Self = Self(72);

    /// The version that a header asks for; the oldest where there is none, and nothing where it is not
    /// served.
    pub(crate) fn asked(header: Option<&str>) -> Option<Self> {
        let Some(text) = header else { return Some(VERSION_MIN) };
        if text.trim().eq_ignore_ascii_case("latest") {
            return Some(VERSION_MAX);
        }
        let version: Self = text.trim().parse().ok()?;
        (VERSION_MIN..=VERSION_MAX).contains(&version).then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// A text that is no version of this API.
#[derive(Debug)]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let (major, minor) = text.split_once('.').ok_or(NoVersion)?;
        let is_number = minor.bytes().all(|byte| byte.is_ascii_digit());
        if major != "1" || !is_number {
            return Err(NoVersion);
        }
        minor.parse().map(Self).map_err(|_none| NoVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_asked_for() {
        for (header, version) in [
            (None, Some(1)),
            (Some("1.1"), Some(1)),
            (Some(" 1.22 "), Some(22)),
            (Some("1.115"), Some(115)),
            (Some("latest"), Some(115)),
            (Some("Latest"), Some(115)),
            (Some("1.0"), None),
            (Some("1.116"), None),
            (Some("2.1"), None),
            (Some("1"), None),
            (Some("1."), None),
            (Some("1.+5"), None),
            (Some("1.99999999999"), None),
            (Some("junk"), None),
            (Some(""), None),
        ] {
            assert_eq!(Version::asked(header), version.map(Version), "{header:?}");
        }
    }
}
