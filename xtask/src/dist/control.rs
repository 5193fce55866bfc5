//! The files of a package that are for dpkg.

use std::path::Path;
use std::process::Command;

use super::contents::{Package, SOURCE};
use super::tree::{Content, READABLE, RUNNABLE};
use super::{DistError, Release, said};

/// The maintainer of packages that nobody signed for: a name, and an address that leads nowhere.
const NOBODY: (&str, &str) = ("The Gantry developers", "gantry@localhost");
/// Characters before the file in a line of `md5sum`.
const SUM_CHARS: usize = 32;

/// `Name <address>`, with what is not set filled in.
pub(super) fn maintainer(name: Option<String>, address: Option<String>) -> String {
    let name = name.unwrap_or_else(|| NOBODY.0.to_owned());
    format!("{name} <{}>", address.unwrap_or_else(|| NOBODY.1.to_owned()))
}

/// The files of the control part: name, mode, text. The package's own files lie in `staged`.
///
/// # Errors
/// Their sums cannot be made.
pub fn files(
    package: &Package,
    release: &Release,
    staged: &Path,
) -> Result<Vec<(String, u32, String)>, DistError> {
    let mut files = vec![("control".to_owned(), READABLE, control(package, release))];
    let settings: String = package
        .tree
        .entries()
        .filter(|(path, _)| path.starts_with("etc/"))
        .map(|(path, _)| format!("/{path}\n"))
        .collect();
    if !settings.is_empty() {
        files.push(("conffiles".to_owned(), READABLE, settings));
    }
    files.push(("md5sums".to_owned(), READABLE, sums(package, staged)?));
    for (name, text) in &package.scripts {
        files.push(((*name).to_owned(), RUNNABLE, text.clone()));
    }
    Ok(files)
}

/// The sums by which `dpkg --verify` finds files that were changed; settings are compared otherwise.
fn sums(package: &Package, staged: &Path) -> Result<String, DistError> {
    let is_file = |content: &Content| !matches!(content, Content::Link(_));
    let files = package.tree.entries().filter(|(_, content)| is_file(content));
    let files = files.map(|(path, _)| path).filter(|path| !path.starts_with("etc/"));
    let mut md5sum = Command::new("md5sum");
    let told = said(md5sum.current_dir(staged).arg("--").args(files), ("md5sum", "coreutils"))?;
    let lines = told.lines().filter(|line| line.len() > SUM_CHARS);
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

fn control(package: &Package, release: &Release) -> String {
    let Package { name, architecture, section, relations, summary, description, .. } = package;
    let Release { version, maintainer, .. } = release;
    let mut text = format!("Package: {name}\n");
    // Two packages of one source; without the field each would be taken for a source of its own.
    if *name != SOURCE {
        text.push_str(&format!("Source: {SOURCE}\n"));
    }
    text.push_str(&format!("Version: {version}\nArchitecture: {architecture}\n"));
    text.push_str(&format!("Maintainer: {maintainer}\n"));
    let bytes: usize = package.tree.entries().map(|(_, content)| bytes(content)).sum();
    text.push_str(&format!("Installed-Size: {}\n", bytes.div_ceil(1_024)));
    for (field, value) in relations {
        text.push_str(&format!("{field}: {}\n", value.replace("@VERSION@", version)));
    }
    text.push_str(&format!("Section: {section}\nPriority: optional\n"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maintainer_is_who_the_environment_names() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(maintainer(None, None), "The Gantry developers <gantry@localhost>");
        assert_eq!(maintainer(some("A B"), some("a@b.example")), "A B <a@b.example>");
        assert_eq!(maintainer(None, some("a@b.example")), "The Gantry developers <a@b.example>");
    }
}
