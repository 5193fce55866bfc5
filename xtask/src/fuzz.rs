//! Looks for bytes that break a rule, with libFuzzer.
//!
//! The compiler is the workspace's own: what `cargo fuzz` needs beyond the stable language is
//! allowed to it by `RUSTC_BOOTSTRAP`, for this build alone.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use clap::Args;

use crate::{root, target_dir};

/// The arguments of the fuzzing.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The target; without it, all are named
    pub name: Option<String>,
    /// How long to look
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub seconds: u32,
}

/// Fuzzing that did not come to a good end.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// Something cannot be read or made.
    #[error("cannot use `{path}`")]
    File {
        /// What.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// There is no such target.
    #[error("there is no target `{name}`; there are {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// All that there are.
        known: String,
    },
    /// The tool does not start.
    #[error("`cargo fuzz` does not start")]
    Start(#[source] io::Error),
    /// It found something, or did not build.
    #[error(
        "{name} ended with {status}: what broke it lies in `fuzz/artifacts/{name}`, if it was built; \
         if there is no `cargo fuzz`, `cargo install cargo-fuzz --locked` brings it"
    )]
    Found {
        /// The target.
        name: String,
        /// How it ended.
        status: ExitStatus,
    },
}

/// Names the targets, or runs one.
///
/// # Errors
/// [`FuzzError`]; a finding is one.
pub fn run(arguments: &Arguments) -> Result<(), FuzzError> {
    let known = targets()?;
    let Some(name) = &arguments.name else {
        known.iter().for_each(|name| println!("{name}"));
        return Ok(());
    };
    if !known.contains(name) {
        return Err(FuzzError::Unknown { name: name.clone(), known: known.join(", ") });
    }
    // libFuzzer adds what is new to the first corpus; the seeds in the tree stay as they are.
    let found = target_dir().join("fuzz-corpus").join(name);
    std::fs::create_dir_all(&found)
        .map_err(|error| FuzzError::File { path: found.clone(), error })?;
    let mut fuzz = Command::new("cargo");
    fuzz.current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
    fuzz.args(["fuzz", "run", "--sanitizer", "none", name]);
    fuzz.arg(found).arg(root().join("fuzz/corpus").join(name));
    fuzz.arg("--").arg(format!("-max_total_time={}", arguments.seconds));
    let status = fuzz.status().map_err(FuzzError::Start)?;
    if status.success() { Ok(()) } else { Err(FuzzError::Found { name: name.clone(), status }) }
}

/// The targets, which have a corpus each.
fn targets() -> Result<Vec<String>, FuzzError> {
    let path = root().join("fuzz/corpus");
    let listed = std::fs::read_dir(&path).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    });
    let mut names: Vec<String> = listed.map_err(|error| FuzzError::File { path, error })?;
    names.sort();
    Ok(names)
}
