//! The agent of a node.

use std::process::ExitCode;

use clap::Parser;
use model::{Code, Coded as _};

use noded::options::Options;
use noded::run::run;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the reason must be seen where there is no log, too")]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = stdx::daemon::chain(&error);
            let code = error.code();
            tracing::error!(code = code.map(Code::word), reason, "noded ends");
            let told = code.map_or(reason.clone(), |code| code.told(&reason));
            eprintln!("noded: {}", stdx::text::lines(&told));
            ExitCode::FAILURE
        }
    }
}
