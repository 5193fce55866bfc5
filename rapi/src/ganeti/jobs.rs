//! Jobs.

use axum::extract::Path;
use luxi::method::{CancelJob, Fields, JobChange, QueryJobs, Row, WaitForJobChange};
use model::access::Verb;
use model::{Code, JobId};
use serde_json::{Value, json};

use super::objects::{dictionaries, dictionary, places};
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};

const BULK: &[&str] =
    &["id", "ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts"];
const ONE: &[&str] = &[
    "id",
    "ops",
    "status",
    "summary",
    "opstatus",
    "received_ts",
    "start_ts",
    "end_ts",
    "oplog",
    "opresult",
];
/// Seconds that a change of a job is waited for; Ganeti's.
const WAIT_SECONDS: f64 = 10.0;

fn id(text: &str) -> Result<JobId, Refusal> {
    let id = text.parse().map(JobId).ok().filter(|id| id.0 > 0);
    id.ok_or_else(|| Refusal::not_found("a job has a number"))
}

async fn rows(
    asked: &RouteRequest,
    job_ids: Option<Vec<JobId>>,
    fields: &[&str],
) -> Result<Vec<Row>, Refusal> {
    let fields = fields.iter().copied().collect::<Fields>();
    Ok(asked.ask(QueryJobs { job_ids, fields }).await?.into_iter().flatten().collect())
}

pub(super) async fn list(asked: RouteRequest) -> Answer {
    if asked.flag("bulk")? {
        return Ok(dictionaries(BULK, rows(&asked, None, BULK).await?));
    }
    let rows = rows(&asked, None, &["id"]).await?;
    let ids = rows.into_iter().flatten().filter_map(|id| id.as_u64());
    Ok(places(ids.collect(), "/2/jobs", "id"))
}

pub(super) async fn one(Path(job): Path<String>, asked: RouteRequest) -> Answer {
    let row = rows(&asked, Some(vec![id(&job)?]), ONE).await?.into_iter().next();
    let row = row.ok_or_else(|| Refusal::not_found(format!("there is no job {job}")))?;
    Ok(asked.object(&Value::Object(dictionary(ONE, row)), &[]))
}

pub(super) async fn cancel(Path(job): Path<String>, asked: RouteRequest) -> Answer {
    asked.may(Verb::ManageJob)?;
    asked.unconditional()?;
    Ok(json(asked.ask(CancelJob { job_id: id(&job)?, kill: false }).await?))
}

/// The fields of a wait in a body.
#[derive(serde::Deserialize)]
struct Wait {
    fields: Fields,
    #[serde(default)]
    previous_job_info: Option<Row>,
    #[serde(default)]
    previous_log_serial: Option<u64>,
}

pub(super) async fn wait(Path(job): Path<String>, asked: RouteRequest) -> Answer {
    asked.may(Verb::Wait)?;
    let job_id = id(&job)?;
    let wrong = |error| Refusal::bad(format!("the body of a wait does not read: {error}"));
    let wait: Wait = serde_json::from_value(asked.json()?).map_err(wrong)?;
    let Wait { fields, previous_job_info: previous, previous_log_serial: previous_log } = wait;
    let call = WaitForJobChange { job_id, fields, previous, previous_log, timeout: WAIT_SECONDS };
    let changed = match asked.ask(call).await {
        // The client asks again, and takes its turn with others.
        Err(refusal) if refusal.see == Some(Code::Overloaded) => JobChange::Unchanged,
        told => told?,
    };
    Ok(json(match changed {
        JobChange::Unchanged => Value::Null,
        JobChange::Changed(values, log) => json!({"job_info": values, "log_entries": log}),
    }))
}
