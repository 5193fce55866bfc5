//! Texts that the licences of the dependencies demand beside the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{DistError, said};
use crate::cargo;
use crate::programs;

/// Beginnings of the names of files that hold a licence or its notices.
const FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A library that is built into the programs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Library {
    /// Name and version.
    pub name: String,
    /// The expression that its author chose.
    pub licence: String,
    /// Its directory.
    directory: String,
}

/// Every library that is built into the programs for the machine that this runs on.
///
/// # Errors
/// Cargo fails, or its answer has another shape.
pub fn libraries() -> Result<Vec<Library>, DistError> {
    let host = said(std::process::Command::new("rustc").arg("-vV"), ("rustc", "rustc"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    let text = said(command.args(["--filter-platform", host]), ("cargo", "cargo"))?;
    let read: Value = serde_json::from_str(&text)
        .map_err(|error| DistError::Sense { what: format!("cargo's metadata: {error}") })?;
    built_in(&read)
        .ok_or_else(|| DistError::Sense { what: "cargo's metadata: a part is missing".to_owned() })
}

/// Libraries that the programs use, not only for building or testing.
fn built_in(metadata: &Value) -> Option<Vec<Library>> {
    let packages = metadata["packages"].as_array()?;
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let used = node["deps"].as_array()?.iter().filter(|dependency| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        });
        let used = used.filter_map(|dependency| dependency["pkg"].as_str());
        uses.insert(node["id"].as_str()?, used.collect());
    }
    let ours = packages.iter().filter(|package| {
        package["source"].is_null() && programs::NODE.iter().any(|name| package["name"] == *name)
    });
    let mut open: Vec<&str> = ours.filter_map(|package| package["id"].as_str()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(uses.get(id).into_iter().flatten());
        }
    }
    let foreign = packages.iter().filter(|package| {
        !package["source"].is_null() && package["id"].as_str().is_some_and(|id| seen.contains(id))
    });
    let mut libraries = foreign.map(library).collect::<Option<Vec<_>>>()?;
    libraries.sort();
    Some(libraries)
}

fn library(package: &Value) -> Option<Library> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    let licence = package["license"].as_str().unwrap_or("see its licence file").to_owned();
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let directory = manifest.parent()?.to_string_lossy().into_owned();
    Some(Library { name, licence, directory })
}

/// The texts of all licences, each once, with those that it is of.
///
/// # Errors
/// A file cannot be read.
pub fn texts(libraries: &[Library]) -> Result<String, DistError> {
    let mut texts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for library in libraries {
        let directory = Path::new(&library.directory);
        let list = std::fs::read_dir(directory);
        let list = list.map_err(|error| DistError::file("list", directory, error))?;
        for entry in list.flatten() {
            let name = entry.file_name().to_string_lossy().to_uppercase();
            let path = entry.path();
            if path.is_file() && FILES.iter().any(|start| name.starts_with(start)) {
                let read = std::fs::read(&path);
                let bytes = read.map_err(|error| DistError::file("read", &path, error))?;
                let text = String::from_utf8_lossy(&bytes).replace('\r', "");
                texts.entry(text.trim().to_owned()).or_default().insert(&library.name);
            }
        }
    }
    let line = "=".repeat(78);
    let parts = texts.iter().map(|(text, of)| {
        let of = of.iter().copied().collect::<Vec<_>>().join(", ");
        format!("{line}\nOf {of}:\n\n{text}\n\n")
    });
    Ok(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_named_with_its_licence() {
        let libraries = libraries().unwrap();
        let named = |name: &str| libraries.iter().any(|one| one.name.starts_with(name));
        assert!(named("tokio ") && named("rustls ") && named("clap "));
        assert!(!named("proptest "), "a library for tests only");
        assert!(libraries.iter().all(|library| !library.licence.is_empty()));
        let texts = texts(&libraries).unwrap();
        assert!(texts.contains("Apache License") && texts.contains("Permission is hereby granted"));
    }
}
