use std::io;

use model::{Code, Coded as _};
use rustls::CertificateError;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;
use crate::calls::{Facts, TestDelay, Version};
use crate::identity::Authority;
use crate::testing::{LOCALHOST, Pair, allow, meta, name, now, target};

async fn version_of(pair: &Pair, client: &Client) -> Result<crate::calls::NodeVersion, RpcError> {
    client.call(&pair.target, Version {}, meta(1)).await
}

fn certificate_refused(result: &Result<crate::calls::NodeVersion, RpcError>) -> bool {
    matches!(result, Err(RpcError::Refused { refusal: Refusal::Certificate { .. }, .. }))
}

#[tokio::test]
async fn good_certificates_on_both_sides_get_an_answer() {
    let pair = Pair::start().await;
    let client = pair.client();
    assert_eq!(version_of(&pair, &client).await.unwrap().node, name("n2"));
    client.close().await;
    pair.server.stop().await;
}

#[tokio::test]
async fn a_caller_that_is_not_on_the_list_is_refused() {
    let pair = Pair::start().await;
    let stranger = pair.authority.issue(&name("n3"), &[LOCALHOST], now()).unwrap();
    let result = version_of(&pair, &Pair::client_of(stranger)).await;
    assert!(certificate_refused(&result), "{result:?}");
}

#[tokio::test]
async fn a_caller_of_another_cluster_is_refused_and_refuses() {
    let pair = Pair::start().await;
    let other = Authority::create(&name("c2"), now()).unwrap();
    let result =
        version_of(&pair, &Pair::client_of(other.issue(&name("n1"), &[], now()).unwrap())).await;
    assert!(certificate_refused(&result), "{result:?}");
    let foreign = CertificateFault::Foreign;
    assert!(
        matches!(&result, Err(RpcError::Refused { refusal: Refusal::Certificate { fault, .. }, .. })
            if *fault == foreign),
        "{result:?}"
    );
    // Even where the list would have it.
    let foreign = other.issue(&name("n1"), &[], now()).unwrap();
    pair.allowed.replace(allow(&[&foreign]));
    let mixed = crate::identity::tests::with_authority_of(foreign, &pair.master);
    let result = version_of(&pair, &Pair::client_of(mixed)).await;
    assert!(certificate_refused(&result), "{result:?}");
}

#[tokio::test]
async fn a_certificate_of_another_time_is_refused_and_the_clock_is_named() {
    let pair = Pair::start().await;
    for years in [-11, 4] {
        let made = now().plus_seconds(years * 365 * 86_400);
        let of_then = pair.authority.issue(&name("n1"), &[LOCALHOST], made).unwrap();
        pair.allowed.replace(allow(&[&of_then]));
        let result = version_of(&pair, &Pair::client_of(of_then)).await;
        let error = result.expect_err("no date of it is now");
        assert_eq!(error.code(), Some(Code::ClockOff), "{error}");
        assert!(error.to_string().contains("its clock is wrong, or ours"), "{error}");
    }
}

#[test]
fn dates_of_the_nodes_certificate_name_the_clock_too() {
    for (error, fault) in [
        (CertificateError::Expired, CertificateFault::Dates),
        (CertificateError::NotValidYet, CertificateFault::Dates),
        (CertificateError::UnknownIssuer, CertificateFault::Foreign),
        (CertificateError::BadEncoding, CertificateFault::NotAccepted),
    ] {
        let error = io::Error::other(rustls::Error::InvalidCertificate(error));
        let word = connect::certificate_word(&error).unwrap();
        assert_eq!(word.fault, fault, "{}", word.reason);
        assert_eq!(word.reason.contains("clock"), fault == CertificateFault::Dates);
    }
}

#[tokio::test]
async fn an_agent_of_another_name_or_certificate_is_not_taken() {
    let pair = Pair::start().await;
    let client = pair.client();
    let renamed = NodeTarget { name: name("n9"), ..pair.target.clone() };
    let result = client.call(&renamed, Version {}, meta(1)).await;
    assert!(certificate_refused(&result), "{result:?}");
    let repinned = target(pair.target.address, Some(pair.master.fingerprint()));
    let result = client.call(&repinned, Version {}, meta(1)).await;
    assert!(certificate_refused(&result), "{result:?}");
}

