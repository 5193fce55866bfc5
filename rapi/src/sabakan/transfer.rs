//! The common part of uploads: files come into this machine's spool, where the master looks for them.

use std::time::Duration;

use axum::http::StatusCode;
use luxi::method::{Fields, QueryConfigValues};
use model::NodeName;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::route_request::RouteRequest;

/// The longest wait for a job that sends the file to every candidate and rack. A file of 4 GiB for a
/// dozen of them takes ten minutes at 1 Gbit/s.
pub(super) const END_TIME: Duration = Duration::from_secs(1_800);

/// Refuses an upload where another machine is the master, which would look for it in its own spool.
pub(super) async fn at_master(asked: &RouteRequest) -> Result<(), Refusal> {
    let names = Fields::from(["master_node"]);
    let told = asked.ask(QueryConfigValues { names }).await?;
    let master = told.first().and_then(Value::as_str).and_then(|name| name.parse().ok());
    let path = asked.front.layout.membership();
    let read = stdx::aside(|| std::fs::read(path));
    let membership: Value = read
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .ok_or_else(|| Refusal::fault("what this machine is in its cluster does not read"))?;
    let own: Option<NodeName> = membership["node"].as_str().and_then(|name| name.parse().ok());
    if master.is_some() && master == own {
        return Ok(());
    }
    let name = master.as_ref().map_or("another node", NodeName::as_str);
    let text = format!("uploads go to the front door of the master, {name}; this is another node");
    let refusal = Refusal::new(StatusCode::MISDIRECTED_REQUEST, text);
    Err(Refusal { master, ..refusal })
}
