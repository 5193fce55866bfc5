//! What dpkg is told of a package.

use super::contents::Package;
use super::tree::{Content, READABLE, RUNNABLE};

/// Who answers for the package.
const MAINTAINER: &str = "The Gantry developers <gantry@localhost>";

/// The files of the control part: name, mode, text.
#[must_use]
pub fn files(package: &Package, version: &str) -> Vec<(String, u32, String)> {
    let mut files = vec![("control".to_owned(), READABLE, control(package, version))];
    let settings: String = package
        .tree
        .entries()
        .filter(|(path, _)| path.starts_with("etc/"))
        .map(|(path, _)| format!("/{path}\n"))
        .collect();
    if !settings.is_empty() {
        files.push(("conffiles".to_owned(), READABLE, settings));
    }
    for (name, text) in &package.scripts {
        files.push(((*name).to_owned(), RUNNABLE, text.clone()));
    }
    files
}

fn control(package: &Package, version: &str) -> String {
    let Package { name, architecture, relations, summary, description, .. } = package;
    let mut text = format!("Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n");
    text.push_str(&format!("Maintainer: {MAINTAINER}\n"));
    let bytes: usize = package.tree.entries().map(|(_, content)| bytes(content)).sum();
    text.push_str(&format!("Installed-Size: {}\n", bytes.div_ceil(1_024)));
    for (field, value) in relations {
        text.push_str(&format!("{field}: {}\n", value.replace("@VERSION@", version)));
    }
    text.push_str("Section: admin\nPriority: optional\n");
    text.push_str(&format!("Description: {summary}\n"));
    for line in description.lines() {
        text.push_str(&format!(" {}\n", if line.is_empty() { "." } else { line }));
    }
    text
}

/// About what a file takes when it is installed.
fn bytes(content: &Content) -> usize {
    match content {
        Content::File(path) => {
            path.metadata().map_or(0, |found| usize::try_from(found.len()).unwrap_or(usize::MAX))
        }
        Content::Bytes(bytes) | Content::Gzip(bytes) => bytes.len(),
        Content::Link(_) => 0,
    }
}
