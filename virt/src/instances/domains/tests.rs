//! Domains by a fake `xl`, which lies, fails, and does not come back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use model::instance::parameters::{Parameters, XEN_PVM};
use stdx::Clock;
use tokio::time::{sleep, timeout};

use super::*;
use crate::{Change, Order, Paths, Storage};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const UUID: Uuid = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);

/// A node with the fake program.
struct Node(tempfile::TempDir);

impl Node {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        fs::create_dir(node.0.path().join("state")).unwrap();
        stdx::atomic::write(&node.xl(), include_bytes!("xl.sh"), 0o755).unwrap();
        fs::set_permissions(node.xl(), fs::Permissions::from_mode(0o755)).unwrap();
        node
    }

    fn xl(&self) -> PathBuf {
        self.0.path().join("xl")
    }

    fn state(&self, name: &str) -> PathBuf {
        self.0.path().join("state").join(name)
    }

    /// An agent's life.
    fn agent(&self) -> Instances {
        let storage = Storage::new(self.0.path().join("list"), self.0.path().join("disks"));
        let paths = Paths { xl: self.xl(), ..Paths::of(self.0.path().join("runs")) };
        Instances::open(paths, "boot".to_owned(), storage, Clock::system()).unwrap()
    }

    /// Faults of the next calls of `xl` with this word.
    fn fault(&self, word: &str, faults: &[&str]) {
        let lines: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
        stdx::atomic::write(&self.state(&format!("fault-{word}")), lines.as_bytes(), 0o644)
            .unwrap();
    }

    /// The file of a domain.
    fn domain(&self, id: u32) -> Option<String> {
        fs::read_to_string(self.state(&id.to_string())).ok()
    }

    /// Has a guest end in this way, and be kept.
    fn ends(&self, id: u32, state: &str) {
        let text = format!("web1.example.com {UUID} {state}\n");
        stdx::atomic::write(&self.state(&id.to_string()), text.as_bytes(), 0o644).unwrap();
    }

    /// The calls of `xl` so far that change something.
    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.state("log")).unwrap_or_default();
        let asks = |line: &&str| line.starts_with("list") || line.starts_with("domid");
        let words = log.lines().filter(|line| !asks(line));
        words.map(|line| line.split('/').next().unwrap_or_default().trim().to_owned()).collect()
    }
}

