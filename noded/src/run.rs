//! From the command line to the end of the process.

use std::io;
use std::sync::Arc;

use stdx::Clock;
use stdx::daemon::{Log, LogError, asked_to_end, notify_ready, notify_stopping};

use crate::daemon::{Daemon, DaemonError, Settings};
use crate::enroll::{EnrollError, enroll};
use crate::host_network::HostNetworks;
use crate::options::{AgentOptions, Command, EnrollOptions, Options};
use netboot::ledger::LedgerError;

/// Why the process ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no log.
    #[error("cannot set up the log")]
    Log(#[from] LogError),
    /// The enrolment failed.
    #[error("this machine was not enrolled")]
    Enroll(#[from] EnrollError),
    /// The agent could not be started.
    #[error("cannot start the agent")]
    Start(#[from] DaemonError),
    /// The agent ended with an error.
    #[error("the agent did not end cleanly")]
    Stop(#[from] LedgerError),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
}

/// Does what the command line says; returns when the process is to end.
///
/// # Errors
/// See [`RunError`].
pub async fn run(options: Options) -> Result<(), RunError> {
    let log = install_log(&options.agent);
    let mut settings = options.agent.settings();
    // The network goes back whatever else fails. On a new node, root makes no directory that the user
    // cannot use.
    let is_new = options.command.is_some() && !settings.layout.host_network().exists();
    let network = match is_new {
        true => None,
        false => Some(HostNetworks::open(&settings.layout, settings.clock.clone()).await),
    };
    let log = log?;
    if let Some(Command::Enroll(enrolling)) = &options.command {
        let show = &mut io::stdout();
        enroll(&settings.layout, settings.rpc, enrolling, &Clock::system(), show).await?;
        announce(show, enrolling);
        if enrolling.exit {
            return Ok(());
        }
        settings.rpc.set_port(enrolling.port.unwrap_or(settings.rpc.port()));
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), log, "starting");
    serve(network, settings).await
}

/// The token is used up; a closed standard output must not end the agent.
fn announce(show: &mut impl io::Write, enrolling: &EnrollOptions) {
    let next = match enrolling.exit {
        true => "start noded now, and masterd as well if this node is to be a candidate",
        false => "serving",
    };
    if let Err(error) = writeln!(show, "enrolled; {next}").and_then(|()| show.flush()) {
        tracing::debug!(%error, "standard output is closed");
    }
}

async fn serve(network: Option<Arc<HostNetworks>>, settings: Settings) -> Result<(), RunError> {
    let daemon = match network {
        Some(network) => Daemon::start_on(network, settings).await?,
        None => Daemon::start(settings).await?,
    };
    notify_ready(&format!("rpc {}, boot {}", daemon.rpc_address(), daemon.boot_address()));
    tokio::select! {
        signal = asked_to_end() => {
            let signal = signal.map_err(RunError::Signals)?;
            tracing::info!(signal, "ending");
        }
        () = daemon.left() => tracing::info!("ending: this machine is no node any more"),
    }
    notify_stopping();
    daemon.stop().await?;
    tracing::info!("ended");
    Ok(())
}

/// Logs to the log file, or to standard error where that was asked for or the file cannot be
/// opened; says which.
fn install_log(options: &AgentOptions) -> Result<&'static str, LogError> {
    let to = |file| Log { file, format: options.log_format, filter: options.log_filter.clone() };
    if options.log_stderr {
        to(None).install()?;
        return Ok("standard error");
    }
    let file = options.layout().node_log();
    match to(Some(file)).install() {
        Err(LogError::Open { path, error }) => {
            to(None).install()?;
            tracing::warn!(path = %path.display(), %error, "no log file, logging to standard error");
            Ok("standard error")
        }
        Err(other) => Err(other),
        Ok(()) => Ok("file"),
    }
}
