//! Takes requests in. A sender has shown nothing yet, so large bodies have few places, and each address
//! has one of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut as _;
use http::{HeaderMap, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{Answer, Asked, HEADERS, Request, Route, read};

/// Bytes of a body that needs no place: every heartbeat of a real agent.
pub const SMALL_BYTES: usize = 64 * 1024;
/// Larger bodies at the same time: 16 MiB each, and as much again while one is parsed. Inspections take
/// a second, and agents try again where there is no place.
const PLACES: usize = 4;
/// How long a request waits for a place: less than the 30 s for which agents wait by default.
const PLACE_TIME: Duration = Duration::from_secs(15);
/// How long a body may take however little of it came. A packet that is lost twice takes as long;
/// sixteen slow senders are given up before a request that waits behind them.
const FIRST_TIME: Duration = Duration::from_secs(3);
/// Bytes that must come each second from then on, or the sender is given up: 1 Mbit/s.
const BYTES_A_SECOND: u64 = 128 * 1024;
/// How long a body may take however it comes on: 16 MiB at 7 Mbit/s.
const BODY_TIME: Duration = Duration::from_secs(20);

const BUSY: &str = "Too many large requests at the same time; try again.";
const LARGE: &str = "The body is too large.";
const SLOW: &str = "The body did not arrive in time.";

/// The entrance for requests; clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Door {
    places: Arc<Places>,
}

/// How a request reached this server.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The server, as the client called it: `http://ADDRESS:PORT`.
    pub base: &'a str,
    /// The client's address, or the network that counts as one sender.
    pub from: IpAddr,
}

/// Places for large bodies.
#[derive(Debug)]
struct Places {
    all: Arc<Semaphore>,
    /// The turn of each sender that has a place, or waits for one.
    turns: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(PLACES)), turns: Mutex::default() }
    }
}

/// A sender in the table of turns. It leaves the table with its last request.
struct Sender<'a> {
    places: &'a Places,
    from: IpAddr,
    turn: Option<Arc<Semaphore>>,
}

impl<'a> Sender<'a> {
    fn new(places: &'a Places, from: IpAddr) -> Self {
        let mut turns = places.turns.lock();
        let turn = turns.entry(from).or_insert_with(|| Arc::new(Semaphore::new(1)));
        Self { places, from, turn: Some(Arc::clone(turn)) }
    }

    /// Its turn, and then a place among those of all.
    async fn place(&self) -> Option<[OwnedSemaphorePermit; 2]> {
        let turn = Arc::clone(self.turn.as_ref()?).acquire_owned().await.ok()?;
        Some([turn, Arc::clone(&self.places.all).acquire_owned().await.ok()?])
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        let mut turns = self.places.turns.lock();
        self.turn = None;
        if turns.get(&self.from).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.from);
        }
    }
}

impl Door {
    /// Reads a request.
    ///
    /// # Errors
    /// It asks for nothing that is served, is too large or too slow, or there is no place for it.
    pub async fn read<B>(
        &self,
        head: &Parts,
        arrival: Arrival<'_>,
        body: B,
    ) -> Result<Asked, Box<Answer>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let refused = |status, why| Box::new(Answer::refused(status, why));
        let most = Route::body_of(head.method.as_str(), head.uri.path());
        let length = length(&head.headers);
        if most > 0 && length.is_some_and(|length| length > most) {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, LARGE));
        }
        let is_small = length.is_some_and(|length| length <= SMALL_BYTES);
        let sender = Sender::new(&self.places, arrival.from);
        // It is kept until the body is read and gone.
        let _place = if is_small || most == 0 {
            None
        } else {
            let place = timeout(PLACE_TIME, sender.place()).await.ok().flatten();
            Some(place.ok_or_else(|| refused(StatusCode::SERVICE_UNAVAILABLE, BUSY))?)
        };
        let whole = if most == 0 { Vec::new() } else { whole(body, most).await? };
        let version = head.headers.get(HEADERS[0]);
        let version = version.map(|value| value.to_str().unwrap_or("?"));
        read(&Request {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query(),
            version,
            body: &whole,
            base: arrival.base,
        })
    }
}

/// A body of so many bytes at most that comes on as it should.
async fn whole<B: Body>(body: B, most: usize) -> Result<Vec<u8>, Box<Answer>> {
    let refused = |status, why| Err(Box::new(Answer::refused(status, why)));
    let (begun, mut body, mut whole) = (Instant::now(), pin!(body), Vec::new());
    loop {
        let Ok(frame) = timeout_at(begun + time_of(whole.len()), body.frame()).await else {
            return refused(StatusCode::REQUEST_TIMEOUT, SLOW);
        };
        match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
            None => return Ok(whole),
            Some(Ok(Ok(data))) => whole.put(data),
            // Trailers say nothing.
            Some(Ok(Err(_trailers))) => {}
            Some(Err(_broken)) => return refused(StatusCode::BAD_REQUEST, "The body broke off."),
        }
        if whole.len() > most {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, LARGE);
        }
    }
}

/// How long a body may take of which so much came.
fn time_of(received: usize) -> Duration {
    let received = u64::try_from(received).unwrap_or(u64::MAX);
    (FIRST_TIME + Duration::from_millis(received * 1_000 / BYTES_A_SECOND)).min(BODY_TIME)
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
