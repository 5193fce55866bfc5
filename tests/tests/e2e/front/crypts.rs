//! Keys of disks over HTTPS: for operators, and for the machine that they belong to.

use std::process::Command;

use tests::cluster::{Cluster, Host, IPAM, MASTER};
use tests::run::run;
use tests::wire::{RACK_ADDRESS, Wire};

use super::Front;
use crate::disk_keys::holding;

/// A key, and what of it is sought.
const KEY: &str = "correct-horse-battery-staple\n";
const SOUGHT: [&str; 2] = ["correct-horse", "Y29ycmVjdC1ob3JzZ"];
const MACHINES: &str =
    r#"[{"serial": "SN1", "role": "worker"}, {"serial": "SN2", "role": "worker"}]"#;
const DISK: &str = "/api/v1/crypts/SN1/pci-0000:00:1f.2-ata-3";

/// The log filter of a front door: everything, since a key must not be in it.
const TRACE: [&str; 2] = ["--log-filter", "trace"];

fn register(front: &Front) {
    let set = front.answer("alice", &["-X", "PUT", "-d", IPAM, "/api/v1/config/ipam"]);
    assert_eq!(set, (200, String::new()));
    assert_eq!(front.answer("alice", &["-d", MACHINES, "/api/v1/machines"]).0, 201);
}

fn put(front: &Front, user: &str, options: &[&str], key: &str, path: &str) -> (u16, String) {
    let all = [options, &["-X", "PUT", "--data-binary", key, path]].concat();
    front.answer(user, &all)
}

/// Files that hold the key, once nothing of the tests does.
fn found(front: &Front) -> Vec<String> {
    let mut found = Vec::new();
    holding(&front.cluster.dir(), &SOUGHT, &mut found);
    found
}

#[test]
fn operators_keep_fetch_and_forget_keys() {
    let front = Front::begin_with(&TRACE);
    register(&front);
    let put = |key: &str, path: &str| put(&front, "alice", &[], key, path);
    let kept = r#"{"status": 201, "path":"pci-0000:00:1f.2-ata-3"}"#;
    assert_eq!(put(KEY, DISK), (201, kept.to_owned()));
    assert_eq!(put(KEY, DISK), (201, kept.to_owned()), "the same again");
    let (status, told) = put("something else", DISK);
    assert_eq!(status, 409, "{told}");
    let large = "x".repeat(4_097);
    for (key, path, wanted) in [
        ("", "/api/v1/crypts/SN1/sda", 400),
        (&large[..1], "/api/v1/crypts/SN1/sda", 201),
        (&large[..4_096], "/api/v1/crypts/SN1/sdb", 201),
        (large.as_str(), "/api/v1/crypts/SN1/sdc", 413),
        (KEY, "/api/v1/crypts/SN9/sda", 404),
        (KEY, "/api/v1/crypts/SN1/..%2fsda", 400),
    ] {
        assert_eq!(put(key, path).0, wanted, "{path}");
    }
    for (user, path, wanted) in [
        ("alice", "/api/v1/crypts/SN1/sdz", 404),
        ("alice", "/api/v1/crypts/SN9/sda", 404),
        ("alice", "/api/v1/crypts/SN1", 405),
        ("bob", "/api/v1/cryptsetup", 404),
        ("bob", DISK, 403),
        ("nobody", DISK, 401),
    ] {
        let (status, told) = front.answer(user, &[path]);
        assert_eq!(status, wanted, "{user} {path}: {told}");
        assert!(told.contains("\"error\""), "{told}");
    }
    let fetched = front.curl("alice", &["-i", DISK]);
    let (head, key) = fetched.ok().split_once("\r\n\r\n").unwrap();
    assert_eq!(key, KEY);
    for line in ["content-type: application/octet-stream", "cache-control: no-store"] {
        assert!(head.contains(line), "{head}");
    }
    octets_stay_as_they_are(&front);
    assert_eq!(found(&front), [""; 0]);

    let forget = |user: &str, path: &str| front.answer(user, &["-X", "DELETE", path]);
    assert_eq!(forget("bob", "/api/v1/crypts/SN1").0, 403);
    assert_eq!(forget("alice", DISK).0, 405, "sabakan would forget the other keys, too");
    let all = r#"["pci-0000:00:1f.2-ata-3", "sda", "sdb"]"#;
    assert_eq!(forget("alice", "/api/v1/crypts/SN1").0, 409, "it works for somebody");
    assert_eq!(put("retiring", "/api/v1/state/SN1").0, 200);
    assert_eq!(forget("alice", "/api/v1/crypts/SN1"), (200, all.to_owned()));
    assert_eq!(forget("alice", "/api/v1/crypts/SN1"), (200, "[]".to_owned()));
    assert_eq!(forget("alice", "/api/v1/crypts/SN9").0, 404);
    assert_eq!(front.answer("alice", &[DISK]).0, 404);
}

