//! `cargo xtask`: see the library of this crate.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    xtask::run(xtask::Arguments::parse())
}
