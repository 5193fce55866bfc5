//! The steps of every request: its user and permission, the body within its limits, and the answer in
//! the form of the interface that was asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use ironic::HEADERS;
use model::access::{Principal, Role, Verb, may};
use model::boot_template::TEXT_BYTES_MAX;
use model::vault::SECRET_BYTES_MAX;
use model::{Timestamp, token};
use serde_json::Value;

use crate::access_log::Line;
use crate::authenticate::{Shown, unauthorized};
use crate::clients::ClientCertificate;
use crate::denied::Denied;
use crate::ganeti;
use crate::kept::hold;
use crate::objects;
use crate::openapi;
use crate::origin::{is_for_loopback, is_of_another_site, names_its_host, other_site};
use crate::page;
use crate::paths;
use crate::ramdisks::{self, is_of_ramdisk};
use crate::refusal::Refusal;
use crate::routes::{Described, Routes};
use crate::sabakan::{self, crypts};
use crate::server::Running;
use crate::shares::{holder_of, stranger, turn};
use crate::state::{Asker, Form, Front, GRAPHQL, Peer, PlainHttp};
use crate::switches;
use crate::upload::{PASSED_OVER_MAX, Shared, is_upload};
use crate::users::password::REALM;

/// Time for the body of a request: 8 MiB need that at 2 Mbit/s.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Longest bodies, by the beginning of the path; the first row that fits counts. All that goes to the master
/// is bounded by [`luxi::limits::MESSAGE_BYTES_MAX`] there.
const BODIES: [(&str, usize); 8] = [
    // Ten thousand machines, registered at once.
    ("/api/v1/machines", 6 << 20),
    ("/api/v1/crypts/", SECRET_BYTES_MAX),
    ("/api/v1/ignitions/", TEXT_BYTES_MAX),
    // As in sabakan; a word has a dozen.
    ("/api/v1/state/", 128),
    ("/api/", 64 << 10),
    (GRAPHQL, 64 << 10),
    // A network with some thousand reserved addresses.
    ("/2/", 1 << 20),
    ("/", 4 << 10),
];
/// Longest target of a request: a list of some thousand tags.
const TARGET_BYTES_MAX: usize = 16 << 10;
/// Paths that everybody may ask for without a name: nothing of the cluster is in the answers.
const PUBLIC: [&str; 5] = [page::PATH, "/version", "/health", "/2/features", openapi::PATH];
/// Bytes of what a library says of a request that does not read: a sentence.
const WORDS_BYTES_MAX: usize = 1_024;

pub fn routes() -> Routes {
    let routes = ramdisks::add(objects::add(sabakan::add(ganeti::add(Routes::default()))));
    let summary = "Describe all of this in OpenAPI";
    let described = Described { path: openapi::PATH, method: "get", summary };
    let of_page = "Tell what ramdisks may ask, or show a browser a page of all this";
    let page = Described { path: page::PATH, method: "get", summary: of_page };
    let known: Vec<Described> =
        [page].into_iter().chain(routes.described().iter().copied()).chain([described]).collect();
    let public: Vec<&str> = PUBLIC.into_iter().chain(ramdisks::PATHS).collect();
    let (document, page) = (openapi::document(&known, &public), page::page(&known));
    routes.get(openapi::PATH, summary, move || std::future::ready(Json(document.clone()))).get(
        page::PATH,
        of_page,
        move |state, peer, request| first(page.clone(), state, peer, request),
    )
}

/// A browser gets the page. Agents in ramdisks ask for versions, and others get null, as from Ganeti.
async fn first(
    page: String,
    State(front): State<Arc<Front>>,
    peer: Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    if let Some(shown) = page::answer(request.headers(), &page) {
        return Ok(shown);
    }
    if !front.ramdisk_endpoints {
        return Ok(([page::VARY], Json(Value::Null)).into_response());
    }
    let answer = ramdisks::answer(State(front), peer, request).await?;
    Ok(([page::VARY], answer).into_response())
}

/// All routes, behind what every request goes through.
pub fn router(front: Arc<Front>) -> Router {
    routes()
        .into_router()
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(&front), through))
        .with_state(front)
}

async fn nothing(
    state: State<Arc<Front>>,
    peer: Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    let path = request.uri().path();
    // It says in its own words what is not there.
    if is_of_ramdisk(path) {
        return ramdisks::answer(state, peer, request).await;
    }
    Err(Refusal::not_found(format!("there is nothing at {}", shown(path))))
}

