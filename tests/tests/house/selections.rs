//! Crates are built once. Cargo builds a crate anew for each set of features that a selection of
//! packages asks of it. Every crate that needs it is built anew as well.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use toml::Value;

use crate::direction::{manifest, members};
use crate::source;

/// The features of each crate, where these packages are built together: other ones, maybe, for what runs
/// while others are built.
fn features(packages: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args(["tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none"]);
    tree.args(["--no-dedupe", "--format", "{p}|{f}"]).current_dir(source::root());
    tree.args(packages.iter().flat_map(|package| ["--package", package]));
    let output = tree.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (package, features) in text.lines().filter_map(|line| line.split_once('|')) {
        found.entry(package.to_owned()).or_default().insert(features.to_owned());
    }
    found
}

#[test]
fn the_commands_of_this_repository_are_built_of_less_than_the_programs() {
    let (programs, commands) = (features(xtask::programs::NODE), features(&["xtask"]));
    assert!(programs.len() > 100, "cargo lists {} crates", programs.len());
    let (few, many) = (commands.len(), programs.len());
    assert!(4 * few < 3 * many, "a fresh checkout builds {few} crates of {many} before it tests");
}

#[test]
fn no_program_is_linked_a_second_time_to_find_that_it_has_no_tests() {
    for name in members() {
        let manifest = manifest(&name);
        let programs = manifest.get("bin").and_then(Value::as_array);
        let programs: Vec<&Value> = programs.into_iter().flatten().collect();
        let has_main = source::root().join(&name).join("src/main.rs").is_file();
        assert!(!has_main || !programs.is_empty(), "{name}: its program has no section [[bin]]");
        for program in programs {
            assert_eq!(program.get("test"), Some(&Value::Boolean(false)), "{name}: {program}");
            let path = program["path"].as_str().expect("a path is text");
            let text = source::read(&format!("{name}/{path}"));
            assert!(
                !text.contains("#[test]"),
                "{name}/{path}: what is tested belongs in the library"
            );
        }
    }
}
