//! Racks and machines: what may be changed, what may not, and agents that were away meanwhile.

use serde_json::{Value, json};
use tests::cluster::{Cluster, IPAM, MASTER, PATIENCE};
use tests::run::{run, wait_for};

use crate::restart::{copy_store, restore};

/// A cluster whose first agent serves rack 0.
pub(crate) fn rack() -> Cluster {
    let cluster = Cluster::begin_with_agent();
    serves(&cluster, MASTER);
    cluster
}

/// Has a node's agent serve rack 0.
pub(crate) fn serves(cluster: &Cluster, node: &str) {
    let ipam = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _given = cluster.gnt(&format!("node modify --rack 0 {node}")).ok();
}

/// The status of the agent's answer to a request for a machine's script.
fn script(cluster: &Cluster, serial: &str) -> String {
    let mut curl = std::process::Command::new("curl");
    let address = cluster.boot_address(&cluster.master);
    let url = format!("http://{address}:10080/api/v1/boot/ipxe/{serial}");
    curl.args(["--silent", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code}", &url]);
    run(curl).stdout
}

fn wait_for_script(cluster: &Cluster, serial: &str, status: &str) {
    wait_for(&format!("{status} for {serial}"), PATIENCE, || {
        (script(cluster, serial) == status).then_some(())
    });
}

fn serials(cluster: &Cluster) -> Vec<Value> {
    let rows = cluster.gnt("machine list --json -o serial").json();
    rows.as_array().unwrap().iter().map(|row| row["serial"].clone()).collect()
}

#[test]
fn a_restored_backup_takes_back_what_agents_were_told_since() {
    let cluster = rack();
    let (data, backup) = (cluster.master.layout().data(), cluster.dir().join("backup"));
    cluster.stop_master();
    std::fs::create_dir(&backup).unwrap();
    copy_store(&data, &backup);
    cluster.start_master();
    // So many batches that the restored master is at a lower position when it tells the agent.
    for _ in 0..5 {
        let _done = cluster.gnt("debug delay 0 --no-master").ok();
    }
    let _registered = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    wait_for_script(&cluster, "SN1", "200");
    cluster.stop_master();
    restore(&backup, &data);

    // In the term in which the agent was told: it is not made to forget, and nobody says it was.
    cluster.start_master();
    let told = cluster.gnt("machine add --serial SN2 --rack 0 --role worker");
    assert!(told.ok().contains("takes no older one"), "{told:?}");
    assert_eq!(script(&cluster, "SN2"), "404");
    cluster.stop_master();

    cluster.start_master();
    wait_for_script(&cluster, "SN2", "200");
    assert_eq!(script(&cluster, "SN1"), "404");
}

#[test]
fn machines_are_registered_all_or_none() {
    let cluster = rack();
    let _first = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    for (machines, reason) in [
        (
            json!([{"serial": "SN2", "rack": 0, "role": "worker"},
                {"serial": "SN1", "rack": 0, "role": "worker"}]),
            "SN1",
        ),
        (
            json!([{"serial": "SN2", "rack": 0, "role": "worker"},
                {"serial": "SN2", "rack": 0, "role": "worker"}]),
            "SN2",
        ),
        (
            json!([{"serial": "SN2", "rack": 0, "role": "worker"},
                {"serial": "SN3", "rack": 100_000, "role": "worker"}]),
            "100000",
        ),
        (
            json!([{"serial": "SN2", "rack": 0, "role": "boot"},
                {"serial": "SN3", "rack": 0, "role": "boot"}]),
            "boot",
        ),
        (
            Value::Array(
                (0..40)
                    .map(|at| json!({"serial": format!("M{at}"), "rack": 0, "role": "worker"}))
                    .collect(),
            ),
            "28",
        ),
    ] {
        let file = cluster.write("machines.json", &machines.to_string());
        let refused = cluster.gnt(&format!("machine add -f {}", file.display()));
        assert!(refused.failed(1).contains(reason), "no {reason} in {refused:?}");
        assert_eq!(serials(&cluster), ["SN1"]);
    }
}

#[test]
fn rules_that_would_move_machines_are_refused() {
    let cluster = rack();
    let _first = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let moved = cluster.write("moved.json", &IPAM.replace("10.69.0.0/16", "10.70.0.0/16"));
    let refused = cluster.gnt(&format!("ipam set -f {}", moved.display()));
    assert!(!refused.failed(1).is_empty(), "{refused:?}");
    let kept = cluster.gnt("ipam get").json();
    assert_eq!(kept["node-ipv4-pool"], "10.69.0.0/16");
    let _removed = cluster.gnt("machine remove SN1 --yes").ok();
    let _empty = cluster.gnt(&format!("ipam set -f {}", moved.display())).ok();
}

#[test]
fn an_agent_that_was_away_gets_what_it_missed() {
    let cluster = rack();
    let _first = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    wait_for_script(&cluster, "SN1", "200");
    cluster.kill_agent(&cluster.master);
    let added = cluster.gnt("machine add --serial SN2 --rack 0 --role worker");
    assert!(added.ok().contains(MASTER), "the job says who was not reached: {added:?}");
    let _removed = cluster.gnt("machine remove SN1 --yes").ok();
    cluster.start_agent(&cluster.master);
    wait_for_script(&cluster, "SN2", "200");
    wait_for_script(&cluster, "SN1", "404");
}

#[test]
fn an_agent_whose_rack_was_taken_away_serves_it_no_longer() {
    let cluster = rack();
    let _first = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    wait_for_script(&cluster, "SN1", "200");
    let _taken = cluster.gnt(&format!("node modify --rack none {MASTER}")).ok();
    wait_for_script(&cluster, "SN1", "404");
    let _given = cluster.gnt(&format!("node modify --rack 0 {MASTER}")).ok();
    wait_for_script(&cluster, "SN1", "200");
}

#[test]
fn an_index_is_free_again_when_its_machine_is_gone() {
    let cluster = rack();
    for serial in ["SN1", "SN2"] {
        let _added =
            cluster.gnt(&format!("machine add --serial {serial} --rack 0 --role worker")).ok();
    }
    let unasked = cluster.gnt("machine remove SN1");
    assert!(unasked.failed(13).contains("--yes"), "{unasked:?}");
    let _removed = cluster.gnt("machine remove SN1 --yes").ok();
    let _added = cluster.gnt("machine add --serial SN3 --rack 0 --role worker").ok();
    let rows = cluster.gnt("machine list --json -o serial,index").json();
    assert_eq!(rows, json!([{"serial": "SN2", "index": 5}, {"serial": "SN3", "index": 4}]));
    let gone = cluster.gnt("machine remove SN1 --yes");
    assert!(gone.failed(1).contains("SN1"), "{gone:?}");
    let gone = cluster.gnt("machine info SN1");
    assert!(gone.failed(1).contains("SN1"), "{gone:?}");
}