/// Ganeti says it by another code of the methods that it has at all.
async fn other_method(method: Method, uri: Uri) -> Refusal {
    let ganetis = [Method::GET, Method::PUT, Method::POST, Method::DELETE];
    let status = match Form::of(uri.path()) {
        Form::Ganeti if ganetis.contains(&method) => StatusCode::NOT_IMPLEMENTED,
        Form::Ganeti | Form::Sabakan | Form::Ironic => StatusCode::METHOD_NOT_ALLOWED,
    };
    Refusal::new(status, format!("Method {method} is unsupported for path {}", shown(uri.path())))
}

/// A path as far as an answer repeats it.
fn shown(path: &str) -> String {
    path.chars().take(100).collect()
}

async fn through(
    State(front): State<Arc<Front>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let attempt = Denied::of(&front.authenticator, &request);
    let form = Form::of(request.uri().path());
    let target = request.uri().path_and_query().map_or("-", |target| target.as_str());
    let target = token::masked(target);
    let asked = format!("{} {target} {:?}", request.method(), request.version());
    let mut principal = None;
    let (parts, body) = request.into_parts();
    let running = parts.extensions.get::<Arc<Running>>().cloned();
    let version = parts.headers.get(HEADERS[0]).cloned();
    let (body, expects) = (Shared::new(body), parts.headers.contains_key(header::EXPECT));
    let request = Request::from_parts(parts, Body::new(body.clone()));
    let answered = serve(&front, peer, request, next, &mut principal).await;
    let answered = answered.and_then(|response| {
        let unknown = || stranger(peer.ip());
        let holder = principal.as_ref().map_or_else(unknown, |who| holder_of(who, peer.ip()));
        hold(&front.shares, &holder, running.as_deref(), response)
    });
    let answered = answered.unwrap_or_else(IntoResponse::into_response);
    let user = principal.as_ref().and_then(|principal| match principal {
        Principal::User { name, .. } => Some(&**name),
        _ => None,
    });
    if let Some(refusal) = answered.extensions().get::<Refusal>() {
        let now = Timestamp::from_micros(front.link.now_micros());
        attempt.note((&front.refusals, now), (user, peer.ip()), refusal);
    }
    let response = render(form, version.as_ref(), answered).await;
    if let Some(running) = running.filter(|_| !response.status().is_success()) {
        running.rests();
    }
    let response = body.beside(response, expects).await;
    front.meters.answered(response.status(), begun.elapsed());
    front.access_log.note(&Line {
        peer: peer.ip(),
        user,
        seconds: front.link.now_micros() / 1_000_000,
        request: &asked,
        status: response.status().as_u16(),
        bytes: response.body().size_hint().exact(),
    });
    response
}

async fn serve(
    front: &Front,
    peer: SocketAddr,
    request: Request,
    next: Next,
    known: &mut Option<Principal>,
) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    if parts.uri.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES_MAX) {
        let text = format!("the target has more than {TARGET_BYTES_MAX} bytes");
        return Err(Refusal::new(StatusCode::URI_TOO_LONG, text));
    }
    names_its_host(&parts)?;
    if parts.extensions.get::<PlainHttp>().is_some() {
        is_for_loopback(&parts)?;
    }
    let header = parts.headers.get(header::AUTHORIZATION);
    // A client shows its certificate on every connection, also where none is needed.
    let is_ramdisk = is_of_ramdisk(parts.uri.path());
    let is_public = is_ramdisk || PUBLIC.contains(&parts.uri.path());
    let certificate = parts.extensions.get::<Arc<ClientCertificate>>().filter(|_one| !is_public);
    let shown = Shown { header, certificate: certificate.map(AsRef::as_ref) };
    let mut principal = front.authenticator.who(shown, peer.ip()).await?;
    *known = Some(principal.clone());
    let machine = crypts::machine_of(&mut parts).await;
    if let (Some(serial), Principal::Anonymous(_)) = (&machine, &principal)
        && front.machines_by_address
    {
        principal = crypts::by_address(front, serial, peer.ip()).await?.unwrap_or(principal);
        *known = Some(principal.clone());
    }
    let path = parts.uri.path();
    let reads = switches::reads(&parts.method, path);
    if (!reads || path == GRAPHQL) && is_of_another_site(&parts) {
        return Err(other_site());
    }
    if !is_public {
        let verb = if reads { Verb::Read } else { Verb::Change };
        let verb = machine.as_ref().map_or(verb, |serial| Verb::DiskKey(serial.as_str()));
        admit(&principal, verb, path)?;
    }
    let holder = holder_of(&principal, peer.ip());
    let (body, place) = if is_ramdisk || is_upload(&parts.method, path) {
        (body, None)
    } else {
        let place = match body_bytes(&body, body_max(path)) {
            Some(bytes) => Some(turn(&front.shares.body_bytes, &holder, bytes).await?),
            None => None,
        };
        let body = Body::from(whole(body, body_max(path)).await?);
        let running = parts.extensions.get::<Arc<Running>>();
        running.into_iter().for_each(|running| running.counts(&front.shares.busy, &holder));
        (body, place)
    };
    parts.extensions.insert(Asker(principal));
    let response = next.run(Request::from_parts(parts, body)).await;
    drop(place);
    Ok(response)
}

