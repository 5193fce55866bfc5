//! `gnt`: the command line of the cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
