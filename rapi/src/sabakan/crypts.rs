//! Keys of machines' disks. The master seals a key before it is part of a job; nothing here logs one.

use std::net::IpAddr;

use axum::extract::{FromRequestParts as _, MatchedPath, Path, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use luxi::method::{Fields, GantryDiskKey, GantrySeal, Query, StagedSecret, What};
use luxi::query::Filter;
use luxi::query::filter::{Comparison, Operand};
use model::access::{Principal, Verb};
use model::disk_key::{DiskKeyId, DiskName};
use model::name::NameError;
use model::{Secret, Serial};
use serde_json::json;

use super::inventory::one;
use super::machines::parameters;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};
use crate::shares::stranger;
use crate::state::{Compatibility, Front};

/// The path of one key.
pub const ONE: &str = "/api/v1/crypts/{serial}/{path}";
/// The path of all keys of a machine.
pub const ALL: &str = "/api/v1/crypts/{serial}";

/// The machine whose key a request is about.
pub(crate) async fn machine_of(parts: &mut Parts) -> Option<Serial> {
    if parts.extensions.get::<MatchedPath>()?.as_str() != ONE {
        return None;
    }
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let serial = params.iter().find(|(name, _)| *name == "serial")?.1;
    serial.parse().ok()
}

/// The machine as who asks, where the question comes from one of its addresses.
pub(crate) async fn by_address(
    front: &Front,
    serial: &Serial,
    peer: IpAddr,
) -> Result<Option<Principal>, Refusal> {
    let filter = Some(held_by(serial, peer));
    let fields = Fields::from(["serial"]);
    let query = Query { what: What::Machine, fields, filter };
    let found = front.link.ask(&stranger(peer), None, query).await?;
    Ok((!found.data.is_empty()).then(|| Principal::Machine(serial.clone())))
}

/// The machine, if it has this address.
fn held_by(serial: &Serial, address: IpAddr) -> Filter {
    let address = address.to_canonical();
    let field = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    let has = Operand::from(address.to_string().as_str());
    Filter::And(vec![
        Filter::Compare(Comparison::Equal, "serial".to_owned(), serial.as_str().into()),
        Filter::Contains(field.to_owned(), has),
    ])
}

fn disk(path: &str) -> Result<DiskName, Refusal> {
    path.parse().map_err(|error: NameError| Refusal::bad(error.to_string()))
}

pub(super) async fn keep(
    Path((serial, path)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    asked.may(Verb::DiskKey(&serial))?;
    if asked.body.is_empty() {
        return Err(Refusal::bad("send the key as the body: 1 to 4,096 bytes"));
    }
    let disk = disk(&path)?;
    let serial = one(&asked, &serial).await?.serial;
    let purpose = DiskKeyId { serial: serial.clone(), disk: disk.clone() }.purpose();
    let secret = StagedSecret(Secret::new(STANDARD.encode(&asked.body)));
    let sealed = asked.ask(GantrySeal { purpose, secret }).await?;
    let op = json!({"serial": serial, "disk": disk, "sealed": sealed});
    asked.run("OP_MACHINE_DISK_KEY_ADD", parameters(&op)).await?;
    Ok(kept(&disk))
}

/// The answer with the blanks of sabakan's specification. A name of a disk has nothing to escape.
fn kept(disk: &DiskName) -> Response {
    let body = format!("{{\"status\": 201, \"path\":\"{}\"}}", disk.as_str());
    (StatusCode::CREATED, JSON, body).into_response()
}

const JSON: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

pub(super) async fn fetch(
    Path((serial, path)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    asked.may(Verb::DiskKey(&serial))?;
    let disk = disk(&path)?.to_string();
    let missing = || Refusal::not_found(format!("no key of disk {disk} of `{serial}` is kept"));
    let call = GantryDiskKey { serial: serial.clone(), disk: disk.clone() };
    let StagedSecret(key) = asked.ask(call).await?.ok_or_else(missing)?;
    // The reason would tell a byte of the key.
    let unread = |_error| Refusal::fault("the key that the master gave does not read");
    let key = STANDARD.decode(key.expose()).map_err(unread)?;
    let head =
        [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((head, key).into_response())
}

pub(super) async fn forget(Path(serial): Path<String>, asked: RouteRequest) -> Answer {
    // The specification of 2018 has no states.
    let only_retiring = asked.front.compatibility == Compatibility::Today;
    let op = parameters(&json!({"serial": serial, "only_retiring": only_retiring}));
    let removed = asked.run("OP_MACHINE_DISK_KEYS_REMOVE", op).await?;
    let disks: Vec<DiskName> = serde_json::from_value(removed)
        .map_err(|error| Refusal::fault(format!("the job's result does not read: {error}")))?;
    Ok(forgotten(&disks))
}

fn forgotten(disks: &[DiskName]) -> Response {
    let names: Vec<String> = disks.iter().map(|disk| format!("\"{}\"", disk.as_str())).collect();
    (JSON, format!("[{}]", names.join(", "))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn body(answer: Response) -> String {
        let bytes = axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap();
        String::from_utf8(bytes.into()).unwrap()
    }

    #[tokio::test]
    async fn answers_are_those_of_the_specification_to_the_byte() {
        let disks = ["abdef", "aaaaa"].map(|name| name.parse::<DiskName>().unwrap());
        let answer = kept(&disks[1]);
        assert_eq!(answer.status(), 201);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
        let told = body(answer).await;
        assert_eq!((told.as_str(), told.len()), (r#"{"status": 201, "path":"aaaaa"}"#, 31));
        let told = body(forgotten(&disks)).await;
        assert_eq!((told.as_str(), told.len()), (r#"["abdef", "aaaaa"]"#, 18));
        assert_eq!(body(forgotten(&[])).await, "[]");
    }

    #[test]
    fn a_machine_is_found_by_either_kind_of_address() {
        let serial: Serial = "SN1".parse().unwrap();
        let filter = |address: &str| {
            serde_json::to_value(held_by(&serial, address.parse().unwrap())).unwrap()
        };
        let wanted =
            |field, address| json!(["&", ["==", "serial", "SN1"], ["=[]", field, address]]);
        assert_eq!(filter("10.0.0.1"), wanted("ipv4", "10.0.0.1"));
        assert_eq!(filter("::ffff:10.0.0.1"), wanted("ipv4", "10.0.0.1"));
        assert_eq!(filter("fd00:0:0::1"), wanted("ipv6", "fd00::1"));
    }
}
