use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use model::Timestamp;
use model::boot_template::{BootDocument, DocumentKind, MY_URL, MY_URL_HTTPS};
use model::machine::BootStage;
use model::rack::{Event, Observation, RackDocument, RackMachine};

use super::*;
use crate::dhcp::packet::Identity;
use crate::dhcp::{LeaseRecord, LeaseState};
use crate::testing::{SMALL, membership, now, rack};

mod connections;

pub(super) struct Scene {
    pub(super) address: SocketAddr,
    pub(super) ledger: Arc<Ledger>,
    blobs: Arc<Blobs>,
    pub(super) racks: Arc<Racks>,
    ipxe: PathBuf,
    stop: watch::Sender<bool>,
    tasks: Tasks,
    _dir: tempfile::TempDir,
}

async fn scene() -> Scene {
    scene_of(rack(5, 1)).await
}

pub(super) async fn scene_of(document: RackDocument) -> Scene {
    scene_with(document, Patience::USUAL).await
}

async fn scene_with(document: RackDocument, patience: Patience) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    let ledger = Arc::new(ledger);
    let racks = Arc::new(Racks::new(vec![document]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let tasks = Tasks::new();
    let clock = Clock::manual(now().micros());
    let blobs = Arc::new(Blobs::open(&dir.path().join("blobs"), 1 << 30).unwrap());
    let ipxe = dir.path().join("ipxe.efi");
    let served = Rack {
        racks: Arc::clone(&racks),
        blobs: Arc::clone(&blobs),
        ipxe: ipxe.clone(),
        ledger: Arc::clone(&ledger),
        clock,
        answers: Arc::default(),
        keys_port: 10_443,
        claims: None,
    };
    tasks.spawn("boot", serve_within(listener, served, patience, stopped));
    Scene { address, ledger, blobs, racks, ipxe, stop, tasks, _dir: dir }
}

impl Scene {
    /// Ends in this order: the store must not outlive its directory.
    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        self.tasks.join().await;
        self.ledger.close().unwrap();
    }

    /// A client that asks from here holds the lease of this card.
    pub(super) async fn lease(&self, mac: model::MacAddress) {
        self.lease_at([127, 0, 0, 1], mac).await;
    }

    pub(super) async fn lease_at(&self, address: [u8; 4], mac: model::MacAddress) {
        let until_us = now().micros() + 3_600_000_000;
        let lease = LeaseRecord {
            address: address.into(),
            client: Identity::Ethernet(mac),
            state: LeaseState::Bound { until_us },
            since_us: None,
        };
        self.ledger.keep_leases(vec![lease], Timestamp::from_micros(1), Vec::new()).await.unwrap();
    }

    pub(super) async fn ask(&self, head: &str) -> String {
        self.ask_with(head, "", "").await
    }

    pub(super) async fn ask_with(&self, head: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let text = format!(
            "{head} HTTP/1.1\r\nhost: evil.example.com\r\nconnection: close\r\n{headers}\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

pub(super) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn routes() {
    let scene = scene().await;
    for (head, status, words) in [
        ("GET /api/v1/boot/ipxe", 200, "/api/v1/boot/ipxe/${serial:uristring}?"),
        ("GET /api/v1/boot/autoexec.ipxe", 200, "/api/v1/boot/ipxe/${serial:uristring}?"),
        ("GET /api/v1/boot/coreos/ipxe", 200, "/api/v1/boot/coreos/ipxe/${serial:uristring}?"),
        ("GET /api/v1/boot/ipxe/S1", 200, "exit"),
        ("GET /api/v1/boot/coreos/ipxe/S1", 200, "exit"),
        ("GET /api/v1/boot/ipxe/S2", 404, "gnt machine add"),
        (
            "GET /api/v1/boot/ipxe/S2?mac=02-0-0-0-0-9",
            404,
            "agent: MAC 02:00:00:00:00:09, serial S2",
        ),
        (
            "GET /api/v1/boot/refusal/S2?mac=02-00-00-00-00-09",
            200,
            "\necho not registered in a rack",
        ),
        ("GET /api/v1/boot/refusal/", 200, "\necho the serial number '' is empty"),
        ("GET /api/v1/boot/refusal/S1", 200, "#!ipxe\nexit 1"),
        ("GET /api/v1/boot/ipxe/%2e%2e", 404, "'..' has nothing but"),
        ("GET /api/v1/boot/ipxe/a%20b", 404, r#"[{"serial": "a b","#),
        ("GET /api/v1/boot/ipxe/a%0ab", 400, "printable"),
        ("GET /api/v1/boot/ipxe/", 404, "'' is empty; register the machine by a serial number of"),
        ("GET /api/v1/boot/ipxe/%20%20", 404, "'  ' is empty"),
        ("GET /api/v1/boot/coreos/ipxe/Default%20string", 404, "'Default string' is what vendors"),
        ("GET /api/v1/boot/ipxe/%ff", 400, ""),
        ("GET /api/v1/boot/ipxe.efi", 404, "install the package ipxe"),
        ("GET /health", 200, "healthy"),
        ("GET /version", 200, env!("CARGO_PKG_VERSION")),
        ("GET /", 200, "default_version"),
        ("GET /nothing", 404, "nothing"),
        ("POST /api/v1/boot/ipxe", 405, ""),
    ] {
        let answer = scene.ask(head).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(answer.contains("content-length: "), "{head}: {answer}");
        assert!(body(&answer).contains(words), "{head}: {answer}");
        assert!(!answer.contains("evil.example.com"), "{head}: {answer}");
    }
    let chained = scene.ask("GET /api/v1/boot/ipxe").await;
    assert!(body(&chained).contains(&format!("http://{}/", scene.address)), "{chained}");
    scene.end().await;
}

/// Only an answer that was sent is a stage. The test asks each path where it is not there, for its head
/// alone, and where it is sent.
#[tokio::test]
async fn a_stage_is_noted_for_an_answer_that_was_sent() {
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, 9]);
    let mut document = rack(5, 1);
    document.machines[0].mac = vec![mac];
    document.machines[0].documents = vec![BootDocument {
        kind: DocumentKind::Ignition,
        id: "1.0.0".parse().unwrap(),
        text: "{}".into(),
    }];
    let (kernel, blob) = (b"MZ", {
        let mut hasher = blobs::Hasher::default();
        hasher.update(b"MZ");
        hasher.finish()
    });
    let scene = scene_of(document).await;
    scene.lease(mac).await;
    let noted = async |head: String| {
        let answer = scene.ask(&head).await;
        let status: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
        // Earlier notes are durable once this lease is.
        scene.lease(mac).await;
        let (events, _) = scene.ledger.pending(100);
        let stage = |event: &Event| match &event.observation {
            Observation::Boot { stage, .. } => *stage,
            other => panic!("{other:?}"),
        };
        let stages: Vec<BootStage> = events.iter().map(stage).collect();
        scene.ledger.acknowledge(u64::MAX).unwrap();
        (status, stages)
    };
    let of = |kind: &str| format!("/api/v1/boot/machines/S1/{kind}/{}", blob.sha256);
    let paths = ["kernel", "uki", "initrd"].map(of);
    for path in &paths {
        assert_eq!(noted(format!("GET {path}")).await, (503, vec![]), "{path}");
    }
    for path in ["/api/v1/boot/loader.efi", "/api/v1/boot/loader-aa64.efi"] {
        assert_eq!(noted(format!("GET {path}")).await, (404, vec![]), "{path}");
    }
    let missing = "/api/v1/boot/ignitions/S1/9.0.0";
    assert_eq!(noted(format!("GET {missing}")).await, (404, vec![]));
    scene.blobs.append(blob, 0, kernel).unwrap();
    stdx::atomic::write(&scene.ipxe, b"MZ", 0o644).unwrap();
    let [kernel, uki, initrd] = paths;
    for (path, stage) in [
        (&*kernel, BootStage::Kernel),
        (&initrd, BootStage::Initrd),
        (&uki, BootStage::Kernel),
        ("/api/v1/boot/loader.efi", BootStage::Loader),
        ("/api/v1/boot/ipxe/S1", BootStage::Script),
        ("/api/v1/boot/ignitions/S1/1.0.0", BootStage::Config),
    ] {
        assert_eq!(noted(format!("HEAD {path}")).await, (200, vec![]), "{path}");
        assert_eq!(noted(format!("GET {path}")).await, (200, vec![stage]), "{path}");
    }
    assert_eq!(noted("HEAD /api/v1/boot/machines/S1/up".to_owned()).await, (204, vec![]));
    scene.end().await;
}

/// The configuration of a machine names the address by which it reached the agent, and the documents
/// that it got are noted.
#[tokio::test]
async fn a_machine_fetches_its_configuration() {
    let mut document = rack(5, 1);
    let text = format!("{{\"url\":\"{MY_URL}/a\",\"keys\":\"{MY_URL_HTTPS}/b\"}}");
    let of =
        |kind, id: &str| BootDocument { kind, id: id.parse().unwrap(), text: text.as_str().into() };
    document.machines[0].documents = vec![
        of(DocumentKind::Ignition, "1.2.3"),
        of(DocumentKind::UserData, "0.1.0"),
        of(DocumentKind::MetaData, "0.1.0"),
    ];
    let scene = scene_of(document).await;
    for (head, status, words) in [
        ("HEAD /api/v1/boot/ignitions/S1/1.2.3", 200, ""),
        ("GET /cloud-init/S1/meta-data", 200, "/a"),
        ("GET /cloud-init/S1/network-config", 200, ""),
        ("GET /cloud-init/S1/vendor-data", 200, ""),
        ("GET /cloud-init/S2/vendor-data", 404, "gnt machine add"),
        ("GET /cloud-init/S1/ignition", 404, "ignition 1.2.3, user-data 0.1.0, meta-data"),
        ("GET /api/v1/boot/ignitions/S1/1.2.4", 404, "can fetch ignition 1.2.3"),
        ("GET /api/v1/boot/ignitions/S1/..%2f..%2fetc", 404, "can fetch"),
        ("GET /api/v1/boot/ignitions/S2/1.2.3", 404, "gnt machine add"),
        ("POST /api/v1/boot/ignitions/S1/1.2.3", 405, ""),
    ] {
        let answer = scene.ask(head).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(body(&answer).contains(words), "{head}: {answer}");
    }
    assert!(scene.ledger.pending(10).0.is_empty(), "none of these is noted");
    let mut watching = scene.ledger.watch();
    let got = scene.ask("GET /api/v1/boot/ignitions/S1/1.2.3").await;
    assert!(got.contains("content-type: application/json"), "{got}");
    let wanted = format!(
        "{{\"url\":\"http://{}/a\",\"keys\":\"https://127.0.0.1:10443/b\"}}",
        scene.address
    );
    assert_eq!(body(&got), wanted);
    watching.changed().await.unwrap();
    let (events, _) = scene.ledger.pending(10);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let Observation::Boot { stage, fetched: Some(fetched), .. } = &event.observation else {
        panic!()
    };
    let mut hasher = blobs::Hasher::default();
    hasher.update(wanted.as_bytes());
    assert_eq!((*stage, fetched.id.to_string()), (BootStage::Config, "1.2.3".to_owned()));
    assert_eq!(fetched.sha256, hasher.finish().sha256);
    scene.end().await;
}

/// The machine whose system an event tells to run.
fn system(event: &Event) -> Option<String> {
    match &event.observation {
        Observation::Boot { serial, stage: BootStage::System, .. } => Some(serial.to_string()),
        _ => None,
    }
}

/// Machines whose serial numbers differ only by what a URL would end at are several.
#[tokio::test]
async fn escaped_serials_are_told_apart() {
    let mut document = rack(5, 1);
    let [first] = document.machines.as_slice() else { panic!("{document:?}") };
    let serials = ["SN-0001", "SN-0001#ABU", "SN-0001?x", "/5Q4Q7Y1/CN72/", "..CN7204", "a%20b"];
    let of = |serial: &&str| RackMachine { serial: serial.parse().unwrap(), ..first.clone() };
    document.machines = serials.iter().map(of).collect();
    let escaped: Vec<_> = document.machines.iter().map(|m| m.serial.escaped()).collect();
    let scene = scene_of(document).await;
    for (serial, escaped) in serials.iter().zip(&escaped) {
        let script = scene.ask(&format!("GET /api/v1/boot/ipxe/{escaped}")).await;
        assert!(body(&script).contains(&format!("echo {escaped} (worker)")), "{serial}: {script}");
        scene.ask(&format!("POST /api/v1/boot/machines/{escaped}/up")).await;
    }
    // The last of them may not be durable yet.
    let up = loop {
        let (events, _) = scene.ledger.pending(100);
        let up: Vec<_> = events.iter().filter_map(system).collect();
        if up.len() >= serials.len() {
            break up;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(up, serials);
    scene.end().await;
}

/// A machine whose firmware tells a placeholder is known by its card.
#[tokio::test]
async fn a_placeholder_is_no_identity() {
    let mut document = rack(5, 1);
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, 9]);
    document.machines[0].mac = vec![mac];
    let unnamed = RackMachine { serial: "None".parse().unwrap(), ..document.machines[0].clone() };
    document.machines.push(RackMachine { mac: Vec::new(), ..unnamed });
    let scene = scene_of(document).await;
    let path = "GET /api/v1/boot/ipxe/None";
    assert!(scene.ask(path).await.starts_with("HTTP/1.1 404"));
    scene.lease(mac).await;
    for path in [path, "GET /api/v1/boot/ipxe/", "GET /api/v1/boot/ipxe/0123456789"] {
        let script = scene.ask(path).await;
        assert!(body(&script).contains("echo S1 (worker)"), "{path}: {script}");
    }
    scene.end().await;
}

/// A client with the card of one machine and the serial number of another is neither.
#[tokio::test]
async fn a_contradiction_is_refused() {
    let mut document = rack(5, 1);
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, 9]);
    let s2 = RackMachine {
        serial: "S2".parse().unwrap(),
        mac: vec![mac],
        ..document.machines[0].clone()
    };
    document.machines.push(s2);
    let scene = scene_of(document).await;
    scene.lease(mac).await;
    let refused = scene.ask("GET /api/v1/boot/ipxe/S1").await;
    assert!(refused.starts_with("HTTP/1.1 409"), "{refused}");
    let why = "serial S1 is of machine S1, but MAC 02:00:00:00:00:09 is of machine S2";
    assert!(body(&refused).contains(why), "{refused}");
    let shown = scene.ask("GET /api/v1/boot/refusal/S1").await;
    let lines = body(&shown).replace("\necho ", " ");
    assert!(lines.contains(&format!("refused: {why}")), "{shown}");
    let up = scene.ask("POST /api/v1/boot/machines/S1/up").await;
    assert!(up.starts_with("HTTP/1.1 404"), "{up}");
    assert!(scene.racks.troubles()[0].contains(why));
    assert!(scene.ask("GET /api/v1/boot/ipxe/S2").await.starts_with("HTTP/1.1 200"));
    scene.end().await;
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let scene = scene().await;
    let length = |answer: &str| {
        let at = answer.to_ascii_lowercase().find("content-length: ").unwrap();
        answer[at + 16..].split("\r\n").next().unwrap().parse::<usize>().unwrap()
    };
    for path in ["/api/v1/boot/ipxe", "/api/v1/boot/ipxe/S1", "/api/v1/boot/ipxe/S2", "/health"] {
        let got = scene.ask(&format!("GET {path}")).await;
        let head = scene.ask(&format!("HEAD {path}")).await;
        assert_eq!(length(&head), body(&got).len(), "{head}");
        assert_eq!(body(&head), "");
    }
    scene.end().await;
}

#[tokio::test]
async fn a_fetched_script_is_noted_with_the_holder_of_the_lease() {
    let scene = scene().await;
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, 9]);
    scene.lease(mac).await;
    let mut watching = scene.ledger.watch();
    scene.ask("GET /api/v1/boot/ipxe/S2").await;
    scene.ask("GET /api/v1/boot/ipxe/S1").await;
    watching.changed().await.unwrap();
    let (events, _) = scene.ledger.pending(10);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let Observation::Boot { rack, serial, mac: told, .. } = &event.observation else { panic!() };
    assert_eq!((*rack, serial.as_str(), *told), (5, "S1", Some(mac)));
    scene.end().await;
}

#[tokio::test]
async fn a_mute_connection_does_not_keep_the_agent_from_ending() {
    let scene = scene().await;
    let _mute = TcpStream::connect(scene.address).await.unwrap();
    scene.ask("GET /health").await;
    let address = scene.address;
    scene.end().await;
    assert!(TcpStream::connect(address).await.is_err());
}
