//! Keys of disks that machines ask an agent of their rack for: the agent passes them on, and has none.

use std::process::Command;

use serde_json::Value;
use tests::cluster::{Cluster, Host, IPAM, MASTER, PATIENCE};
use tests::run::{Ended, run, start, wait_for};
use tests::wire::{RACK_ADDRESS, Wire};

use crate::disk_keys::holding;

/// A key, and what of it is sought.
const KEY: &str = "correct-horse-battery-staple\n";
const SOUGHT: [&str; 2] = ["correct-horse", "Y29ycmVjdC1ob3JzZ"];
/// The addresses of the first two machines.
const ONE: &str = "10.69.0.4";
const TWO: &str = "10.69.0.5";
const DISK: &str = "/api/v1/crypts/SN1/pci-0000:00:1f.2-ata-3";
/// The card of the second one.
const CARD: &str = "52:54:00:00:00:02";

/// A master with the agent of rack 0 on one side of a wire, and the addresses of its machines on the
/// other.
struct Scene {
    cluster: Cluster,
    agent: Host,
}

impl Scene {
    fn new(wire: &Wire) -> Self {
        let cluster = Cluster::init_on(wire);
        cluster.start_master();
        cluster.start_agent(&cluster.master);
        cluster.wait_for_facts(MASTER);
        let ipam = cluster.write("ipam.json", IPAM);
        for line in [
            format!("ipam set -f {}", ipam.display()),
            format!("node modify --rack 0 {MASTER}"),
            "machine add --serial SN1 --rack 0 --role w".to_owned(),
            format!("machine add --serial SN2 --rack 0 --role w --mac {CARD}"),
            "machine add --serial SN9 --rack 1 --role w".to_owned(),
        ] {
            let _done = cluster.gnt(&line).ok();
        }
        for address in ["10.69.0.9", ONE, TWO] {
            let mut ip = Command::new("ip");
            ip.args(["addr", "add", &format!("{address}/26"), "dev", "eth0"]);
            let _added = run(Wire::within(&wire.client, &ip)).ok();
        }
        let agent = cluster.master.clone();
        Self { cluster, agent }
    }

    /// Asks as `MyURLHTTPS` tells a machine, by the agent's address in the rack, which the certificate has.
    fn curl(&self, from: &str, options: &[&str], path: &str) -> Ended {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--interface", from]);
        curl.arg("--cacert").arg(self.agent.layout().ca_certificate()).args(options);
        curl.arg(format!("https://{RACK_ADDRESS}:10443{path}"));
        run(curl)
    }

    /// The verdict of `openssl` on the certificate that is shown to a client of this host.
    fn verified(&self, host: [&str; 2]) -> String {
        let mut openssl = Command::new("openssl");
        openssl.args([
            "s_client",
            "-connect",
            &format!("{RACK_ADDRESS}:10443"),
            "-verify_return_error",
        ]);
        openssl.arg("-CAfile").arg(self.agent.layout().ca_certificate()).args(host);
        openssl.stdin(std::process::Stdio::null());
        run(openssl).stdout
    }

    /// The status and the body of an answer.
    fn ask(&self, from: &str, options: &[&str], path: &str) -> (u16, String) {
        let ended = self.curl(from, &[options, &["-w", "\n%{http_code}"]].concat(), path);
        let (body, status) = ended.ok().rsplit_once('\n').expect("a status behind the body");
        (status.parse().unwrap(), body.to_owned())
    }

    fn put(&self, from: &str, key: &str, path: &str) -> (u16, String) {
        self.ask(from, &["-X", "PUT", "--data-binary", key], path)
    }

    /// Waits until the key is given, by an agent that may just be starting.
    fn wait_for_key(&self) {
        wait_for("the key", PATIENCE, || {
            let ended = self.curl(ONE, &[], DISK);
            (ended.status.success() && ended.stdout == KEY).then_some(())
        });
    }
}

