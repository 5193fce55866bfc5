//! The workspace's programs, built and found.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use crate::{cargo, needs, target_dir};

/// How the programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build; for showing and testing.
    Debug,
    /// For measuring.
    Release,
    /// For packages: it takes minutes, and saves a quarter of the processor time of a job.
    Dist,
}

impl Profile {
    /// Its name for cargo, and its directory.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Debug => ("dev", "debug"),
            Self::Release => ("release", "release"),
            Self::Dist => ("dist", "dist"),
        }
    }
}

/// The programs of one build.
#[derive(Debug, Clone)]
pub struct Programs {
    dir: PathBuf,
    own_disk: Option<OwnDisk>,
}

/// A disk that a process has for itself, as far as flushes go: the example `own_disk`.
#[derive(Debug, Clone)]
pub struct OwnDisk {
    library: PathBuf,
    flush: Duration,
}

/// The variable by which the example is told the time of a flush, in microseconds.
const FLUSH_US: &str = "GANTRY_BENCH_FLUSH_US";

impl OwnDisk {
    /// One whose flush takes this long.
    ///
    /// # Errors
    /// The example does not build.
    pub fn of(flush: Duration) -> Result<Self, BuildError> {
        let name = example("stdx", "own_disk", &[])?;
        Ok(Self { library: name.with_file_name("libown_disk.so"), flush })
    }
}

/// Programs that could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Cargo did not start.
    #[error("cannot start cargo")]
    Cargo(#[source] io::Error),
    /// Cargo failed; it has said why.
    #[error("the programs did not build ({0})")]
    Failed(ExitStatus),
}

/// The packages with the programs of a node, which are also those that are installed. A command that
/// needs some of them builds all: cargo would build shared crates anew for each selection.
pub const NODE: &[&str] = &["masterd", "noded", "rapi", "cli"];

/// Builds this tool for measuring, once, so that a client costs what a good client does, and gives its
/// path.
///
/// # Errors
/// It does not build.
pub fn client_program() -> Result<PathBuf, BuildError> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(built) = BUILT.get() {
        return Ok(built.clone());
    }
    let mut command = cargo();
    command.args(["build", "--release", "--package", "xtask"]);
    finish(&mut command)?;
    Ok(BUILT.get_or_init(|| target_dir().join("release/xtask")).clone())
}

/// Builds an example of a package for measuring, with these features of it, and gives its path.
///
/// # Errors
/// It does not build.
pub fn example(package: &str, name: &str, features: &[&str]) -> Result<PathBuf, BuildError> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", package, "--example", name]);
    command.args(features.iter().flat_map(|feature| ["--features", feature]));
    finish(&mut command)?;
    Ok(target_dir().join("release/examples").join(name))
}

fn finish(command: &mut Command) -> Result<(), BuildError> {
    let status = command.status().map_err(BuildError::Cargo)?;
    if status.success() { Ok(()) } else { Err(BuildError::Failed(status)) }
}

impl Programs {
    /// Builds the programs of these packages.
    ///
    /// # Errors
    /// They do not build.
    pub fn build(profile: Profile, packages: &[&str]) -> Result<Self, BuildError> {
        let mut command = cargo();
        command.args(["build", "--bins"]);
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        command.args(["--profile", profile.names().0]);
        finish(&mut command)?;
        Ok(Self::built(profile))
    }

    /// The programs of an earlier build.
    pub fn built(profile: Profile) -> Self {
        Self { dir: target_dir().join(profile.names().1), own_disk: None }
    }

    /// The directory of the programs.
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// A command that runs the program `name`.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.dir.join(name));
        // The master calls what switches machines by its name.
        command.env("PATH", needs::path());
        if let Some(disk) = &self.own_disk {
            command.env("LD_PRELOAD", &disk.library);
            command.env(FLUSH_US, disk.flush.as_micros().to_string());
        }
        command
    }

    /// The same programs, each process of which has a disk for itself, if one is given.
    pub fn with_disk(self, own_disk: Option<OwnDisk>) -> Self {
        Self { own_disk, ..self }
    }
}
