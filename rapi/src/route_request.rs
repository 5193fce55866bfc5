//! A request as a route sees it, and the actions that the route may take with it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, MatchedPath, Query, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use luxi::method::GantryDigest;
use luxi::request::Principal;
use model::access::{self, Verb, may};
use model::opcode::common::{CHANGED_MEANWHILE, Unchanged};
use model::opcode::{OpCode, ReasonEntry};
use model::{JobId, OpInput, Timestamp, token};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::etag;
use crate::master_pool::END_TIME;
use crate::refusal::Refusal;
use crate::server::Running;
use crate::shares::{Holder, Place, holder_of, turn_now};
use crate::state::{Asker, Front, Peer, PlainHttp};
use crate::switches::{self, DRY_RUN};
use crate::upload::is_upload;

/// The result of a route.
pub type Answer = Result<Response, Refusal>;

/// The source of a user's own reason in the trail of a job: Ganeti's word for it.
const USER_REASON: &str = "gnt:user";
/// The source of the entry in a job's trail that says who asked for the job here.
pub const TRAIL: &str = "gantry:rapi";
/// The header by which a client marks a change that it may send again; one of IETF's drafts has the name.
const REPEAT_KEY: &str = "idempotency-key";
/// Longest such mark.
const REPEAT_KEY_MAX: usize = 128;

#[derive(Debug)]
pub struct RouteRequest {
    /// Everything that answers come from.
    pub front: Arc<Front>,
    /// The principal that asks.
    pub principal: access::Principal,
    /// The address of the client.
    pub peer: IpAddr,
    /// By whose share the request is served.
    pub holder: Holder,
    pub headers: HeaderMap,
    /// Whether it came without TLS.
    pub is_plain: bool,
    /// The body, whole; empty where it is an upload.
    pub body: Bytes,
    /// The body of an upload, until its route takes it.
    upload: Mutex<Option<Body>>,
    running: Option<Arc<Running>>,
    method: Method,
    uri: Uri,
    query: Vec<(String, String)>,
    /// The state that the change rests on, once its condition was checked.
    unchanged: Mutex<Option<Unchanged>>,
}

impl FromRequest<Arc<Front>> for RouteRequest {
    type Rejection = Refusal;

    async fn from_request(request: Request, front: &Arc<Front>) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(query) = query.map_err(|error| Refusal::bad(error.body_text()))?;
        let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        if switches::changes(&parts.method, parts.uri.path()) {
            switches::check(parts.method.as_str(), path.unwrap_or_default(), &query)?;
        }
        let Asker(principal) = parts
            .extensions
            .get::<Asker>()
            .cloned()
            .ok_or_else(|| Refusal::fault("nobody looked at who asks"))?;
        let Peer(peer) = *parts
            .extensions
            .get::<Peer>()
            .ok_or_else(|| Refusal::fault("nobody looked at where it comes from"))?;
        let (body, upload) = if is_upload(&parts.method, parts.uri.path()) {
            (Bytes::new(), Some(body))
        } else {
            // It was read within its limits before it came here.
            let body = axum::body::to_bytes(body, usize::MAX).await;
            (body.map_err(|error| Refusal::bad(error.to_string()))?, None)
        };
        let upload = Mutex::new(upload);
        let front = Arc::clone(front);
        let is_plain = parts.extensions.get::<PlainHttp>().is_some();
        let (headers, method, uri) = (parts.headers, parts.method, parts.uri);
        let (unchanged, peer) = (Mutex::default(), peer.ip().to_canonical());
        let holder = holder_of(&principal, peer);
        let running = parts.extensions.get::<Arc<Running>>().cloned();
        Ok(Self {
            front,
            principal,
            peer,
            holder,
            headers,
            is_plain,
            body,
            upload,
            running,
            method,
            uri,
            query,
            unchanged,
        })
    }
}

impl RouteRequest {
    /// Asks the master.
    ///
    /// # Errors
    /// What the client is told.
    pub async fn ask<M: luxi::Method>(&self, call: M) -> Result<M::Reply, Refusal>
    where
        M::Reply: 'static,
    {
        self.front.link.ask(&self.holder, Some(self.speaks()), call).await
    }

    /// For whom the master is asked.
    fn speaks(&self) -> Principal {
        let (user, role) = (self.principal.to_string(), self.principal.role());
        Principal { user, role, address: self.peer }
    }

    /// Whether the principal may do this here.
    ///
    /// # Errors
    /// It may not.
    pub fn may(&self, verb: Verb<'_>) -> Result<(), Refusal> {
        may(&self.principal, verb, self.uri.path()).map_err(Refusal::from)
    }

