//! The commands of this repository.
//!
//! In reading order: [`mod@test`] runs everything that must hold, [`flaky`] the tests again and again on
//! a busy machine. A cluster at work on this machine is shown by [`demo`] and measured by [`mod@bench`],
//! mostly against the disk under it. Packages come from [`dist`]. Bytes that break a rule are found by
//! [`fuzz`], trouble that loses or doubles a job by [`soak`]. Programs of others that tests and benches
//! use are in [`needs`]. Files that pass for those of an image are in [`images`], messages of a firmware
//! in `dhcp`. The demo and the benches stand on the built [`programs`] and on [`stage`], a temporary
//! root with daemons that ends with its owner. Real machines that boot are [`guest`]; one that starts in
//! a container is [`debian`], and a switch [`ovs`].
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool talks to who called it")]

pub mod bench;
pub mod debian;
pub mod demo;
mod dhcp;
pub mod dist;
pub mod flaky;
pub mod fuzz;
pub mod guest;
pub mod soak;
pub mod test;

pub mod images;
pub mod needs;
pub mod ovs;
pub mod programs;
pub mod stage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The arguments of the command line.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, about = "Commands of this repository")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check format, lints, tests, documents and units; install what the tests miss, where allowed
    Test(test::Arguments),
    /// Run all tests N times while every processor is kept busy, and name those that fail by chance
    Flaky(flaky::Arguments),
    /// Run a cluster on this machine, below a temporary root, and show jobs at work
    Demo(demo::Arguments),
    /// Measure the disk, the queue on it, and what needs no disk
    Bench(bench::Arguments),
    /// Make Debian packages in target/dist
    Dist(dist::Arguments),
    /// Look for bytes that break a rule
    Fuzz(fuzz::Arguments),
    /// Make random trouble on three nodes under load, as root: kills, pauses, cut links, full disks, cut
    /// power, failovers. Ends at the first job that is lost or doubled
    Soak(soak::Arguments),
    /// Be a client of a bench
    #[command(hide = true)]
    BenchClient(bench::client::Arguments),
    /// Be the machines of a bench
    #[command(hide = true)]
    BenchStorm(bench::dhcp::storm::Arguments),
}

/// Carries out what was asked for.
pub fn run(arguments: Arguments) -> ExitCode {
    let ended = match arguments.command {
        Command::Test(arguments) => return test::run(&arguments),
        Command::Flaky(arguments) => flaky::run(&arguments).map_err(|error| chain(&error)),
        Command::Demo(arguments) => demo::run(&arguments).map_err(|error| chain(&error)),
        Command::Fuzz(arguments) => fuzz::run(&arguments).map_err(|error| chain(&error)),
        Command::Soak(arguments) => soak::run(&arguments).map_err(|error| chain(&error)),
        Command::BenchClient(arguments) => {
            bench::client::run(&arguments).map_err(|error| chain(&error))
        }
        Command::BenchStorm(arguments) => {
            bench::dhcp::storm::run(&arguments).map_err(|error| chain(&error))
        }
        Command::Dist(arguments) => dist::run(&arguments).map_err(|error| chain(&error)),
        Command::Bench(arguments) => bench::run(&arguments).map_err(|error| chain(&error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("this crate lies in the workspace").to_owned()
}

/// The directory that cargo builds into.
fn target_dir() -> PathBuf {
    // A relative one is relative to where cargo runs.
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The cargo that runs this, as a command at the workspace's root.
fn cargo() -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    // Tests call programs by their names.
    command.current_dir(root()).env("PATH", needs::path());
    command
}

fn chain(error: &dyn std::error::Error) -> String {
    stdx::daemon::chain(error)
}
