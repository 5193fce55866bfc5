//! `rapi`: the HTTPS front door; not part of this version.

use std::process::ExitCode;

use clap::Parser;

/// The HTTPS front door of Gantry. This version does not serve it yet: use `gnt` on the master.
#[derive(Debug, Parser)]
#[command(version)]
struct Command {}

#[expect(clippy::print_stderr, reason = "who starts it must be told")]
fn main() -> ExitCode {
    Command::parse();
    eprintln!("rapi: this version does not serve the front door yet; use `gnt` on the master");
    ExitCode::FAILURE
}