#[tokio::test]
async fn a_new_list_holds_for_open_connections() {
    let pair = Pair::start().await;
    let client = pair.client();
    version_of(&pair, &client).await.unwrap();
    let other = pair.authority.issue(&name("n3"), &[], now()).unwrap();
    pair.allowed.replace(allow(&[&other]));
    let result = version_of(&pair, &client).await;
    let refused =
        matches!(result, Err(RpcError::Refused { refusal: Refusal::Stranger { .. }, .. }));
    assert!(refused, "{result:?}");
    // The next caller hears the same in the handshake, and does not take it for a wrong certificate.
    let again = version_of(&pair, &pair.client()).await;
    let error = again.unwrap_err();
    assert!(error.is_of_a_stranger() && certificate_refused(&Err(error)));
    pair.allowed.replace(allow(&[&pair.master]));
    version_of(&pair, &pair.client()).await.unwrap();
}

#[tokio::test]
async fn the_version_before_is_spoken_to_an_older_agent() {
    let pair = Pair::with(crate::server::Limits::default(), Versions::up_to(1)).await;
    let newer = pair.client_speaking(Versions::up_to(2));
    for _twice in 0..2 {
        version_of(&pair, &newer).await.unwrap();
    }
    let older = pair.client_speaking(Versions { oldest: 0, newest: 0 });
    version_of(&pair, &older).await.unwrap();
    let far = pair.client_speaking(Versions::up_to(3));
    let error = version_of(&pair, &far).await.unwrap_err();
    assert!(error.certainly_not_done());
    let text = error.to_string();
    assert!(text.contains("version 3") && text.contains("versions 0 to 1"), "{text}");
}

#[tokio::test]
async fn a_lower_epoch_is_told_which_one_is_obeyed() {
    let pair = Pair::start().await;
    let client = pair.client();
    let delay = || TestDelay { seconds: 0.0 };
    client.call(&pair.target, delay(), meta(5)).await.unwrap();
    let error = client.call(&pair.target, delay(), meta(4)).await.unwrap_err();
    let held = crate::testing::epoch(5);
    assert!(
        matches!(error, RpcError::Refused { refusal: Refusal::Epoch { held: h, .. }, .. } if h == held)
    );
    // A call that only reads is answered all the same.
    client.call(&pair.target, Version {}, meta(1)).await.unwrap();
}

