//! Runs a program for allocation.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Exception;
use model::layout::Layout;
use model::opcode::instance::Told;
use serde_json::Value;
use stdx::program::{Ended, Limits, PATH, run};
use tokio::process::Command;

use super::fault;
use crate::units::wrong;

/// The limits of a program. Ganeti's `hail` needs a second for the largest clusters that were measured, and
/// its answer has some kilobytes.
const LIMITS: Limits =
    Limits { time: Duration::from_secs(60), told: 16 * 1024 * 1024, complained: 4_096 };
/// The directory of Ganeti's packages.
const GANETIS: &str = "/usr/lib/ganeti/iallocators";
/// Longest name of a program.
const NAME_MAX: usize = 64;

/// Asks a program, and gives what it says on its standard output.
///
/// # Errors
/// There is none of this name, or it does not end well.
pub(super) async fn ask(
    layout: &Layout,
    name: &str,
    parameters: &Told,
    question: &Value,
) -> Result<Vec<u8>, Exception> {
    let program = find(layout, name)?;
    let fails =
        |error: &dyn std::fmt::Display| fault(format!("iallocator '{name}' failed: {error}"));
    let text = question.to_string();
    let file = stdx::aside(|| written(&text)).map_err(|error| fails(&error))?;
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8").current_dir("/");
    command.arg(file.path()).args(parameters.iter().map(option));
    let Ended { status, told, complained } =
        run(command, b"", LIMITS).await.map_err(|error| fails(&error))?;
    match status.success() {
        true => Ok(told),
        false => Err(fails(&format!("{status}, {}", stdx::text::line(complained.trim())))),
    }
}

fn written(text: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// One of the cluster's parameters of its allocator, as an option.
fn option((name, value): (&String, &Value)) -> String {
    match value {
        Value::String(text) if text.is_empty() => format!("--{name}"),
        Value::String(text) => format!("--{name}={text}"),
        Value::Null => format!("--{name}"),
        other => format!("--{name}={other}"),
    }
}

/// The program of a name: the operator's own before Ganeti's.
///
/// # Errors
/// This node has none.
pub(crate) fn find(layout: &Layout, name: &str) -> Result<PathBuf, Exception> {
    let is_name = |name: &str| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        name.len() <= NAME_MAX && !name.starts_with(['.', '-']) && name.chars().all(is_good)
    };
    let places = [layout.allocators(), PathBuf::from(GANETIS)];
    if is_name(name) {
        let is_file = |path: &PathBuf| Path::is_file(path);
        if let Some(path) = places.iter().map(|place| place.join(name)).find(is_file) {
            return Ok(path);
        }
    }
    let [ours, ganetis] = places.map(|place| place.display().to_string());
    Err(wrong(format!(
        "iallocator '{name}': no program of this name is in {ours} or {ganetis}; leave it out for the \
         built-in allocator"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn told(script: &str, name: &str) -> Result<String, String> {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        std::fs::create_dir_all(layout.allocators()).unwrap();
        let file = layout.allocators().join("mine");
        let text = format!("#!/bin/sh\n{script}\n");
        stdx::atomic::write(&file, text.as_bytes(), 0o755).unwrap();
        let parameters =
            Told::from_iter([("a".to_owned(), json!("")), ("b".to_owned(), json!("two"))]);
        let said = ask(&layout, name, &parameters, &json!({"version": 2})).await;
        said.map(|said| String::from_utf8(said).unwrap())
            .map_err(|error| error.message().to_owned())
    }

    #[tokio::test]
    async fn a_program_gets_the_question_in_a_file_and_the_clusters_options() {
        let said = told("cat \"$1\"; echo; shift; echo \"$@\"", "mine").await.unwrap();
        assert_eq!(said, "{\"version\":2}\n--a --b=two\n");
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_program_is_told() {
        let bad = told("echo worse >&2; exit 7", "mine").await.unwrap_err();
        assert!(bad.contains("iallocator 'mine' failed: exit status: 7, worse"), "{bad}");
        for name in ["none", "../mine", ".mine", "-mine", "", &"x".repeat(65), "mi/ne", "mi ne"] {
            let missing = told("true", name).await.unwrap_err();
            assert!(missing.contains("no program of this name is in"), "{name}: {missing}");
        }
    }
}
