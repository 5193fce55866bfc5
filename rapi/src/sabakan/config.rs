//! Settings: rules of addresses, DHCP, kernel parameters; and whether the cluster answers.

use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use luxi::method::{Fields, GantryDhcp, GantryIpam, QueryClusterInfo, QueryConfigValues};
use model::document;
use model::image::Parameter;
use model::sabakan::given;
use serde_json::{Map, Value, json};

use super::machines::{done, parameters, text};
use crate::etag;
use crate::json::parse;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};

/// How long the master may take to say that it is there: less than a load balancer waits.
const HEALTH_TIME: Duration = Duration::from_secs(3);

pub(super) async fn ipam(asked: RouteRequest) -> Answer {
    let rules = asked.ask(GantryIpam {}).await?;
    let rules = rules.ok_or_else(|| Refusal::not_found("there are no rules of addresses yet"))?;
    Ok(asked.object(&json!(rules), &[]))
}

pub(super) async fn set_ipam(asked: RouteRequest) -> Answer {
    let config = parse(&asked.body)?;
    let tag = async { Ok(etag::of(&json!(asked.ask(GantryIpam {}).await?), &[])) };
    asked.condition(document::IPAM.to_owned(), tag).await?;
    let set = asked.run("OP_IPAM_SET", parameters(&json!({"config": config}))).await;
    asked.front.rules.forget();
    // The specification has this code where machines are registered.
    set.map_err(|refusal| match refusal.status() {
        StatusCode::CONFLICT => refusal.with_status(StatusCode::INTERNAL_SERVER_ERROR),
        _ => refusal,
    })?;
    Ok(done())
}

async fn dhcp_settings(asked: &RouteRequest) -> Result<Value, Refusal> {
    Ok(given::shown_dhcp(&asked.ask(GantryDhcp {}).await?))
}

pub(super) async fn dhcp(asked: RouteRequest) -> Answer {
    Ok(asked.object(&dhcp_settings(&asked).await?, &[]))
}

pub(super) async fn set_dhcp(asked: RouteRequest) -> Answer {
    let Value::Object(settings) = parse(&asked.body)? else {
        return Err(Refusal::bad("send an object with the settings of DHCP"));
    };
    let tag = async { Ok(etag::of(&dhcp_settings(&asked).await?, &[])) };
    asked.condition(document::DHCP.to_owned(), tag).await?;
    let config = given::dhcp(settings, &asked.ask(GantryDhcp {}).await?).map_err(Refusal::bad)?;
    asked.run("OP_DHCP_SET", parameters(&json!({"config": config}))).await?;
    Ok(done())
}

async fn kernel_words(asked: &RouteRequest) -> Result<String, Refusal> {
    let info = asked.ask(QueryClusterInfo {}).await?;
    let words = info["kernel_parameters"]["all"].as_array();
    let words: Vec<&str> = words.into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() {
        return Err(Refusal::not_found("there are no kernel parameters of all machines"));
    }
    Ok(words.join(" "))
}

pub(super) async fn kernel_parameters(asked: RouteRequest) -> Answer {
    let words = kernel_words(&asked).await?;
    Ok(([(header::ETAG, etag::of(&json!(words), &[]))], words).into_response())
}

pub(super) async fn set_kernel_parameters(asked: RouteRequest) -> Answer {
    let words = Parameter::split(text(&asked)?).map_err(|error| Refusal::bad(error.to_string()))?;
    let tag = async { Ok(etag::of(&json!(kernel_words(&asked).await?), &[])) };
    asked.condition(document::KERNEL.to_owned(), tag).await?;
    asked.run("OP_KERNEL_SET", Map::from_iter([("parameters".to_owned(), json!(words))])).await?;
    Ok(done())
}

/// Whether the master answers. Everybody may ask.
pub(super) async fn health(asked: RouteRequest) -> Response {
    let names = Fields::from(["cluster_name"]);
    let question = asked.front.link.ask_once(&asked.holder, QueryConfigValues { names });
    match tokio::time::timeout(HEALTH_TIME, question).await {
        Ok(Ok(_name)) => json(json!({"health": "healthy"})),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, json(json!({"health": "unhealthy"})))
                .into_response()
        }
    }
}
