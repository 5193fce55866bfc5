//! `cargo xtask soak` starts this; see `tests::soak`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    tests::soak::run(&tests::soak::Arguments::parse())
}
