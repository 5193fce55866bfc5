//! Machines: search, registration, removal, labels and retire dates.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use luxi::method::{Fields, GantryIpam, Query, What};
use luxi::query::filter::Comparison;
use luxi::query::{Filter, sabakan};
use model::Timestamp;
use model::machine::Machine;
use model::opcode::Removable;
use model::sabakan::{MEASURED, flat, today};
use serde_json::{Map, Value, json};

use crate::asked::{Answer, Asked, parse};
use crate::refusal::Refusal;
use crate::state::Compatibility;

/// The parameters of an opcode.
pub(super) fn parameters(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// What sabakan answers where there is nothing to tell.
pub(super) fn done() -> Response {
    StatusCode::OK.into_response()
}

pub(super) async fn found(asked: &Asked, filter: Option<Filter>) -> Result<Vec<Machine>, Refusal> {
    let fields = Fields::from(["document"]);
    let table = asked.ask(Query { what: What::Machine, fields, filter }).await?;
    let documents = table.data.into_iter().flatten();
    let machines = documents.map(|cell| serde_json::from_value(cell.into_value()));
    machines
        .collect::<Result<_, _>>()
        .map_err(|error| Refusal::fault(format!("a machine does not read: {error}")))
}

pub(super) async fn one(asked: &Asked, serial: &str) -> Result<Machine, Refusal> {
    let serial = serial.to_owned();
    let filter = Filter::Compare(Comparison::Equal, "serial".to_owned(), serial.as_str().into());
    let machine = found(asked, Some(filter)).await?.into_iter().next();
    machine.ok_or_else(|| Refusal::not_found(format!("there is no machine `{serial}`")))
}

pub(super) async fn search(asked: Asked) -> Answer {
    let filter = sabakan::filter(asked.query()).map_err(Refusal::bad)?;
    let machines = found(&asked, filter).await?;
    if machines.is_empty() {
        return Err(Refusal::not_found("no machine is like that"));
    }
    let shown: Value = match asked.front.compatibility {
        Compatibility::Document => machines.iter().map(flat).collect(),
        Compatibility::Today => {
            let rules = asked.ask(GantryIpam {}).await?;
            let now = asked.now();
            machines.iter().map(|machine| today(machine, rules.as_ref(), now)).collect()
        }
    };
    // The tag is that of what lasts: the time in a state is another one every second.
    let mut lasting = shown.clone();
    for machine in lasting.as_array_mut().into_iter().flatten() {
        if let Some(status) = machine["status"].as_object_mut() {
            status.remove(MEASURED);
        }
    }
    Ok(asked.tagged(&shown, &lasting))
}

pub(super) async fn register(asked: Asked) -> Answer {
    let machines = parse(&asked.body)?;
    if !machines.is_array() {
        return Err(Refusal::bad("send a list of machines, also for one"));
    }
    asked.run("OP_MACHINE_ADD", parameters(&json!({"machines": machines}))).await?;
    Ok(StatusCode::CREATED.into_response())
}

pub(super) async fn remove(Path(serial): Path<String>, asked: Asked) -> Answer {
    let only = match asked.front.compatibility {
        Compatibility::Today => Removable::Retired,
        Compatibility::Document => Removable::OutOfService,
    };
    let op = json!({"serial": serial, "only": only});
    asked.run("OP_MACHINE_REMOVE", parameters(&op)).await?;
    Ok(done())
}

async fn set(asked: &Asked, changes: &Value) -> Answer {
    asked.run("OP_MACHINE_SET_PARAMS", parameters(changes)).await?;
    Ok(done())
}

/// The body as text.
pub(super) fn text(asked: &Asked) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(&asked.body);
    text.map_err(|error| Refusal::bad(format!("the body is no text in UTF-8: {error}")))
}

pub(super) async fn set_label(
    Path((serial, label)): Path<(String, String)>,
    asked: Asked,
) -> Answer {
    let value = text(&asked)?;
    set(&asked, &json!({"serial": serial, "labels": {label: value}})).await
}

pub(super) async fn remove_label(
    Path((serial, label)): Path<(String, String)>,
    asked: Asked,
) -> Answer {
    if !one(&asked, &serial).await?.labels.contains_key(&label) {
        return Err(Refusal::not_found(format!("machine `{serial}` has no label `{label}`")));
    }
    set(&asked, &json!({"serial": serial, "labels": {label: null}})).await
}

pub(super) async fn set_retire_date(Path(serial): Path<String>, asked: Asked) -> Answer {
    let given = text(&asked)?.trim();
    let wrong = || Refusal::bad("send a moment as 2026-11-20T13:05:09Z (RFC 3339)");
    let date = Timestamp::of_rfc3339(given).ok_or_else(wrong)?;
    set(&asked, &json!({"serial": serial, "retire_date": date})).await
}
