//! Takes requests in: whoever sends one has shown nothing yet, so that large bodies come one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use http::{HeaderMap, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tokio::sync::Semaphore;

use crate::{Answer, Asked, HEADERS, Request, Route, read};

/// Bytes of a body that needs no place: every heartbeat of a real agent.
pub const SMALL_BYTES: usize = 64 * 1024;
/// Larger bodies at the same time: 16 MiB each, and as much again while one is parsed. Inspections take a
/// second, and agents try again where there is no place.
const PLACES: usize = 4;
/// How long one waits for a place, and how long a body may take: agents wait for 30 s by default.
const PLACE_TIME: Duration = Duration::from_secs(10);
const BODY_TIME: Duration = Duration::from_secs(20);

const BUSY: &str = "Too many large requests at the same time; try again.";

/// Where requests are taken in; clones are the same one.
#[derive(Debug, Clone)]
pub struct Door {
    places: Arc<Semaphore>,
}

impl Default for Door {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(PLACES)) }
    }
}

impl Door {
    /// Reads a request that reached this server by `base`.
    ///
    /// # Errors
    /// It asks for nothing that is served, is too large or too slow, or there is no place for it.
    pub async fn read<B>(&self, head: &Parts, base: &str, body: B) -> Result<Asked, Box<Answer>>
    where
        B: Body<Data: Buf>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let refused = |status, why| Box::new(Answer::refused(status, why));
        let most = Route::at(head.uri.path()).map_or(0, Route::body_bytes_max);
        let is_small = length(&head.headers).is_some_and(|length| length <= SMALL_BYTES);
        // It is kept until the body is read and gone.
        let _place = if is_small || most == 0 {
            None
        } else {
            let place = tokio::time::timeout(PLACE_TIME, self.places.acquire()).await;
            let Ok(Ok(place)) = place else {
                return Err(refused(StatusCode::SERVICE_UNAVAILABLE, BUSY));
            };
            Some(place)
        };
        // One byte more, by which the reader knows what is too large for its route.
        let whole = Limited::new(body, most + 1).collect();
        let whole = tokio::time::timeout(BODY_TIME, whole).await.map_err(|_late| {
            refused(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.")
        })?;
        let whole =
            whole.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
                true => refused(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large."),
                false => refused(StatusCode::BAD_REQUEST, "The body broke off."),
            })?;
        let version = head.headers.get(HEADERS[0]);
        let version = version.map(|value| value.to_str().unwrap_or("?"));
        read(&Request {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query(),
            version,
            body: &whole.to_bytes(),
            base,
        })
    }
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
