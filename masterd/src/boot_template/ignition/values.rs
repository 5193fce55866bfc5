//! Core: values that Ignition refuses, wherever they stand in a configuration. It would tell so on the console
//! of the machine alone. The rules are those of its specification, which `ignition-validate` checks, too.

use std::collections::BTreeSet;

use model::boot_template::{MY_URL, MY_URL_HTTPS};
use serde_json::Value;

/// Schemes of URLs that every version reads.
const SCHEMES: &[&str] = &["http", "https", "data", "tftp", "s3", "gs", "arn", "oem"];
/// Digests of files, with their lengths in hexadecimal digits.
const DIGESTS: &[(&str, usize)] = &[("sha512", 128), ("sha256", 64)];
/// File systems that can be made.
const FORMATS: &[&str] = &["ext4", "btrfs", "xfs", "vfat", "swap", "none"];
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
/// The kind of a file that adds to a unit.
const DROP_IN: &[&str] = &["conf"];
/// The highest mode of a file.
const MODE_MAX: u64 = 0o7777;

/// Lists whose entries have each name once: the lists of one row share theirs.
const ONCE: &[(&[&str], &str)] = &[
    (&["/storage/files", "/storage/directories", "/storage/links"], "path"),
    (&["/storage/disks"], "device"),
    (&["/storage/filesystems"], "device"),
    (&["/systemd/units"], "name"),
    (&["/passwd/users"], "name"),
    (&["/passwd/groups"], "name"),
];

/// Looks at all values of a configuration; before version 3 a path may be there once for each file system.
pub(super) fn check(document: &Value, is_old: bool) -> Result<(), String> {
    walk(document, "")?;
    let units = document.pointer("/systemd/units").and_then(Value::as_array);
    for unit in units.into_iter().flatten() {
        let name = unit["name"].as_str().unwrap_or_default();
        kind(name, UNITS, "a unit")?;
        for drop_in in unit["dropins"].as_array().into_iter().flatten() {
            kind(drop_in["name"].as_str().unwrap_or_default(), DROP_IN, "a drop-in")?;
        }
    }
    if is_old {
        return Ok(());
    }
    ONCE.iter().try_for_each(|(lists, name)| once(document, lists, name))
}

fn walk(value: &Value, path: &str) -> Result<(), String> {
    match value {
        Value::Array(list) => (0..)
            .zip(list)
            .try_for_each(|(at, part): (u32, _)| walk(part, &format!("{path}[{at}]"))),
        Value::Object(map) => map.iter().try_for_each(|(name, part)| {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let at = |why: String| format!("`{below}` {why}");
            match (name.as_str(), part) {
                ("source", Value::String(url)) => source(url).map_err(at),
                ("hash", Value::String(hash)) => digest(hash).map_err(at),
                ("format", Value::String(format)) if !FORMATS.contains(&format.as_str()) => {
                    Err(at(format!("is {format:?}, and no one of {}", FORMATS.join(", "))))
                }
                ("compression", Value::String(how)) if !["", "gzip"].contains(&how.as_str()) => {
                    Err(at(format!("is {how:?}, and neither empty nor \"gzip\"")))
                }
                ("mode", Value::Number(mode)) if mode.as_u64().is_none_or(|m| m > MODE_MAX) => {
                    Err(at(format!("is {mode}, and not 0 to {MODE_MAX}, which is 7777 in octal")))
                }
                _ => walk(part, &below),
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn source(url: &str) -> Result<(), String> {
    if url.is_empty() || [MY_URL, MY_URL_HTTPS].iter().any(|own| url.starts_with(own)) {
        return Ok(());
    }
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|scheme| SCHEMES.contains(&scheme)) {
        let why = format!(
            "has no URL that machines can fetch; begin it with one of {}",
            SCHEMES.join(", ")
        );
        return Err(why);
    }
    if scheme == Some("data") && !url.contains(',') {
        return Err("is a `data:` URL without a comma before its file".to_owned());
    }
    Ok(())
}

fn digest(hash: &str) -> Result<(), String> {
    let (name, digits) = hash.split_once('-').unwrap_or_default();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hex && DIGESTS.contains(&(name, digits.len())) {
        return Ok(());
    }
    Err("is no `sha512-` with 128 hexadecimal digits, and no `sha256-` with 64".to_owned())
}

fn kind(name: &str, kinds: &[&str], what: &str) -> Result<(), String> {
    let known =
        name.rsplit_once('.').is_some_and(|(stem, kind)| !stem.is_empty() && kinds.contains(&kind));
    if known {
        return Ok(());
    }
    let kinds = kinds.join(", .");
    Err(format!("{name:?} is no name of {what}; it ends with one of .{kinds}"))
}

fn once(document: &Value, lists: &[&str], name: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for list in lists {
        for entry in document.pointer(list).and_then(Value::as_array).into_iter().flatten() {
            let Some(value) = entry[name].as_str() else { continue };
            if !seen.insert(value) {
                return Err(format!(
                    "`{}` has {name} {value:?} twice",
                    list.trim_start_matches('/')
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_ignition_refuses_is_refused() {
        let file = |file: Value| json!({"storage": {"files": [file]}});
        let from = |source: &str| file(json!({"path": "/a", "contents": {"source": source}}));
        for (document, words) in [
            (from("file:///etc/passwd"), "`storage.files[0].contents.source` has no URL"),
            (from("data:abc"), "without a comma"),
            (json!({"ignition": {"config": {"merge": [{"source": "ftp://x"}]}}}), "no URL"),
            (file(json!({"path": "/a", "mode": 999_999_999})), "7777 in octal"),
            (file(json!({"path": "/a", "mode": -1})), "7777 in octal"),
            (file(json!({"contents": {"verification": {"hash": "sha512-00"}}})), "128"),
            (file(json!({"contents": {"compression": "xz"}})), "gzip"),
            (json!({"storage": {"filesystems": [{"format": "zfs"}]}}), "no one of ext4"),
            (json!({"systemd": {"units": [{"name": "x"}]}}), "name of a unit"),
            (
                json!({"systemd": {"units": [{"name": "x.service", "dropins": [{"name": "y"}]}]}}),
                "name of a drop-in",
            ),
            (
                json!({"storage": {"files": [{"path": "/a"}], "links": [{"path": "/a"}]}}),
                "path \"/a\" twice",
            ),
        ] {
            let why = check(&document, false).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        let hash = format!("sha256-{}", "a".repeat(64));
        let good = json!({"path": "/a", "mode": 0o4755,
            "contents": {"source": format!("{MY_URL}/x"), "verification": {"hash": hash}}});
        assert_eq!(check(&file(good), false), Ok(()));
        let twice = json!({"storage": {"files": [{"path": "/a"}, {"path": "/a"}]}});
        assert_eq!(check(&twice, true), Ok(()));
    }
}
