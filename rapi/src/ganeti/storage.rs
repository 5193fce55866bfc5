//! The storage of a node: each request is one job, whose parameters are in the query.

use axum::extract::Path;
use serde_json::{Map, Value, json};

use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};
use crate::routes::Routes;

pub fn add(routes: Routes) -> Routes {
    routes
        .get("/2/nodes/{name}/storage", "Tell how much storage a node has, by a job", list)
        .put("/2/nodes/{name}/storage/modify", "Change a unit of storage of a node", modify)
        .put("/2/nodes/{name}/storage/repair", "Repair a unit of storage of a node", repair)
}

/// A word of the query that must be there.
fn word(asked: &RouteRequest, name: &str) -> Result<String, Refusal> {
    let found = asked.value(name).filter(|word| !word.is_empty()).map(str::to_owned);
    found.ok_or_else(|| Refusal::bad(format!("Missing the required '{name}' parameter")))
}

/// The parameters that name one unit of storage.
fn unit(asked: &RouteRequest, node: &str) -> Result<Map<String, Value>, Refusal> {
    Ok(Map::from_iter([
        ("node_name".to_owned(), json!(node)),
        ("storage_type".to_owned(), json!(word(asked, "storage_type")?)),
        ("name".to_owned(), json!(word(asked, "name")?)),
    ]))
}

async fn list(Path(node): Path<String>, asked: RouteRequest) -> Answer {
    let fields = word(&asked, "output_fields")?;
    let parameters = Map::from_iter([
        ("nodes".to_owned(), json!([node])),
        ("storage_type".to_owned(), json!(word(&asked, "storage_type")?)),
        ("output_fields".to_owned(), json!(fields.split(',').collect::<Vec<_>>())),
    ]);
    Ok(json(asked.submit("OP_NODE_QUERY_STORAGE", parameters).await?))
}

async fn modify(Path(node): Path<String>, asked: RouteRequest) -> Answer {
    let mut changes = Map::new();
    if asked.value("allocatable").is_some() {
        changes.insert("allocatable".to_owned(), json!(asked.flag("allocatable")?));
    }
    let mut parameters = unit(&asked, &node)?;
    parameters.insert("changes".to_owned(), Value::Object(changes));
    Ok(json(asked.submit("OP_NODE_MODIFY_STORAGE", parameters).await?))
}

async fn repair(Path(node): Path<String>, asked: RouteRequest) -> Answer {
    let parameters = unit(&asked, &node)?;
    Ok(json(asked.submit("OP_REPAIR_NODE_STORAGE", parameters).await?))
}
