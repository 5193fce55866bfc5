//! Time, places, and ends in the middle.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::refusals::{raw, say_hello};
use super::*;
use crate::peer::frame::header;
use crate::tls::ALPN_PEER;

/// Time for what does not come: any would do.
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn an_answer_that_does_not_come_costs_its_connection() {
    let two = Two::start().await;
    let mut link = two.engine();
    echoes(&mut link).await;
    let error = link.ask(HOLD, &[b"late"], SHORT).await.unwrap_err();
    assert!(matches!(error, PeerError::TimedOut { .. }) && !error.certainly_not_done());
    two.member.holding.notified().await;
    // The late answer is not taken for that of the next question.
    two.member.release.notify_one();
    echoes(&mut link).await;
    // Two hellos, three questions.
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn a_question_that_is_dropped_costs_its_connection() {
    let two = Two::start().await;
    let mut link = two.engine();
    tokio::select! {
        answer = link.ask(HOLD, &[b"late"], LONG) => panic!("{answer:?}"),
        () = two.member.holding.notified() => {}
    }
    two.member.release.notify_one();
    echoes(&mut link).await;
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn who_never_answers_the_hello_is_unreachable() {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let two = Two::start().await;
    let target = PeerTarget { address: listener.local_addr().unwrap(), ..two.target.clone() };
    let times = PeerTimes { connect: SHORT, ..PeerTimes::default() };
    let client = PeerClient::with(&two.asking, CLUSTER, target, times).unwrap();
    let error = client.engine(store(1), store(2)).ask(ECHO, &[], LONG).await.unwrap_err();
    let PeerError::Unreachable { error, .. } = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_connection_that_was_not_used_for_long_is_made_anew() {
    let two = Two::start().await;
    let times = PeerTimes { idle: Duration::ZERO, ..PeerTimes::default() };
    let target = two.target.clone();
    let client = PeerClient::with(&two.asking, CLUSTER, target, times).unwrap();
    let mut link = client.engine(store(1), store(2));
    echoes(&mut link).await;
    echoes(&mut link).await;
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_peer_has_a_number_of_places() {
    let two = Two::with(PeerLimits { per_peer: 2, ..PeerLimits::default() }).await;
    let (mut first, mut second, mut third) = (two.engine(), two.engine(), two.engine());
    echoes(&mut first).await;
    echoes(&mut second).await;
    let error = third.ask(ECHO, &[], LONG).await.unwrap_err();
    let PeerError::Refused { refusal, .. } = error else { panic!("{error:?}") };
    assert_eq!(refusal.reason, RefusalReason::Busy);
    echoes(&mut first).await;
    second.close();
    // Its place is free as soon as the other side has seen it.
    while third.ask(ECHO, &[], LONG).await.is_err() {
        tokio::task::yield_now().await;
    }
    echoes(&mut first).await;
}

#[tokio::test]
async fn an_engine_that_does_not_answer_leaves_control_its_places() {
    let two = Two::with(PeerLimits { per_peer: 1, ..PeerLimits::default() }).await;
    // Given up, and not answered: it keeps its place.
    let mut given_up = two.engine();
    tokio::select! {
        answer = given_up.ask(HOLD, &[], LONG) => panic!("{answer:?}"),
        () = two.member.holding.notified() => {}
    }
    drop(given_up);
    let error = two.engine().ask(ECHO, &[], LONG).await.unwrap_err();
    let PeerError::Refused { refusal, .. } = error else { panic!("{error:?}") };
    assert_eq!(refusal.reason, RefusalReason::Busy);
    let position = two.control().call(&AskPosition {}).await.unwrap();
    assert_eq!(position.member, Some(2));
    two.member.release.notify_one();
    let mut engine = two.engine();
    while engine.ask(ECHO, &[], LONG).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn strangers_take_no_places_of_members() {
    let two =
        Two::with(PeerLimits { handshakes: 2, handshakes_per_address: 2, ..PeerLimits::default() })
            .await;
    let mut links = vec![two.engine(), two.engine(), two.engine()];
    for link in &mut links {
        echoes(link).await;
    }
    // A crowd that says nothing, of which those that came first make room.
    let mut crowd = Vec::new();
    for _ in 0..50 {
        crowd.push(TcpStream::connect(two.target.address).await.unwrap());
    }
    let mut nothing = Vec::new();
    drop(crowd[0].read_to_end(&mut nothing).await);
    assert!(nothing.is_empty());
    links.push(two.engine());
    for link in &mut links {
        echoes(link).await;
    }
}

#[tokio::test]
async fn slow_writers_lose_their_place() {
    // Long enough for the handshakes of a busy machine.
    let short = Duration::from_secs(1);
    let limits = PeerLimits {
        handshake: short,
        hello: short,
        frame: short,
        idle: short,
        ..PeerLimits::default()
    };
    let two = Two::with(limits).await;
    let mut idle = raw(&two, &[ALPN_PEER]).await;
    say_hello(&two, &mut idle).await;
    let mut slow = raw(&two, &[ALPN_PEER]).await;
    say_hello(&two, &mut slow).await;
    slow.write_all(&header(ECHO, 50).unwrap()).await.unwrap();
    slow.write_all(b"not fifty").await.unwrap();
    slow.flush().await.unwrap();
    let mut speechless = raw(&two, &[ALPN_PEER]).await;
    let mut mute = TcpStream::connect(two.target.address).await.unwrap();
    // Each of them would hang, were it not closed.
    let mut rest = Vec::new();
    drop(mute.read_to_end(&mut rest).await);
    drop(speechless.read_to_end(&mut rest).await);
    drop(slow.read_to_end(&mut rest).await);
    drop(idle.read_to_end(&mut rest).await);
    assert!(rest.is_empty());
}

#[tokio::test]
async fn stopping_answers_what_is_under_way_and_nothing_else() {
    let two = Two::with(PeerLimits { grace: LONG, ..PeerLimits::default() }).await;
    let (mut link, mut other) = (two.engine(), two.engine());
    echoes(&mut other).await;
    let Two { server, member, .. } = two;
    let stopping = async {
        member.holding.notified().await;
        let refused = async {
            let error = loop {
                if let Err(error) = other.ask(ECHO, &[], LONG).await {
                    break error;
                }
            };
            let PeerError::Refused { refusal, .. } = error else { panic!("{error:?}") };
            assert_eq!(refusal.reason, RefusalReason::Stopping);
            member.release.notify_one();
        };
        tokio::join!(server.stop(), refused);
    };
    let (answer, ()) = tokio::join!(link.ask(HOLD, &[b"under way"], LONG), stopping);
    assert_eq!(answer.unwrap(), "under way");
    // As soon as the farewell is here, no question is lost to the old connection.
    while link.is_quiet().await {
        tokio::task::yield_now().await;
    }
    let error = link.ask(ECHO, &[], LONG).await.unwrap_err();
    assert!(matches!(error, PeerError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn stopping_drops_what_does_not_end() {
    let two = Two::with(PeerLimits { grace: SHORT, ..PeerLimits::default() }).await;
    let mut link = two.engine();
    let Two { server, member, .. } = two;
    let stopping = async {
        member.holding.notified().await;
        server.stop().await;
    };
    let (answer, ()) = tokio::join!(link.ask(HOLD, &[], LONG), stopping);
    assert!(matches!(answer, Err(PeerError::Lost { .. })), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_nothing_behind() {
    let two = Two::start().await;
    let mut link = two.engine();
    let Two { server, member, .. } = two;
    let dropping = async {
        member.holding.notified().await;
        drop(server);
    };
    let (answer, ()) = tokio::join!(link.ask(HOLD, &[], LONG), dropping);
    assert!(matches!(answer, Err(PeerError::Lost { .. })), "{answer:?}");
    let error = link.ask(ECHO, &[], LONG).await.unwrap_err();
    assert!(matches!(error, PeerError::Unreachable { .. }), "{error:?}");
}
