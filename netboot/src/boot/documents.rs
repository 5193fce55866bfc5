//! The documents by which machines configure themselves when they boot: a configuration of Ignition, or
//! the data of cloud-init. The master rendered them into the rack's document.

use std::net::IpAddr;

use axum::extract::{Extension, Path, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::Secret;
use model::blob::BlobDigest;
use model::boot_template::{
    BootDocument, DocumentKind, ENROL_TOKEN, Fetched, MY_URL, MY_URL_HTTPS, TemplateKind,
};
use model::machine::BootStage;
use model::power_cycle::{Enrolling, ExpectedRamdisk, Ramdisk};
use model::rack::RackMachine;
use rpc::calls::{RamdiskTold, SecretClaim};
use sha2::{Digest as _, Sha256};
use stdx::daemon::chain as causes;

use super::routes::{Refusal, find, is_of_boot, note_fetched, now, text};
use super::{Ends, Rack};
use crate::ledger::{Known, LedgerError, is_of, observed};
use crate::rack::Passing;

/// Configurations of Ignition, by serial number and version, where sabakan's clients look for them.
pub(super) const IGNITIONS_PATH: &str = "/api/v1/boot/ignitions";
/// Data of cloud-init, by serial number, as its data source `NoCloud` asks for them.
pub(super) const CLOUD_INIT_PATH: &str = "/cloud-init";
/// The documents of cloud-init that a machine may lack. Cloud-init asks for a missing file ten times
/// more, a second apart, and goes on at once with an empty one.
const MAY_BE_EMPTY: &[&str] = &["vendor-data", "network-config"];

/// Why a stranger gets no token.
const NOT_ITS_ADDRESS: &str = "the machine's own card leases another address; the token by which it becomes a \
                               node is told there alone";

pub(super) async fn ignition(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path((serial, id)): Path<(String, String)>,
    method: Method,
) -> Response {
    let is_meant = |document: &BootDocument| {
        document.kind == DocumentKind::Ignition && document.id.to_string() == id
    };
    answer(&rack, ends, (&serial, &method), is_meant, false).await
}

pub(super) async fn cloud_init(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path((serial, name)): Path<(String, String)>,
    method: Method,
) -> Response {
    let is_meant = |document: &BootDocument| {
        document.kind.template() == TemplateKind::CloudInit && document.kind.as_str() == name
    };
    answer(&rack, ends, (&serial, &method), is_meant, MAY_BE_EMPTY.contains(&name.as_str())).await
}

async fn answer(
    rack: &Rack,
    ends: Ends,
    (serial, method): (&str, &Method),
    is_meant: impl Fn(&BootDocument) -> bool,
    may_be_empty: bool,
) -> Response {
    let (number, machine) = match find(rack, ends, serial, None) {
        Ok(found) => found,
        Err(Refusal { status, why, .. }) => {
            rack.answers.refused.add();
            return text(status, why);
        }
    };
    let Some(document) = machine.documents.iter().find(|document| is_meant(document)) else {
        if may_be_empty && machine.documents.iter().any(|d| d.kind == DocumentKind::UserData) {
            return text(StatusCode::OK, String::new());
        }
        rack.answers.refused.add();
        return text(StatusCode::NOT_FOUND, missing(&machine));
    };
    let mut told = filled(&document.text, ends, rack.keys_port);
    let is_of_boot = method == Method::GET && is_of_boot(rack, ends, &machine);
    if told.contains(ENROL_TOKEN) && method == Method::GET {
        let token = match is_of_boot {
            true => token(rack, (number, &machine), ends.theirs.ip()).await,
            false => Err((StatusCode::CONFLICT, NOT_ITS_ADDRESS.to_owned())),
        };
        match token {
            Ok(token) => told = told.replace(ENROL_TOKEN, token.expose()),
            Err((status, why)) => {
                rack.answers.refused.add();
                tracing::warn!(serial = %machine.serial, from = %ends.theirs.ip(), why, "no token for a node is told");
                return text(status, format!("{why}\n"));
            }
        }
    }
    let (kind, id) = (document.kind, document.id.clone());
    // The rest of what cloud-init asks for tells nothing more.
    if is_of_boot && matches!(kind, DocumentKind::Ignition | DocumentKind::UserData) {
        let sha256 = BlobDigest::from_bytes(Sha256::digest(&told).into());
        let fetched = Fetched { kind, id, sha256 };
        note_fetched(rack, (number, &machine), ends.theirs.ip(), BootStage::Config, Some(fetched));
    }
    let form = match kind {
        DocumentKind::Ignition => "application/json",
        DocumentKind::UserData | DocumentKind::MetaData | DocumentKind::NetworkConfig => {
            "text/plain; charset=utf-8"
        }
    };
    ([(header::CONTENT_TYPE, form)], told).into_response()
}

/// The token by which a machine becomes a node. The first address that asks for it in a power cycle gets it,
/// once that is kept and other agents know of it, and nobody else.
async fn token(
    rack: &Rack,
    (number, machine): (u32, &RackMachine),
    from: IpAddr,
) -> Result<Secret<String>, (StatusCode, String)> {
    let (serial, from, at) = (&machine.serial, from.to_canonical(), now(rack));
    let expected = machine.ramdisk.as_ref();
    let token = expected.and_then(|expected| expected.enrols.as_ref());
    let (Some(expected), Some(token)) = (expected, token) else {
        let why = format!(
            "machine {serial} is not about to become a node; `gnt machine deploy --node {serial}` has it \
             become one"
        );
        return Err((StatusCode::CONFLICT, why));
    };
    let unkept = |error: LedgerError| {
        let why = format!("the request could not be kept; try again ({})", causes(&error));
        (StatusCode::SERVICE_UNAVAILABLE, why)
    };
    let told = |known: &Known<'_>| RamdiskTold {
        rack: number,
        serial: serial.clone(),
        registered: machine.registered,
        cycle: machine.cycle,
        heard: heard_of(known, (number, machine), expected),
    };
    let (known, _) = rack.ledger.hear(at, |known| (told(known), None, None)).map_err(unkept)?;
    let is_first = known.heard.enrolling.is_none();
    if let Some(claims) = rack.claims.as_ref().filter(|_| is_first) {
        // Whether it was granted, what is known then tells.
        claims.claim(known, SecretClaim::Enrolment { to: from }).await.map_err(unkept)?;
    }
    let decide = |known: &Known<'_>| {
        let before = told(known);
        let enrolling = before.heard.enrolling.unwrap_or(Enrolling { told: at, to: from });
        let heard = Ramdisk { enrolling: Some(enrolling), ..before.heard.clone() };
        let record = is_first.then_some(RamdiskTold { heard, ..before });
        let seen = record.as_ref().map(observed);
        (enrolling.to, record, seen)
    };
    let (first, durable) = rack.ledger.hear(at, decide).map_err(unkept)?;
    if first != from {
        let why = format!(
            "the token by which machine {serial} becomes a node was told to {first} in this power cycle, \
             and is told to nobody else; `gnt machine deploy --node {serial}` makes another one"
        );
        rack.racks.set_passing(Passing::Identity, why.clone());
        return Err((StatusCode::CONFLICT, why));
    }
    if let Some(durable) = durable {
        durable.wait().await.map_err(unkept)?;
    }
    Ok(token.to_text())
}

/// The ramdisk of a machine, as this agent and the others heard it.
fn heard_of(
    known: &Known<'_>,
    (number, machine): (u32, &RackMachine),
    expected: &ExpectedRamdisk,
) -> Ramdisk {
    let record = known.ramdisks.get(&(number, machine.serial.clone()));
    match record.filter(|record| is_of(record, machine)) {
        Some(record) => ironic::merged(&expected.heard, &record.heard),
        None => expected.heard.clone(),
    }
}

/// A text with the URL by which the machine reached this agent.
fn filled(text: &str, ends: Ends, keys_port: u16) -> String {
    let mut https = ends.ours;
    https.set_port(keys_port);
    let filled = text.replace(MY_URL_HTTPS, &format!("https://{https}"));
    filled.replace(MY_URL, &format!("http://{}", ends.ours))
}

fn missing(machine: &RackMachine) -> String {
    let known = machine.documents.iter().map(|d| format!("{} {}", d.kind.as_str(), d.id));
    let known: Vec<String> = known.collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    let (serial, role) = (&machine.serial, &machine.role);
    format!("machine {serial} can fetch {known}; templates of role {role} make more\n")
}