/// Bytes of a body for which there must be room until its request is answered; `most` where it does not say.
fn body_bytes(body: &Body, most: usize) -> Option<usize> {
    let told = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    (!body.is_end_stream()).then(|| told.unwrap_or(most).min(most))
}

/// Nobody gets to a route who may not at least read, or for a change operate; what the change itself needs
/// the route looks at.
fn admit(principal: &Principal, verb: Verb<'_>, path: &str) -> Result<(), Refusal> {
    if principal.role() == Some(Role::Tenant) && !paths::is_for_tenants(path) {
        let text = "this is not for the role tenant; ask an operator of the cluster";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    may(principal, verb, path).map_err(|denied| match principal {
        Principal::Anonymous(_) => {
            unauthorized("log in with a name and password of this cluster's users, or a token")
        }
        Principal::Local(_)
        | Principal::Unix { .. }
        | Principal::User { .. }
        | Principal::Machine(_)
        | Principal::Cluster => denied.into(),
    })
}

fn body_max(path: &str) -> usize {
    let row = BODIES.iter().find(|(beginning, _)| path.starts_with(beginning));
    row.map_or(0, |(_, most)| *most)
}

async fn whole(mut body: Body, most: usize) -> Result<Bytes, Refusal> {
    let too_long = || {
        let text = format!("the body has more than {most} bytes, which is the limit for this path");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    // Told before it is sent, as far as the client says how long it is.
    if body.size_hint().lower() > (most + PASSED_OVER_MAX) as u64 {
        return Err(too_long());
    }
    let read = async {
        let (mut bytes, mut passed_over) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let wrong = |error| Refusal::bad(format!("the body does not read: {error}"));
            let Ok(data) = frame.map_err(wrong)?.into_data() else { continue };
            if passed_over == 0 && bytes.len() + data.len() <= most {
                bytes.extend_from_slice(&data);
                continue;
            }
            passed_over += data.len();
            if passed_over > PASSED_OVER_MAX {
                break;
            }
        }
        if passed_over > 0 { Err(too_long()) } else { Ok(Bytes::from(bytes)) }
    };
    tokio::time::timeout(BODY_TIME, read).await.unwrap_or_else(|_elapsed| {
        let text = format!("the body did not come within {} s", BODY_TIME.as_secs());
        Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, text))
    })
}

