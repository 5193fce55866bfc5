//! Ironic's API for agents in ramdisks, answered from the rack documents and what was heard so far. It
//! takes no lock of a job: what is heard is an observation.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ironic::{Answer, Effect, HEADERS, Machines, Node, Route, Several};
use model::machine::node_uuid;
use model::rack::{Observation, RackDocument, RackMachine};
use model::{MacAddress, Serial, Uuid};
use rpc::calls::RamdiskTold;
use stdx::daemon::chain as causes;
use tokio::sync::Semaphore;

use super::routes::{holder, now};
use super::{Ends, Rack};
use crate::ledger::{LedgerError, Ramdisks, is_of};
use crate::rack::{Passing, Racks};

/// Bytes of a body that needs no place: every heartbeat of a real agent.
const SMALL_BYTES: usize = 64 * 1024;
/// Larger bodies at the same time: 16 MiB each, and as much again while one is parsed. Inspections take a
/// second, and agents try again where there is no place.
const PLACES: usize = 4;
/// How long one waits for a place, and how long a body may take: agents wait for 30 s by default.
const PLACE_TIME: Duration = Duration::from_secs(10);
const BODY_TIME: Duration = Duration::from_secs(20);

/// Places for large bodies.
pub(super) type Places = Arc<Semaphore>;

pub(super) fn places() -> Places {
    Arc::new(Semaphore::new(PLACES))
}

pub(super) async fn answer(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Extension(places): Extension<Places>,
    request: Request,
) -> Response {
    rack.answers.ramdisk.add();
    let (head, body) = request.into_parts();
    let most = Route::at(head.uri.path()).map_or(0, Route::body_bytes_max);
    let version =
        head.headers.get(HEADERS[0]).map(|value| value.to_str().unwrap_or("?").to_owned());
    let is_small = length(&head.headers).is_some_and(|length| length <= SMALL_BYTES);
    let _place = if is_small || most == 0 {
        None
    } else {
        match tokio::time::timeout(PLACE_TIME, places.acquire_owned()).await {
            Ok(Ok(place)) => Some(place),
            Ok(Err(_)) | Err(_) => return refused(StatusCode::SERVICE_UNAVAILABLE, BUSY),
        }
    };
    let body = match read(body, most).await {
        Ok(body) => body,
        Err((status, why)) => return refused(status, why),
    };
    let base = format!("http://{}", ends.ours);
    let request = ironic::Request {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query(),
        version: version.as_deref(),
        body: &body,
        base: &base,
    };
    let asked = match ironic::read(&request) {
        Ok(asked) => asked,
        Err(answer) => return sent(*answer),
    };
    match decided(&rack, ends, &asked).await {
        Ok(answer) => sent(answer),
        Err(error) => {
            tracing::warn!(error = causes(&error), "what a ramdisk told is not kept");
            refused(StatusCode::SERVICE_UNAVAILABLE, UNKEPT)
        }
    }
}

