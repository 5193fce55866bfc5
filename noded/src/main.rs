//! The agent of a node.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use model::layout::{Layout, NODE_USER};
use model::{Code, Coded as _};
use stdx::pages::Daemon;
use virt::confine;

use noded::options::Options;
use noded::run::run;

/// The status of a program that could not be confined, beside those of programs themselves (as `env` has it).
const NOT_CONFINED: u8 = 125;

#[expect(clippy::print_stderr, reason = "the agent that started it reads why")]
fn main() -> ExitCode {
    // Only a process with one thread can enter namespaces.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == confine::WORD) {
        let Err(error) = confine::become_program(words);
        eprintln!("noded: the program of a guest was not confined: {error}");
        return ExitCode::from(NOT_CONFINED);
    }
    agent()
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the reason must be seen where there is no log, too")]
async fn agent() -> ExitCode {
    let definition = Options::command();
    let files = Layout::paths_of(NODE_USER).collect();
    let pages = Daemon { definition, unit: "gantry-noded.service", files };
    if let Some(written) = pages.write_if_asked() {
        return written;
    }
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
