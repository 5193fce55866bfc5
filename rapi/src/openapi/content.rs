//! Core: what a method of a path takes, and what it answers with.

use luxi::query::sabakan;
use serde_json::{Value, json};

use crate::page;
use crate::paths;
use crate::ramdisks;
use crate::routes::Described;
use crate::sabakan::{crypts, states};
use crate::state::{Form, GRAPHQL};
use crate::switches;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";
/// The name of a parameter, and its schema.
type Parameter = (String, Value);

/// The statuses of every refusal.
pub const REFUSALS: [u16; 22] = [
    400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 414, 415, 416, 421, 431, 500, 501, 502,
    503, 504, 507,
];

/// The statuses of success, and the types of its body; none where there is none.
pub fn success(route: &Described) -> (&'static [u16], &'static [&'static str]) {
    match (route.method, route.path) {
        ("get", "/api/v1/assets/{name}" | "/api/v1/cryptsetup") => (&[200, 206], &["*/*"]),
        ("get", "/api/v1/images/coreos/{id}") => (&[200], &["application/tar"]),
        ("get", crypts::ONE) => (&[200], &[BYTES]),
        ("get", states::PATH | "/api/v1/kernel_params/coreos") => (&[200], &[TEXT]),
        ("get", "/api/v1/ignitions/{role}/{id}") => (&[200], &[JSON, TEXT]),
        ("get", page::PATH) => (&[200], &[JSON, "text/html"]),
        ("get", _) | ("post", GRAPHQL) | ("delete", crypts::ALL) => (&[200], &[JSON]),
        ("post", ramdisks::HEARTBEAT) => (&[202], &[]),
        ("post", ramdisks::INSPECTION) => (&[202], &[JSON]),
        ("put", crypts::ONE) => (&[201], &[JSON]),
        ("put", "/api/v1/assets/{name}") => (&[200, 201], &[JSON]),
        ("put", "/api/v1/ignitions/{role}/{id}" | "/api/v1/images/coreos/{id}")
        | ("post", "/api/v1/machines") => (&[201], &[]),
        (_, path) if paths::is_ours(path) || Form::of(path) == Form::Ganeti => (&[200], &[JSON]),
        _ => (&[200], &[]),
    }
}

/// The body, and its schema.
pub fn body(route: &Described) -> Option<(&'static str, Value)> {
    if !["put", "post"].contains(&route.method) || is_tags(route) {
        return None;
    }
    Some(match route.path {
        "/2/redistribute-config" => return None,
        "/2/nodes/{name}/role" => (JSON, json!({"type": "string"})),
        "/2/query/{what}" => {
            let fields = json!({"type": "array", "items": {"type": "string"}});
            let properties = json!({"fields": fields, "qfilter": {}});
            (JSON, json!({"type": "object", "properties": properties}))
        }
        GRAPHQL => {
            let properties = json!({"query": {"type": "string"}});
            (JSON, json!({"type": "object", "required": ["query"], "properties": properties}))
        }
        "/api/v1/machines" => (JSON, json!({"type": "array", "items": {"type": "object"}})),
        "/api/v1/config" | "/api/v1/config/ipam" | "/api/v1/config/dhcp" => {
            (JSON, json!({"type": "object"}))
        }
        path if paths::is_ours(path) || Form::of(path) != Form::Sabakan => {
            (JSON, json!({"type": "object"}))
        }
        crypts::ONE | "/api/v1/assets/{name}" | "/api/v1/images/coreos/{id}" => (BYTES, json!({})),
        _ => (TEXT, json!({"type": "string"})),
    })
}

/// The parameters behind the path.
pub fn query(route: &Described) -> Vec<Parameter> {
    let text = |name: &str| (name.to_owned(), json!({"type": "string"}));
    let switch = |name: &str| (name.to_owned(), json!({"type": "integer", "enum": [0, 1]}));
    let texts = |names: &[&str]| names.iter().map(|name| text(name)).collect();
    match (route.method, route.path) {
        ("get", "/api/v1/machines") => sabakan::parameters().map(|name| text(&name)).collect(),
        ("get", GRAPHQL) => texts(&["query", "operationName", "variables"]),
        ("get", ramdisks::LOOKUP) => texts(&["addresses", "node_uuid"]),
        ("post", ramdisks::INSPECTION) => texts(&["node_uuid"]),
        ("get", "/api/v1/logs") => texts(&["since", "until"]),
        ("get", "/2/query/{what}" | "/2/query/{what}/fields") => texts(&["fields"]),
        ("get", "/2/jobs" | "/2/nodes" | "/2/groups" | "/2/networks" | "/2/filters") => {
            vec![switch("bulk")]
        }
        ("get", "/2/instances") => vec![switch("bulk")],
        ("put" | "post" | "delete", path) => {
            let of = |name: &&str| match *name {
                "tag" => ("tag".to_owned(), json!({"type": "array", "items": {"type": "string"}})),
                flag if switches::FLAGS.contains(&flag) => switch(flag),
                name => text(name),
            };
            switches::of(route.method, path).iter().map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// The schema of a parameter in the path.
pub fn path_schema(name: &str) -> Value {
    match name {
        "what" => json!({"type": "string", "examples": ["node", "machine"]}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

/// Whether it is about tags, which come in the target alone.
fn is_tags(route: &Described) -> bool {
    route.path.ends_with("/tags")
}
