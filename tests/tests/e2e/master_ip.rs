//! The address that moves with the master, and the files by which every node knows who that is.

use std::net::Ipv4Addr;
use std::process::Command;

use serde_json::Value;
use tests::cluster::{Cluster, Host, MASTER, PATIENCE};
use tests::run::{Ended, run, wait_for};
use tests::wire::Wire;
use tests::{place, skip};

/// The address that moves.
const ADDRESS: &str = "10.69.0.50";
/// The second node's own.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 4);

pub(crate) fn ip(namespace: &str, line: &str) -> Ended {
    let mut command = Command::new("ip");
    command.args(["-n", namespace]).args(line.split(' '));
    run(command)
}

/// The prefix lengths with which a namespace has the address.
fn held(namespace: &str) -> Vec<u64> {
    let shown = ip(namespace, "-j address show").json();
    let of = |link: &Value| link["addr_info"].as_array().cloned().unwrap_or_default();
    let all = shown.as_array().unwrap().iter().flat_map(of);
    let ours = all.filter(|one| one["local"] == ADDRESS);
    ours.map(|one| one["prefixlen"].as_u64().unwrap()).collect()
}

/// A master with its agent on a wire; none where there can be no wire, which is said.
pub(crate) fn begin() -> Option<(Wire, Cluster)> {
    if let Some(why) = Wire::missing() {
        skip("nodes on real interfaces", why);
        return None;
    }
    let wire = Wire::new();
    let cluster = Cluster::init_on(&wire);
    cluster.start_master();
    cluster.start_agent(&cluster.master);
    cluster.wait_for_facts(MASTER);
    Some((wire, cluster))
}

/// A node on the other end of the wire, with its agent.
pub(crate) fn second(cluster: &Cluster, wire: &Wire) -> Host {
    let _set = ip(&wire.client, &format!("address add {SECOND}/26 dev eth0")).ok();
    let host = Host { address: SECOND, ..cluster.host("n2") };
    start_second(cluster, wire, &host, &["enroll", "--name", &host.name, "--address", "10.69.0.4"]);
    let token = wait_for("a token", PATIENCE, || {
        let printed = cluster.printed(&host.name);
        printed.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
    });
    let _added = cluster.gnt(&format!("node add {} --secret {token}", host.name)).ok();
    cluster.wait_for_facts(&host.name);
    host
}

pub(crate) fn start_second(cluster: &Cluster, wire: &Wire, host: &Host, arguments: &[&str]) {
    let mut noded = place::programs().command("noded");
    noded.arg("--root").arg(&host.root).args(arguments);
    cluster.start(&host.name, Wire::within(&wire.client, &noded));
}

#[test]
fn the_masters_address_is_taken_and_leftovers_go() {
    let Some((wire, cluster)) = begin() else { return };
    let host = second(&cluster, &wire);

    let none = cluster.gnt("cluster activate-master-ip");
    assert!(none.failed(1).contains("--master-ip IP"), "{none:?}");
    for (wrong, why) in [
        ("--master-ip 10.69.0.50", "--master-netdev"),
        ("--master-ip 10.69.0.4 --master-netdev rack0", "own address of n2.example"),
        ("--master-ip 10.69.0.50 --master-netdev rack0 --master-netmask 33", "32 bits"),
        ("--master-ip here --master-netdev rack0", "`here` is no address"),
    ] {
        let told = cluster.gnt(&format!("cluster modify {wrong}"));
        assert!(told.failed(1).contains(why), "{told:?}");
    }
    let given = "cluster modify --master-ip 10.69.0.50 --master-netdev rack0 --master-netmask 26";
    let _given = cluster.gnt(given).ok();
    assert_eq!(held(&wire.rack), [26]);
    assert!(cluster.gnt("cluster info").ok().contains("Master address: 10.69.0.50/26 on rack0"));
    let _gone = cluster.gnt("cluster deactivate-master-ip --yes").ok();
    assert_eq!(held(&wire.rack), [0_u64; 0]);

    // A master that crashed left its address behind.
    let leave = || ip(&wire.client, "address add 10.69.0.50/26 dev eth0 label eth0:gnt");
    let _left = leave().ok();
    let taken = cluster.gnt("cluster activate-master-ip");
    assert!(taken.ok().contains("n2.example had the master's address"), "{taken:?}");
    assert_eq!((held(&wire.rack), held(&wire.client)), (vec![26], Vec::new()));
    let again = cluster.gnt("cluster activate-master-ip");
    assert!(again.ok().contains("was here already"), "{again:?}");

    // One whose agent is away gives it up as soon as it is back.
    cluster.kill_agent(&host);
    let _left = leave().ok();
    let taken = cluster.gnt("cluster activate-master-ip");
    assert!(taken.ok().contains("n2.example was not asked"), "{taken:?}");
    start_second(&cluster, &wire, &host, &[]);
    wait_for("the address to be given up", PATIENCE, || {
        held(&wire.client).is_empty().then_some(())
    });
    assert_eq!(held(&wire.rack), [26]);

    // An interface that is not there: the change stands, and it is told.
    let warned = cluster.gnt("cluster modify --master-netdev eth9");
    assert!(warned.ok().contains("no interface `eth9`"), "{warned:?}");
    assert_eq!(held(&wire.rack), [0_u64; 0]);
    let _moved = cluster.gnt("cluster modify --master-netdev rack0 --master-netmask 32").ok();
    assert_eq!(held(&wire.rack), [32]);
    let _none = cluster.gnt("cluster modify --master-ip none").ok();
    assert_eq!(held(&wire.rack), [0_u64; 0]);
}

