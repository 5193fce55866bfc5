//! The front doors of two candidates while the master is lost.

use tests::candidates::LONG;
use tests::cluster::Cluster;
use tests::run::{start, wait_for};

use super::Front;

#[test]
fn of_64_clients_no_change_is_lost_or_made_twice() {
    if let Some(why) = xtask::needs::missing(&["python3"]) {
        return tests::skip("64 clients through a failover", &why);
    }
    let (mut cluster, hosts) = Cluster::begin_with_candidates(3);
    let lost = cluster.master.clone();
    for host in &hosts {
        Front::open(&cluster, host, &[]);
    }
    let marks = cluster.dir().join("marks");
    std::fs::create_dir(&marks).unwrap();
    let doors: Vec<String> = hosts.iter().map(|host| host.address.to_string()).collect();
    let mut python = xtask::needs::command("python3");
    python.args(["-c", include_str!("failover.py"), &doors.join(",")]).arg(&marks);
    let mut clients = start(python);
    wait_for("load", LONG, || marks.join("loaded").exists().then_some(()));
    cluster.kill_host(&lost);
    cluster.fail_over(&hosts[0]);
    std::fs::create_dir(marks.join("moved")).unwrap();
    assert!(clients.is_running(), "they go on through it");
    let told = clients.end().json();
    for nothing in ["doubled", "lost", "failed"] {
        assert_eq!(told[nothing], serde_json::json!([]), "{told}");
    }
    assert!(told["acknowledged"].as_u64() >= Some(64 * 4), "{told}");
}