#[tokio::test]
async fn a_higher_epoch_ends_the_calls_of_the_old_one() {
    let pair = Pair::start().await;
    let client = pair.client();
    let old = client.call(&pair.target, TestDelay { seconds: 3_000.0 }, meta(1));
    let new = async {
        // The old one is under way as soon as the fence knows it; until then it is refused, which
        // the assertion below would show.
        while pair.server.service().running() == 0 {
            tokio::task::yield_now().await;
        }
        client.call(&pair.target, TestDelay { seconds: 0.0 }, meta(2)).await
    };
    let (old, new) = tokio::join!(old, new);
    new.unwrap();
    let interrupted = matches!(old, Err(RpcError::Failed { kind: FailureKind::Interrupted, .. }));
    assert!(interrupted, "{old:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_at_the_agent() {
    let pair = Pair::start().await;
    let client = pair.client();
    let mut call = Box::pin(client.call(&pair.target, TestDelay { seconds: 3_000.0 }, meta(1)));
    tokio::select! {
        _ = &mut call => panic!("the delay ended"),
        () = async {
            while pair.server.service().running() == 0 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    drop(call);
    pair.agent.ending.notified().await;
    assert_eq!(*pair.agent.ended.lock(), ["ended early: the caller gave up"]);
}

#[tokio::test]
async fn an_offline_node_fails_without_a_packet() {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let pair = Pair::start().await;
    let offline = NodeTarget { offline: true, ..target(listener.local_addr().unwrap(), None) };
    let error = pair.client().call(&offline, Facts {}, meta(1)).await.unwrap_err();
    assert!(matches!(error, RpcError::Offline { .. }));
    let mut accepting = Box::pin(listener.accept());
    tokio::select! {
        biased;
        _ = &mut accepting => panic!("the node was called"),
        () = std::future::ready(()) => {}
    }
    // A call that is welcome all the same goes out.
    let asked = NodeTarget { offline: true, ..pair.target.clone() };
    pair.client().call(&asked, Version {}, meta(1)).await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let nobody = target(listener.local_addr().unwrap(), None);
    drop(listener);
    let pair = Pair::start().await;
    let error = pair.client().call(&nobody, Version {}, meta(1)).await.unwrap_err();
    assert!(matches!(error, RpcError::Unreachable { .. }) && error.certainly_not_done());
}

#[tokio::test]
async fn something_else_there_is_unreachable() {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let other = target(listener.local_addr().unwrap(), None);
    let tasks = Tasks::new();
    tasks.spawn("greeter", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example.com\r\n")
            .await
            .unwrap();
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    });
    let pair = Pair::start().await;
    let error = pair.client().call(&other, Version {}, meta(1)).await.unwrap_err();
    assert!(matches!(error, RpcError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_node_that_falls_silent_is_found_by_pings() {
    let pair = Pair::start().await;
    let (address, silence) = silent_proxy(pair.target.address).await;
    let times = ClientTimes {
        // Long enough for a busy machine to answer, or the first call would fail.
        ping: Duration::from_millis(200),
        pong: Duration::from_secs(2),
        ..ClientTimes::default()
    };
    let client = Client::with(Arc::clone(&pair.master), Tasks::new(), times, Versions::OURS);
    let through = target(address, pair.target.fingerprint);
    client.call(&through, Version {}, meta(1)).await.unwrap();
    silence.send_replace(true);
    // The class would allow an hour.
    let error = client.call(&through, TestDelay { seconds: 3_000.0 }, meta(1)).await.unwrap_err();
    assert!(matches!(error, RpcError::Lost { .. }) && !error.certainly_not_done(), "{error:?}");
    // And the next call makes a new connection.
    silence.send_replace(false);
    client.call(&through, Version {}, meta(1)).await.unwrap();
}

/// Passes bytes on until it is told to swallow them.
async fn silent_proxy(to: SocketAddr) -> (SocketAddr, tokio::sync::watch::Sender<bool>) {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (silence, silent) = tokio::sync::watch::channel(false);
    let tasks = Tasks::new();
    let kept = tasks.clone();
    tasks.spawn("proxy", async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let far = tokio::net::TcpStream::connect(to).await.unwrap();
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            kept.spawn("proxy forth", pass(near_in, far_out, silent.clone()));
            kept.spawn("proxy back", pass(far_in, near_out, silent.clone()));
        }
    });
    // The set lives as long as its tasks: they hold a clone.
    (address, silence)
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    silent: tokio::sync::watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if !*silent.borrow()
            && tokio::io::AsyncWriteExt::write_all(&mut to, &buffer[..count]).await.is_err()
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_caller_that_was_renewed_makes_another_connection() {
    let pair = Pair::start().await;
    let dir = tempfile::tempdir().unwrap();
    let layout = model::layout::Layout::new(dir.path());
    pair.master.store(&layout, &crate::testing::membership("n1", allow(&[&pair.master]))).unwrap();
    let client = pair.client();
    version_of(&pair, &client).await.unwrap();
    let old = pair.authority.issue(&name("n9"), &[], now()).unwrap();
    let request = crate::identity::renewal::begin(&layout).unwrap();
    let signed = pair.authority.sign(&request, &name("n1"), &[], now()).unwrap();
    crate::identity::renewal::finish(&layout, &signed).unwrap();
    let only_old = allow(&[&pair.master]);
    assert!(pair.master.refresh(&layout).unwrap());
    // Not on the list yet: the earlier connection, still open, is not used.
    assert!(certificate_refused(&version_of(&pair, &client).await));
    pair.allowed.replace(allow(&[&pair.master, &old]));
    version_of(&pair, &client).await.unwrap();
    pair.allowed.replace(only_old);
    assert!(version_of(&pair, &client).await.is_err());
}
