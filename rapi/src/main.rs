//! `rapi`: the HTTPS front door.

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use model::layout::{Layout, RAPI_USER};
use model::{Code, Coded as _};
use stdx::pages::Daemon;

use rapi::daemon::{DaemonError, run};
use rapi::options::Options;

/// How long questions to the master may keep the process: what they were asked for is gone.
const END_TIME: Duration = Duration::from_secs(1);

#[expect(clippy::print_stderr, reason = "the reason must be seen where there is no log, too")]
fn main() -> ExitCode {
    let definition = Options::command();
    let files = Layout::paths_of(RAPI_USER).collect();
    let pages = Daemon { definition, unit: "gantry-rapi.service", files };
    if let Some(written) = pages.write_if_asked() {
        return written;
    }
    let options = Options::parse();
    let ended = tokio::runtime::Runtime::new().map_err(DaemonError::Runtime).and_then(|runtime| {
        let ended = runtime.block_on(run(options));
        runtime.shutdown_timeout(END_TIME);
        ended
    });
    match ended {
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
