//! The table of routes and their answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{Extension, Path, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use serde_json::json;

use model::boot_template::Fetched;
use model::machine::BootStage;
use model::rack::{Observation, RackMachine};
use model::shares::PARTS;
use model::{MacAddress, Serial, Timestamp};
use stdx::daemon::chain as causes;

use super::assets;
use super::documents::{self, CLOUD_INIT_PATH, IGNITIONS_PATH};
use super::files::{self, FILES_PATH};
use super::identity::{Told, Unidentified};
use super::origin::{Sender, SenderAddress, Stranger};
use super::script::{self, PATH, PATH_ALIAS, REFUSAL_PATH};
use super::{Ends, Rack, ipxe, ramdisks, up};
use crate::dhcp::LeaseState;
use crate::dhcp::boot::{HTTP_ARCHITECTURES, loader_path};
use crate::rack::Passing;

/// Bytes of a body that is read at most: no route has one.
const BODY_BYTES_MAX: usize = 1_024;

pub(super) fn router(rack: Rack) -> Router {
    let mut router = Router::new();
    for (_, name) in HTTP_ARCHITECTURES {
        let loader = move |rack, ends, request| files::loader(name, rack, ends, request);
        router = router.route(&loader_path(name), get(loader));
    }
    router
        .route(PATH, get(first))
        .route(&format!("{PATH}/"), get(of_card))
        .route(&format!("{PATH}/{{serial}}"), get(of_machine))
        .route(PATH_ALIAS, get(first))
        .route(&format!("{PATH_ALIAS}/"), get(of_card))
        .route(&format!("{PATH_ALIAS}/{{serial}}"), get(of_machine))
        .route(&format!("{REFUSAL_PATH}/"), get(why_refused))
        .route(&format!("{REFUSAL_PATH}/{{serial}}"), get(why_refused))
        // iPXE 2.0 asks for it beside its loader, before it asks for an address, and waits for an answer.
        .route("/api/v1/boot/autoexec.ipxe", get(first))
        .route("/api/v1/boot/ipxe.efi", get(files::ipxe))
        .route(&format!("{FILES_PATH}/{{serial}}/up"), get(up::says).post(up::says))
        .route(&format!("{FILES_PATH}/{{serial}}/up/{{cycle}}"), get(up::says_of).post(up::says_of))
        .route(&format!("{FILES_PATH}/{{serial}}/{{kind}}/{{digest}}"), get(files::of_machine))
        .route(&format!("{IGNITIONS_PATH}/{{serial}}/{{id}}"), get(documents::ignition))
        .route(&format!("{CLOUD_INIT_PATH}/{{serial}}/{{name}}"), get(documents::cloud_init))
        .route(assets::PATH, get(assets::asset))
        .route("/api/v1/cryptsetup", get(assets::cryptsetup))
        .route("/", any(ramdisks::answer))
        .route("/v1", any(ramdisks::answer))
        .route("/v1/", any(ramdisks::answer))
        .route("/v1/{*rest}", any(ramdisks::answer))
        .layer(Extension(ironic::Door::default()))
        .route("/health", get(health))
        .route("/version", get(version))
        .fallback(nothing)
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(rack)
}

