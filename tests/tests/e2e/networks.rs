//! Networks: pools, claims and who waits for an address, through restarts of the master.

use tests::cluster::{Cluster, IPAM};

/// The networks of Metal3's IPAM study, with a pool that is soon full.
const STUDY: &str = "
networks:
  net0:
    netmask: 24
    addressRange: {start: 192.168.0.10, end: 192.168.0.250}
    gateway: 192.168.0.1
    dnsServers: [8.8.8.8, 8.8.4.4]
  net1:
    netmask: 24
    addresses: [192.168.1.10, 192.168.1.11]
";

const IN_USE: &str = "
kind: ConfigMap
data:
  net0: {node-0: 192.168.0.10}
  net1: {node-0: 192.168.1.10}
";

fn study() -> Cluster {
    let cluster = Cluster::begin();
    let file = cluster.write("networks.yaml", STUDY);
    let _added = cluster.gnt(&format!("network add -f {}", file.display())).ok();
    cluster
}

/// Owner, state and addresses of each claim, in the order of networks and owners.
fn claims(cluster: &Cluster) -> Vec<String> {
    let listed =
        cluster.gnt("network list-claims --no-headers --separator=: -o owner,state,addresses");
    listed.ok().lines().map(str::to_owned).collect()
}

#[test]
fn addresses_are_claimed_imported_and_released() {
    let cluster = study();
    let file = cluster.write("in-use.yaml", IN_USE);
    let _imported = cluster.gnt(&format!("network import-claims -f {}", file.display())).ok();
    let told = cluster.gnt("network claim net0 node-1");
    assert!(told.ok().contains("node-1 has 192.168.0.11 of network net0"), "{told:?}");
    let _again = cluster.gnt("network claim net0 node-1").ok();
    let refused = cluster.gnt("network claim net0 node-2 --address 192.168.0.1");
    assert!(refused.failed(1).contains("192.168.0.1 is the gateway"), "{refused:?}");
    let _last = cluster.gnt("network claim net1 node-1").ok();
    let full = cluster.gnt("network claim net1 node-2");
    assert!(full.ok().contains("node-2 waits for an address of network net1"), "{full:?}");

    cluster.stop_master();
    cluster.start_master();
    let before = [
        "node-0:bound:192.168.0.10",
        "node-1:bound:192.168.0.11",
        "node-0:bound:192.168.1.10",
        "node-1:bound:192.168.1.11",
        "node-2:waiting:-",
    ];
    assert_eq!(claims(&cluster), before);
    let released = cluster.gnt("network release net1 node-0");
    assert!(released.ok().contains("node-2 has 192.168.1.10"), "{released:?}");
    let refused = cluster.gnt("network modify net1 --pool 192.168.1.11");
    assert!(refused.failed(1).contains("192.168.1.10 is in use by node-2"), "{refused:?}");
    let refused = cluster.gnt("network remove -f net9");
    assert!(refused.failed(1).contains("Network 'net9' not found"), "{refused:?}");
    let _removed = cluster.gnt("network remove -f net1").ok();
    assert_eq!(claims(&cluster).len(), 2);
}

#[test]
fn claims_of_a_machine_go_with_it() {
    let cluster = study();
    let ipam = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _machine = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let _claimed = cluster.gnt("network claim net1 machine:SN1 --address 192.168.1.11").ok();
    let shown = cluster.gnt("network info net1");
    assert!(shown.ok().contains("192.168.1.10-192.168.1.11"), "{shown:?}");
    let _gone = cluster.gnt("machine remove SN1 -f").ok();
    assert_eq!(claims(&cluster), [""; 0]);
}
