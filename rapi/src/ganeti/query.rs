//! Ganeti's general lists: any fields of any kind of object, by a filter.

use axum::extract::Path;
use luxi::method::{Fields, Query, QueryFields, What};
use luxi::query::Filter;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};

fn what(kind: String) -> Result<What, Refusal> {
    let told = Refusal::not_found(format!(
        "there is no list of `{kind}`; there are node, instance, group, job, lock, network, export, \
         filter, machine, image, asset, rack, lease, unregistered, claim, network-template, boot-template, switch, port, port-configuration, tenant and token"
    ));
    serde_json::from_value(Value::String(kind)).map_err(|_error| told)
}

/// Fields as text with commas.
fn named(asked: &RouteRequest) -> Option<Fields> {
    let list = asked.value("fields")?;
    Some(list.split(',').map(str::trim).collect())
}

fn fields_of(asked: &RouteRequest) -> Result<Fields, Refusal> {
    named(asked).ok_or_else(|| Refusal::bad("Missing 'fields' query argument"))
}

pub(super) async fn by_get(Path(kind): Path<String>, asked: RouteRequest) -> Answer {
    let call = Query { what: what(kind)?, fields: fields_of(&asked)?, filter: None };
    Ok(json(asked.ask(call).await?))
}

pub(super) async fn by_put(Path(kind): Path<String>, asked: RouteRequest) -> Answer {
    let what = what(kind)?;
    let Value::Object(mut body) = asked.json()? else {
        return Err(Refusal::bad("Body contents: a dictionary is expected"));
    };
    let wrong = |error: serde_json::Error| Refusal::bad(error.to_string());
    let fields = match body.remove("fields") {
        Some(fields) => serde_json::from_value(fields).map_err(wrong)?,
        None => fields_of(&asked)?,
    };
    let filter = body.remove("qfilter").filter(|filter| !filter.is_null());
    let filter = filter.or_else(|| body.remove("filter"));
    let filter: Option<Filter> = filter.map_or(Ok(None), serde_json::from_value).map_err(wrong)?;
    Ok(json(asked.ask(Query { what, fields, filter }).await?))
}

pub(super) async fn fields(Path(kind): Path<String>, asked: RouteRequest) -> Answer {
    let fields = named(&asked).map(|fields| fields.to_vec());
    let fields = fields.map(Fields::from_iter);
    Ok(json(asked.ask(QueryFields { what: what(kind)?, fields }).await?))
}
