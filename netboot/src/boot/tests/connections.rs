//! Machines that read slowly, not at all, or keep connections for nothing.

use model::blob::Blob;
use tokio::net::TcpSocket;

use super::*;

/// More than both sockets of a connection keep.
const LARGE: usize = 48 << 20;

impl Scene {
    /// A file that machines may load, and its path.
    fn large(&self) -> String {
        let bytes = vec![7; LARGE];
        let mut hasher = blobs::Hasher::default();
        hasher.update(&bytes);
        let blob: Blob = hasher.finish();
        self.blobs.append(blob, 0, &bytes).unwrap();
        format!("/api/v1/boot/machines/S1/kernel/{}", blob.sha256)
    }

    /// A machine at this address of its own begins to ask.
    async fn begin(&self, from: &str, text: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Loads a file, as far as its first bytes.
    async fn load(&self, from: &str, path: &str) -> TcpStream {
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let mut stream = self.begin(from, &head).await;
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        stream
    }

    /// Whether a machine at this address is served.
    async fn serves(&self, from: &str) -> bool {
        let head = "GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let mut stream = self.begin(from, head).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.is_ok() && answer.starts_with(b"HTTP/1.1 200")
    }
}

/// The rest of an answer: how long its body is.
async fn rest(mut stream: TcpStream) -> usize {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    answer.len() - head - 4
}

#[tokio::test]
async fn a_slow_download_is_not_cut() {
    let scene = scene().await;
    let stream = scene.load("127.0.0.1", &scene.large()).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11 * 3_600)).await;
    tokio::time::resume();
    assert_eq!(rest(stream).await, LARGE);
    scene.end().await;
}

/// It is not told of that, but has its places back.
#[tokio::test]
async fn a_machine_that_takes_nothing_is_cut() {
    let stalled = Duration::from_millis(300);
    let scene = scene_with(rack(5, 1), Patience { stalled, ..Patience::USUAL }).await;
    let path = scene.large();
    let mut downloads = Vec::new();
    for _ in 0..CONNECTIONS.of_peer {
        downloads.push(scene.load("127.0.0.1", &path).await);
    }
    while !scene.serves("127.0.0.1").await {}
    drop(downloads);
    scene.end().await;
}

#[tokio::test]
async fn a_connection_has_an_end() {
    let life = Duration::from_millis(50);
    let scene = scene_with(rack(5, 1), Patience { life, ..Patience::USUAL }).await;
    let mut idle = scene.begin("127.0.0.1", "").await;
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    scene.end().await;
}

#[tokio::test]
async fn idle_connections_of_one_machine_starve_nobody() {
    let scene = scene().await;
    let download = scene.load("127.0.0.1", &scene.large()).await;
    let count = CONNECTIONS.total + CONNECTIONS.of_peer;
    let mut idle = Vec::new();
    for _ in 0..count {
        idle.push(scene.begin("127.0.0.1", "").await);
    }
    assert!(scene.serves("127.0.0.2").await);
    // All but the youngest are shed, and not the download, which is older than all of them.
    for shed in &mut idle[..count - CONNECTIONS.of_peer] {
        assert_eq!(shed.read(&mut [0]).await.unwrap(), 0);
    }
    assert!(scene.serves("127.0.0.1").await);
    assert_eq!(rest(download).await, LARGE);
    scene.end().await;
}

/// Downloads that nobody reads, and bodies that nobody sends, take all places; whoever has none gets one.
#[tokio::test]
async fn what_does_not_come_on_makes_room() {
    let progress = Duration::from_millis(200);
    let scene = scene_with(rack(5, 1), Patience { progress, ..Patience::USUAL }).await;
    let path = scene.large();
    let body = "POST /v1/continue_inspection HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n{";
    let mut held = Vec::new();
    for address in 0..CONNECTIONS.total / CONNECTIONS.of_peer {
        let from = format!("127.0.1.{address}");
        for number in 0..CONNECTIONS.of_peer {
            held.push(match number % 2 {
                0 => scene.load(&from, &path).await,
                _ => scene.begin(&from, body).await,
            });
        }
    }
    let [good, other] = ["127.0.2.1", "127.0.2.2"];
    let mut download = loop {
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let mut stream = scene.begin(good, &head).await;
        if stream.read_exact(&mut [0; 15]).await.is_ok() {
            break stream;
        }
    };
    while !scene.serves(other).await {}
    // A download that comes on is kept.
    let mut bytes = vec![0; LARGE / 2];
    download.read_exact(&mut bytes).await.unwrap();
    for from in 0..40 {
        while !scene.serves(&format!("127.0.3.{from}")).await {}
    }
    let mut rest = Vec::new();
    download.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > LARGE / 2 - 1_000, "{}", rest.len());
    drop(held);
    scene.end().await;
}

#[tokio::test]
async fn downloads_of_one_machine_starve_nobody() {
    let scene = scene().await;
    let path = scene.large();
    let mut downloads = Vec::new();
    for _ in 0..CONNECTIONS.of_peer {
        downloads.push(scene.load("127.0.0.1", &path).await);
    }
    assert!(!scene.serves("127.0.0.1").await, "it has all that one machine may have");
    assert!(scene.serves("127.0.0.2").await);
    // The card begins again, and its earlier downloads are over.
    downloads.clear();
    while !scene.serves("127.0.0.1").await {}
    scene.end().await;
}
