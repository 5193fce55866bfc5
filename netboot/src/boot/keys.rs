//! Keys of machines' disks, as sabakan serves them. The agent passes each request on to the master and
//! keeps nothing: a key is in memory while its request is under way, and is wiped then.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::StreamExt as _;
use model::vault::SECRET_BYTES_MAX;
use model::{Secret, Serial};
use rpc::calls::{CarriedKey, KeyOutcome, KeyRequest};
use serde_json::json;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::routes::{self, find, holder, now};
use super::{Ends, Rack, assets};
use crate::key_desk::{KeyDesk, Unanswered};

/// The key of a disk, where sabakan's client asks for it.
const PATH: &str = "/api/v1/crypts/{serial}/{path}";
/// How long the body of a request may take: 4 KiB.
const BODY_TIME: Duration = Duration::from_secs(10);
/// When a machine had better ask again: an election takes some seconds.
const RETRY_AFTER_SECONDS: &str = "5";

pub(super) fn router(rack: Rack, desk: Arc<KeyDesk>) -> Router {
    Router::new()
        .route(PATH, get(fetch).put(keep))
        .route("/api/v1/cryptsetup", get(assets::cryptsetup))
        .route("/health", get(routes::health))
        .route("/version", get(routes::version))
        .fallback(async || refused(StatusCode::NOT_FOUND, "there is nothing here"))
        .method_not_allowed_fallback(async || {
            refused(StatusCode::METHOD_NOT_ALLOWED, "agents take GET and PUT of keys alone")
        })
        .layer(Extension(desk))
        .with_state(rack)
}

async fn fetch(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Extension(desk): Extension<Arc<KeyDesk>>,
    Path((serial, disk)): Path<(String, String)>,
) -> Response {
    match asked(&rack, ends, &serial, &disk) {
        Ok(request) => answered(desk.ask(request).await),
        Err(refusal) => *refusal,
    }
}

async fn keep(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Extension(desk): Extension<Arc<KeyDesk>>,
    Path((serial, disk)): Path<(String, String)>,
    request: Request,
) -> Response {
    let mut asked = match asked(&rack, ends, &serial, &disk) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    match tokio::time::timeout(BODY_TIME, key(request.into_body())).await {
        Ok(Ok(key)) => asked.key = Some(CarriedKey(key)),
        Ok(Err(refusal)) => return refusal,
        Err(_late) => {
            return refused(StatusCode::REQUEST_TIMEOUT, "the key did not arrive in time");
        }
    }
    let disk = asked.disk.clone();
    match desk.ask(asked).await {
        // With the blanks of sabakan's specification. A name of a disk has nothing to escape.
        Ok(KeyOutcome::Kept) => {
            let body = format!("{{\"status\": 201, \"path\":\"{disk}\"}}");
            let form = [(header::CONTENT_TYPE, "application/json")];
            (StatusCode::CREATED, form, body).into_response()
        }
        other => answered(other),
    }
}

/// The body, copied once into memory that is wiped.
async fn key(body: Body) -> Result<Secret<Vec<u8>>, Response> {
    let mut key = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX));
    let mut body = body.into_data_stream();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|_broken| {
            refused(StatusCode::BAD_REQUEST, "the key broke off before its end")
        })?;
        if key.len() + piece.len() > SECRET_BYTES_MAX {
            let why = format!("a key has at most {SECRET_BYTES_MAX} bytes");
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        key.extend_from_slice(&piece);
    }
    if key.is_empty() {
        return Err(refused(StatusCode::BAD_REQUEST, "send the key as the body: 1 to 4,096 bytes"));
    }
    Ok(Secret::new(std::mem::take(&mut *key)))
}

/// The key as a body, wiped once it is sent.
struct Sent(Secret<Vec<u8>>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        self.0.expose()
    }
}

/// The request of a machine, if it is one of the rack and asks for itself.
fn asked(rack: &Rack, ends: Ends, serial: &str, disk: &str) -> Result<KeyRequest, Box<Response>> {
    rack.answers.key.add();
    let wrong = |error: model::name::NameError| {
        Box::new(refused(StatusCode::BAD_REQUEST, &error.to_string()))
    };
    let disk = disk.parse().map_err(wrong)?;
    let nobody = || {
        tracing::info!(from = %ends.theirs, serial = %stdx::text::line(serial), "nobody has keys of this machine from there");
        Box::new(refused(
            StatusCode::NOT_FOUND,
            "no machine of this serial number has this address here",
        ))
    };
    let serial: Serial = serial.parse().map_err(|_none| nobody())?;
    let from = itself(rack, ends, &serial).ok_or_else(nobody)?;
    Ok(KeyRequest { id: Uuid::new_v4(), serial, disk, from, key: None })
}

/// The address of a machine that asks for itself: one of its card's lease, or of its own in the inventory
/// that nobody else leases.
fn itself(rack: &Rack, ends: Ends, serial: &Serial) -> Option<Ipv4Addr> {
    let IpAddr::V4(from) = ends.theirs.ip().to_canonical() else { return None };
    let (_, machine) = find(rack, ends, serial.as_str(), None).ok()?;
    let leases = || holder(rack, from, now(rack)).is_some_and(|mac| machine.mac.contains(&mac));
    let is_it = machine.serial == *serial && (machine.addresses.contains(&from) || leases());
    is_it.then_some(from)
}

fn answered(outcome: Result<KeyOutcome, Unanswered>) -> Response {
    let (status, why) = match outcome {
        Ok(KeyOutcome::Key(CarriedKey(key))) => {
            let head = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (header::CACHE_CONTROL, "no-store"),
            ];
            return (head, Body::from(Bytes::from_owner(Sent(key)))).into_response();
        }
        // Of a request that sent none.
        Ok(KeyOutcome::Kept) => (StatusCode::BAD_GATEWAY, "the master kept nothing".to_owned()),
        Ok(KeyOutcome::Missing(why)) => (StatusCode::NOT_FOUND, why),
        Ok(KeyOutcome::Conflict(why)) => (StatusCode::CONFLICT, why),
        Ok(KeyOutcome::Wrong(why)) => (StatusCode::BAD_REQUEST, why),
        Ok(KeyOutcome::Failed(why)) => (StatusCode::SERVICE_UNAVAILABLE, why),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
    };
    refused(status, &why)
}

/// A refusal as sabakan has it.
fn refused(status: StatusCode, why: &str) -> Response {
    let mut answer =
        (status, Json(json!({"status": status.as_u16(), "error": why}))).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
        answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    answer
}
