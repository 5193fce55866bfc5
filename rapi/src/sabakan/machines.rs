//! Machines: search, registration, removal, labels and retire dates.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use luxi::method::GantryIpam;
use luxi::query::sabakan;
use model::machine::Machine;
use model::opcode::Removable;
use model::sabakan::{Today, flat, given};
use model::{Serial, Timestamp, document};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::inventory::{each, one};
use crate::etag;
use crate::json::parse;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};
use crate::state::Compatibility;

/// The parameters of an opcode.
pub(super) fn parameters(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The answer of sabakan where there is nothing to say.
pub(super) fn done() -> Response {
    StatusCode::OK.into_response()
}

pub(super) async fn search(asked: RouteRequest) -> Answer {
    let filter = sabakan::filter(asked.query()).map_err(Refusal::bad)?;
    let machines = each(&asked, filter).await?;
    if machines.len() == 0 {
        return Err(Refusal::not_found("no machine is like that"));
    }
    let (body, tag) = listed(&asked, machines).await?;
    Ok(asked.written(body, &tag))
}

/// A list of machines, and its tag.
async fn listed(
    asked: &RouteRequest,
    machines: impl Iterator<Item = Result<Machine, Refusal>>,
) -> Result<(Vec<u8>, String), Refusal> {
    let rules = match asked.front.compatibility {
        Compatibility::Document => None,
        Compatibility::Today => asked.front.rules.of(asked.ask(GantryIpam {})).await?,
    };
    let now = asked.now();
    // Ten thousand keep a thread busy for a while.
    stdx::aside(|| {
        let mut list = List::default();
        for machine in machines {
            let machine = machine?;
            match asked.front.compatibility {
                Compatibility::Document => {
                    let shown = flat(&machine);
                    list.add(&shown, &shown)?;
                }
                Compatibility::Today => {
                    let [shown, other] =
                        [(); 2].map(|()| Today::of(&machine, rules.as_deref(), now));
                    list.add(&shown, &other.lasting())?;
                }
            }
        }
        list.body.push(b']');
        Ok((list.body, list.tag.finish()))
    })
}

/// The tag of one machine: that of the list with it alone.
pub(super) async fn tag(asked: &RouteRequest, machine: Machine) -> Result<String, Refusal> {
    Ok(listed(asked, std::iter::once(Ok(machine))).await?.1)
}

/// Lets a change rest on a machine, as far as the client asks for that.
pub(super) async fn condition(asked: &RouteRequest, serial: &str) -> Result<(), Refusal> {
    if !etag::is_conditional(&asked.headers) {
        return Ok(());
    }
    let missing = |_none| Refusal::not_found(format!("there is no machine `{serial}`"));
    let key = serial.parse::<Serial>().map_err(missing)?.escaped();
    let shown = async { tag(asked, one(asked, serial).await?).await };
    asked.condition(format!("{}/{key}", document::MACHINES), shown).await
}

/// A list as it is written: one machine is shown at a time, so that ten thousand need no more memory than
/// their answer has bytes.
#[derive(Default)]
struct List {
    body: Vec<u8>,
    tag: etag::Digest,
}

impl List {
    /// The tag is that of what lasts: the time in a state is another one every second.
    fn add(&mut self, shown: &impl Serialize, lasting: &impl Serialize) -> Result<(), Refusal> {
        let unwritten = |error| Refusal::fault(format!("a machine is not written: {error}"));
        self.body.push(if self.body.is_empty() { b'[' } else { b',' });
        serde_json::to_writer(&mut self.body, shown).map_err(unwritten)?;
        self.tag.add(lasting).map_err(unwritten)
    }
}

pub(super) async fn register(asked: RouteRequest) -> Answer {
    let machines = parse(&asked.body)?;
    if !machines.is_array() {
        return Err(Refusal::bad("send a list of machines, also for one"));
    }
    let machines = given::machines(machines).map_err(Refusal::bad)?;
    asked.run("OP_MACHINE_ADD", parameters(&json!({"machines": machines}))).await?;
    Ok(StatusCode::CREATED.into_response())
}

pub(super) async fn remove(Path(serial): Path<String>, asked: RouteRequest) -> Answer {
    let only = match asked.front.compatibility {
        Compatibility::Today => Removable::Retired,
        Compatibility::Document => Removable::OutOfService,
    };
    condition(&asked, &serial).await?;
    let op = json!({"serial": serial, "only": only});
    asked.run("OP_MACHINE_REMOVE", parameters(&op)).await?;
    Ok(done())
}

async fn set(asked: &RouteRequest, serial: &str, changes: &Value) -> Answer {
    condition(asked, serial).await?;
    asked.run("OP_MACHINE_SET_PARAMS", parameters(changes)).await?;
    Ok(done())
}

/// The body as text.
pub(super) fn text(asked: &RouteRequest) -> Result<&str, Refusal> {
    std::str::from_utf8(&asked.body).map_err(|error| {
        Refusal::bad(match model::boot_template::compression(&asked.body) {
            Some(format) => format!("the body is compressed by {format}; send it unpacked"),
            None => format!("the body is no text in UTF-8: {error}"),
        })
    })
}

pub(super) async fn set_label(
    Path((serial, label)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    let value = text(&asked)?;
    set(&asked, &serial, &json!({"serial": serial, "labels": {label: value}})).await
}

pub(super) async fn remove_label(
    Path((serial, label)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    if !one(&asked, &serial).await?.labels.contains_key(&label) {
        return Err(Refusal::not_found(format!("machine `{serial}` has no label `{label}`")));
    }
    set(&asked, &serial, &json!({"serial": serial, "labels": {label: null}})).await
}

pub(super) async fn set_retire_date(Path(serial): Path<String>, asked: RouteRequest) -> Answer {
    let given = text(&asked)?.trim();
    let wrong = || Refusal::bad("send a moment as 2026-11-20T13:05:09Z (RFC 3339)");
    let date = Timestamp::of_rfc3339(given).ok_or_else(wrong)?;
    set(&asked, &serial, &json!({"serial": serial, "retire_date": date})).await
}