const BUSY: &str = "Too many large requests at the same time; try again.";
const UNKEPT: &str = "The request could not be kept; try again.";

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read(body: Body, most: usize) -> Result<bytes::Bytes, (StatusCode, &'static str)> {
    // One byte more, by which the reader knows what is too large for its route.
    match tokio::time::timeout(BODY_TIME, to_bytes(body, most + 1)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err((StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.")),
        Err(_late) => Err((StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.")),
    }
}

/// Answers, once what must outlive a restart does.
async fn decided(rack: &Rack, ends: Ends, asked: &ironic::Asked) -> Result<Answer, LedgerError> {
    let at = now(rack);
    let holder = match ends.theirs.ip().to_canonical() {
        IpAddr::V4(address) => holder(rack, address, at),
        IpAddr::V6(_) => None,
    };
    let decide = |heard: &Ramdisks| {
        let outcome = ironic::answer(asked, &Known { racks: &rack.racks, heard, holder }, at);
        let observation = match &outcome.effect {
            Effect::Heard { observation, .. } => Some((**observation).clone()),
            Effect::Nothing | Effect::Several(_) => None,
        };
        let record = observation.as_ref().and_then(|seen| record(heard, seen));
        (outcome, record, observation)
    };
    let (outcome, durable) = rack.ledger.hear(at, decide)?;
    match outcome.effect {
        Effect::Heard { observation, is_vital } => {
            told(&observation, ends);
            if is_vital && let Some(durable) = durable {
                durable.wait().await?;
            }
        }
        Effect::Several(Several(serials)) => {
            let serials: Vec<String> = serials.iter().map(ToString::to_string).collect();
            let why = format!(
                "a ramdisk at {} has the cards of several machines: {}",
                ends.theirs.ip(),
                serials.join(", ")
            );
            tracing::warn!(why, "a ramdisk is not answered");
            rack.racks.set_passing(Passing::Identity, why);
        }
        Effect::Nothing => {}
    }
    Ok(outcome.answer)
}

fn told(observation: &Observation, ends: Ends) {
    let from = ends.theirs.ip();
    match observation {
        Observation::Ramdisk { serial, heard, .. } => {
            let agent = heard.agent.as_ref().map(|agent| agent.callback_url.as_str());
            tracing::info!(%serial, %from, agent, "a ramdisk is heard");
        }
        Observation::Inspected { serial, error, .. } => {
            tracing::info!(%serial, %from, error, "a ramdisk told what its machine is made of");
        }
        Observation::Lease(_) | Observation::Boot { .. } | Observation::Unknown { .. } => {}
    }
}

/// What is kept of an observation of a ramdisk.
fn record(known: &Ramdisks, seen: &Observation) -> Option<RamdiskTold> {
    let Observation::Ramdisk { rack, serial, registered, cycle, heard } = seen else { return None };
    let before = known.get(&(*rack, serial.clone()));
    let before = before.filter(|before| (before.cycle, before.registered) == (*cycle, *registered));
    Some(RamdiskTold {
        rack: *rack,
        serial: serial.clone(),
        registered: *registered,
        cycle: *cycle,
        booted: before.and_then(|before| before.booted),
        heard: heard.clone(),
    })
}

/// What this agent knows of machines.
struct Known<'a> {
    racks: &'a Racks,
    heard: &'a Ramdisks,
    /// Whose card has the lease of the address that is asked from.
    holder: Option<MacAddress>,
}

impl Known<'_> {
    fn node(&self, rack: u32, machine: &RackMachine) -> Node {
        let record = self.heard.get(&(rack, machine.serial.clone()));
        let record = record.filter(|record| is_of(record, machine));
        let mut ramdisk = machine.ramdisk.clone();
        if let (Some(expected), Some(record)) = (&mut ramdisk, record) {
            expected.heard = ironic::merged(&expected.heard, &record.heard);
        }
        Node {
            rack,
            serial: machine.serial.clone(),
            uuid: node_uuid(machine.uuid, &machine.serial),
            registered: machine.registered,
            cycle: machine.cycle,
            booted: record.and_then(|record| record.booted),
            ramdisk,
        }
    }

    fn all(&self, is_meant: impl Fn(&RackMachine) -> bool) -> Vec<Node> {
        let documents = self.racks.all();
        let of = |document: &Arc<RackDocument>| {
            let meant = document.machines.iter().filter(|machine| is_meant(machine));
            meant.map(|machine| self.node(document.rack, machine)).collect::<Vec<_>>()
        };
        documents.iter().flat_map(of).collect()
    }
}

impl Machines for Known<'_> {
    fn by_uuid(&self, uuid: Uuid) -> Vec<Node> {
        let found = self.racks.by_uuid(uuid);
        let node = |(document, at): &(Arc<RackDocument>, usize)| {
            Some(self.node(document.rack, document.machines.get(*at)?))
        };
        found.iter().filter_map(node).collect()
    }

    fn by_macs(&self, macs: &[MacAddress]) -> Vec<Node> {
        self.all(|machine| machine.mac.iter().any(|mac| macs.contains(mac)))
    }

    fn by_serial(&self, serial: &Serial) -> Vec<Node> {
        self.all(|machine| machine.serial == *serial)
    }

    fn asks_for_another(&self, node: &Node) -> bool {
        let Some(holder) = self.holder else { return false };
        let its_own = self.racks.by_uuid(node.uuid);
        let mut its_own = its_own.iter().filter_map(|(document, at)| document.machines.get(*at));
        if its_own.any(|machine| machine.serial == node.serial && machine.mac.contains(&holder)) {
            return false;
        }
        !self
            .all(|machine| machine.serial != node.serial && machine.mac.contains(&holder))
            .is_empty()
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    sent(Answer::refused(status, why))
}

fn sent(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers();
    let mut response = (status, answer.body).into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    for (name, value) in headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests;