    /// The host and port by which the client reached this.
    pub fn authority(&self) -> Option<&str> {
        authority(&self.headers, &self.uri)
    }

    /// All values of a query parameter, in their order. Empty ones are none, as in Ganeti.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.query.iter().filter(move |(key, value)| key == name && !value.is_empty());
        named.map(|(_, value)| value.as_str())
    }

    /// The first value of a query parameter.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, v)| v.as_str())
    }

    /// The query parameters.
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// A switch, which Ganeti writes as a number.
    ///
    /// # Errors
    /// It is none.
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        switches::flag(&self.query, name)
    }

    /// The body as JSON; null where there is none.
    ///
    /// # Errors
    /// It is another type of content, or does not read.
    pub fn json(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let text = "send the body with Content-Type: application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        crate::json::parse(&self.body)
    }

    /// Answers with an object and its tag, or that the client has it already.
    pub fn object(&self, object: &Value, measured: &[&str]) -> Response {
        let tag = etag::of(object, measured);
        let tagged = [(header::ETAG, tag.clone())];
        if etag::is_known(&self.headers, &tag) {
            return (StatusCode::NOT_MODIFIED, tagged).into_response();
        }
        (tagged, Json(object)).into_response()
    }

    /// As [`Self::object`], of an object that is written already, with its tag.
    pub fn written(&self, json: Vec<u8>, tag: &str) -> Response {
        let tagged = [(header::ETAG, tag.to_owned())];
        if etag::is_known(&self.headers, tag) {
            return (StatusCode::NOT_MODIFIED, tagged).into_response();
        }
        (tagged, [(header::CONTENT_TYPE, "application/json")], json).into_response()
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.front.link.now_micros())
    }

    /// Refuses a change of an object that is not what the client thinks it is: one that has not this `tag`.
    /// The master looks at its `document` again when it makes the change, so that of two changes of one
    /// state one is made.
    ///
    /// # Errors
    /// The object has another tag, or is not there.
    pub async fn condition(
        &self,
        document: String,
        tag: impl Future<Output = Result<String, Refusal>>,
    ) -> Result<(), Refusal> {
        if !etag::is_conditional(&self.headers) {
            return Ok(());
        }
        // It is asked for before the object: what changes between both is refused.
        let digest = self.ask(GantryDigest { document: document.clone() }).await?;
        let is_it = match tag.await {
            Ok(tag) => etag::may_change(&self.headers, &tag),
            Err(refusal) if refusal.status() == StatusCode::NOT_FOUND => false,
            Err(refusal) => return Err(refusal),
        };
        if !is_it {
            let text = format!("it {CHANGED_MEANWHILE}");
            return Err(Refusal::new(StatusCode::PRECONDITION_FAILED, text));
        }
        *self.unchanged.lock() = Some(Unchanged(document, digest));
        Ok(())
    }

    /// The digest that the object of the condition must have still.
    pub fn digest(&self) -> Option<String> {
        self.unchanged.lock().as_ref().and_then(|Unchanged(_, digest)| digest.clone())
    }

    /// Refuses a condition that the route did not look at: to pass over it would do what the client
    /// wants to be kept from.
    ///
    /// # Errors
    /// There is one.
    pub fn unconditional(&self) -> Result<(), Refusal> {
        if etag::is_conditional(&self.headers) && self.unchanged.lock().is_none() {
            let text = "If-Match is not supported for this path; leave the header out";
            return Err(Refusal::bad(text));
        }
        Ok(())
    }

    /// Submits an opcode as a job: `id` with its parameters.
    ///
    /// # Errors
    /// It does not read, the principal may not do that, or the master does not take it.
    pub async fn submit(&self, id: &str, parameters: Map<String, Value>) -> Result<JobId, Refusal> {
        let op = self.opcode(id, parameters)?;
        self.submit_all(vec![op]).await
    }

    /// Submits opcodes, as one job.
    ///
    /// # Errors
    /// The principal may not do that, or the master does not take it.
    pub async fn submit_all(&self, mut ops: Vec<OpInput>) -> Result<JobId, Refusal> {
        self.unconditional()?;
        for op in &mut ops {
            self.may(Verb::Submit(&op.op))?;
            op.common.reason = self.trail()?;
            op.common.unchanged = self.unchanged.lock().clone().into_iter().collect();
            op.common.dry_run |= self.flag(DRY_RUN)?;
        }
        self.front.link.submit(&self.holder, Some(self.speaks()), ops).await
    }

    /// An opcode: `id` with its parameters.
    ///
    /// # Errors
    /// It does not read.
    pub fn opcode(&self, id: &str, mut parameters: Map<String, Value>) -> Result<OpInput, Refusal> {
        parameters.insert("OP_ID".to_owned(), id.into());
        let text = Value::Object(parameters).to_string();
        let invalid = |error| Refusal::bad(format!("Invalid body parameters: {error}"));
        let op = OpInput::parse(&text).map_err(invalid)?;
        if let OpCode::NetworkAdd(network) = &op.op {
            // Ganeti asks for one before it makes a job.
            network
                .subnets()
                .map_err(|why| Refusal::bad(format!("Invalid body parameters: {why}")))?;
        }
        Ok(op)
    }

    /// The same, to its end; the opcode's result.
    ///
    /// # Errors
    /// The job fails, too.
    pub async fn run(&self, id: &str, parameters: Map<String, Value>) -> Result<Value, Refusal> {
        self.run_within(id, parameters, END_TIME).await
    }

    /// The same of a job that may take longer.
    ///
    /// # Errors
    /// The job fails, too.
    pub async fn run_within(
        &self,
        id: &str,
        parameters: Map<String, Value>,
        time: Duration,
    ) -> Result<Value, Refusal> {
        let job = self.submit(id, parameters).await?;
        let results = self.front.link.results(&self.holder, job, time).await?;
        Ok(results.into_iter().next().unwrap_or_default())
    }

    /// A place for an upload, whose connection is not shed from then on.
    ///
    /// # Errors
    /// There is none.
    pub fn upload_place(&self) -> Result<Place, Refusal> {
        let shares = &self.front.shares;
        let place = turn_now(&shares.uploads, &self.holder, "uploads")?;
        self.running.iter().for_each(|running| running.counts(&shares.busy, &self.holder));
        Ok(place)
    }

    /// A place for a download of an image.
    ///
    /// # Errors
    /// There is none.
    pub fn archive_place(&self) -> Result<Place, Refusal> {
        turn_now(&self.front.shares.archives, &self.holder, "downloads of images")
    }

    /// The body that the route reads by itself; nothing where it was read already.
    pub fn upload(&self) -> Body {
        self.upload.lock().take().unwrap_or_default()
    }

    /// Whether the client asks for the head of the answer alone.
    pub fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// The request without its body, for what answers it with a file.
    pub fn bare(&self) -> Request {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The trail of the job: who asked for it and why. The stamp tells this request from every other, or
    /// with a mark of the client's own, from those that do not repeat it.
    pub(crate) fn trail(&self) -> Result<Vec<ReasonEntry>, Refusal> {
        let mut trail = Vec::new();
        let path = token::masked(self.uri.path());
        let who = format!("{}: {} {path}", self.principal, self.method);
        let stamp = match self.headers.get(REPEAT_KEY) {
            Some(key) => {
                let key = key.to_str().ok().filter(|key| key.len() <= REPEAT_KEY_MAX);
                let key = key.ok_or_else(|| {
                    Refusal::bad(format!("Idempotency-Key takes {REPEAT_KEY_MAX} ASCII characters"))
                })?;
                stamp_of(&who, key)
            }
            None => self.front.link.stamp(),
        };
        if let Some(reason) = self.value("reason") {
            let reason = token::masked(reason).into_owned();
            trail.push(ReasonEntry(USER_REASON.to_owned(), reason, stamp));
        }
        trail.push(ReasonEntry(TRAIL.to_owned(), who, stamp));
        Ok(trail)
    }
}

/// The host and port by which a client reached this: letters, digits and what addresses have.
pub fn authority<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // HTTP/2 has it in the target.
    let given = uri.authority().map(Authority::as_str).or_else(host)?;
    let is_good = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    (!given.is_empty() && given.bytes().all(is_good)).then_some(given)
}

/// A stamp that is the same whenever the same user sends the same mark with the same request.
fn stamp_of(who: &str, key: &str) -> i64 {
    let digest = Sha256::new().chain_update(who).chain_update([0]).chain_update(key).finalize();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(digest).for_each(|(byte, digit)| *byte = digit);
    (i64::from_be_bytes(bytes) & i64::MAX).max(1)
}

/// An answer in JSON.
pub fn json(value: impl serde::Serialize) -> Response {
    Json(value).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_the_clients_gives_the_same_stamp_again() {
        let one = stamp_of("bob: PUT /2/tags", "a");
        assert!(one > 0);
        assert_eq!(one, stamp_of("bob: PUT /2/tags", "a"));
        assert_ne!(one, stamp_of("bob: PUT /2/tags", "b"));
        assert_ne!(one, stamp_of("eve: PUT /2/tags", "a"));
    }
}
