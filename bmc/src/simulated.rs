//! A controller in this process that speaks Redfish on a port of the loopback, and that can be told what to
//! do wrong: for tests of this crate and of jobs, and for benchmarks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::bmc::{BmcUrl, PowerState};
use model::enrol::Fingerprint;
use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use stdx::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What a controller does wrong.
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
    /// It has no sessions.
    pub no_sessions: bool,
    /// It closes each connection behind its answer.
    pub closes: bool,
    /// It takes changes of the boot order at its settings object alone, and only with its tag.
    pub settings_apart: bool,
}

/// How a simulated machine is.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Whether it runs.
    pub power: PowerState,
    /// What it boots from next.
    pub boot_once: Option<String>,
    /// How often it was switched on.
    pub starts: u32,
    /// Sessions that were not ended.
    pub sessions: u32,
    /// Requests that came.
    pub requests: u32,
}

/// Told whenever a machine's power is switched.
pub type Hook = Arc<dyn Fn(PowerState) + Send + Sync>;

/// A controller; its port is closed with it.
pub struct Simulated {
    /// Where it is reached.
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

struct Machine {
    serial: String,
    faults: Mutex<Faults>,
    seen: Mutex<Seen>,
    hook: Option<Hook>,
}

/// The user that it knows.
pub const USER: &str = "admin";
/// Its password.
pub const PASSWORD: &str = "calvin";
const TOKEN: &str = "sesame";

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
        let machine = Arc::new(Machine {
            serial: serial.to_owned(),
            faults: Mutex::default(),
            seen: Mutex::new(Seen {
                power: PowerState::Off,
                boot_once: None,
                starts: 0,
                sessions: 0,
                requests: 0,
            }),
            hook,
        });
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

    /// How its machine is.
    #[must_use]
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
        async move { Ok::<_, std::convert::Infallible>(answer(request, &machine).await) }
    });
    let mut connection = hyper::server::conn::http1::Builder::new();
    connection.keep_alive(keeps);
    if let Err(error) = connection.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn answer(request: Request<Incoming>, machine: &Machine) -> Response<Full<Bytes>> {
    machine.seen.lock().requests += 1;
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let faults = *machine.faults.lock();
    if faults.hangs {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
    }
    if let Some(nonsense) = faults.nonsense {
        return Response::new(Full::from(nonsense));
    }
    let has = |name: &str, value: &str| parts.headers.get(name).is_some_and(|told| told == value);
    let path = parts.uri.path();
    let is_in = has("x-auth-token", TOKEN) || parts.headers.contains_key("authorization");
    if !is_in && ![ROOT, SESSIONS].contains(&path) {
        return told(StatusCode::UNAUTHORIZED, &Value::Null);
    }
    if parts.method != Method::GET && path != SESSIONS {
        let mut faults = machine.faults.lock();
        if faults.busy > 0 {
            faults.busy -= 1;
            return told(StatusCode::CONFLICT, &refusal("in the middle of something"));
        }
    }
    match (parts.method.as_str(), path) {
        ("GET", ROOT) => told(StatusCode::OK, &root(faults)),
        ("POST", SESSIONS) if body["UserName"] == USER && body["Password"] == PASSWORD => {
            machine.seen.lock().sessions += 1;
            let mut answer = told(StatusCode::CREATED, &json!({}));
            let headers = answer.headers_mut();
            headers.insert("x-auth-token", http::HeaderValue::from_static(TOKEN));
            headers.insert("location", http::HeaderValue::from_static(SESSION));
            answer
        }
        ("POST", SESSIONS) => told(StatusCode::UNAUTHORIZED, &Value::Null),
        ("DELETE", SESSION) => {
            machine.seen.lock().sessions -= 1;
            told(StatusCode::NO_CONTENT, &Value::Null)
        }
        ("GET", SYSTEMS) => told(StatusCode::OK, &json!({"Members": [{"@odata.id": SYSTEM}]})),
        ("GET", SYSTEM) => told(StatusCode::OK, &machine.system(faults)),
        ("GET", SETTINGS) => {
            told(StatusCode::OK, &json!({"@odata.id": SETTINGS, "@odata.etag": ETAG}))
        }
        ("PATCH", SYSTEM) if !faults.settings_apart => machine.patch(&body, faults),
        ("PATCH", SETTINGS) if !has("if-match", ETAG) => {
            told(StatusCode::PRECONDITION_FAILED, &refusal("no tag"))
        }
        ("PATCH", SETTINGS) => machine.patch(&body, faults),
        ("POST", RESET) => machine.reset(body["ResetType"].as_str(), faults),
        ("GET", CARDS) => told(StatusCode::OK, &json!({"Members": [{"@odata.id": CARD}]})),
        ("GET", CARD) => told(
            StatusCode::OK,
            &json!({"Id": "NIC.1", "MACAddress": "52:54:00:AA:BB:01", "LinkStatus": "LinkUp",
                "SpeedMbps": 10_000}),
        ),
        _ => told(StatusCode::NOT_FOUND, &refusal("no such thing")),
    }
}

