//! The callers that get no answer.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::client::CertificateFault;
use crate::peer::frame::{HELLO_BYTES_MAX, HELLO_MARK, Status, header};
use crate::peer::stream::{self, Frame};
use crate::tls::{self, ALPN_PEER};

async fn refused(link: &mut Link) -> RefusalReason {
    let error = link.ask(ECHO, &[b"x"], LONG).await.unwrap_err();
    assert!(error.certainly_not_done());
    match error {
        PeerError::Refused { refusal, .. } => refusal.reason,
        other => panic!("{other:?}"),
    }
}

async fn certificate_refused(client: &PeerClient) {
    let mut link = client.engine(store(1), store(2));
    for _twice in 0..2 {
        let error = link.ask(ECHO, &[b"x"], LONG).await.unwrap_err();
        let certificate = matches!(error, PeerError::Certificate { .. });
        assert!(certificate && error.certainly_not_done(), "{error:?}");
    }
}

#[tokio::test]
async fn who_is_not_meant_refuses() {
    let two = Two::start().await;
    let not_meant = RefusalReason::NotMeant { here: store(2) };
    let client = two.client();
    assert_eq!(refused(&mut client.engine(store(1), store(3))).await, not_meant);
    let reborn = StoreId::new(2, Uuid::from_u128(1));
    assert_eq!(refused(&mut client.engine(store(1), reborn)).await, not_meant);
    let nobody = refused(&mut client.engine(store(1), StoreId::NONE)).await;
    assert_eq!(nobody, RefusalReason::Malformed);
    let from_nobody = refused(&mut client.engine(StoreId::NONE, store(2))).await;
    assert_eq!(from_nobody, RefusalReason::Malformed);
    let elsewhere = Uuid::from_u128(8);
    let client = PeerClient::new(&two.asking, elsewhere, two.target.clone()).unwrap();
    let wrong = RefusalReason::WrongCluster { cluster_uuid: CLUSTER };
    assert_eq!(refused(&mut client.engine(store(1), store(2))).await, wrong);
    echoes(&mut two.engine()).await;
}

#[tokio::test]
async fn an_open_connection_ends_when_the_store_is_another_one() {
    let two = Two::start().await;
    let mut link = two.engine();
    echoes(&mut link).await;
    two.control().call(&Join { epoch: epoch(3), member: 5 }).await.unwrap();
    let not_meant = RefusalReason::NotMeant { here: store(5) };
    for _twice in 0..2 {
        assert_eq!(refused(&mut link).await, not_meant);
    }
    two.member.here.lock().store = store(2);
    echoes(&mut link).await;
}

