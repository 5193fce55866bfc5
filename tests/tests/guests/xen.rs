//! The real Xen with its real `xl`, by an agent's instances in its administering domain.
//!
//! The test makes a guest of QEMU in which Xen runs, and has its own program run the same test there.

#![expect(
    clippy::print_stdout,
    reason = "the console of the guest is all that is left of a failure"
)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::instance::launch::{DiskLaunch, Launch, NicLaunch};
use model::instance::parameters::{BACKEND, Parameters, hypervisor};
use model::instance::state::Seen;
use model::instance::{DiskPlace, disk::DiskMode};
use model::{InstanceName, Uuid};
use serde_json::{Value, json};
use stdx::Clock;
use virt::{Instances, Order, Paths, Storage};
use xtask::guest::GuestError;
use xtask::guest::parts::Parts;
use xtask::guest::xen::Xen;

/// The name of the test below.
const TEST: &str = "xen::domains_live_and_end_in_a_real_xen";
/// The directory of records in Xen's administering domain.
const RECORDS: &str = "/tmp/runs";
const XL: &str = "/usr/sbin/xl";
const UUID: Uuid = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
/// Text that a configuration has to quote.
const ODD: &str = r#"it's "quoted" \n \\ #x, y"#;

#[test]
fn domains_live_and_end_in_a_real_xen() {
    if std::fs::read_to_string("/proc/xen/capabilities").is_ok_and(|all| all.contains("control_d"))
    {
        return tokio::runtime::Runtime::new().unwrap().block_on(within());
    }
    if !tests::has_time("a real Xen") {
        return;
    }
    let xen =
        Parts::provide().and_then(|parts| Xen::provide(&parts, &std::env::current_exe().unwrap()));
    let xen = match xen {
        Ok(xen) => xen,
        Err(GuestError::Impossible(why)) => return tests::skip("a real Xen", &why),
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let said = xen.run(TEST).unwrap();
    println!("{said}");
    assert!(said.contains("1 passed") && said.contains("XEN ended 0"));
}

/// A run whose guest does this.
fn launch(kind: &str, run: u64, kernel_args: &str) -> Launch {
    let filled = |table: &[model::instance::parameters::Parameter]| -> Parameters {
        table.iter().map(|row| (row.name.to_owned(), row.usual.value())).collect()
    };
    let mut hvparams = filled(hypervisor(kind).unwrap());
    if kind == "xen-pvm" {
        let own =
            [("kernel_path", "/vmlinuz"), ("initrd_path", "/guest.initrd"), ("root_path", "")];
        hvparams.extend(own.map(|(name, value)| (name.to_owned(), value.into())));
        hvparams
            .insert("kernel_args".to_owned(), format!("console=hvc0 quiet {kernel_args}").into());
    }
    let mut beparams = filled(BACKEND);
    beparams.insert("maxmem".to_owned(), 128.into());
    Launch {
        uuid: UUID,
        name: "web1.example.com".parse().unwrap(),
        run,
        hypervisor: kind.to_owned(),
        hvparams,
        beparams,
        nics: Vec::new(),
        disks: Vec::new(),
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

fn agent() -> Instances {
    let storage = Storage::new("/tmp/list".into(), "/tmp/disks".into());
    let paths = Paths { xl: XL.into(), ..Paths::of(RECORDS.into()) };
    Instances::open(paths, "boot".to_owned(), storage, Clock::system()).unwrap()
}

fn seen(instances: &Instances) -> Seen {
    instances.since(None).instances[0].seen
}

/// Waits until an instance is so; gives why it ended.
async fn becomes(instances: &Instances, wanted: Seen) -> Option<String> {
    let began = Instant::now();
    while seen(instances) != wanted {
        assert!(began.elapsed() < Duration::from_secs(90), "it is {:?}", seen(instances));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{wanted:?} after {:?}", began.elapsed());
    instances.since(None).instances[0].exit.clone()
}

/// The words of the real `xl`.
fn xl(words: &[&str]) -> String {
    let output = Command::new(XL).args(words).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("xl {}: {}\n{told}", words.join(" "), output.status);
    told
}

fn has_domain() -> bool {
    xl(&["list", "-v"]).contains(&UUID.to_string())
}

/// The test within the administering domain.
async fn within() {
    read_by_xl("xen-pvm").await;
    read_by_xl("xen-hvm").await;
    let first = agent();
    let paused = Launch { paused: true, ..launch("xen-pvm", 2, "") };
    assert_eq!(first.start(paused).await.unwrap().1.seen, Seen::Paused);
    assert!(xl(&["list", "-v"]).contains("--p---"));
    xl(&["list", "-l", "web1.example.com"]);
    assert_eq!(first.order(UUID, 2, Order::Resume).await.unwrap().1.seen, Seen::Running);
    first.order(UUID, 2, Order::Memory(100)).await.unwrap();
    first.shutdown().await;
    let second = agent();
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(seen(&second), Seen::Running, "the next agent knows it again");
    let asked = Instant::now();
    let stopped = second.stop(UUID, 2, Duration::from_secs(60), false).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(60), "its guest heard of its end");
    assert_eq!((stopped.1.seen, has_domain()), (Seen::Absent, false));
    second.start(launch("xen-pvm", 3, "guest.again")).await.unwrap();
    let id = xl(&["domid", "web1.example.com"]);
    while [id.as_str(), ""].contains(&xl(&["domid", "web1.example.com"]).as_str()) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    becomes(&second, Seen::Running).await;
    second.stop(UUID, 3, Duration::ZERO, false).await.unwrap();
    assert!(!has_domain());
    second.start(launch("xen-pvm", 4, "guest.off")).await.unwrap();
    assert_eq!(becomes(&second, Seen::Stopped).await, None);
    second.start(launch("xen-pvm", 5, "guest.crash")).await.unwrap();
    let why = becomes(&second, Seen::Crashed).await;
    assert_eq!(why.as_deref(), Some("its guest ended by crash, as xen says"));
    assert!(!has_domain());
    let mut wrong = launch("xen-pvm", 6, "");
    wrong.hvparams.insert("kernel_path".to_owned(), "/none".into());
    println!("{}", second.start(wrong).await.unwrap_err());
    assert_eq!((seen(&second), has_domain()), (Seen::Crashed, false));
}

/// The real `xl` reads a configuration with all that an instance may have. It starts nothing: there is no
/// bridge, and no device model.
async fn read_by_xl(kind: &str) {
    let run = if kind == "xen-pvm" { 0 } else { 1 };
    let mut launch = launch(kind, run + 10, ODD);
    let set = |launch: &mut Launch, name: &str, value: Value| {
        launch.hvparams.insert(name.to_owned(), value);
    };
    for (name, value) in [
        ("cpu_mask", json!("0")),
        ("cpu_weight", json!(512)),
        ("cpu_cap", json!(50)),
        ("cpuid", json!("host,avx=0")),
    ] {
        set(&mut launch, name, value);
    }
    let path = "/tmp/disks/a, \"b\" c";
    launch.uuid = Uuid::from_u128(UUID.as_u128() + u128::from(run) + 1);
    launch.disks = vec![DiskLaunch {
        uuid: UUID,
        place: DiskPlace::File { path: path.to_owned() },
        size: 1,
        mode: DiskMode::ReadWrite,
        params: Parameters::new(),
        replica: None,
    }];
    launch.nics = vec![NicLaunch {
        uuid: UUID,
        mac: "aa:00:00:12:34:56".parse().unwrap(),
        ip: Some("192.0.2.1".parse().unwrap()),
        network: None,
        nicparams: [("mode", "openvswitch"), ("link", "br0"), ("vlan", ".100:1:2")]
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .into(),
    }];
    let instances = agent();
    instances.storage().create(&launch.disks[0]).unwrap();
    let name: InstanceName = launch.name.clone();
    let uuid = launch.uuid;
    let error = instances.start(launch).await.unwrap_err();
    println!("{error}");
    instances.shutdown().await;
    let file = Path::new(RECORDS).join(format!("{uuid}.xl"));
    let told = xl(&["create", "-n", "-q", &file.display().to_string()]);
    let read: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(read["c_info"]["name"], name.as_str());
    assert_eq!(read["c_info"]["uuid"], uuid.to_string());
    assert_eq!(read["disks"][0]["pdev_path"], path);
    assert_eq!(read["disks"][0]["readwrite"], 1);
    assert_eq!(read["nics"][0]["mac"], "aa:00:00:12:34:56");
    assert_eq!(read["nics"][0]["bridge"], "br0.100:1:2");
    assert_eq!(read["nics"][0]["ip"], "192.0.2.1");
    assert_eq!(read["b_info"]["sched_params"], json!({"weight": 512, "cap": 50}));
    assert_eq!(read["on_reboot"], "preserve");
    if kind == "xen-pvm" {
        assert_eq!(read["b_info"]["cmdline"], format!("console=hvc0 quiet {ODD}"));
    }
}
