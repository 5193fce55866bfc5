//! The workspace's programs, built and found.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use crate::{cargo, target_dir};

/// How the programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build; for showing and testing.
    Debug,
    /// For measuring.
    Release,
}

/// The programs of one build.
#[derive(Debug, Clone)]
pub struct Programs {
    dir: PathBuf,
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

/// The packages with the programs of a cluster.
pub const ALL: &[&str] = &["masterd", "noded", "rapi", "cli"];

/// The packages with the programs of a node, which are also those that are installed: `rapi` serves
/// nothing yet. Whoever needs some of them has all built: cargo would
/// build what they share anew for each selection.
pub const NODE: &[&str] = &["masterd", "noded", "cli"];

/// Builds this tool for measuring, so that a client costs what a good client does, and gives its
/// path.
///
/// # Errors
/// It does not build.
pub fn client_program() -> Result<PathBuf, BuildError> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--release", "--package", "xtask"]);
    finish(&mut command)?;
    Ok(target_dir().join("release/xtask"))
}

/// Builds an example of a package for measuring, and gives its path.
///
/// # Errors
/// It does not build.
pub fn example(package: &str, name: &str) -> Result<PathBuf, BuildError> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--release", "--package", package, "--example", name]);
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
        command.args(["build", "--quiet", "--bins"]);
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        command.args((profile == Profile::Release).then_some("--release"));
        finish(&mut command)?;
        Ok(Self::built(profile))
    }

    /// The programs of an earlier build.
    #[must_use]
    pub fn built(profile: Profile) -> Self {
        let name = match profile {
            Profile::Debug => "debug",
            Profile::Release => "release",
        };
        Self { dir: target_dir().join(name) }
    }

    /// Where the programs lie.
    #[must_use]
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// A command that runs the program `name`.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        Command::new(self.dir.join(name))
    }
}