#[tokio::test]
async fn who_is_not_on_the_list_is_refused() {
    let two = Two::start().await;
    let stranger = two.authority.issue(&name("n3"), &[LOCALHOST], now()).unwrap();
    let client = PeerClient::new(&stranger, CLUSTER, two.target.clone()).unwrap();
    certificate_refused(&client).await;
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_member_of_another_authority_is_refused_and_refuses() {
    let two = Two::start().await;
    let other = Authority::create(&name("c2"), now()).unwrap();
    let foreign = other.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    let stranger = PeerClient::new(&foreign, CLUSTER, two.target.clone()).unwrap();
    certificate_refused(&stranger).await;
    let error = stranger.engine(store(1), store(2)).ask(ECHO, &[], LONG).await.unwrap_err();
    assert!(
        matches!(error, PeerError::Certificate { fault: CertificateFault::Foreign, .. }),
        "{error:?}"
    );
    // Even where the list would have it, and it trusts this cluster.
    two.allowed.replace(allow(&[&foreign]));
    let mixed = crate::identity::tests::with_authority_of(foreign, &two.asking);
    certificate_refused(&PeerClient::new(&mixed, CLUSTER, two.target.clone()).unwrap()).await;
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_member_of_another_name_or_certificate_is_not_taken() {
    let two = Two::start().await;
    let renamed = PeerTarget { name: name("n9"), ..two.target.clone() };
    certificate_refused(&PeerClient::new(&two.asking, CLUSTER, renamed).unwrap()).await;
    let pin = Some(two.asking.fingerprint());
    let repinned = PeerTarget { fingerprint: pin, ..two.target.clone() };
    certificate_refused(&PeerClient::new(&two.asking, CLUSTER, repinned).unwrap()).await;
    let unknown = PeerTarget { fingerprint: None, ..two.target.clone() };
    let client = PeerClient::new(&two.asking, CLUSTER, unknown).unwrap();
    echoes(&mut client.engine(store(1), store(2))).await;
}

#[tokio::test]
async fn a_new_list_holds_for_open_connections() {
    let two = Two::start().await;
    let mut link = two.engine();
    echoes(&mut link).await;
    let other = two.authority.issue(&name("n3"), &[], now()).unwrap();
    two.allowed.replace(allow(&[&other]));
    assert_eq!(refused(&mut link).await, RefusalReason::Stranger);
}

#[tokio::test]
async fn a_member_that_was_renewed_is_known_by_either_certificate_until_the_old_one_goes() {
    let two = Two::start().await;
    let dir = tempfile::tempdir().unwrap();
    let layout = model::layout::Layout::new(dir.path());
    let membership = crate::testing::membership("n1", allow(&[&two.asking]));
    two.asking.store(&layout, &membership).unwrap();
    let mut link = two.engine();
    echoes(&mut link).await;
    let old = allow(&[&two.asking]);
    let request = crate::identity::renewal::begin(&layout).unwrap();
    let signed = two.authority.sign(&request, &name("n1"), &[], now()).unwrap();
    crate::identity::renewal::finish(&layout, &signed).unwrap();
    two.asking.refresh(&layout).unwrap();
    let mut both = allow(&[&two.asking]);
    both.callers.extend(old.callers.clone());
    two.allowed.replace(both);
    echoes(&mut link).await;
    // Nothing of the old certificate is left in use.
    two.allowed.replace(allow(&[&two.asking]));
    echoes(&mut link).await;
    let other = two.authority.issue(&name("n2"), &[], now()).unwrap();
    let renewing = PeerTarget { fingerprint: Some(other.fingerprint()), ..two.target.clone() };
    certificate_refused(&PeerClient::new(&two.asking, CLUSTER, renewing.clone()).unwrap()).await;
    let renewing = PeerTarget { renewing: two.target.fingerprint, ..renewing };
    let client = PeerClient::new(&two.asking, CLUSTER, renewing).unwrap();
    echoes(&mut client.engine(store(1), store(2))).await;
}

#[tokio::test]
async fn agents_and_members_do_not_take_each_other_for_one_of_theirs() {
    let agent = crate::testing::Pair::start().await;
    let target = PeerTarget {
        name: agent.target.name.clone(),
        address: agent.target.address,
        fingerprint: agent.target.fingerprint,
        renewing: None,
    };
    let client = PeerClient::new(&agent.master, CLUSTER, target).unwrap();
    let error = client.engine(store(1), store(2)).ask(ECHO, &[], LONG).await.unwrap_err();
    assert!(error.certainly_not_done(), "{error:?}");
    let two = Two::start().await;
    let target = crate::testing::target(two.target.address, two.target.fingerprint);
    let caller = two.authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    two.allowed.replace(allow(&[&caller]));
    let client = crate::testing::Pair::client_of(caller);
    let version = crate::calls::Version {};
    let error = client.call(&target, version, crate::testing::meta(1)).await.unwrap_err();
    assert!(error.certainly_not_done(), "{error:?}");
}

/// A connection behind its handshake, for what a link would never send.
pub(super) async fn raw(two: &Two, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut config = tls::client_config(&two.asking, Vec::new(), ALPN_PEER).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(two.target.address).await.unwrap();
    let server = crate::certificate::server_name(&two.target.name).unwrap();
    TlsConnector::from(Arc::new(config)).connect(server, stream).await.unwrap()
}

async fn read_refusal(stream: &mut TlsStream<TcpStream>) -> PeerRefusal {
    let Frame { mark, body } = stream::read(stream, HELLO_BYTES_MAX).await.unwrap();
    assert_eq!(Status::from_mark(mark), Ok(Status::Refusal));
    let mut rest = Vec::new();
    // With or without a farewell: nothing follows.
    drop(stream.read_to_end(&mut rest).await);
    assert!(rest.is_empty());
    serde_json::from_slice(&body).unwrap()
}

/// Says the hello of a good link.
pub(super) async fn say_hello(two: &Two, stream: &mut TlsStream<TcpStream>) {
    let body = serde_json::to_vec(two.engine().hello()).unwrap();
    stream::write(stream, HELLO_MARK, &[&body]).await.unwrap();
    let welcome = stream::read(stream, HELLO_BYTES_MAX).await.unwrap();
    assert_eq!(Status::from_mark(welcome.mark), Ok(Status::Answer));
}

#[tokio::test]
async fn what_is_no_hello_is_refused_with_a_reason() {
    let two = Two::start().await;
    let good = serde_json::to_string(two.engine().hello()).unwrap();
    let frame = |mark, body: &str| [&header(mark, body.len()).unwrap(), body.as_bytes()].concat();
    let long = "x".repeat(HELLO_BYTES_MAX);
    for (bytes, reason, words) in [
        (frame(9, &good), "malformed", "mark 9"),
        (frame(HELLO_MARK, ""), "malformed", "no hello"),
        (frame(HELLO_MARK, "\u{0}\u{1}"), "malformed", "no hello"),
        (frame(HELLO_MARK, &"[".repeat(10_000)), "malformed", "no hello"),
        (frame(HELLO_MARK, &good.replace("engine", "tea")), "malformed", "tea"),
        (frame(HELLO_MARK, &good.replace(":1,", ":9,")), "version", "version 9"),
        (frame(HELLO_MARK, &good.replace("n1", "n2")), "stranger", "that of node n1"),
        (frame(HELLO_MARK, &long), "malformed", "at most"),
        (vec![0; 5], "malformed", "without a mark"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "malformed", "at most"),
    ] {
        let mut stream = raw(&two, &[ALPN_PEER]).await;
        stream.write_all(&bytes).await.unwrap();
        stream.flush().await.unwrap();
        let refusal = read_refusal(&mut stream).await;
        assert_eq!(refusal.reason.name(), reason, "{refusal}");
        assert!(refusal.message.contains(words), "{refusal}");
    }
    echoes(&mut two.engine()).await;
}

#[tokio::test]
async fn what_is_no_question_ends_the_connection() {
    let two = Two::start().await;
    for (bytes, words) in [([0xFF; 5], "at most"), ([0; 5], "without a mark")] {
        let mut stream = raw(&two, &[ALPN_PEER]).await;
        say_hello(&two, &mut stream).await;
        stream.write_all(&bytes).await.unwrap();
        stream.flush().await.unwrap();
        let refusal = read_refusal(&mut stream).await;
        assert_eq!(refusal.reason, RefusalReason::Malformed);
        assert!(refusal.message.contains(words), "{refusal}");
    }
}

#[tokio::test]
async fn who_asks_for_no_protocol_gets_no_answer() {
    let two = Two::start().await;
    let mut stream = raw(&two, &[]).await;
    let body = serde_json::to_vec(two.engine().hello()).unwrap();
    // It may have been closed before this is written.
    drop(stream::write(&mut stream, HELLO_MARK, &[&body]).await);
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest).await);
    assert!(rest.is_empty());
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn something_else_there_is_unreachable() {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let two = Two::start().await;
    let target = PeerTarget { address, ..two.target.clone() };
    let mut link =
        PeerClient::new(&two.asking, CLUSTER, target).unwrap().engine(store(1), store(2));
    let greeting = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example.com\r\n").await.unwrap();
        drop(stream.read_to_end(&mut Vec::new()).await);
    };
    let (answer, ()) = tokio::join!(link.ask(ECHO, &[], LONG), greeting);
    assert!(matches!(answer, Err(PeerError::Unreachable { .. })), "{answer:?}");
    drop(listener);
    let error = link.ask(ECHO, &[], LONG).await.unwrap_err();
    let PeerError::Unreachable { error, .. } = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}
