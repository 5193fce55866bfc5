//! Which crate may use which: the direction of the workspace.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::source;

/// Each crate with the crates of this workspace that its code may use. Test code is free.
///
/// No program depends on another; `rapi` and `cli` reach the master only through `luxi`; `noded`
/// never reaches the master at all, so it has no client protocol. `jobs` takes from `luxi` the query
/// language of filter rules, and the texts by which clients know a refusal again.
const MAY_USE: &[(&str, &[&str])] = &[
    ("stdx", &[]),
    ("model", &[]),
    ("blobs", &["model", "stdx"]),
    ("queue-format", &["model", "stdx"]),
    ("luxi", &["model", "ironic", "stdx"]),
    ("rpc", &["model", "queue-format", "stdx"]),
    ("engine", &["model", "queue-format", "stdx"]),
    ("jobs", &["model", "queue-format", "engine", "luxi", "stdx"]),
    ("membership", &["model", "queue-format", "engine", "jobs", "rpc", "stdx"]),
    (
        "masterd",
        &[
            "model",
            "blobs",
            "queue-format",
            "luxi",
            "rpc",
            "stdx",
            "engine",
            "jobs",
            "membership",
            "hostnet",
            "bmc",
            "ironic",
        ],
    ),
    ("hostnet", &["model", "stdx"]),
    ("bmc", &["model", "stdx"]),
    ("switches", &["model", "stdx"]),
    ("virt", &["model", "stdx"]),
    ("ironic", &["model"]),
    ("netboot", &["model", "blobs", "queue-format", "rpc", "ironic", "stdx"]),
    (
        "noded",
        &[
            "model",
            "blobs",
            "queue-format",
            "rpc",
            "netboot",
            "hostnet",
            "switches",
            "virt",
            "stdx",
        ],
    ),
    ("rapi", &["model", "blobs", "luxi", "ironic", "stdx"]),
    ("cli", &["model", "blobs", "luxi", "stdx"]),
    // No program: a fresh checkout is to build its tasks soon.
    ("xtask", &["model", "queue-format", "luxi", "stdx"]),
];

/// Crates that see everything: nothing that is installed is built from them.
const UNRESTRICTED: &[&str] = &["tests"];

/// Libraries that the vocabulary may be built from: parsing and arithmetic, nothing that acts.
const MODEL_LIBRARIES: &[&str] = &[
    "base64",
    "hex",
    "regex",
    "semver",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "subtle",
    "thiserror",
    "ipnet",
    "uuid",
    "zeroize",
];

#[test]
fn no_crate_uses_what_lies_above_it() {
    let members = members();
    for member in &members {
        let name = member.as_str();
        if UNRESTRICTED.contains(&name) {
            continue;
        }
        let allowed = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, allowed) =
            allowed.unwrap_or_else(|| panic!("crate `{name}` is missing in the table MAY_USE"));
        for used in dependencies(&manifest(name)).intersection(&members) {
            assert!(
                allowed.contains(&used.as_str()),
                "crate `{name}` uses `{used}`; it may use {allowed:?} (docs/ARCHITECTURE.md)"
            );
        }
    }
    for (name, _) in MAY_USE {
        assert!(members.contains(*name), "the table MAY_USE names `{name}`, no member");
    }
}

#[test]
fn vocabulary_is_built_from_pure_libraries() {
    for used in dependencies(&manifest("model")) {
        assert!(
            MODEL_LIBRARIES.contains(&used.as_str()),
            "`model` uses `{used}`; if that library does no I/O, add it to MODEL_LIBRARIES"
        );
    }
}

#[test]
fn every_crate_follows_the_workspace() {
    for name in members() {
        let manifest = manifest(&name);
        let package = manifest["package"].as_table().expect("[package] is a table");
        assert_eq!(package["name"].as_str(), Some(name.as_str()), "folder and crate differ");
        for inherited in ["version", "edition", "rust-version", "license", "publish"] {
            assert!(follows(&package[inherited]), "{name}: {inherited}.workspace = true");
        }
        let lints = manifest.get("lints").is_some_and(follows);
        assert!(lints, "{name}: [lints] workspace = true is missing");
        for (section, dependency, value) in all_dependencies(&manifest) {
            assert!(follows(&value), "{name}: {section}.{dependency} pins its own version");
        }
    }
}

#[test]
fn unsafe_code_lives_in_one_crate() {
    let complaints: Vec<String> = source::files("rs")
        .iter()
        .filter(|file| file.package() != "stdx")
        .filter(|file| source::holds(&source::without_prose(&file.text), "unsafe"))
        .map(|file| format!("{}: `unsafe` belongs in `stdx`, behind a safe function", file.path))
        .collect();
    source::assert_none(&complaints);
}

/// The members of the workspace.
pub(crate) fn members() -> BTreeSet<String> {
    let root = parse("Cargo.toml");
    let list = root["workspace"]["members"].as_array().expect("members is a list");
    list.iter().map(|name| name.as_str().expect("a member is text").to_owned()).collect()
}

/// The manifest of a member.
pub(crate) fn manifest(name: &str) -> Table {
    parse(&format!("{name}/Cargo.toml"))
}

fn parse(path: &str) -> Table {
    source::read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn follows(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// The dependencies of the crate's own code and build script, also on certain targets only.
fn dependencies(manifest: &Table) -> BTreeSet<String> {
    let listed = all_dependencies(manifest).into_iter();
    listed.filter(|(section, ..)| *section != "dev-dependencies").map(|(_, name, _)| name).collect()
}

fn all_dependencies(manifest: &Table) -> Vec<(&'static str, String, Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(tables) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let listed = table.get(section).and_then(Value::as_table);
            for (name, value) in listed.into_iter().flatten() {
                found.push((section, name.clone(), value.clone()));
            }
        }
    }
    found
}