pub(super) fn text(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

async fn first(State(rack): State<Rack>, Extension(ends): Extension<Ends>, uri: Uri) -> Response {
    rack.answers.first.add();
    // The path as it was asked for, without what might follow it.
    let path = if uri.path().starts_with(PATH_ALIAS) { PATH_ALIAS } else { PATH };
    text(StatusCode::OK, script::chain(ends.ours, path))
}

async fn of_machine(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path(serial): Path<String>,
    request: Request,
) -> Response {
    answer(&rack, ends, &serial, &request)
}

/// A machine without a serial number.
async fn of_card(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    request: Request,
) -> Response {
    answer(&rack, ends, "", &request)
}

fn answer(rack: &Rack, ends: Ends, serial: &str, request: &Request) -> Response {
    let is_get = request.method() == Method::GET;
    let refusal = match find(rack, ends, serial, request.uri().query()) {
        Ok((number, machine)) => {
            rack.answers.script.add();
            if is_get && is_of_boot(rack, ends, &machine) {
                begin_boot(rack, ends, (number, &machine));
            }
            return text(StatusCode::OK, script::boot(&servers(rack, ends, number), &machine));
        }
        Err(refusal) => refusal,
    };
    let Refusal { status, why, serial } = refusal;
    let told = stdx::text::line(why.trim_end());
    tracing::info!(from = %ends.theirs, status = status.as_u16(), %told, "a machine gets no script");
    match status {
        StatusCode::NOT_FOUND => rack.answers.unknown.add(),
        _ => rack.answers.refused.add(),
    }
    if status == StatusCode::CONFLICT {
        rack.racks.set_passing(Passing::Identity, told.to_string());
    }
    if let Some(serial) = serial.filter(|_| is_get) {
        note_unknown(rack, &serial, ends.theirs.ip());
    }
    text(status, why)
}

fn begin_boot(rack: &Rack, ends: Ends, (number, machine): (u32, &RackMachine)) {
    note(rack, (number, machine), ends.theirs.ip(), BootStage::Script);
    if machine.ramdisk.is_some()
        && let Err(error) = rack.ledger.note_booted(now(rack), number, machine)
    {
        tracing::warn!(error = causes(&error), "a boot of a ramdisk was not noted");
    }
}

/// Whether what is asked for is of the machine's boot. A stranger is answered, and named.
pub(super) fn is_of_boot(rack: &Rack, ends: Ends, machine: &RackMachine) -> bool {
    match sender(rack, ends, machine) {
        Sender::Machine => true,
        Sender::Stranger(who) => {
            name_stranger(rack, ends, machine, who);
            false
        }
    }
}

/// The sender of a question about a machine.
pub(super) fn sender(rack: &Rack, ends: Ends, machine: &RackMachine) -> Sender {
    let leased = |cards: &[MacAddress]| rack.ledger.leased_by(cards, now(rack));
    Sender::of(address(rack, ends), machine, leased)
}

/// The address that a request comes from.
pub(super) fn address(rack: &Rack, ends: Ends) -> SenderAddress {
    let address = match ends.theirs.ip().to_canonical() {
        IpAddr::V4(address) => address,
        // No lease is of IPv6.
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    let card = holder(rack, address, now(rack));
    SenderAddress { address, card, is_of_rack: rack.racks.is_in_network(address) }
}

/// Tells of somebody who asks in place of a machine: it may be one of its cards that nobody knows yet.
pub(super) fn name_stranger(rack: &Rack, ends: Ends, machine: &RackMachine, who: Stranger) {
    let (from, serial, leased) = (ends.theirs.ip().to_canonical(), &machine.serial, who.leased);
    let why = match who.card {
        Some(card) => format!(
            "{from}, which card {card} leases, asks as machine {serial}, whose own card leases {leased}: that \
             is no boot of it; if the card is its own, `gnt machine modify {serial} --mac {card}`"
        ),
        None => format!(
            "{from}, which has no lease here, asks as machine {serial}, whose card leases {leased}: that is no \
             boot of it"
        ),
    };
    tracing::warn!(why, "a stranger asks as a machine");
    // A person who looks at a script from elsewhere, or here, is no trouble of the rack.
    let is_here = from == ends.ours.ip().to_canonical();
    if who.card.is_some() || (who.is_of_rack && !is_here) {
        rack.racks.set_passing(Passing::Identity, why);
    }
}

/// This agent, then the others of the rack, each where it serves the network of the machine that asks, or
/// else another one.
fn servers(rack: &Rack, ends: Ends, number: u32) -> Vec<SocketAddr> {
    let Some(document) = rack.racks.get(number) else { return vec![ends.ours] };
    let network = document.ranges.iter().map(|range| range.subnet);
    let network = network.filter(|subnet| match ends.ours.ip().to_canonical() {
        IpAddr::V4(ours) => subnet.contains(&ours),
        IpAddr::V6(_) => false,
    });
    let network: Vec<_> = network.collect();
    let is_near = |place: &&SocketAddr| match place.ip() {
        IpAddr::V4(there) => network.iter().any(|subnet| subnet.contains(&there)),
        IpAddr::V6(_) => false,
    };
    let places = rack.racks.places_of_others(&document);
    let nearest =
        |places: Vec<SocketAddr>| places.iter().find(is_near).or_else(|| places.first()).copied();
    let others = places.into_iter().filter_map(nearest).take(PARTS);
    [ends.ours].into_iter().chain(others.filter(|other| *other != ends.ours)).collect()
}

/// The same refusal as a script that shows it: iPXE shows no body of an error.
async fn why_refused(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    serial: Option<Path<String>>,
    uri: Uri,
) -> Response {
    let serial = serial.map_or_else(String::new, |Path(serial)| serial);
    let found = find(&rack, ends, &serial, uri.query());
    text(StatusCode::OK, ipxe::shown(&found.map_or_else(|refusal| refusal.why, |_| String::new())))
}

/// Why a machine gets no script, and the serial number of one that is to be registered.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: String,
    pub(super) serial: Option<Serial>,
}

/// The machine that asks, by all that is known of it.
pub(super) fn find(
    rack: &Rack,
    ends: Ends,
    told: &str,
    query: Option<&str>,
) -> Result<(u32, RackMachine), Refusal> {
    let serial: Option<Serial> = match told.parse::<Serial>() {
        Ok(serial) => Some(serial),
        Err(_) if told.trim().is_empty() => None,
        Err(error) => {
            let why = format!("{}\n", causes(&error));
            return Err(Refusal { status: StatusCode::BAD_REQUEST, why, serial: None });
        }
    };
    let placeholder = serial.as_ref().map_or(Some(EMPTY), Serial::placeholder);
    let who = Told::new(serial, query, files::holder_at(rack, ends.theirs.ip()));
    who.machine(&rack.racks.all()).map_err(|unidentified| match unidentified {
        Unidentified::Contradiction(contradiction) => {
            let (status, why) = (StatusCode::CONFLICT, script::contradiction(&contradiction));
            Refusal { status, why, serial: None }
        }
        Unidentified::Unknown => {
            let why = match (placeholder, &who.serial) {
                (None, Some(serial)) => script::unknown(serial, &who),
                (why, _) => script::nameless(told, why.unwrap_or(EMPTY), &who),
            };
            Refusal { status: StatusCode::NOT_FOUND, why, serial: who.serial }
        }
    })
}

/// The fault of an empty serial number.
const EMPTY: &str = "is empty";

pub(super) fn note(rack: &Rack, of: (u32, &RackMachine), from: IpAddr, stage: BootStage) {
    note_fetched(rack, of, from, stage, None);
}

/// The machine boots whether or not the master can be told.
pub(super) fn note_fetched(
    rack: &Rack,
    (number, machine): (u32, &RackMachine),
    from: IpAddr,
    stage: BootStage,
    fetched: Option<Fetched>,
) {
    note_observed(rack, from, |address, mac| {
        machine.observed(number, address, mac, (stage, fetched))
    });
}

/// The same for what is made of the address that asks, and of who leases it.
pub(super) fn note_observed(
    rack: &Rack,
    from: IpAddr,
    seen: impl FnOnce(Ipv4Addr, Option<MacAddress>) -> Observation,
) {
    let IpAddr::V4(address) = from.to_canonical() else { return };
    let at = now(rack);
    let seen = seen(address, holder(rack, address, at));
    let Observation::Boot { serial, stage, .. } = seen.clone() else { return };
    match rack.ledger.note(at, seen) {
        Ok(true) => tracing::info!(%serial, %address, stage = stage.as_str(), "machine boots"),
        Ok(false) => {}
        Err(error) => tracing::warn!(error = causes(&error), "boot stage was not noted"),
    }
}

/// Notes a machine that is not registered, if its address is of a lease range here.
fn note_unknown(rack: &Rack, serial: &Serial, from: IpAddr) {
    let IpAddr::V4(address) = from.to_canonical() else { return };
    let Some(number) = rack.racks.rack_of(address) else { return };
    let at = now(rack);
    let mac = holder(rack, address, at);
    let observation = Observation::Unknown { rack: number, serial: serial.clone(), address, mac };
    if let Err(error) = rack.ledger.note(at, observation) {
        tracing::warn!(error = causes(&error), "an unknown machine was not noted");
    }
}

pub(super) fn now(rack: &Rack) -> Timestamp {
    Timestamp::from_micros(rack.clock.now_micros())
}

/// The card that holds the lease of `address` at this time.
pub(super) fn holder(rack: &Rack, address: Ipv4Addr, at: Timestamp) -> Option<MacAddress> {
    let lease = rack.ledger.lease(address)?;
    match lease.state {
        LeaseState::Bound { until_us } if until_us > at.micros() => lease.client.mac(),
        LeaseState::Bound { .. } | LeaseState::Released { .. } | LeaseState::Declined { .. } => {
            None
        }
    }
}

pub(super) async fn health() -> Response {
    Json(json!({ "health": "healthy" })).into_response()
}

pub(super) async fn version() -> Response {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") })).into_response()
}

async fn nothing(State(rack): State<Rack>, uri: Uri) -> Response {
    rack.answers.refused.add();
    let path: String = uri.path().chars().take(100).collect();
    text(StatusCode::NOT_FOUND, format!("there is nothing at {path}\n"))
}