const ROOT: &str = "/redfish/v1/";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const SESSION: &str = "/redfish/v1/SessionService/Sessions/1";
const SYSTEMS: &str = "/redfish/v1/Systems";
const SYSTEM: &str = "/redfish/v1/Systems/1";
const SETTINGS: &str = "/redfish/v1/Systems/1/Settings";
const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
const CARDS: &str = "/redfish/v1/Systems/1/EthernetInterfaces";
const CARD: &str = "/redfish/v1/Systems/1/EthernetInterfaces/1";
const ETAG: &str = "W/\"7\"";

fn told(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

fn refusal(message: &str) -> Value {
    json!({"error": {"@Message.ExtendedInfo": [{"Message": message}]}})
}

fn root(faults: Faults) -> Value {
    let mut root = json!({"Systems": {"@odata.id": SYSTEMS}});
    if !faults.no_sessions {
        root["Links"] = json!({"Sessions": {"@odata.id": SESSIONS}});
    }
    root
}

impl Machine {
    fn system(&self, faults: Faults) -> Value {
        let seen = self.seen.lock();
        let power = if seen.power == PowerState::On { "On" } else { "Off" };
        let mut system = json!({
            "@odata.id": SYSTEM, "Id": "1", "PowerState": power, "SerialNumber": self.serial,
            "Manufacturer": "Gantry", "Model": "Simulated", "BiosVersion": "1.0",
            "ProcessorSummary": {"Count": 2, "LogicalProcessorCount": 16, "Model": "Xeon"},
            "MemorySummary": {"TotalSystemMemoryGiB": 96},
            "Status": {"Health": "OK"},
            "Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "UefiHttp", "Hdd"],
                "BootSourceOverrideMode": "UEFI"},
            "Actions": {"#ComputerSystem.Reset": {"target": RESET,
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"]}},
            "EthernetInterfaces": {"@odata.id": CARDS},
        });
        if faults.settings_apart {
            system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": SETTINGS}});
        }
        system
    }

    fn patch(&self, change: &Value, faults: Faults) -> Response<Full<Bytes>> {
        let target = change["Boot"]["BootSourceOverrideTarget"].as_str();
        let Some(target) = target.filter(|_| change["Boot"]["BootSourceOverrideEnabled"] == "Once")
        else {
            return told(StatusCode::BAD_REQUEST, &refusal("nothing to change"));
        };
        if !faults.lies {
            self.seen.lock().boot_once = Some(target.to_owned());
        }
        told(StatusCode::NO_CONTENT, &Value::Null)
    }

    fn reset(&self, kind: Option<&str>, faults: Faults) -> Response<Full<Bytes>> {
        let power = match kind {
            Some("On") => PowerState::On,
            Some("ForceOff" | "GracefulShutdown") => PowerState::Off,
            _ => return told(StatusCode::BAD_REQUEST, &refusal("no such kind of reset")),
        };
        if !faults.lies {
            let mut seen = self.seen.lock();
            seen.power = power;
            seen.starts += u32::from(power == PowerState::On);
            drop(seen);
            if let Some(hook) = &self.hook {
                hook(power);
            }
        }
        told(StatusCode::NO_CONTENT, &Value::Null)
    }
}
