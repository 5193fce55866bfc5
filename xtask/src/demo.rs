//! Shows a cluster at work: builds the programs, sets a stage and plays scenes on it.
//!
//! Nothing here needs root: all daemons live below one temporary root and listen on loopback. The
//! scenes are in [`scenes`].

pub mod scenes;

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Args;

use crate::programs::{self, BuildError, Profile, Programs};
use crate::stage::{Stage, StageError};

/// What the demonstration is told.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory that the temporary root is made in
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Leave the root and its files behind, to look at them
    #[arg(long)]
    pub keep: bool,
}

/// A demonstration that ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The programs do not build.
    #[error("cannot build the programs")]
    Build(#[from] BuildError),
    /// The stage cannot be set, or something did not happen on it.
    #[error("the stage failed")]
    Stage(#[from] StageError),
    /// A program does not start.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A program failed that should not.
    #[error("`{command}` failed ({status})")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
}

/// What a scene plays with.
#[derive(Debug)]
pub struct Play {
    /// The built programs.
    pub programs: Programs,
    /// The root and its daemons.
    pub stage: Stage,
}

/// A part of the demonstration.
#[derive(Debug)]
pub struct Scene {
    /// What the audience reads above it.
    pub title: &'static str,
    /// Plays it.
    pub play: fn(&Play) -> Result<(), DemoError>,
}

/// Builds, plays every scene in order, and clears away.
///
/// # Errors
/// The first thing that went wrong; the stage is cleared all the same.
pub fn run(arguments: &Arguments) -> Result<(), DemoError> {
    println!("building the programs; the first time takes some minutes");
    let programs = Programs::build(Profile::Debug, programs::ALL)?;
    let stage = Stage::new(&arguments.dir)?;
    println!("everything below lives in {}", stage.root().display());
    if arguments.keep {
        stage.keep();
    }
    let play = Play { programs, stage };
    for (number, scene) in (1..).zip(scenes::SCENES) {
        println!("\n{number}. {}", scene.title);
        (scene.play)(&play)?;
    }
    play.stage.clear();
    Ok(())
}

impl Play {
    /// Runs a program in the foreground, its command line shown above what it says.
    ///
    /// # Errors
    /// It does not start, or fails.
    pub fn show(&self, program: &str, arguments: &[&str]) -> Result<(), DemoError> {
        let command = format!("{program} {}", arguments.join(" "));
        println!("$ {command}");
        match self.programs.command(program).args(arguments).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(DemoError::Failed { command, status }),
            Err(error) => Err(DemoError::Start { command, error }),
        }
    }
}