#[test]
fn machines_keep_and_fetch_their_keys_by_the_agent_of_their_rack() {
    if let Some(why) = Wire::missing() {
        return tests::skip("machines_keep_and_fetch_their_keys_by_the_agent_of_their_rack", why);
    }
    let wire = Wire::new();
    let scene = Scene::new(&wire);
    wire.in_client(|| keys_are_kept(&scene));
    wire.become_machine(CARD);
    let leased = wire.lease(&scene.cluster.dir()).address.to_string();
    wire.in_client(|| a_lease_is_proof(&scene, &leased));
}

/// By an address that one of its cards leases, a machine has its own keys and no others.
fn a_lease_is_proof(scene: &Scene, leased: &str) {
    assert_eq!(scene.put(leased, KEY, "/api/v1/crypts/SN2/sda").0, 201);
    assert_eq!(scene.ask(leased, &[], "/api/v1/crypts/SN2/sda"), (200, KEY.to_owned()));
    assert_eq!(scene.ask(leased, &[], "/api/v1/crypts/SN1/sdb").0, 404);
    let mut found = Vec::new();
    holding(&scene.cluster.dir(), &SOUGHT, &mut found);
    assert_eq!(found, [""; 0]);
}

fn keys_are_kept(scene: &Scene) {
    wait_for("the document of the rack", PATIENCE, || {
        (scene.put(ONE, KEY, DISK).0 == 201).then_some(())
    });
    let kept = r#"{"status": 201, "path":"pci-0000:00:1f.2-ata-3"}"#;
    assert_eq!(scene.put(ONE, KEY, DISK), (201, kept.to_owned()), "the same again");
    assert_eq!(scene.put(ONE, "something else", DISK).0, 409);
    let fetched = scene.curl(ONE, &["-i"], DISK);
    let (head, key) = fetched.ok().split_once("\r\n\r\n").unwrap();
    assert_eq!(key, KEY);
    for line in ["content-type: application/octet-stream", "cache-control: no-store"] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!(scene.cluster.gnt("machine disk-key get SN1 pci-0000:00:1f.2-ata-3").ok(), KEY);

    let large = "x".repeat(4_097);
    for (key, path, wanted) in [
        ("", "/api/v1/crypts/SN1/sda", 400),
        (&large[..4_096], "/api/v1/crypts/SN1/sdb", 201),
        (large.as_str(), "/api/v1/crypts/SN1/sdc", 413),
        (KEY, "/api/v1/crypts/SN1/..%2fsda", 400),
        // Another machine's, and one of another rack, whose agent this is not.
        (KEY, "/api/v1/crypts/SN2/sda", 404),
        (KEY, "/api/v1/crypts/SN9/sda", 404),
        (KEY, "/api/v1/crypts/nobody/sda", 404),
    ] {
        let (status, told) = scene.put(ONE, key, path);
        assert_eq!(status, wanted, "{path}: {told}");
    }
    assert_eq!(scene.ask(TWO, &[], DISK).0, 404);
    assert_eq!(scene.ask("10.69.0.9", &[], DISK).0, 404);
    assert_eq!(scene.ask(ONE, &[], "/api/v1/crypts/SN1/sdz").0, 404);
    assert_eq!(scene.ask(ONE, &["-X", "DELETE"], DISK).0, 405);
    assert_eq!(scene.ask(ONE, &[], "/api/v1/machines").0, 404);
    assert_eq!(scene.ask(ONE, &[], "/health").0, 200);
    let rack = RACK_ADDRESS.to_string();
    for host in [["-verify_ip", &rack], ["-verify_ip", "127.0.0.1"], ["-verify_hostname", MASTER]] {
        let told = scene.verified(host);
        assert!(told.contains("Verify return code: 0 (ok)"), "{host:?}: {told}");
    }
    let other = scene.verified(["-verify_ip", "10.69.0.1"]);
    assert!(!other.contains("Verify return code: 0 (ok)"), "{other}");

    told_in_the_audit_log(scene);
}

