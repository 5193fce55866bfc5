//! Templates of Ignition by role and version, and what a machine gets by them.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use luxi::method::{Fields, GantryBootDocument, Query, What};
use luxi::query::Filter;
use model::boot_template::{
    BootTemplateKey, DocumentKind, MY_URL, MY_URL_HTTPS, TemplateId, TemplateKind,
};
use model::name::NameError;
use model::{Word, document};
use serde::de::IgnoredAny;
use serde_json::json;

use super::machines::{done, parameters, text};
use crate::etag;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};

const KIND: &str = TemplateKind::Ignition.as_str();

fn word(role: &str) -> Result<Word, Refusal> {
    role.parse().map_err(|error: NameError| Refusal::bad(error.to_string()))
}

fn version(id: &str) -> Result<TemplateId, Refusal> {
    id.parse().map_err(|error: NameError| Refusal::bad(error.to_string()))
}

/// A field of the templates of a role, or of one version.
async fn told(
    asked: &RouteRequest,
    field: &str,
    role: &Word,
    id: Option<&TemplateId>,
) -> Result<Vec<String>, Refusal> {
    let of = |field: &str, value: &str| Filter::any_of(field, [value]);
    let mut all = vec![of("kind", KIND), of("role", role.as_str())];
    all.extend(id.map(|id| of("version", &id.to_string())));
    let (fields, filter) = (Fields::from([field]), Some(Filter::And(all)));
    let table = asked.ask(Query { what: What::BootTemplate, fields, filter }).await?;
    let values = table.data.into_iter().flatten().map(luxi::query::Cell::into_value);
    Ok(values.filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

pub(super) async fn list(Path(role): Path<String>, asked: RouteRequest) -> Answer {
    let role = word(&role)?;
    let ids = told(&asked, "version", &role, None).await?;
    let mut ids: Vec<TemplateId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    ids.sort();
    Ok(asked.object(&json!(ids), &[]))
}

pub(super) async fn template(
    Path((role, id)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    let (role, id) = (word(&role)?, version(&id)?);
    let text = of_version(&asked, &role, &id).await?;
    let tag = etag::of(&json!(text), &[]);
    Ok(([(header::ETAG, tag)], shown(text)).into_response())
}

async fn of_version(asked: &RouteRequest, role: &Word, id: &TemplateId) -> Result<String, Refusal> {
    let text = told(asked, "text", role, Some(id)).await?.pop();
    let missing = || Refusal::not_found(format!("role `{}` has no template {id}", role.as_str()));
    text.ok_or_else(missing)
}

/// Lets a change rest on a template, as far as the client asks for that.
async fn condition(asked: &RouteRequest, role: &Word, id: &TemplateId) -> Result<(), Refusal> {
    let key = BootTemplateKey { kind: TemplateKind::Ignition, role: role.clone(), id: id.clone() };
    let tag = async { Ok(etag::of(&json!(of_version(asked, role, id).await?), &[])) };
    asked.condition(format!("{}/{key}", document::BOOT_TEMPLATES), tag).await
}

/// A text as it was uploaded: not every template is JSON.
fn shown(text: String) -> Response {
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

pub(super) async fn upload(
    Path((role, id)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    let (role, id) = (word(&role)?, version(&id)?);
    let (text, other_spec) = (text(&asked)?, asked.flag("other-spec")?);
    condition(&asked, &role, &id).await?;
    let op = json!({"kind": KIND, "role": role, "id": id, "text": text, "other_spec": other_spec});
    asked.run("OP_BOOT_TEMPLATE_ADD", parameters(&op)).await?;
    Ok(StatusCode::CREATED.into_response())
}

pub(super) async fn remove(
    Path((role, id)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    let (role, id) = (word(&role)?, version(&id)?);
    condition(&asked, &role, &id).await?;
    let op = json!({"kind": KIND, "role": role, "id": id});
    asked.run("OP_BOOT_TEMPLATE_REMOVE", parameters(&op)).await?;
    Ok(done())
}

pub(super) async fn rendered(
    Path((serial, id)): Path<(String, String)>,
    asked: RouteRequest,
) -> Answer {
    // sabakan asks for what it never had, and finds nothing.
    let id = version(&id).map_err(|refusal| refusal.with_status(StatusCode::NOT_FOUND))?;
    let host = asked.authority().ok_or_else(|| Refusal::bad("the header Host names no host"))?;
    let (kind, version) = (DocumentKind::Ignition, Some(id));
    let document = asked.ask(GantryBootDocument { serial, kind, version }).await?;
    let json = [(header::CONTENT_TYPE, "application/json")];
    let plain = asked.is_plain.then_some(asked.front.tls_port);
    Ok((json, filled(&document.text, host, plain)).into_response())
}

/// Fills in the address at which this was asked for, as agents do. The port of HTTPS is another one
/// where the request came without TLS.
fn filled(text: &str, host: &str, tls_port: Option<u16>) -> String {
    let https = match tls_port {
        None => format!("https://{host}"),
        Some(port) => format!("https://{}:{port}", without_port(host)),
    };
    let url = if tls_port.is_some() { format!("http://{host}") } else { https.clone() };
    text.replace(MY_URL_HTTPS, &https).replace(MY_URL, &url)
}

/// The name or address of a host, of one that may have its port.
fn without_port(host: &str) -> &str {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn roles_and_versions_are_checked_before_the_master_is_asked() {
        assert!(word("worker").is_ok() && version("1.2.3-rc.1").is_ok());
        for wrong in ["", "a b", "a/b"] {
            assert_eq!(word(wrong).unwrap_err().code, 400, "{wrong}");
        }
        for wrong in ["", "1.", "latest", "1.2.3+x"] {
            assert_eq!(version(wrong).unwrap_err().code, 400, "{wrong}");
        }
    }

    #[test]
    fn a_document_names_the_server_that_it_came_from() {
        let text = format!("{{\"a\":\"{MY_URL}/a\",\"b\":\"{MY_URL_HTTPS}/b\"}}");
        for (host, tls_port, url, https) in [
            (
                "front.example:5080",
                None,
                "https://front.example:5080",
                "https://front.example:5080",
            ),
            ("localhost:5081", Some(5080), "http://localhost:5081", "https://localhost:5080"),
            ("[::1]:5081", Some(5080), "http://[::1]:5081", "https://[::1]:5080"),
            ("[::1]", Some(5080), "http://[::1]", "https://[::1]:5080"),
            ("127.0.0.1", Some(5080), "http://127.0.0.1", "https://127.0.0.1:5080"),
        ] {
            let told: Value = serde_json::from_str(&filled(&text, host, tls_port)).unwrap();
            let wanted = json!({"a": format!("{url}/a"), "b": format!("{https}/b")});
            assert_eq!(told, wanted, "{host}");
        }
    }

    #[test]
    fn a_template_is_json_where_it_reads_as_such() {
        let kind = |text: &str| shown(text.to_owned()).headers()[header::CONTENT_TYPE].clone();
        assert_eq!(kind("{\"version\": \"2.3\"}"), "application/json");
        assert_eq!(kind("{{ if true }}{}{{ end }}"), "text/plain; charset=utf-8");
    }
}
