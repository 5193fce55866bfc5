//! Core: what single values of a configuration must be.

use model::boot_template::{MY_URL, MY_URL_HTTPS};
use serde::de::IgnoredAny;

use super::schema::Spec;
use super::unit;
use super::url::{Url, check_data};
use super::v3::{V3_1, V3_2, V3_3, V3_4};

/// Digests of files, with their lengths in hexadecimal digits.
const SHA512: (&str, usize) = ("sha512", 128);
const SHA256: (&str, usize) = ("sha256", 64);
/// Kinds of units.
const UNITS: &[&str] = &[
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];
/// Kinds of files of systemd-networkd.
const NETWORKS: &[&str] = &["link", "netdev", "network"];
/// Levels of arrays.
const LEVELS: &[&str] = &[
    "linear", "raid0", "0", "stripe", "raid1", "1", "mirror", "raid4", "4", "raid5", "5", "raid6",
    "6", "raid10", "10",
];
/// File systems that can be made.
const FORMATS: &[&str] = &["ext4", "btrfs", "xfs", "swap", "vfat"];
/// Bytes of the label of a partition: a table of partitions has room for as many.
const PARTITION_LABEL_MAX: usize = 36;
/// Bytes of the label of an encrypted disk.
const LUKS_LABEL_MAX: usize = 47;
/// Lengths of the parts of a GUID.
const GUID: [usize; 5] = [8, 4, 4, 4, 12];
/// The stand-ins for the URLs that agents fill in, for a look at the rest of them.
const AGENT: &str = "http://agent";
const AGENT_HTTPS: &str = "https://agent";

type Checked = Result<(), String>;

