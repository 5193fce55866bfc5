//! Requests of clients that are passed on.

use tokio::task::JoinSet;

use super::*;
use crate::peer::forwarding::{ClientService, PassLink, Passed, Passing};

/// A request that is never answered.
const NEVER: &[u8] = b"never";

/// Answers with what it was asked, and by whom.
#[derive(Debug, Default)]
struct Clients {
    begun: Notify,
    /// Told when a request that is never answered is over.
    over: Notify,
}

/// Tells when it goes.
struct Guard<'a>(&'a Notify);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl ClientService for Clients {
    fn answer<'a>(&'a self, from: &'a Hello, passed: Passed) -> Passing<'a> {
        Box::pin(async move {
            if passed.message == NEVER {
                let _guard = Guard(&self.over);
                self.begun.notify_one();
                std::future::pending::<()>().await;
            }
            let Passed { uid, gid, message, .. } = passed;
            let node = &from.from.node;
            Ok(format!("{node} {uid} {gid} {}", String::from_utf8_lossy(&message)).into())
        })
    }
}

fn passed(message: &'static [u8]) -> Passed {
    let (role, asker, message) = (None, None, Bytes::from_static(message));
    Passed { uid: 7, gid: 8, role, asker, message }
}

async fn served(limits: PeerLimits) -> (Two, Arc<Clients>) {
    let clients = Arc::new(Clients::default());
    let two = Two::with_clients(limits, Some(Arc::clone(&clients) as Arc<dyn ClientService>)).await;
    (two, clients)
}

fn link(two: &Two) -> PassLink {
    two.client().pass(store(1), store(2))
}

#[tokio::test]
async fn requests_are_passed_on_with_who_sent_them() {
    let (two, _clients) = served(PeerLimits::default()).await;
    let mut link = link(&two);
    for message in [&b"{}"[..], b"", b"{\"method\": \"Query\"}"] {
        let answer = link.pass(&passed(message), LONG).await.unwrap();
        let expected = format!("n1 7 8 {}", String::from_utf8_lossy(message));
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn where_no_clients_are_answered_nothing_is_done() {
    let two = Two::start().await;
    let error = link(&two).pass(&passed(b"{}"), LONG).await.unwrap_err();
    assert!(matches!(error, PeerError::Failed { .. }) && error.certainly_not_done(), "{error:?}");
}

#[tokio::test]
async fn who_leaves_ends_its_request() {
    let (two, clients) = served(PeerLimits::default()).await;
    let mut leaving = link(&two);
    let request = passed(NEVER);
    tokio::select! {
        answer = leaving.pass(&request, LONG) => panic!("{answer:?}"),
        () = clients.begun.notified() => {}
    }
    clients.over.notified().await;
    assert!(leaving.pass(&passed(b"{}"), LONG).await.is_ok());
}

#[tokio::test]
async fn clients_take_no_places_of_the_engine() {
    let (two, clients) =
        served(PeerLimits { per_peer: 1, clients_per_peer: 2, ..PeerLimits::default() }).await;
    let mut waiting = JoinSet::new();
    for _ in 0..2 {
        let mut link = link(&two);
        waiting.spawn(async move { link.pass(&passed(NEVER), LONG).await });
        clients.begun.notified().await;
    }
    let error = link(&two).pass(&passed(b"{}"), LONG).await.unwrap_err();
    let PeerError::Refused { refusal, .. } = error else { panic!("{error:?}") };
    assert_eq!(refusal.reason, RefusalReason::Busy);
    echoes(&mut two.engine()).await;
    drop(waiting);
    clients.over.notified().await;
    while link(&two).pass(&passed(b"{}"), LONG).await.is_err() {
        tokio::task::yield_now().await;
    }
}
