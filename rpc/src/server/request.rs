//! One request: its body within its limit, its answer from a task of its own.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use model::enrol::Fingerprint;

use crate::calls::{Carriage, Traits};
use crate::fence::{Interruption, Signal};
use crate::server::Shared;
use crate::service::{Answer, Received, Service};
use crate::wire::{AnswerBody, Failure, FailureKind};

/// The part of the path before the name of a call.
pub(crate) const PATH_PREFIX: &str = "/rpc/";

pub(super) async fn respond<S: Service>(
    shared: Arc<Shared<S>>,
    peer: Option<Fingerprint>,
    http: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let answer = match receive(&shared, peer, http).await {
        Ok(received) => run(&shared, received).await,
        Err(failure) => Err(failure),
    };
    into_response(answer)
}

async fn receive<S: Service>(
    shared: &Shared<S>,
    peer: Option<Fingerprint>,
    http: Request<Incoming>,
) -> Result<Received, Failure> {
    if !shared.service.admits(peer) {
        // The list may have changed since the handshake.
        return Err(Failure::new(FailureKind::Stranger, "the caller is not on the allow-list"));
    }
    let name = http.uri().path().strip_prefix(PATH_PREFIX).unwrap_or_default();
    let Some(traits) = shared.service.traits(name) else {
        let name: String = http.uri().path().chars().take(64).collect();
        return Err(Failure::new(FailureKind::UnknownCall, format!("there is no call `{name}`")));
    };
    if http.method() != Method::POST {
        let message = format!("`{}` is called by POST", traits.name);
        return Err(Failure::new(FailureKind::Malformed, message));
    }
    let limit = match http.version() {
        http::Version::HTTP_2 => Carriage::Shared.body_max(),
        _ => traits.carriage.body_max(),
    };
    let body = read_body(shared, traits, http.into_body(), limit).await?;
    let (signal, interrupt) = Signal::new();
    Ok(Received { name: traits.name.to_owned(), peer, body, signal, interrupt })
}

async fn read_body<S>(
    shared: &Shared<S>,
    traits: &Traits,
    body: Incoming,
    limit: usize,
) -> Result<Bytes, Failure> {
    let reading = Limited::new(body, limit).collect();
    match tokio::time::timeout(shared.limits.body, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::new(
            FailureKind::TooLarge,
            format!("the body of `{}` is longer than {limit} bytes", traits.name),
        )),
        Ok(Err(error)) => Err(Failure::new(
            FailureKind::Malformed,
            format!("the body of `{}` broke off: {error}", traits.name),
        )),
        Err(_elapsed) => Err(Failure::new(
            FailureKind::Overdue,
            format!(
                "the body of `{}` did not arrive within {} s",
                traits.name,
                shared.limits.body.as_secs()
            ),
        )),
    }
}

/// Raises the signal where the answer is dropped: the caller is gone.
struct Listening(Signal);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.raise(Interruption::CallerGone);
    }
}

async fn run<S: Service>(shared: &Arc<Shared<S>>, received: Received) -> Answer {
    let name = received.name.clone();
    let _listening = Listening(received.signal.clone());
    let (tell, told) = oneshot::channel();
    let service = Arc::clone(shared);
    let span = tracing::info_span!("call", call = %name);
    let call = async move {
        let answer = service.service.respond(received).await;
        // The caller may be gone; then nobody wants the answer.
        drop(tell.send(answer));
    };
    shared.calls.spawn("rpc call", tracing::Instrument::instrument(call, span));
    let answer = told.await.unwrap_or_else(|_dropped| {
        Err(Failure::new(
            FailureKind::Panicked,
            format!("`{name}` ended without an answer; the agent's log says why"),
        ))
    });
    if let Err(failure) = &answer {
        tracing::info!(call = %name, kind = failure.kind.name(), %failure, "call failed");
    }
    answer
}

fn into_response(answer: Answer) -> Response<Full<Bytes>> {
    let (status, body) = match answer {
        Ok(reply) => (200, AnswerBody::Reply(reply)),
        Err(failure) => (failure.kind.status(), AnswerBody::Error(failure)),
    };
    let bytes = serde_json::to_vec(&body).expect("an answer has only strings as keys");
    let mut response = Response::new(Full::new(Bytes::from(bytes)));
    *response.status_mut() =
        StatusCode::from_u16(status).expect("the table of failures has valid statuses");
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
