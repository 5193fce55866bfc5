//! The table of routes and their answers.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use model::machine::BootStage;
use model::rack::{Observation, RackMachine};
use model::{MacAddress, Serial, Timestamp};
use stdx::daemon::chain as causes;

use super::files::{self, FILES_PATH};
use super::script::{self, PATH, PATH_ALIAS};
use super::{Ends, Rack};
use crate::dhcp::LeaseState;
use crate::dhcp::boot::{HTTP_ARCHITECTURES, loader_path};

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
        .route("/api/v1/boot/ipxe.efi", get(files::ipxe))
        .route(&format!("{FILES_PATH}/{{serial}}/up"), get(files::is_up).post(files::is_up))
        .route(&format!("{FILES_PATH}/{{serial}}/{{kind}}/{{digest}}"), get(files::of_machine))
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
) -> Response {
    let serial: Serial = match serial.parse() {
        Ok(serial) => serial,
        Err(_) if serial.trim().is_empty() => return by_card(&rack, ends, &serial, EMPTY),
        Err(error) => {
            rack.answers.refused.add();
            return text(StatusCode::BAD_REQUEST, format!("{}\n", causes(&error)));
        }
    };
    if let Some(why) = serial.placeholder() {
        return by_card(&rack, ends, serial.as_str(), why);
    }
    let Some((number, machine)) = rack.racks.machine(&serial) else {
        tracing::info!(%serial, from = %ends.theirs, "unknown machine asked for its script");
        rack.answers.unknown.add();
        note_unknown(&rack, &serial, ends.theirs.ip());
        return text(StatusCode::NOT_FOUND, script::unknown(&serial));
    };
    answer(&rack, ends, (number, &machine))
}

/// What is wrong with an empty serial number.
const EMPTY: &str = "is empty";

async fn of_card(State(rack): State<Rack>, Extension(ends): Extension<Ends>) -> Response {
    by_card(&rack, ends, "", EMPTY)
}

/// The script of the machine whose card holds the lease: its serial number tells nothing.
fn by_card(rack: &Rack, ends: Ends, told: &str, why: &str) -> Response {
    if let Some((number, machine)) = files::machine_at(rack, ends.theirs.ip()) {
        return answer(rack, ends, (number, &machine));
    }
    tracing::info!(serial = told, from = %ends.theirs, "machine without a serial number asked for its script");
    rack.answers.unknown.add();
    text(StatusCode::NOT_FOUND, script::nameless(told, why))
}

fn answer(rack: &Rack, ends: Ends, (number, machine): (u32, &RackMachine)) -> Response {
    rack.answers.script.add();
    note(rack, (number, machine), ends.theirs.ip(), BootStage::Script);
    text(StatusCode::OK, script::boot(ends.ours, machine))
}

/// The machine boots whether or not the master can be told.
pub(super) fn note(
    rack: &Rack,
    (number, machine): (u32, &RackMachine),
    from: IpAddr,
    stage: BootStage,
) {
    let IpAddr::V4(address) = from.to_canonical() else { return };
    let at = now(rack);
    let mac = holder(rack, address, at);
    tracing::info!(serial = %machine.serial, %address, stage = stage.as_str(), "machine boots");
    let observation = machine.observed(number, address, mac, stage);
    if let Err(error) = rack.ledger.note(at, observation) {
        tracing::warn!(error = causes(&error), "boot stage was not noted");
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

/// Who holds the lease of `address` now.
pub(super) fn holder(rack: &Rack, address: Ipv4Addr, at: Timestamp) -> Option<MacAddress> {
    let lease = rack.ledger.lease(address)?;
    match lease.state {
        LeaseState::Bound { until_us } if until_us > at.micros() => lease.client.mac(),
        LeaseState::Bound { .. } | LeaseState::Released { .. } | LeaseState::Declined { .. } => {
            None
        }
    }
}

async fn health() -> Response {
    Json(json!({ "health": "healthy" })).into_response()
}

async fn version() -> Response {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") })).into_response()
}

async fn nothing(State(rack): State<Rack>, uri: Uri) -> Response {
    rack.answers.refused.add();
    let path: String = uri.path().chars().take(100).collect();
    text(StatusCode::NOT_FOUND, format!("there is nothing at {path}\n"))
}