/// Writes the bodies of refusals, also of the library's, and the headers of every answer. An answer that
/// a route wrote itself, in the form of its interface, stays as it is.
async fn render(form: Form, version: Option<&HeaderValue>, mut response: Response) -> Response {
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    let refusal = response.extensions_mut().remove::<Refusal>();
    if let Some(refusal) = refusal {
        response = written(form, version, &refusal, response.into_parts().0.headers);
    } else if failed && !is_json(&response) {
        let (head, body) = response.into_parts();
        let words = axum::body::to_bytes(body, WORDS_BYTES_MAX).await.unwrap_or_default();
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        let reason = status.canonical_reason().unwrap_or_default();
        let words = if words.is_empty() { reason.to_owned() } else { words };
        response = written(form, version, &Refusal::new(status, words), head.headers);
    }
    let fixed = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    // With `no-cache`, a client that keeps an answer asks again with its tag.
    let more =
        [fixed("cache-control", "no-cache, private"), fixed("x-content-type-options", "nosniff")];
    for (name, value) in more {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// A refusal in the form of its interface, with the headers that it has already.
fn written(
    form: Form,
    version: Option<&HeaderValue>,
    refusal: &Refusal,
    mut headers: HeaderMap,
) -> Response {
    let mut response = match form {
        Form::Ganeti => Json(refusal).into_response(),
        Form::Sabakan => Json(refusal.sabakan()).into_response(),
        Form::Ironic => ramdisks::refused(refusal, version),
    };
    *response.status_mut() = refusal.status();
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::CONTENT_TYPE);
    headers.extend(std::mem::take(response.headers_mut()));
    if refusal.status() == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_str(&format!("Basic realm=\"{REALM}\""));
        headers.extend(realm.ok().map(|realm| (header::WWW_AUTHENTICATE, realm)));
    }
    if refusal.status() == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_have_a_limit_by_path() {
        assert_eq!(body_max("/api/v1/machines"), 6 << 20);
        assert_eq!(body_max("/api/v1/config"), 64 << 10);
        assert_eq!(body_max("/api/v1/crypts/SN1/sda"), 4_096);
        assert_eq!(body_max("/api/v1/ignitions/worker/1.0.0"), 256 << 10);
        assert_eq!(body_max("/2/networks"), 1 << 20);
        assert_eq!(body_max("/version"), 4 << 10);
        for (length, fits) in [(0, true), (4_096, true), (4_097, false)] {
            let read = whole(Body::from(vec![b'x'; length]), 4_096).await;
            assert_eq!(read.is_ok(), fits, "{length}");
        }
    }

    /// A body that never comes.
    struct Silent;

    impl hyper::body::Body for Silent {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let told = whole(Body::new(Silent), 4_096).await.unwrap_err();
        assert_eq!(told.code, 408);
    }

    #[test]
    fn strangers_log_in_and_readers_change_nothing() {
        let code = |principal: &Principal, reads| {
            let verb = if reads { Verb::Read } else { Verb::Change };
            admit(principal, verb, "/2/x").map_err(|refusal| refusal.code)
        };
        let user = |role| Principal::User { name: "bob".into(), role };
        assert_eq!(code(&Principal::Anonymous(None), true), Err(401));
        assert_eq!(code(&Principal::Anonymous(Some(Role::Read)), true), Ok(()));
        assert_eq!(code(&Principal::Anonymous(Some(Role::Read)), false), Err(401));
        assert_eq!(code(&user(Role::Read), true), Ok(()));
        assert_eq!(code(&user(Role::Read), false), Err(403));
        assert_eq!(code(&user(Role::Operator), false), Ok(()));
        let key = |principal: &Principal| {
            admit(principal, Verb::DiskKey("SN1"), "/x").map_err(|refusal| refusal.code)
        };
        assert_eq!(key(&Principal::Anonymous(Some(Role::Read))), Err(401));
        assert_eq!(key(&user(Role::Read)), Err(403));
        assert_eq!(key(&user(Role::Operator)), Ok(()));
        assert_eq!(key(&Principal::Machine("SN1".parse().unwrap())), Ok(()));
        assert_eq!(key(&Principal::Machine("SN2".parse().unwrap())), Err(403));
    }

    async fn shown(form: Form, response: Response) -> (u16, HeaderMap, Value) {
        let version = HeaderValue::from_static("1.72");
        let (head, body) = render(form, Some(&version), response).await.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (head.status.as_u16(), head.headers, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_refusal_has_the_form_of_its_interface() {
        for (form, key) in [(Form::Ganeti, "explain"), (Form::Sabakan, "error")] {
            let (status, headers, body) = shown(form, unauthorized("log in").into_response()).await;
            assert_eq!((status, &body[key]), (401, &"log in".into()));
            assert_eq!(headers[header::WWW_AUTHENTICATE], "Basic realm=\"Ganeti Remote API\"");
            assert_eq!(headers[header::CONTENT_TYPE], "application/json");
        }
        let (status, headers, body) =
            shown(Form::Ironic, Refusal::not_found("no master").into_response()).await;
        assert_eq!((status, &headers[HEADERS[0]]), (404, &"1.72".parse().unwrap()));
        assert!(body["error_message"].as_str().is_some_and(|text| text.contains("no master")));
    }

    #[tokio::test]
    async fn what_a_route_has_written_itself_stays_and_what_a_library_says_is_told() {
        let unhealthy = Json(serde_json::json!({"health": "unhealthy"}));
        let unhealthy = (StatusCode::INTERNAL_SERVER_ERROR, unhealthy).into_response();
        let (status, _, body) = shown(Form::Ganeti, unhealthy).await;
        assert_eq!((status, body.to_string().as_str()), (500, r#"{"health":"unhealthy"}"#));
        for (form, key) in [(Form::Ganeti, "explain"), (Form::Sabakan, "error")] {
            let rejected = (StatusCode::BAD_REQUEST, "Invalid URL").into_response();
            assert_eq!(shown(form, rejected).await.2[key], "Invalid URL");
            let range = [(header::CONTENT_RANGE, "bytes */7")];
            let range = (StatusCode::RANGE_NOT_SATISFIABLE, range).into_response();
            let (status, headers, body) = shown(form, range).await;
            assert_eq!((status, &body[key]), (416, &"Range Not Satisfiable".into()));
            assert_eq!(headers[header::CONTENT_RANGE], "bytes */7");
        }
    }
}