/// A key is any bytes, such as those of a random generator.
fn octets_stay_as_they_are(front: &Front) {
    let [sent, got] = ["sent.key", "got.key"].map(|name| front.cluster.dir().join(name));
    let key: Vec<u8> = (0..=255).collect();
    stdx::atomic::write(&sent, &key, 0o600).unwrap();
    let body = format!("@{}", sent.display());
    let path = "/api/v1/crypts/SN2/sda";
    assert_eq!(put(front, "alice", &[], &body, path).0, 201);
    let _fetched = front.curl("alice", &["-o", &got.display().to_string(), path]).ok();
    assert_eq!(std::fs::read(&got).unwrap(), key);
}

/// A front door of a rack, with the addresses of both machines on the other side of the wire.
fn on_a_wire(wire: &Wire) -> Front {
    let cluster = Cluster::init_on(wire);
    cluster.start_master();
    cluster.start_agent(&cluster.master);
    cluster.wait_for_facts(MASTER);
    for address in ["10.69.0.9/26", "10.69.0.4/26", "10.69.0.5/26"] {
        let mut ip = Command::new("ip");
        ip.args(["addr", "add", address, "dev", "eth0"]);
        let _added = run(Wire::within(&wire.client, &ip)).ok();
    }
    let door = Host { address: RACK_ADDRESS, ..cluster.master.clone() };
    Front::open(&cluster, &door, &[&TRACE[..], &["--machines-by-address"]].concat());
    Front { cluster, door }
}

#[test]
fn a_machine_has_its_own_keys_where_the_operator_lets_it() {
    if let Some(why) = Wire::missing() {
        return tests::skip("a_machine_has_its_own_keys_where_the_operator_lets_it", why);
    }
    let wire = Wire::new();
    wire.in_client(|| machines_ask(&on_a_wire(&wire)));
}

fn machines_ask(front: &Front) {
    register(front);
    let [one, two] = ["10.69.0.4", "10.69.0.5"].map(|address| ["--interface", address]);
    let from =
        |address: &[&str], user: &str, path: &str| front.answer(user, &[address, &[path]].concat());
    assert_eq!(put(front, "nobody", &one, KEY, DISK).0, 201);
    assert_eq!(from(&one, "nobody", DISK), (200, KEY.to_owned()));
    // Another machine, and a host that is none, have nothing; a user has its own rights alone.
    assert_eq!(from(&two, "nobody", DISK).0, 401);
    assert_eq!(put(front, "nobody", &two, KEY, "/api/v1/crypts/SN1/sdb").0, 401);
    assert_eq!(from(&["--interface", "10.69.0.9"], "nobody", DISK).0, 401);
    assert_eq!(from(&one, "bob", DISK).0, 403);
    for (method, path) in [
        ("DELETE", "/api/v1/crypts/SN1"),
        ("GET", "/api/v1/machines"),
        ("DELETE", "/api/v1/machines/SN1"),
        ("GET", "/api/v1/crypts/SN9/sda"),
    ] {
        let told = from(&[&one[..], &["-X", method]].concat(), "nobody", path);
        assert_eq!(told.0, 401, "{method} {path}: {}", told.1);
    }
    let mut job = Command::new("grep");
    job.args(["-rl", "machine SN1: PUT /api/v1/crypts/SN1/"]).arg(front.cluster.dir());
    assert!(run(job).ok().contains("job-"), "the job tells who kept the key");
    assert_eq!(found(front), [""; 0]);

    front.cluster.stop(&format!("rapi-{}", front.door.name));
    Front::start(&front.cluster, &front.door, &[]);
    assert_eq!(from(&one, "nobody", DISK).0, 401);
}
