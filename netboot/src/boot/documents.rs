//! What machines configure themselves by when they boot: a configuration of Ignition, or the data of
//! cloud-init. The master rendered them into the rack's document.

use axum::extract::{Extension, Path, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::blob::BlobDigest;
use model::boot_template::{
    BootDocument, DocumentKind, Fetched, MY_URL, MY_URL_HTTPS, TemplateKind,
};
use model::machine::BootStage;
use model::rack::RackMachine;
use sha2::{Digest as _, Sha256};

use super::routes::{Refusal, find, note_fetched, text};
use super::{Ends, Rack};

/// Configurations of Ignition, by serial number and version, where sabakan's clients look for them.
pub(super) const IGNITIONS_PATH: &str = "/api/v1/boot/ignitions";
/// Data of cloud-init, by serial number, as its data source `NoCloud` asks for them.
pub(super) const CLOUD_INIT_PATH: &str = "/cloud-init";

pub(super) async fn ignition(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path((serial, id)): Path<(String, String)>,
    method: Method,
) -> Response {
    let is_meant = |document: &BootDocument| {
        document.kind == DocumentKind::Ignition && document.id.to_string() == id
    };
    answer(&rack, ends, &serial, &method, is_meant)
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
    answer(&rack, ends, &serial, &method, is_meant)
}

fn answer(
    rack: &Rack,
    ends: Ends,
    serial: &str,
    method: &Method,
    is_meant: impl Fn(&BootDocument) -> bool,
) -> Response {
    let (number, machine) = match find(rack, ends, serial, None) {
        Ok(found) => found,
        Err(Refusal { status, why, .. }) => {
            rack.answers.refused.add();
            return text(status, why);
        }
    };
    let Some(document) = machine.documents.iter().find(|document| is_meant(document)) else {
        rack.answers.refused.add();
        return text(StatusCode::NOT_FOUND, missing(&machine));
    };
    let told = filled(&document.text, ends, rack.keys_port);
    let (kind, id) = (document.kind, document.id.clone());
    // The rest of what cloud-init asks for tells nothing more.
    if method == Method::GET && matches!(kind, DocumentKind::Ignition | DocumentKind::UserData) {
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