fn check(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

pub(super) fn any(_text: &str, _spec: Spec) -> Checked {
    Ok(())
}

/// Any but the empty one.
pub(super) fn filled(text: &str, _spec: Spec) -> Checked {
    check(!text.is_empty(), || "is empty".to_owned())
}

/// The name of a user or group. Ignition finds out that it is none when it makes the account.
pub(super) fn account(name: &str, _spec: Spec) -> Checked {
    check(!name.is_empty() && !name.contains(['/', '\n']), || {
        format!("is {name:?}, which is no name")
    })
}

/// A path from the root on.
pub(super) fn absolute_path(path: &str, spec: Spec) -> Checked {
    filled(path, spec)?;
    check(path.starts_with('/'), || format!("is `{path}`, which does not begin with /"))
}

/// The same in its shortest form, which newer versions want.
pub(super) fn clean_path(path: &str, spec: Spec) -> Checked {
    absolute_path(path, spec)?;
    let short = cleaned(path);
    check(path == short, || format!("is `{path}`; write `{short}`"))
}

/// The same, or nothing.
pub(super) fn clean_path_or_none(path: &str, spec: Spec) -> Checked {
    if path.is_empty() { Ok(()) } else { clean_path(path, spec) }
}

/// The shortest form of a path from the root on.
pub(super) fn cleaned(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Checks a URL to fetch from; an empty one means an empty file.
pub(super) fn source(text: &str, spec: Spec) -> Checked {
    let text = filled_in(text);
    if text.is_empty() {
        return Ok(());
    }
    let Some(url) = Url::new(&text) else {
        return Err(format!("is {text:?}, which is no URL"));
    };
    let empty_version = || "asks for an empty `versionId`".to_owned();
    match url.scheme.as_str() {
        "http" | "https" | "tftp" => Ok(()),
        "oem" if spec < Spec(3, 0) => Ok(()),
        "gs" if spec >= V3_2 => Ok(()),
        "s3" => check(!url.has_empty_version(), empty_version),
        "arn" if spec >= V3_4 => {
            check(url.is_s3_resource(), || "names no object in S3".to_owned())?;
            check(!url.has_empty_version(), empty_version)
        }
        "data" => check_data(&text).map_err(str::to_owned),
        _ => {
            let mut known = vec!["http", "https", "tftp", "s3", "data"];
            known.extend((spec < Spec(3, 0)).then_some("oem"));
            known.extend((spec >= V3_2).then_some("gs"));
            known.extend((spec >= V3_4).then_some("arn"));
            let known = known.join(", ");
            Err(format!("has no URL that machines can fetch; begin it with one of {known}"))
        }
    }
}

/// A text with a URL of an agent, which fills that in later.
fn filled_in(text: &str) -> String {
    text.replace(MY_URL_HTTPS, AGENT_HTTPS).replace(MY_URL, AGENT)
}

/// Whether a source is fetched by HTTP.
pub(super) fn is_http(source: &str) -> bool {
    let source = filled_in(source);
    Url::new(&source).is_some_and(|url| ["http", "https"].contains(&url.scheme.as_str()))
}

/// A server of keys for disks.
pub(super) fn tang(url: &str, _spec: Spec) -> Checked {
    check(is_http(url), || format!("is {url:?}, which is no URL of HTTP"))
}

pub(super) fn proxy(url: &str, _spec: Spec) -> Checked {
    check(is_http(url), || format!("is {url:?}, which is no URL of HTTP"))
}

/// How a file is packed.
pub(super) fn compression(how: &str, _spec: Spec) -> Checked {
    check(["", "gzip"].contains(&how), || format!("is {how:?}, and neither empty nor \"gzip\""))
}

/// The digest of a file. Ignition finds out that digits are none when it has fetched the file.
pub(super) fn hash(hash: &str, spec: Spec) -> Checked {
    let (name, digits) = hash.split_once('-').unwrap_or_default();
    let known = if spec >= V3_1 { &[SHA512, SHA256][..] } else { &[SHA512] };
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    check(is_hex && known.contains(&(name, digits.len())), || {
        let known = known.iter().map(|(name, digits)| format!("`{name}-` with {digits}"));
        let known = known.collect::<Vec<_>>().join(", and no ");
        format!("is no {known} hexadecimal digits")
    })
}

/// The format of a file system.
pub(super) fn format(format: &str, spec: Spec) -> Checked {
    let is_other = match format {
        "" => spec >= Spec(3, 0),
        "none" => spec >= V3_3,
        _ => false,
    };
    check(is_other || FORMATS.contains(&format), || {
        format!("is {format:?}, and no one of {}", FORMATS.join(", "))
    })
}

/// The identity of a partition or of its type; nothing is any.
pub(super) fn guid(guid: &str, _spec: Spec) -> Checked {
    let parts = guid.split('-');
    let is_hex = guid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    check(guid.is_empty() || (is_hex && parts.map(str::len).eq(GUID)), || {
        format!("is {guid:?}, and not as 01234567-89ab-cdef-0123-456789abcdef")
    })
}

pub(super) fn partition_label(label: &str, spec: Spec) -> Checked {
    check(label.len() <= PARTITION_LABEL_MAX, || {
        format!("has more than {PARTITION_LABEL_MAX} bytes")
    })?;
    check(spec < Spec(3, 0) || !label.contains(':'), || "has a colon".to_owned())
}

/// The label of an encrypted disk.
pub(super) fn luks_label(label: &str, _spec: Spec) -> Checked {
    check(label.len() <= LUKS_LABEL_MAX, || format!("has more than {LUKS_LABEL_MAX} bytes"))
}

/// The name of an encrypted disk.
pub(super) fn luks_name(name: &str, spec: Spec) -> Checked {
    filled(name, spec)?;
    check(!name.contains('/'), || format!("is `{name}`, which has a /"))
}

/// The level of an array.
pub(super) fn raid_level(level: &str, _spec: Spec) -> Checked {
    check(LEVELS.contains(&level), || format!("is {level:?}, and no one of {}", LEVELS.join(", ")))
}

/// JSON, or nothing.
pub(super) fn json_or_none(text: &str, _spec: Spec) -> Checked {
    let is_json = text.is_empty() || serde_json::from_str::<IgnoredAny>(text).is_ok();
    check(is_json, || "is no JSON".to_owned())
}

pub(super) fn unit_contents(text: &str, _spec: Spec) -> Checked {
    unit::has_install(text).map(drop).map_err(str::to_owned)
}

pub(super) fn unit_name(name: &str, _spec: Spec) -> Checked {
    ends(name, UNITS)
}

/// The name of a file that adds to a unit.
pub(super) fn drop_in_name(name: &str, _spec: Spec) -> Checked {
    ends(name, &["conf"])
}

/// The name of a file of systemd-networkd.
pub(super) fn network_name(name: &str, _spec: Spec) -> Checked {
    ends(name, NETWORKS)
}

fn ends(name: &str, kinds: &[&str]) -> Checked {
    let last = name.rsplit('/').next().unwrap_or_default();
    let kind = last.rsplit_once('.').map(|(_, kind)| kind);
    check(kind.is_some_and(|kind| kinds.contains(&kind)), || {
        format!("is {name:?}; it ends with one of .{}", kinds.join(", ."))
    })
}
