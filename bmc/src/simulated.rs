//! A controller in this process that speaks Redfish on a port of the loopback, and makes mistakes on
//! demand. Tests of this crate and of jobs use it, and benchmarks.

mod machine;
mod odd;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::bmc::{BmcUrl, PowerState};
use model::enrol::Fingerprint;
use rustls::pki_types::PrivateKeyDer;
use stdx::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use machine::Machine;
pub use odd::{Odd, OddAnswers};

/// The faults of a controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// It takes every action, and does nothing.
    pub lies: bool,
    /// It takes connections and answers nothing.
    pub hangs: bool,
    /// So many changes are answered that it is busy.
    pub busy: u32,
    /// It answers everything with this text, and 200.
    pub nonsense: Option<&'static str>,
    pub no_sessions: bool,
    /// It closes each connection behind its answer.
    pub closes: bool,
    /// It takes changes of the boot order at its settings object alone, and only with its tag.
    pub settings_apart: bool,
    /// It tells tags in headers alone, and takes no change without one.
    pub tags_in_headers: bool,
    /// It tells weak tags, and compares them with nothing but strong ones.
    pub strong_tags: bool,
    /// It refuses to change the mode of the firmware.
    pub fixed_mode: bool,
    /// It takes every boot order, and keeps this one alone.
    pub keeps_only: Option<&'static str>,
    /// It shows accelerators with the machine's serial number as a system, before the machine.
    pub has_baseboard: bool,
    /// It forgets a session after so many requests.
    pub forgets_after: Option<u32>,
    /// It refuses every login.
    pub locks_out: bool,
}

/// How a simulated machine is.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Whether it runs.
    pub power: PowerState,
    /// The source of its next boot.
    pub boot_once: Option<String>,
    /// How often it was switched on.
    pub starts: u32,
    /// Sessions that were begun.
    pub logins: u32,
    /// Sessions that were not ended.
    pub sessions: u32,
    /// Requests that came.
    pub requests: u32,
}

/// Told whenever a machine's power is switched.
pub type Hook = Arc<dyn Fn(PowerState) + Send + Sync>;

/// A controller; its port is closed with it.
pub struct Simulated {
    /// The URL at which it is reached.
    pub url: BmcUrl,
    /// The certificate that it shows, with TLS.
    pub certificate: Option<Fingerprint>,
    machine: Arc<Machine>,
    _listens: Tasks,
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulated").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The user that it knows.
pub const USER: &str = "admin";
/// Its password.
pub const PASSWORD: &str = "calvin";

impl Simulated {
    /// Starts one for the machine with this serial number, which is off.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(serial: &str, tls: bool, hook: Option<Hook>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let secured = if tls { Some(acceptor().map_err(std::io::Error::other)?) } else { None };
        let certificate = secured.as_ref().map(|(_, fingerprint)| *fingerprint);
        let machine = Arc::new(Machine::new(serial, hook));
        let serving = serve(listener, secured.map(|(acceptor, _)| acceptor), Arc::clone(&machine));
        // They end with it.
        let listens = Tasks::new();
        listens.spawn("simulated bmc", serving);
        Ok(Self { url: url(address, tls)?, certificate, machine, _listens: listens })
    }

    /// Has it do these things wrong from now on.
    pub fn fail(&self, faults: Faults) {
        *self.machine.faults.lock() = faults;
    }

    /// Has it answer some requests oddly, counted from now on.
    pub fn answer_oddly(&self, answers: OddAnswers) {
        *self.machine.odd.lock() = Some(answers);
    }

    /// Switches the machine by its button.
    pub fn press(&self, power: PowerState) {
        self.machine.seen.lock().power = power;
    }

    /// How its machine is.
    pub fn seen(&self) -> Seen {
        self.machine.seen.lock().clone()
    }
}

fn url(address: SocketAddr, tls: bool) -> std::io::Result<BmcUrl> {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}").parse().map_err(std::io::Error::other)
}

fn acceptor() -> Result<(TlsAcceptor, Fingerprint), Box<dyn std::error::Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["bmc.invalid".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let certificate = made.cert.der().clone();
    let fingerprint = Fingerprint::of(&certificate);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), fingerprint))
}

async fn serve(listener: TcpListener, secured: Option<TlsAcceptor>, machine: Arc<Machine>) {
    // Connections end with what listens.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _peer)) = listener.accept().await {
        let (secured, machine) = (secured.clone(), Arc::clone(&machine));
        connections.spawn(async move {
            match secured {
                None => speak(stream, machine).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        speak(stream, machine).await;
                    }
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin, machine: Arc<Machine>) {
    let keeps = !machine.faults.lock().closes;
    let service = service_fn(move |request| {
        let machine = Arc::clone(&machine);
        async move { machine.answer(request).await }
    });
    let mut connection = hyper::server::conn::http1::Builder::new();
    connection.keep_alive(keeps);
    if let Err(error) = connection.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}