fn launch(run: u64, values: &[(&str, &str)]) -> Launch {
    let usual = XEN_PVM.iter().map(|row| (row.name.to_owned(), row.usual.value()));
    let mut hvparams: Parameters = usual.collect();
    hvparams.extend(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    Launch {
        uuid: UUID,
        name: "web1.example.com".parse().unwrap(),
        run,
        hypervisor: "xen-pvm".to_owned(),
        hvparams,
        beparams: [("maxmem".to_owned(), 256.into())].into(),
        nics: Vec::new(),
        disks: Vec::new(),
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

fn seen(instances: &Instances) -> Seen {
    instances.get(UUID).unwrap().seen
}

async fn becomes(instances: &Instances, wanted: Seen) -> Option<String> {
    let wait = async {
        while seen(instances) != wanted {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let late = |_| panic!("it is {:?}, and never {wanted:?}", seen(instances));
    timeout(PATIENCE, wait).await.unwrap_or_else(late);
    instances.get(UUID).unwrap().exit
}

/// Long enough for several looks at the list.
async fn several_looks() {
    sleep(LOOKS * 4).await;
}

#[tokio::test]
async fn a_domain_lives_and_outlives_its_agent() {
    let node = Node::new();
    let first = node.agent();
    assert_eq!(first.start(launch(1, &[])).await.unwrap().1.seen, Seen::Running);
    assert_eq!(first.order(UUID, 1, Order::Pause).await.unwrap().1.seen, Seen::Paused);
    assert_eq!(node.domain(1).unwrap(), format!("web1.example.com {UUID} --p--- -\n"));
    let change = Change { without: vec![UUID], ..Change::default() };
    assert_eq!(first.plug(UUID, 1, change).await.unwrap().1[0].0, UUID, "nothing is plugged");
    assert_eq!(first.order(UUID, 1, Order::Memory(100)).await.unwrap().1.memory, 100);
    first.shutdown().await;
    let second = node.agent();
    assert_eq!(second.order(UUID, 1, Order::Resume).await.unwrap().1.seen, Seen::Running);
    several_looks().await;
    assert_eq!(seen(&second), Seen::Running);
    let stopped = second.stop(UUID, 1, PATIENCE, false).await.unwrap().1;
    assert_eq!((stopped.seen, node.domain(1)), (Seen::Absent, None));
    let wanted = [
        "create -e -p -q",
        "unpause 1",
        "pause 1",
        "mem-set 1 100m",
        "unpause 1",
        "unpause 1",
        "shutdown -F 1",
        "destroy 1",
    ];
    assert_eq!(node.log(), wanted);
    let config = fs::metadata(node.0.path().join(format!("runs/{UUID}.xl"))).unwrap();
    assert_eq!(config.permissions().mode() & 0o777, 0o600);
    second.stop(UUID, 1, Duration::ZERO, true).await.unwrap();
    assert!(!node.0.path().join(format!("runs/{UUID}.xl")).exists());
}

#[tokio::test]
async fn a_guest_ends_as_xen_says() {
    let node = Node::new();
    let instances = node.agent();
    instances.start(launch(1, &[])).await.unwrap();
    node.ends(1, "---sr- 1");
    while node.domain(2).is_none() {
        sleep(Duration::from_millis(20)).await;
    }
    becomes(&instances, Seen::Running).await;
    assert_eq!(instances.get(UUID).unwrap().run(), 1, "it is the same run");
    assert_eq!(instances.order(UUID, 1, Order::Reset).await.unwrap().1.seen, Seen::Running);
    assert_eq!((node.domain(2), node.domain(3).is_some()), (None, true));
    node.ends(3, "---s-- 0");
    assert_eq!(becomes(&instances, Seen::Stopped).await, None);
    instances.start(launch(2, &[("reboot_behavior", "exit")])).await.unwrap();
    node.ends(4, "---sr- 1");
    becomes(&instances, Seen::Stopped).await;
    instances.start(launch(3, &[])).await.unwrap();
    node.ends(5, "---sc- 3");
    let why = becomes(&instances, Seen::Crashed).await;
    assert_eq!(why.as_deref(), Some("its guest ended by crash, as xen says"));
    assert!((1..=5).all(|id| node.domain(id).is_none()), "none is left");
}

/// A guest that lives is neither ended nor started elsewhere for what a list says.
#[tokio::test]
async fn no_odd_list_ends_a_guest() {
    let node = Node::new();
    let instances = node.agent();
    instances.start(launch(1, &[])).await.unwrap();
    let mixed = ["rubbish", "fails", "cut"].repeat(7);
    // The second time each list lacks it, and yet Xen knows its name.
    for odd in [&mixed[..], &["empty"; 20]] {
        node.fault("list", odd);
        several_looks().await;
        assert_eq!((seen(&instances), node.domain(1).is_some()), (Seen::Running, true), "{odd:?}");
    }
    node.fault("list", &["empty", "empty"]);
    node.fault("domid", &["fails"; 20]);
    several_looks().await;
    assert_eq!((seen(&instances), node.domain(1).is_some()), (Seen::Running, true));
    assert!(!node.log().iter().any(|line| line.starts_with("destroy")));
    // An end asks through what is odd.
    node.fault("domid", &["fails"]);
    node.fault("list", &["rubbish", "empty", "cut", "fails"]);
    node.fault("destroy", &["ignored", "fails"]);
    instances.stop(UUID, 1, Duration::ZERO, false).await.unwrap();
    assert_eq!(node.domain(1), None);
}

#[tokio::test]
async fn a_domain_that_somebody_destroyed_is_gone() {
    let node = Node::new();
    let instances = node.agent();
    instances.start(launch(1, &[])).await.unwrap();
    fs::remove_file(node.state("1")).unwrap();
    assert_eq!(becomes(&instances, Seen::Crashed).await.as_deref(), Some(DOMAIN_GONE));
    // Another one has its name by now, which is not its own.
    instances.start(launch(2, &[])).await.unwrap();
    let other = format!("web1.example.com {} -b---- -\n", Uuid::from_u128(7));
    stdx::atomic::write(&node.state("2"), other.as_bytes(), 0o644).unwrap();
    assert_eq!(becomes(&instances, Seen::Crashed).await.as_deref(), Some(DOMAIN_GONE));
    assert_eq!(node.domain(2), Some(other));
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_domain() {
    let node = Node::new();
    let instances = node.agent();
    node.fault("create", &["late"]);
    let error = instances.start(launch(1, &[])).await.unwrap_err().to_string();
    assert!(error.contains("web1.example.com: xl create") && error.contains("no device model"));
    assert_eq!((seen(&instances), node.domain(1)), (Seen::Crashed, None));
    // A domain that is on no record is not taken for the next run.
    node.ends(9, "-b---- -");
    instances.start(launch(2, &[])).await.unwrap();
    assert_eq!((seen(&instances), node.domain(9)), (Seen::Running, None));
    let odd = instances.stop(UUID, 2, Duration::ZERO, false).await;
    assert_eq!(odd.unwrap().1.seen, Seen::Absent);
    let wrong = instances.start(launch(3, &[("kernel_args", "two\nlines")])).await.unwrap_err();
    assert!(wrong.to_string().contains("parameter kernel_args"), "{wrong}");
}

/// The agent ended while `xl` was at work, which goes on by itself.
#[tokio::test]
async fn the_next_agent_destroys_what_was_half_begun() {
    let node = Node::new();
    let first = node.agent();
    node.fault("create", &["hangs"]);
    let begin = first.start(launch(1, &[]));
    let begun = async {
        while node.domain(1).is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = begun => {}
        _ = begin => panic!("it hangs"),
    }
    first.shutdown().await;
    let config = node.0.path().join(format!("runs/{UUID}.xl"));
    let mut orphan = std::process::Command::new("/bin/sh")
        .args(["-c", "read -r line", "xl", "create"])
        .arg(&config)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let second = node.agent();
    assert_eq!(becomes(&second, Seen::Crashed).await.as_deref(), Some(AGENT_ENDED));
    assert_eq!(node.domain(1), None);
    assert!(!orphan.wait().unwrap().success(), "it was ended");
    assert!(second.start(launch(2, &[])).await.is_ok());
}

#[tokio::test]
async fn a_node_without_xl_says_so() {
    let node = Node::new();
    fs::remove_file(node.xl()).unwrap();
    let error = node.agent().start(launch(1, &[])).await.unwrap_err().to_string();
    assert!(error.contains("/xl; the package xen-utils has it"), "{error}");
    let hvparams = launch(1, &[]).hvparams;
    assert!(node.agent().check("xen-pvm", &hvparams).is_err());
    let node = Node::new();
    let error = node.agent().check("xen-pvm", &hvparams).unwrap_err().to_string();
    assert!(error.contains("no file /boot/vmlinuz-3-xenU"), "{error}");
}
