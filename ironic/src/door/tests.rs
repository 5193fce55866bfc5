use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::Frame;
use tokio::time::Sleep;

use super::*;

/// A body that comes as its sender likes: so many bytes at once, then one each time.
struct Slow {
    first: usize,
    each: Duration,
    next: Pin<Box<Sleep>>,
}

impl Slow {
    fn new(first: usize, each: Duration) -> Self {
        Self { first, each, next: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }
}

impl Body for Slow {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Infallible>>> {
        std::task::ready!(self.next.as_mut().poll(context));
        let each = self.each;
        self.next.as_mut().reset(Instant::now() + each);
        let length = std::mem::replace(&mut self.first, 1);
        Poll::Ready(Some(Ok(Frame::data(vec![b' '; length].into()))))
    }
}

fn arrival(last: u8) -> Arrival<'static> {
    Arrival { base: "", from: Ipv4Addr::new(10, 69, 0, last).into() }
}

fn head(method: &str, path: &str, length: usize) -> Parts {
    let request = http::Request::builder().method(method).uri(path);
    request.header(header::CONTENT_LENGTH, length).body(()).unwrap().into_parts().0
}

/// A body of spaces that promises to be a large inspection; the status of its refusal.
async fn inspects<B: Body<Error = Infallible>>(door: &Door, from: u8, body: B) -> u16 {
    let head = head("POST", "/v1/continue_inspection", 1 << 20);
    door.read(&head, arrival(from), body).await.unwrap_err().status
}

/// It is whole at once, and is no JSON.
fn whole_body() -> http_body_util::Full<bytes::Bytes> {
    http_body_util::Full::new(vec![b' '; 100_000].into())
}

fn trickle() -> Slow {
    Slow::new(70_000, Duration::from_millis(500))
}

#[tokio::test(start_paused = true)]
async fn a_body_has_time_by_how_it_comes_on() {
    for (body, seconds) in [
        (trickle(), 3),
        (Slow::new(1, Duration::from_secs(3_600)), 3),
        (Slow::new(1 << 20, Duration::from_millis(100)), 11),
        (Slow::new(4 << 20, Duration::from_millis(100)), 20),
    ] {
        let begun = Instant::now();
        assert_eq!(inspects(&Door::default(), 1, body).await, 408);
        assert_eq!(begun.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_senders_of_one_address_leave_the_others_their_places() {
    let door = Door::default();
    let slow = futures(&door, [1; 12]);
    let good = async {
        let begun = Instant::now();
        for from in 2..32 {
            assert_eq!(inspects(&door, from, whole_body()).await, 400);
        }
        assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
    };
    let (refused, ()) = tokio::join!(slow, good);
    // The senders that get their turn in time are too slow.
    assert_eq!(refused.iter().filter(|status| **status == 408).count(), 5, "{refused:?}");
    assert!(refused.iter().all(|status| [408, 503].contains(status)), "{refused:?}");
    assert!(door.places.turns.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn slow_senders_of_a_dozen_addresses_are_given_up_in_time() {
    let door = Door::default();
    let slow = futures(&door, std::array::from_fn(|n| u8::try_from(n).unwrap()));
    let good = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        inspects(&door, 99, whole_body()).await
    };
    let (_, status) = tokio::join!(slow, good);
    assert_eq!(status, 400, "its inspection is read");
}

async fn futures(door: &Door, from: [u8; 12]) -> Vec<u16> {
    let mut all: Vec<_> =
        from.iter().map(|from| Box::pin(inspects(door, *from, trickle()))).collect();
    let mut ended = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(status) => {
                ended.push(status);
                false
            }
            Poll::Pending => true,
        });
        if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended
}

#[tokio::test]
async fn what_needs_no_body_waits_for_none() {
    let door = Door::default();
    for (method, path, status) in [
        ("POST", "/v1/lookup", 405),
        ("PUT", "/v1/heartbeat/x", 405),
        ("POST", "/v1/nothing", 404),
        ("GET", "/v1/lookup", 404),
    ] {
        let head = head(method, path, 1 << 20);
        let body = Slow::new(1, Duration::from_secs(3_600));
        let refused = door.read(&head, arrival(1), body).await.unwrap_err();
        assert_eq!(refused.status, status, "{method} {path}");
    }
    let head = head("POST", "/v1/heartbeat/x", crate::HEARTBEAT_BYTES_MAX + 1);
    let body = Slow::new(1, Duration::from_secs(3_600));
    assert_eq!(door.read(&head, arrival(1), body).await.unwrap_err().status, 413);
}
