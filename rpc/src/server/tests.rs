use super::*;
use crate::calls::{Facts, RackPush, Version};
use crate::client::RpcError;
use crate::testing::{Pair, meta, name};
use crate::wire::{FailureKind, Versions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn document(padding: usize) -> RackPush {
    RackPush {
        base: None,
        document: model::rack::RackDocument {
            cluster_name: name("c1"),
            rack: 3,
            version: model::rack::DocumentVersion { term: 1, position: 9 },
            ranges: Vec::new(),
            lease_seconds: 60,
            parts: Vec::new(),
            agents: Vec::new(),
            dhcp: model::dhcp::RackDhcp::default(),
            assets: Vec::new(),
            machines: vec![model::rack::RackMachine {
                serial: "S1".parse().unwrap(),
                role: "x".repeat(padding),
                index: 1,
                mac: Vec::new(),
                uuid: None,
                addresses: Vec::new(),
                boot: model::rack::BootChoice::Local,
                registered: None,
                cycle: 0,
                ramdisk: None,
                documents: Vec::new(),
            }],
        },
    }
}

#[tokio::test]
async fn a_panic_in_one_call_touches_no_other() {
    let pair = Pair::start().await;
    let client = pair.client();
    let delay = crate::calls::TestDelay { seconds: 0.01 };
    let (facts, delayed) = tokio::join!(
        client.call(&pair.target, Facts {}, meta(1)),
        client.call(&pair.target, delay, meta(1))
    );
    assert!(
        matches!(facts, Err(RpcError::Failed { kind: FailureKind::Panicked, .. })),
        "{facts:?}"
    );
    delayed.unwrap();
    client.call(&pair.target, Version {}, meta(1)).await.unwrap();
}

#[tokio::test]
async fn bulk_calls_may_be_long_and_shared_ones_may_not() {
    let pair = Pair::start().await;
    let client = pair.client();
    let long = document(3 * 1024 * 1024);
    assert_eq!(client.call(&pair.target, long, meta(1)).await.unwrap().version.position, 9);
    assert_eq!(*pair.agent.racks.lock(), [3]);
    let list = crate::calls::SetAllowList {
        list: crate::calls::AllowList {
            epoch: crate::testing::epoch(1),
            callers: (0..12_000)
                .map(|i| crate::calls::Caller {
                    name: name(&format!("node-{i}.example.com")),
                    fingerprint: pair.master.fingerprint(),
                })
                .collect(),
        },
    };
    let error = client.call(&pair.target, list, meta(1)).await.unwrap_err();
    let too_large = matches!(error, RpcError::Failed { kind: FailureKind::TooLarge, .. });
    assert!(too_large && error.certainly_not_done(), "{error:?}");
    client.call(&pair.target, Version {}, meta(1)).await.unwrap();
}

/// An HTTP/1.1 connection as the master, for what the client would never send.
async fn raw(pair: &Pair) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let config =
        crate::tls::client_config(&pair.master, Vec::new(), crate::tls::ALPN_HTTP1).unwrap();
    let stream = TcpStream::connect(pair.target.address).await?;
    let server = crate::certificate::server_name(&pair.target.name).unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(server, stream).await
}

async fn raw_answer(pair: &Pair, head: &str, body: &str) -> String {
    let mut stream = raw(pair).await.unwrap();
    let text = format!(
        "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer).await);
    answer
}

#[tokio::test]
async fn bad_requests_get_clear_answers() {
    let pair = Pair::start().await;
    let good = r#"{"protocol":1,"caller":"n1","epoch":{"term":1,"node":1},"call":{}}"#;
    for (head, body, status, words) in [
        ("POST /rpc/version", good, "200", "n2"),
        ("GET /rpc/version", good, "400", "POST"),
        ("POST /rpc/nothing", good, "404", "no call"),
        ("POST /", good, "404", "no call"),
        ("POST /rpc/version", "", "400", "envelope"),
        ("POST /rpc/version", "[1]", "400", "envelope"),
        ("POST /rpc/version", "\u{0}\u{1}", "400", "envelope"),
        ("POST /rpc/version", r#"{"protocol":9}"#, "505", "version 9"),
        ("POST /rpc/version", r#"{"protocol":1}"#, "400", "caller"),
        ("POST /rpc/version", &good.replace("n1", "n3"), "403", "not of n3"),
        ("POST /rpc/version", &good.replace("{}", r#"{"a":1}"#), "400", "unknown field"),
        ("POST /rpc/test_delay", &good.replace("{}", r#"{"seconds":"x"}"#), "400", "invalid type"),
        ("POST /rpc/version", &"[".repeat(100_000), "400", "envelope"),
    ] {
        let answer = raw_answer(&pair, head, body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
        assert!(answer.contains(words), "{head}: {answer}");
    }
}

#[tokio::test]
async fn slow_writers_lose_their_place() {
    // Long enough for the handshakes of a busy machine.
    let short = Duration::from_secs(1);
    let limits =
        Limits { handshake: short, head: short, body: short, connections: 2, ..Limits::default() };
    let pair = Pair::with(limits, Versions::OURS).await;
    // All places are taken: one caller never shakes hands, and one never sends its head.
    let mut mute = TcpStream::connect(pair.target.address).await.unwrap();
    let mut slow = raw(&pair).await.unwrap();
    slow.write_all(b"POST /rpc/ver").await.unwrap();
    let mut rest = Vec::new();
    drop(mute.read_to_end(&mut rest).await);
    drop(slow.read_to_end(&mut rest).await);
    // Both are gone, or this would hang; so there are places again, at once or a moment later.
    let mut dripping = loop {
        if let Ok(stream) = raw(&pair).await {
            break stream;
        }
    };
    dripping
        .write_all(b"POST /rpc/version HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{\"pro")
        .await
        .unwrap();
    let mut answer = vec![0; 12];
    dripping.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 504");
    pair.client().call(&pair.target, Version {}, meta(1)).await.unwrap();
}

#[tokio::test]
async fn too_many_connections_are_closed_at_once() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let pair = Pair::with(limits, Versions::OURS).await;
    let client = pair.client();
    client.call(&pair.target, Version {}, meta(1)).await.unwrap();
    let mut refused = TcpStream::connect(pair.target.address).await.unwrap();
    let mut nothing = Vec::new();
    drop(refused.read_to_end(&mut nothing).await);
    assert!(nothing.is_empty());
    client.call(&pair.target, Version {}, meta(1)).await.unwrap();
}

#[tokio::test]
async fn stopping_interrupts_and_leaves_nothing_behind() {
    let pair = Pair::start().await;
    let client = pair.client();
    let delay = crate::calls::TestDelay { seconds: 3_000.0 };
    let calling = client.call(&pair.target, delay, meta(1));
    let address = pair.target.address;
    let stopping = async {
        while pair.server.service().running() == 0 {
            tokio::task::yield_now().await;
        }
        pair.server.stop().await;
    };
    let (called, ()) = tokio::join!(calling, stopping);
    assert!(
        matches!(called, Err(RpcError::Failed { kind: FailureKind::Interrupted, .. })),
        "{called:?}"
    );
    assert!(TcpStream::connect(address).await.is_err());
}
