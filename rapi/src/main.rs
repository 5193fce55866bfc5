//! `rapi`: the HTTPS front door.

use std::process::ExitCode;

use clap::Parser;
use model::{Code, Coded as _};

use rapi::daemon::run;
use rapi::options::Options;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the reason must be seen where there is no log, too")]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = stdx::daemon::chain(&error);
            let code = error.code();
            tracing::error!(code = code.map(Code::word), reason, "rapi ends");
            let told = code.map_or(reason.clone(), |code| code.told(&reason));
            eprintln!("rapi: {}", stdx::text::lines(&told));
            ExitCode::FAILURE
        }
    }
}
