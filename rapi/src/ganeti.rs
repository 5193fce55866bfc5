//! Ganeti's remote API, version 2 (`lib/rapi/rlib2.py`), for everything that exists here; instances answer
//! as those of a cluster that has none.
//!
//! [`objects`] lists nodes, groups, networks and instances, [`jobs`] and [`filters`] the rest, [`change`]
//! is the table of changes that are one opcode each, [`query`] Ganeti's general lists.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post, put};
use luxi::method::QueryClusterInfo;
use serde_json::{Map, Value, json};

use crate::asked::{Answer, Asked, json};
use crate::front::Front;
use change::{change, role, set_role};
use objects::Kind;

pub mod change;
pub mod filters;
pub mod jobs;
pub mod objects;
pub mod query;
pub mod tags;

/// Version of the interface; Ganeti's clients compare it.
const VERSION: u32 = 2;
/// What of Ganeti's optional features this interface has: all that are about requests for instances and
/// nodes, none of which makes a difference before there are instances.
const FEATURES: [&str; 4] =
    ["instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1"];

/// The routes.
pub fn routes() -> Router<Arc<Front>> {
    Router::new()
        .route("/", get(nothing))
        .route("/2", get(nothing))
        .route("/version", get(version))
        .route("/2/features", get(features))
        .route("/2/info", get(info))
        .route("/2/os", get(operating_systems))
        .route("/2/modify", put(change(&change::CLUSTER_MODIFY)))
        .route("/2/redistribute-config", put(change(&change::REDISTRIBUTE)))
        .merge(node_routes())
        .merge(network_routes())
        .route("/2/groups", get(|asked: Asked| objects::list(Kind::Group, asked)))
        .route("/2/groups/{name}", get(of(Kind::Group)))
        .route("/2/groups/{name}/tags", tags::of("nodegroup"))
        .route("/2/instances", get(|asked: Asked| objects::list(Kind::Instance, asked)))
        .route("/2/instances/{name}", get(of(Kind::Instance)))
        .route("/2/tags", tags::of("cluster"))
        .route("/2/jobs", get(jobs::list))
        .route("/2/jobs/{id}", get(jobs::one).delete(jobs::cancel))
        .route("/2/jobs/{id}/wait", get(jobs::wait))
        .route("/2/filters", get(filters::list).post(filters::add))
        .route("/2/filters/{uuid}", get(filters::one).put(filters::replace).delete(filters::delete))
        .route("/2/query/{what}", get(query::by_get).put(query::by_put))
        .route("/2/query/{what}/fields", get(query::fields))
}

fn node_routes() -> Router<Arc<Front>> {
    Router::new()
        .route("/2/nodes", get(|asked: Asked| objects::list(Kind::Node, asked)))
        .route("/2/nodes/{name}", get(of(Kind::Node)))
        .route("/2/nodes/{name}/modify", post(change(&change::NODE_MODIFY)))
        .route("/2/nodes/{name}/powercycle", post(change(&change::NODE_POWERCYCLE)))
        .route("/2/nodes/{name}/role", get(role).put(set_role))
        .route("/2/nodes/{name}/tags", tags::of("node"))
}

fn network_routes() -> Router<Arc<Front>> {
    Router::new()
        .route(
            "/2/networks",
            get(|asked: Asked| objects::list(Kind::Network, asked))
                .post(change(&change::NETWORK_ADD)),
        )
        .route("/2/networks/{name}", get(of(Kind::Network)).delete(change(&change::NETWORK_REMOVE)))
        .route("/2/networks/{name}/modify", put(change(&change::NETWORK_MODIFY)))
        .route("/2/networks/{name}/connect", put(change(&change::NETWORK_CONNECT)))
        .route("/2/networks/{name}/disconnect", put(change(&change::NETWORK_DISCONNECT)))
        .route("/2/networks/{name}/tags", tags::of("network"))
}

/// The route of one object.
fn of(
    kind: Kind,
) -> impl Fn(Path<String>, Asked) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>
+ Clone
+ Send
+ Sync
+ 'static {
    move |Path(name), asked| Box::pin(objects::one(kind, name, asked))
}

async fn nothing(_asked: Asked) -> Response {
    json(Value::Null)
}

/// Ganeti answers with a number, sabakan with an object. Only clients of sabakan do not say that they want
/// Ganeti's, which every client of Ganeti asks for first.
async fn version(asked: Asked) -> Response {
    let agent = asked.headers.get("user-agent").and_then(|agent| agent.to_str().ok());
    if agent.is_some_and(|agent| agent.to_ascii_lowercase().contains("sabactl")) {
        return json(json!({"version": env!("CARGO_PKG_VERSION")}));
    }
    json(VERSION)
}

async fn features(_asked: Asked) -> Response {
    json(FEATURES)
}

async fn info(asked: Asked) -> Answer {
    let mut info = asked.ask(QueryClusterInfo {}).await?;
    if let Value::Object(fields) = &mut info {
        for (name, alias) in
            [("volume_group_name", "vg_name"), ("drbd_usermode_helper", "drbd_helper")]
        {
            let value = fields.get(name).cloned();
            fields.extend(value.map(|value| (alias.to_owned(), value)));
        }
    }
    Ok(asked.object(&info, &[]))
}

/// Names of the operating systems of instances, each with its variants.
async fn operating_systems(asked: Asked) -> Answer {
    let parameters = Map::from_iter([("output_fields".to_owned(), json!(["name", "variants"]))]);
    let found = asked.run("OP_OS_DIAGNOSE", parameters).await?;
    let mut names = Vec::new();
    for system in found.as_array().into_iter().flatten() {
        let name = system.get(0).and_then(Value::as_str).unwrap_or_default();
        match system.get(1).and_then(Value::as_array).filter(|variants| !variants.is_empty()) {
            Some(variants) => {
                let variants = variants.iter().filter_map(Value::as_str);
                names.extend(variants.map(|variant| format!("{name}+{variant}")));
            }
            None => names.push(name.to_owned()),
        }
    }
    Ok(json(names))
}
