//! Core: answers and their bodies.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::version::{HEADERS, VERSION_MAX, VERSION_MIN, Version};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    pub version: Version,
    /// The method that the route has, where another one was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// JSON; empty where there is nothing to tell.
    pub body: String,
}

impl Answer {
    /// An answer of this text of JSON.
    pub(crate) fn new(status: StatusCode, body: String) -> Self {
        Self { status: status.as_u16(), version: VERSION_MIN, allow: None, body }
    }

    pub(crate) fn json(status: StatusCode, body: &Value) -> Self {
        Self::new(status, body.to_string())
    }

    pub(crate) fn of_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// The same of the version that the first of [`HEADERS`] asks for, where it is served.
    pub fn for_request(self, header: Option<&http::HeaderValue>) -> Self {
        let asked = Version::asked(header.map(|header| header.to_str().unwrap_or("?")));
        self.of_version(asked.unwrap_or(VERSION_MIN))
    }

    /// The answer as it is sent.
    pub fn response(self) -> http::Response<String> {
        let headers = self.headers();
        let mut response = http::Response::new(self.body);
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    /// Its headers beside those of every answer of HTTP.
    pub(crate) fn headers(&self) -> Vec<(&'static str, String)> {
        let [version, least, most] = HEADERS;
        let mut headers = vec![
            (version, self.version.to_string()),
            (least, VERSION_MIN.to_string()),
            (most, VERSION_MAX.to_string()),
            // A token must not stay in a cache.
            ("cache-control", "no-store".to_owned()),
        ];
        headers.extend(self.allow.clone().map(|allow| ("allow", allow)));
        if !self.body.is_empty() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        headers
    }
}

/// A refusal as Ironic writes it: JSON in a text of JSON.
pub(crate) fn refusal(status: StatusCode, why: &str) -> Answer {
    let code = if status.is_server_error() { "Server" } else { "Client" };
    let fault = json!({ "faultcode": code, "faultstring": why, "debuginfo": null });
    Answer::json(status, &json!({ "error_message": fault.to_string() }))
}

/// A refusal of a request that has no route.
pub(crate) fn unrouted(status: StatusCode, why: &str) -> Answer {
    let title = status.canonical_reason().unwrap_or_default();
    let fault = json!({ "code": status.as_u16(), "title": title, "description": why });
    Answer::json(status, &json!({ "error_message": fault.to_string() }))
}

impl Answer {
    /// The refusal of a request that is none, or that a limit keeps from being answered now.
    pub fn refused(status: StatusCode, why: &str) -> Self {
        match status {
            StatusCode::METHOD_NOT_ALLOWED => unrouted(status, why),
            _ => refusal(status, why),
        }
    }
}

fn version(base: &str) -> Value {
    json!({
        "id": "v1",
        "links": [{ "href": format!("{base}/v1/"), "rel": "self" }],
        "status": "CURRENT",
        "version": VERSION_MAX.to_string(),
        "min_version": VERSION_MIN.to_string(),
    })
}

/// The document that names the versions of the API.
pub(crate) fn root(base: &str) -> Answer {
    let version = version(base);
    let body = json!({
        "name": "OpenStack Ironic API",
        "description": "The part of it that agents in ramdisks use, served by Gantry.",
        "default_version": version,
        "versions": [version],
    });
    Answer::json(StatusCode::OK, &body)
}

/// The document that names the resources below `/v1`.
pub(crate) fn v1(base: &str) -> Answer {
    let mut body = json!({
        "id": "v1",
        "links": [{ "href": format!("{base}/v1/"), "rel": "self" }],
        "media_types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.ironic.v1+json",
        }],
        "version": version(base),
    });
    for name in ["lookup", "heartbeat", "continue_inspection"] {
        body[name] = links(base, name);
    }
    Answer::json(StatusCode::OK, &body)
}

/// The links of something below `/v1`.
pub(crate) fn links(base: &str, path: &str) -> Value {
    json!([
        { "href": format!("{base}/v1/{path}"), "rel": "self" },
        { "href": format!("{base}/{path}"), "rel": "bookmark" },
    ])
}
