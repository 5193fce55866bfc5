//! Core: the description of the front door in OpenAPI 3.1, made from the routes.
//!
//! [`content`] says what each of them takes and answers.

use ironic::HEADERS;
use serde_json::{Map, Value, json};

pub mod content;

use crate::routes::Described;
use crate::state::Form;

/// The path of the description.
pub const PATH: &str = "/openapi.json";

/// The description of these routes; `public` are the paths that everybody may ask for.
pub fn document(routes: &[Described], public: &[&str]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route, public.contains(&route.path));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gantry front door",
            "description": "Ganeti's remote API below /2, sabakan's REST API below /api/v1, Ironic's API \
                            for agents in ramdisks below /v1.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "security": [{"basic": []}, {"bearer": []}, {"certificate": []}],
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "gtk_…"},
                "certificate": {"type": "mutualTLS"},
            },
            "schemas": {
                "GanetiError": ganeti_error(),
                "SabakanError": sabakan_error(),
                "IronicError": ironic_error(),
            },
            "responses": {
                "GanetiError": refused("GanetiError"),
                "SabakanError": refused("SabakanError"),
                "IronicError": refused("IronicError"),
            },
        },
    })
}

fn operation(route: &Described, is_public: bool) -> Value {
    let (form, error) = match Form::of(route.path) {
        Form::Ganeti => ("ganeti", "GanetiError"),
        Form::Sabakan => ("sabakan", "SabakanError"),
        Form::Ironic => ("ironic", "IronicError"),
    };
    let path = route.parameters().map(|name| {
        let schema = content::path_schema(name);
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    });
    let query = content::query(route).into_iter().map(
        |(name, schema)| json!({"name": name, "in": "query", "required": false, "schema": schema}),
    );
    let header = (form == "ironic").then(|| {
        let schema = json!({"type": "string", "examples": ["1.72", "latest"]});
        json!({"name": HEADERS[0], "in": "header", "required": false, "schema": schema})
    });
    let mut operation = json!({
        "summary": route.summary,
        "tags": [form],
        "parameters": path.chain(query).chain(header).collect::<Vec<_>>(),
        "responses": responses(route, error),
    });
    if let Some((kind, schema)) = content::body(route) {
        operation["requestBody"] =
            json!({"required": false, "content": {kind: {"schema": schema}}});
    }
    if is_public {
        operation["security"] = json!([]);
    }
    operation
}

fn responses(route: &Described, error: &str) -> Value {
    let (codes, kinds) = content::success(route);
    let mut responses = Map::new();
    for code in codes {
        let mut response = json!({"description": "It was done."});
        if !kinds.is_empty() {
            let kinds = kinds.iter().map(|kind| ((*kind).to_owned(), json!({})));
            response["content"] = kinds.collect();
        }
        responses.insert(code.to_string(), response);
    }
    if route.method == "get" {
        let text = "The client has it already (If-None-Match).";
        responses.insert("304".to_owned(), json!({"description": text}));
    }
    let refused = json!({"$ref": format!("#/components/responses/{error}")});
    let refusals = content::REFUSALS.iter().map(|code| (code.to_string(), refused.clone()));
    responses.extend(refusals);
    Value::Object(responses)
}

fn refused(error: &str) -> Value {
    let schema = json!({"$ref": format!("#/components/schemas/{error}")});
    json!({
        "description": "It was not done, or that is not known.",
        "content": {"application/json": {"schema": schema}},
    })
}

fn ganeti_error() -> Value {
    json!({
        "type": "object",
        "required": ["code", "message", "explain"],
        "properties": {
            "code": {"type": "integer", "description": "The status."},
            "message": {"type": "string", "description": "Its words."},
            "explain": {"type": "string", "description": "What happened, and what to do."},
            "see": {"type": "string", "description": "The section of the runbook."},
            "master": {"type": "string", "description": "The master, if it did not answer."},
            "address": {"type": "string", "description": "Where that is reached."},
        },
    })
}

fn sabakan_error() -> Value {
    json!({
        "type": "object",
        "required": ["status", "error"],
        "properties": {
            "status": {"type": "integer", "description": "The status."},
            "error": {"type": "string", "description": "What happened, and what to do."},
            "see": {"type": ["string", "null"], "description": "The section of the runbook."},
        },
    })
}

fn ironic_error() -> Value {
    let text = "An object of JSON in a text: `faultstring`, or `title` and `description`.";
    json!({
        "type": "object",
        "required": ["error_message"],
        "properties": {"error_message": {"type": "string", "description": text}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_an_operation() {
        let routes = [
            Described { path: "/version", method: "get", summary: "Tell it" },
            Described { path: "/2/nodes/{name}/role", method: "get", summary: "Tell it" },
            Described { path: "/2/nodes/{name}/role", method: "put", summary: "Set it" },
        ];
        let document = document(&routes, &["/version"]);
        let role = &document["paths"]["/2/nodes/{name}/role"];
        assert_eq!(role["put"]["summary"], "Set it");
        assert_eq!(role["get"]["parameters"][0]["name"], "name");
        assert!(
            role["get"].get("requestBody").is_none() && role["put"].get("requestBody").is_some()
        );
        let responses = &role["put"]["responses"];
        assert!(responses["200"]["content"].get("application/json").is_some(), "{responses}");
        assert_eq!(responses["404"]["$ref"], "#/components/responses/GanetiError");
        assert_eq!(document["paths"]["/version"]["get"]["security"], json!([]));
    }
}
