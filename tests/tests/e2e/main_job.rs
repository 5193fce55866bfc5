//! The main job: an operator sets up a rack, and a machine boots in it, with the master and
//! without.

use std::time::Duration;

use serde_json::{Value, json};
use tests::cluster::{Cluster, IPAM, MASTER, PATIENCE};
use tests::run::{pass, wait_for};
use tests::seed::Seed;
use tests::wire::{Leased, Wire};

/// Registered with its Ethernet address.
const KNOWN: &str = "52:54:00:00:00:01";
/// Registered without: learnt at the first boot.
const LEARNT: &str = "52:54:00:00:00:02";
/// Registered without, and first seen while there is no master.
const LATE: &str = "52:54:00:00:00:03";
/// How long after a boot the master crashes, at most, in milliseconds.
const CRASH_MS: u64 = 40;

const MACHINES: &str = r#"[
  {"serial": "SN0", "rack": 0, "role": "boot", "product": "R630", "datacenter": "tokyo1"},
  {"serial": "SN1", "rack": 0, "role": "worker", "mac": ["52:54:00:00:00:01"]},
  {"serial": "SN2", "rack": 0, "role": "worker"},
  {"serial": "SN3", "rack": 0, "role": "worker"}
]"#;

/// A rack of one agent, with machines registered.
fn rack(wire: &Wire) -> Cluster {
    let cluster = Cluster::init_on(wire);
    cluster.start_master();
    cluster.start_agent(&cluster.master);
    cluster.wait_for_facts(MASTER);
    let ipam = cluster.write("ipam.json", IPAM);
    let machines = cluster.write("machines.json", MACHINES);
    for line in [
        format!("ipam set -f {}", ipam.display()),
        format!("node modify --rack 0 {MASTER}"),
        format!("machine add -f {}", machines.display()),
    ] {
        let _done = cluster.gnt(&line).ok();
    }
    cluster
}

/// Boots one machine: lease, chain script, its own script.
fn boot(wire: &Wire, cluster: &Cluster, mac: &str, serial: &str) -> Leased {
    wire.become_machine(mac);
    let leased = wire.lease(&cluster.dir());
    let [10, 69, 0, last] = leased.address.octets() else { panic!("{leased:?}") };
    assert!((32..=62).contains(&last), "{leased:?}");
    assert_eq!(leased.boot_file, "http://10.69.0.3:10080/api/v1/boot/ipxe");
    let chain = wire.curl(&leased.boot_file);
    let next = chain.ok().lines().find_map(|line| line.strip_prefix("chain ")).unwrap();
    let next = next.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    assert!(chain.ok().starts_with("#!ipxe\n"), "{chain:?}");
    let script = wire.curl(&next.replace("${serial:uristring}", serial));
    assert!(script.ok().starts_with("#!ipxe\n") && script.ok().contains(serial), "{script:?}");
    leased
}

/// The machine as `gnt machine list` shows it, once its boot came through.
fn shown(cluster: &Cluster, serial: &str) -> Value {
    wait_for(&format!("the boot of {serial}"), PATIENCE, || {
        let rows = cluster.gnt(&format!("machine list --json {serial}")).json();
        let row = rows[0].clone();
        (row["stage"] == "script" && row["lease"].is_string()).then_some(row)
    })
}

#[test]
fn a_rack_is_set_up_by_jobs_and_its_machines_boot() {
    if let Some(why) = Wire::missing() {
        return tests::skip("main job", why);
    }
    let wire = Wire::new();
    let cluster = rack(&wire);
    let leased = boot(&wire, &cluster, KNOWN, "SN1");
    let row = shown(&cluster, "SN1");
    assert_eq!(row["lease"], leased.address.to_string());
    assert_eq!((&row["index"], &row["mac"]), (&json!(4), &json!([KNOWN])));
    assert_eq!(row["ipv4"], json!(["10.69.0.4", "10.69.0.68", "10.69.0.132"]));
    let leased = boot(&wire, &cluster, LEARNT, "SN2");
    let row = shown(&cluster, "SN2");
    assert_eq!(
        (&row["lease"], &row["mac"]),
        (&json!(leased.address.to_string()), &json!([LEARNT]))
    );
    assert_eq!(shown(&cluster, "SN1")["mac"], json!([KNOWN]), "the first machine is as it was");

    let jobs = cluster.gnt("job list --json -o id,status,summary 1 2 3").json();
    let wanted = ["IPAM_SET", "NODE_SET_PARAMS(n1.example)", "MACHINE_ADD(4 machines)"];
    for ((at, job), wanted) in jobs.as_array().unwrap().iter().enumerate().zip(wanted) {
        assert_eq!(*job, json!({"id": at + 1, "status": "success", "summary": [wanted]}));
    }
    let _archived = cluster.gnt("job archive 1 2 3").ok();
    let left = cluster.gnt("job list --json -o id,status").json();
    let early = |job: &Value| job["id"].as_u64().unwrap() <= 3;
    assert!(!left.as_array().unwrap().iter().any(early), "{left}");
    let kept = cluster.gnt("job list --archived --json -o id,status,archived 1 2 3").json();
    assert_eq!(kept.as_array().unwrap().len(), 3, "{kept}");
    assert!(kept.as_array().unwrap().iter().all(|job| job["archived"] == true), "{kept}");
}

#[test]
fn the_rack_boots_without_its_master_and_the_master_learns_of_it() {
    if let Some(why) = Wire::missing() {
        return tests::skip("a rack without its master", why);
    }
    let wire = Wire::new();
    let cluster = rack(&wire);
    cluster.stop_master();
    let refused = cluster.gnt("machine list --master-wait 0").stderr;
    assert!(refused.contains("error[master-unreached]: "), "{refused}");
    let first = boot(&wire, &cluster, LATE, "SN3");

    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    let again = boot(&wire, &cluster, LATE, "SN3");
    assert_eq!(first, again, "the agent remembers its lease");
    let other = boot(&wire, &cluster, LEARNT, "SN2");
    assert_ne!(first.address, other.address);

    cluster.start_master();
    for (serial, mac, leased) in [("SN3", LATE, first), ("SN2", LEARNT, other)] {
        let row = shown(&cluster, serial);
        assert_eq!(row["lease"], leased.address.to_string());
        assert_eq!(row["mac"], json!([mac]));
    }
}

#[test]
fn what_an_agent_saw_outlives_a_crash_of_the_master() {
    if let Some(why) = Wire::missing() {
        return tests::skip("crashes while a rack boots", why);
    }
    let (wire, mut seed) = (Wire::new(), Seed::new());
    let cluster = rack(&wire);
    for (mac, serial) in [(KNOWN, "SN1"), (LEARNT, "SN2"), (LATE, "SN3")] {
        let leased = boot(&wire, &cluster, mac, serial);
        // The event is on its way to the master, or there, or committed.
        pass(Duration::from_millis(seed.below(CRASH_MS)));
        cluster.kill_master();
        cluster.start_master();
        assert_eq!(shown(&cluster, serial)["lease"], leased.address.to_string());
    }
}