#[test]
fn an_address_that_no_master_asks_for_is_given_up() {
    let Some((wire, cluster)) = begin() else { return };
    let given = "cluster modify --master-ip 10.69.0.50 --master-netdev rack0 --master-netmask 26";
    let _given = cluster.gnt(given).ok();
    assert_eq!(held(&wire.rack), [26]);
    cluster.kill_master();
    assert_eq!(held(&wire.rack), [26], "a restart would find it");
    // The agent waits for a minute.
    wait_for("the address to be given up", 4 * PATIENCE, || {
        held(&wire.rack).is_empty().then_some(())
    });
    cluster.start_master();
    wait_for("the address to be taken", PATIENCE, || (held(&wire.rack) == [26]).then_some(()));
}

/// A file that a node's agent keeps.
fn file(host: &Host, name: &str) -> String {
    let text = std::fs::read_to_string(host.layout().ssconf().join(name));
    text.unwrap_or_default().trim_end().to_owned()
}

fn wait_for_file(host: &Host, name: &str, content: &str) {
    wait_for(&format!("`{content}` in {name} of {}", host.name), PATIENCE, || {
        (file(host, name) == content).then_some(())
    });
}

#[test]
fn every_node_knows_who_is_master() {
    let cluster = Cluster::begin_with_agent();
    let hosts = ["n2", "n3"].map(|short| cluster.host(short));
    for host in &hosts {
        let mut noded = cluster.noded(host);
        noded.args(["enroll", "--name", &host.name, "--address", &host.address.to_string()]);
        cluster.start(&host.name, noded);
        let token = wait_for("a token", PATIENCE, || {
            let printed = cluster.printed(&host.name);
            printed.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
        });
        let _added = cluster.gnt(&format!("node add {} --secret {token}", host.name)).ok();
    }
    for host in hosts.iter().chain([&cluster.master]) {
        wait_for_file(host, "node_list", "n1.example\nn2.example\nn3.example");
        assert_eq!(file(host, "master_node"), MASTER);
        assert_eq!(file(host, "peers").lines().count(), 3, "{}", file(host, "peers"));
    }

    // A node that was away gets the changes that it missed.
    cluster.kill_agent(&hosts[0]);
    let _tagged = cluster.gnt("cluster add-tags rack-a").ok();
    wait_for_file(&hosts[1], "cluster_tags", "rack-a");
    assert_eq!(file(&hosts[0], "cluster_tags"), "");
    cluster.start_agent(&hosts[0]);
    wait_for_file(&hosts[0], "cluster_tags", "rack-a");

    // A file that was removed by hand comes back when all is sent again.
    let link = hosts[1].layout().ssconf();
    let directory = std::fs::canonicalize(&link).unwrap();
    std::fs::remove_file(directory.join("master_node")).unwrap();
    let _sent = cluster.gnt("cluster redist-conf").ok();
    assert_eq!(file(&hosts[1], "master_node"), MASTER);

    // A later leadership is told to all.
    let before = file(&hosts[1], "epoch");
    cluster.kill_master();
    cluster.start_master();
    let after = wait_for("the next epoch", PATIENCE, || {
        let epoch = file(&hosts[1], "epoch");
        (epoch != before && !epoch.is_empty()).then_some(epoch)
    });

    // On a node without a master, gnt says where that is.
    let mut gnt = place::programs().command("gnt");
    gnt.env_remove("GANTRY_ROOT").arg("--root").arg(&hosts[1].root).args(["job", "list"]);
    let told = run(gnt);
    let wanted =
        format!("the master is n1.example ({}), as of epoch {after}", cluster.master.address);
    assert!(told.failed(11).contains(&wanted), "{told:?}");
}
