//! Real trouble at random on three real nodes; the work is done by the tests' own program, since it
//! stands on what the tests stand on.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;

use crate::programs::{self, BuildError, Profile, Programs};
use crate::target_dir;

/// The package that does the work, and its program.
const SOAK: (&str, &str) = ("tests", "gantry-soak");

/// The arguments of the soak.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How long it goes on
    #[arg(value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub minutes: u64,
    /// Seed of all random choices [default: another one each time, which is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// A soak that did not begin.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// The programs do not build.
    #[error("cannot build the programs")]
    Build(#[from] BuildError),
    /// The program that does the work does not start.
    #[error("cannot start `{}`", SOAK.1)]
    Start(#[source] io::Error),
}

/// Builds, and becomes the program that does the work: what ends that ends this.
///
/// # Errors
/// It does not come to that.
pub fn run(arguments: &Arguments) -> Result<(), SoakError> {
    println!("building the programs; the first time takes some minutes");
    Programs::build(Profile::Debug, programs::NODE)?;
    let programs = Programs::build(Profile::Debug, &[SOAK.0])?;
    let mut soak: Command = programs.command(SOAK.1);
    soak.arg(arguments.minutes.to_string()).arg("--dir").arg(target_dir().join("soak"));
    if let Some(seed) = arguments.seed {
        soak.args(["--seed", &seed.to_string()]);
    }
    Err(SoakError::Start(soak.exec()))
}
