//! Tags of objects.

use axum::extract::Path;
use luxi::method::QueryTags;
use model::document;
use serde_json::{Map, Value, json};

use super::objects::Kind;
use crate::etag;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};
use crate::routes::Routes;

/// Adds the routes of the tags of one kind of object, in Ganeti's words.
pub(super) fn add(routes: Routes, path: &'static str, kind: &'static str) -> Routes {
    routes
        .get(path, "List tags", move |name: Option<Path<String>>, asked: RouteRequest| {
            list(kind, name, asked)
        })
        .put(path, "Add tags", move |name: Option<Path<String>>, asked: RouteRequest| {
            change("OP_TAGS_SET", kind, name, asked)
        })
        .delete(path, "Take tags away", move |name: Option<Path<String>>, asked: RouteRequest| {
            change("OP_TAGS_DEL", kind, name, asked)
        })
}

async fn tags(kind: &str, name: Option<String>, asked: &RouteRequest) -> Result<Value, Refusal> {
    Ok(json!(asked.ask(QueryTags { kind: kind.to_owned(), name }).await?))
}

async fn list(kind: &str, name: Option<Path<String>>, asked: RouteRequest) -> Answer {
    let tags = tags(kind, name.map(|Path(name)| name), &asked).await?;
    Ok(asked.object(&tags, &[]))
}

/// The tags stand in the query.
async fn change(id: &str, kind: &str, name: Option<Path<String>>, asked: RouteRequest) -> Answer {
    let name = name.map(|Path(name)| name);
    if etag::is_conditional(&asked.headers) {
        let document = match (kind, &name) {
            ("node", Some(name)) => Kind::Node.document(&asked, name).await?,
            ("network", Some(name)) => Kind::Network.document(&asked, name).await?,
            ("nodegroup", Some(name)) => Kind::Group.document(&asked, name).await?,
            _ => document::CLUSTER.to_owned(),
        };
        let tag = async { Ok(etag::of(&tags(kind, name.clone(), &asked).await?, &[])) };
        asked.condition(document, tag).await?;
    }
    let parameters = json!({
        "kind": kind,
        "name": name,
        "tags": asked.values("tag").collect::<Vec<_>>(),
        "dry_run": asked.flag("dry-run")?,
    });
    let parameters = parameters.as_object().cloned().unwrap_or_else(Map::new);
    Ok(json(asked.submit(id, parameters).await?))
}
