//! The life of the process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use luxi::method::GantryNoteRefusals;
use model::access::Role;
use model::{Code, Coded, Timestamp};
use stdx::daemon::{Log, LogError, asked_to_end, notify_ready, notify_stopping};
use stdx::net::{ListenError, Listening, look_for_addresses};
use stdx::{Clock, Tasks};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::access_log::AccessLog;
use crate::authenticate::Authenticator;
use crate::certificate::Certificate;
use crate::certificate_files::CertificateError;
use crate::denied::Refusals;
use crate::front::router;
use crate::master::Master;
use crate::master_pool::MasterPool;
use crate::meters::Meters;
use crate::metrics;
use crate::options::Options;
use crate::rules::KnownRules;
use crate::server;
use crate::shares::{Shares, own};
use crate::state::Front;
use crate::tls::Tls;
use crate::tokens::Tokens;
use crate::users::UsersFile;

/// How often it is looked whether the certificate is another one.
const REFRESH_TIME: Duration = Duration::from_secs(10);

/// Why the process ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The system gives no threads.
    #[error("cannot start the threads of the front door")]
    Runtime(#[source] io::Error),
    /// There is no log.
    #[error("cannot set up the log")]
    Log(#[from] LogError),
    /// The certificate cannot be used.
    #[error("cannot use the certificate of the front door; give another one by --cert and --key")]
    Certificate(#[from] CertificateError),
    /// The authority of clients' certificates cannot be used.
    #[error("cannot use the authority of clients' certificates; give another file by --client-ca")]
    Clients(#[source] CertificateError),
    /// The cryptography lacks what is needed.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The port cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
}

impl Coded for DaemonError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Certificate(error) | Self::Clients(error) => error.code(),
            Self::Tls(_) => Some(Code::IdentityDamaged),
            Self::Listen(ListenError { error, .. }) => Code::of_port(error),
            Self::Runtime(_) | Self::Log(_) | Self::Signals(_) => None,
        }
    }
}

/// Between two reports to the master of what was refused: soon enough for whoever looks, and few enough in a
/// flood.
const REPORT_TIME: Duration = Duration::from_secs(2);

/// Does what the command line says; returns when the process is to end.
///
/// # Errors
/// See [`DaemonError`].
pub async fn run(options: Options) -> Result<(), DaemonError> {
    let log = install_log(&options)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), log, "starting");
    let certificate = Certificate::open(options.certificate())?;
    let clients = options.client_ca.clone();
    let cluster = options.layout().ca_certificate();
    let authority = |path| Tls::authority(path, cluster, certificate.provider());
    let clients = clients.map(authority).transpose();
    let tls = Tls::new(certificate, clients.map_err(DaemonError::Clients)?)?;
    let place = |address, option| Listening { address, purpose: "the front door", option };
    let (door, metrics) = (place(options.listen(), "--address"), options.metrics());
    let (listener, bound) = listen(door)?;
    let front = Arc::new(front(&options, bound.port())?);
    let plain = options.plain_http.map(|address| listen(place(address, "--plain-http")));
    let plain = plain.transpose()?;
    let (stop, stopped) = watch::channel(false);
    let tasks = Tasks::new();
    let router = router(Arc::clone(&front));
    if let Some((listener, bound)) = plain {
        let serving = server::serve(listener, None, router.clone(), stopped.clone());
        tasks.spawn("front door of loopback", serving);
        tracing::info!(address = %bound, "serving HTTP without TLS");
    }
    let serving = server::serve(listener, Some(Arc::clone(&tls)), router, stopped.clone());
    tasks.spawn("front door", serving);
    tasks.spawn("certificate", refresh(tls, stopped.clone()));
    tasks.spawn("refusals", report(Arc::clone(&front), stopped.clone()));
    let addresses = [Some(door), metrics.listening()].into_iter().flatten().collect();
    tasks.spawn("addresses", look_for_addresses(addresses, drop, stopped.clone()));
    let page = move || metrics::page(&front).text();
    tasks.spawn("metrics", stdx::metrics::serve(metrics, page, stopped));
    tracing::info!(address = %bound, "serving");
    notify_ready(&format!("https {bound}"));
    let signal = asked_to_end().await.map_err(DaemonError::Signals)?;
    tracing::info!(signal, "ending");
    notify_stopping();
    stop.send_replace(true);
    tasks.join().await;
    tracing::info!("ended");
    Ok(())
}

/// Listens on an address; the port is the one that was taken.
fn listen(place: Listening) -> Result<(TcpListener, SocketAddr), DaemonError> {
    let listener = place.listen()?;
    let bound = listener.local_addr().map_err(|error| ListenError { of: place, error })?;
    Ok((listener, bound))
}

fn front(options: &Options, tls_port: u16) -> Result<Front, DaemonError> {
    let layout = options.layout();
    let users = UsersFile::new(options.users());
    if users.current().is_empty() {
        let path = options.users();
        tracing::warn!(path = %path.display(), "there are no users; add lines NAME PASSWORD OPTIONS");
    }
    let anonymous = options.open_reads.then_some(Role::Read);
    let local = options.trust_loopback.then_some(Role::Operator);
    let link = Arc::new(MasterPool::new(Master::new(layout.luxi_socket()), Clock::system()));
    let tokens = Tokens::of(Arc::clone(&link));
    Ok(Front {
        link,
        authenticator: Authenticator::new(users, tokens, anonymous, local),
        access_log: AccessLog::open(&layout.rapi_access_log())?,
        refusals: Refusals::default(),
        layout,
        shares: Shares::default(),
        meters: Meters::default(),
        compatibility: options.compat,
        rules: KnownRules::default(),
        machines_by_address: options.machines_by_address,
        ramdisk_endpoints: !options.no_ramdisk_endpoints,
        ramdisks: ironic::Door::default(),
        tls_port,
    })
}

/// Tells the master what was refused, until `stopped` turns true.
async fn report(front: Arc<Front>, mut stopped: watch::Receiver<bool>) {
    loop {
        let is_over = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => true,
            () = tokio::time::sleep(REPORT_TIME) => false,
        };
        let entries = front.refusals.take(Timestamp::from_micros(front.link.now_micros()));
        if !entries.is_empty() {
            let kept = entries.clone();
            if let Err(refusal) = front.link.ask_once(&own(), GantryNoteRefusals { entries }).await
            {
                tracing::info!(
                    why = refusal.explain,
                    "the master does not know yet what was refused"
                );
                front.refusals.add(kept);
            }
        }
        if is_over {
            return;
        }
    }
}

async fn refresh(tls: Arc<Tls>, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(REFRESH_TIME) => stdx::aside(|| tls.refresh()),
        }
    }
}

/// Logs to the log file, or to standard error where that was asked for or the file cannot be opened; says
/// which.
fn install_log(options: &Options) -> Result<&'static str, LogError> {
    let to = |file| Log { file, format: options.log_format, filter: options.log_filter.clone() };
    if options.log_stderr {
        to(None).install()?;
        return Ok("standard error");
    }
    match to(Some(options.layout().rapi_log())).install() {
        Err(LogError::Open { path, error }) => {
            to(None).install()?;
            tracing::warn!(path = %path.display(), %error, "no log file, logging to standard error");
            Ok("standard error")
        }
        Err(other) => Err(other),
        Ok(()) => Ok("file"),
    }
}
