//! The agent of a node.

use std::process::ExitCode;

use clap::Parser;

use noded::options::Options;
use noded::run::run;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the reason must be seen where there is no log, too")]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = stdx::daemon::chain(&error);
            tracing::error!(reason, "noded ends");
            eprintln!("noded: {}", stdx::text::lines(&reason));
            ExitCode::FAILURE
        }
    }
}
