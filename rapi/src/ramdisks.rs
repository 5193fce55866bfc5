//! Ironic's API for agents in ramdisks. It is read here, and answered by the master.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use ironic::{Answer, Arrival, HEADERS};
use luxi::method::GantryRamdisk;
use stdx::admission::network;

use crate::refusal::Refusal;
use crate::route_request::authority;
use crate::routes::Routes;
use crate::shares::stranger;
use crate::state::{Form, Front, Peer};

/// The path that tells what ramdisks may ask.
pub const V1: &str = "/v1";
pub const LOOKUP: &str = "/v1/lookup";
pub const HEARTBEAT: &str = "/v1/heartbeat/{ident}";
/// The end of an inspection.
pub const INSPECTION: &str = "/v1/continue_inspection";
/// All these paths, open to everybody: a ramdisk shows its token, and nothing before it has one.
pub const PATHS: [&str; 4] = [V1, LOOKUP, HEARTBEAT, INSPECTION];

const OFF: &str = "the endpoints for ramdisks are off here (--no-ramdisk-endpoints)";

pub fn add(routes: Routes) -> Routes {
    routes
        .get(V1, "Tell what ramdisks may ask", answer)
        .get(LOOKUP, "Tell a ramdisk which machine it runs on, and its token once", answer)
        .post(HEARTBEAT, "Hear that a ramdisk lives", answer)
        .post(INSPECTION, "Hear what a machine is made of", answer)
}

/// Whether a path is one of a ramdisk, whose body is read here.
pub fn is_of_ramdisk(path: &str) -> bool {
    Form::of(path) == Form::Ironic
}

/// Answers a request of a ramdisk, or its refusal.
///
/// # Errors
/// The endpoints are off, or the master does not answer.
pub async fn answer(
    State(front): State<Arc<Front>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    if !front.ramdisk_endpoints {
        return Err(Refusal::new(StatusCode::FORBIDDEN, OFF));
    }
    let (head, body) = request.into_parts();
    let authority = authority(&head.headers, &head.uri);
    let base = authority.map_or_else(String::new, |authority| format!("https://{authority}"));
    let arrival = Arrival { base: &base, from: network(peer.ip()) };
    let answer = match front.ramdisks.read(&head, arrival, body).await {
        Err(answer) => answer.for_request(head.headers.get(HEADERS[0])),
        Ok(asked) => match asked.fixed() {
            Some(answer) => answer,
            None => {
                let from = peer.ip().to_canonical();
                front.link.ask(&stranger(from), None, GantryRamdisk { asked, from }).await?
            }
        },
    };
    Ok(answer.response().into_response())
}

/// A refusal in Ironic's form, and of the version that the client asked for.
pub fn refused(refusal: &Refusal, version: Option<&HeaderValue>) -> Response {
    let answer = Answer::refused(refusal.status(), &refusal.explain);
    answer.for_request(version).response().into_response()
}