/// The audit log names who asked, from where, and by which agent.
fn told_in_the_audit_log(scene: &Scene) {
    let log = scene.cluster.gnt("log --json");
    let entries: Vec<Value> = serde_json::from_str(log.ok()).unwrap();
    let mut of_machine = entries.iter().filter(|entry| entry["user"] == "machine SN1");
    let entry = of_machine.find(|entry| entry["result"] == "success");
    let entry = entry.unwrap_or_else(|| panic!("nobody kept a key: {log:?}"));
    assert_eq!(entry["address"], ONE, "{entry}");
    assert_eq!(entry["host"], scene.agent.name.as_str(), "{entry}");
    assert_eq!(entry["action"], "OP_MACHINE_DISK_KEY_ADD", "{entry}");
}

/// The rule of today's sabakan.
fn retired_only_without_keys(scene: &Scene) {
    let _retiring = scene.cluster.gnt("machine set-state SN1 retiring").ok();
    assert_eq!(scene.put(ONE, KEY, "/api/v1/crypts/SN1/sdz").0, 409);
    assert!(!scene.cluster.gnt("machine set-state SN1 retired").status.success());
    let _forgotten = scene.cluster.gnt("machine disk-key remove SN1 --yes").ok();
    assert_eq!(scene.ask(ONE, &[], DISK).0, 404);
    let _retired = scene.cluster.gnt("machine set-state SN1 retired").ok();
}

#[test]
fn without_a_master_machines_are_told_to_come_back() {
    if let Some(why) = Wire::missing() {
        return tests::skip("without_a_master_machines_are_told_to_come_back", why);
    }
    let wire = Wire::new();
    let scene = Scene::new(&wire);
    wire.in_client(|| the_master_goes(&scene));
    wire.in_client(|| retired_only_without_keys(&scene));
}

fn the_master_goes(scene: &Scene) {
    wait_for("the document of the rack", PATIENCE, || {
        (scene.put(ONE, KEY, DISK).0 == 201).then_some(())
    });
    scene.cluster.kill_master();
    for options in [&["-i"][..], &["-i", "-X", "PUT", "--data-binary", KEY]] {
        let told = scene.curl(ONE, options, DISK).ok().to_lowercase();
        assert!(told.starts_with("http/1.1 503") && told.contains("\nretry-after: 5"), "{told}");
        assert!(told.contains("master is away") && !told.contains("correct-horse"), "{told}");
    }
    scene.cluster.start_master();
    scene.wait_for_key();

    // Keys that an agent had in hand go with it, and nothing of a key is left on its disk.
    scene.cluster.stop_master();
    scene.cluster.kill_agent(&scene.agent);
    let metrics = format!("{RACK_ADDRESS}:1816");
    let mut noded = scene.cluster.noded(&scene.agent);
    noded.args(["--metrics", &metrics]);
    scene.cluster.start(&scene.agent.name, noded);
    let path = "/api/v1/crypts/SN1/sdk";
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "60", "--interface", ONE, "--insecure", "--retry", "9"]);
    curl.args(["--retry-connrefused", "-X", "PUT", "--data-binary", KEY]);
    curl.arg(format!("https://{RACK_ADDRESS}:10443{path}"));
    let _asking = start(curl);
    wait_for("a key in the hand of the agent", PATIENCE, || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", &format!("http://{metrics}/metrics")]);
        run(curl).stdout.contains("gantry_boot_requests_total{answer=\"key\"} 1").then_some(())
    });
    scene.cluster.kill_agent(&scene.agent);
    let mut found = Vec::new();
    holding(&scene.cluster.dir(), &SOUGHT, &mut found);
    assert_eq!(found, [""; 0]);
    scene.cluster.start_master();
    scene.cluster.start_agent(&scene.agent);
    scene.wait_for_key();
    assert_eq!(scene.put(ONE, KEY, path).0, 201);
}
