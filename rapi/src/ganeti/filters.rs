//! Filter rules of the queue.

use axum::extract::Path;
use luxi::method::{DeleteFilter, Fields, QueryFilters, ReplaceFilter, Row};
use model::access::Verb;
use model::document;
use model::opcode::ReasonEntry;
use serde_json::Value;

use super::objects::{dictionaries, dictionary, places};
use crate::etag;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};

const FIELDS: &[&str] = &["watermark", "priority", "predicates", "action", "reason_trail", "uuid"];

async fn rows(
    asked: &RouteRequest,
    uuids: Option<Vec<String>>,
    fields: &[&str],
) -> Result<Vec<Row>, Refusal> {
    asked.ask(QueryFilters { uuids, fields: fields.iter().copied().collect::<Fields>() }).await
}

pub(super) async fn list(asked: RouteRequest) -> Answer {
    if asked.flag("bulk")? {
        return Ok(dictionaries(FIELDS, rows(&asked, None, FIELDS).await?));
    }
    let rows = rows(&asked, None, &["uuid"]).await?;
    let ids = rows.into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned));
    Ok(places(ids.collect(), "/2/filters", "uuid"))
}

async fn rule(asked: &RouteRequest, uuid: &str) -> Result<Value, Refusal> {
    let row = rows(asked, Some(vec![uuid.to_owned()]), FIELDS).await?.into_iter().next();
    let row = row.ok_or_else(|| Refusal::not_found("there is no such filter rule"))?;
    Ok(Value::Object(dictionary(FIELDS, row)))
}

pub(super) async fn one(Path(uuid): Path<String>, asked: RouteRequest) -> Answer {
    Ok(asked.object(&rule(&asked, &uuid).await?, &[]))
}

/// Lets a change rest on a rule, as far as the client asks for that.
async fn condition(asked: &RouteRequest, uuid: &str) -> Result<(), Refusal> {
    let tag = async { Ok(etag::of(&rule(asked, uuid).await?, &[])) };
    asked.condition(format!("{}/{uuid}", document::FILTERS), tag).await
}

/// The fields of a rule in a body.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rule {
    priority: u32,
    predicates: Vec<Value>,
    action: Value,
    reason: Vec<ReasonEntry>,
}

impl Default for Rule {
    fn default() -> Self {
        let action = Value::from("CONTINUE");
        Self { priority: 0, predicates: Vec::new(), action, reason: Vec::new() }
    }
}

async fn set(uuid: Option<String>, asked: &RouteRequest) -> Answer {
    asked.may(Verb::ManageFilter)?;
    if let Some(uuid) = &uuid {
        condition(asked, uuid).await?;
    }
    asked.unconditional()?;
    let wrong = |error| Refusal::bad(format!("Invalid body parameters: {error}"));
    let body = asked.json()?;
    let rule: Rule = serde_json::from_value(body).map_err(wrong)?;
    let Rule { priority, predicates, action, mut reason } = rule;
    reason.extend(asked.trail()?);
    let unchanged = asked.digest();
    let call = ReplaceFilter { uuid, priority, predicates, action, reason, unchanged };
    Ok(json(asked.ask(call).await?))
}

pub(super) async fn add(asked: RouteRequest) -> Answer {
    set(None, &asked).await
}

pub(super) async fn replace(Path(uuid): Path<String>, asked: RouteRequest) -> Answer {
    set(Some(uuid), &asked).await
}

pub(super) async fn delete(Path(uuid): Path<String>, asked: RouteRequest) -> Answer {
    asked.may(Verb::ManageFilter)?;
    condition(&asked, &uuid).await?;
    asked.ask(DeleteFilter { uuid, unchanged: asked.digest() }).await?;
    Ok(json(Value::Null))
}
