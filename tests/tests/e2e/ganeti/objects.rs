//! The cluster, nodes and groups as a whole, and the kinds of which there are none.

use tests::run::run;

use super::clients::Clients;

#[test]
fn the_cluster_is_described() {
    let Some(clients) = Clients::begin("gnt-cluster") else { return };
    let version = clients.ok("gnt-cluster version");
    let lines: Vec<&str> = version.lines().map(|l| l.split(':').next().unwrap()).collect();
    let told = ["Software version", "Internode protocol", "Configuration format"];
    assert_eq!(lines[..3], told, "{version}");
    let described = clients.ok("gnt-cluster info");
    for part in [
        "Cluster name: demo.example",
        "Master node: n1.example",
        "Tags: (none)",
        "Default hypervisor: kvm",
        "candidate pool size: 10",
        "maximal number of jobs running simultaneously: 20",
        "kvm_path: /usr/bin/kvm",
        "vcpu-ratio: 4.0",
        "cpu-avg-load",
    ] {
        assert!(described.contains(part), "no {part:?} in {described}");
    }
    clients.ok("gnt-cluster info --roman");
    let policy = clients.ok("gnt-cluster show-ispecs-cmd");
    assert!(policy.contains("--ipolicy-std-specs cpu-count=1,disk-count=1"), "{policy}");
    assert_eq!(clients.ok("gnt-cluster queue info"), "The drain flag is unset\n");
    clients.ok("gnt-cluster queue drain");
    assert_eq!(clients.ok("gnt-cluster queue info"), "The drain flag is set\n");
    clients.ok("gnt-cluster queue undrain");
    assert_eq!(clients.ok("gnt-cluster watcher info"), "The watcher is not paused.\n");
}

#[test]
fn nodes_and_groups_are_described() {
    let Some(clients) = Clients::begin("gnt-node and gnt-group") else { return };
    let node = clients.ok("gnt-node info n1");
    for part in ["Node name: n1.example", "master candidate: True", "ssh_port: default (22)"] {
        assert!(node.contains(part), "no {part:?} in {node}");
    }
    assert_eq!(clients.ok("gnt-group list --no-headers -o name,node_cnt"), "default 1\n");
    let group = clients.ok("gnt-group info");
    for part in
        ["Node group: default", "resync-rate: default (61440)", "memory-size: default (128)"]
    {
        assert!(group.contains(part), "no {part:?} in {group}");
    }
    assert_eq!(clients.ok("gnt-group show-ispecs-cmd"), "gnt-group add default\n");
}

#[test]
fn of_what_there_is_not_lists_are_empty() {
    let Some(clients) = Clients::begin("Ganeti's lists without rows") else { return };
    for line in [
        "gnt-instance list --no-headers",
        "gnt-network list --no-headers",
        "gnt-backup list --no-headers",
        "gnt-filter list --no-headers",
        "gnt-os list --no-headers",
        "gnt-os diagnose",
        "gnt-os info",
        "gnt-debug locks --no-headers",
    ] {
        assert_eq!(clients.ok(line), "", "{line}");
    }
    // These take an empty list for a failure by themselves.
    let told = clients.line("gnt-instance info --all");
    assert_eq!((told.code(), told.stdout.as_str()), (1, "No instances.\n"), "{told:#?}");
    let told = clients.line("gnt-storage diagnose");
    assert!(told.failed(1).contains("list of ExtStorage providers"), "{told:#?}");
}

/// The tools that plan where instances go read the cluster by LUXI.
#[test]
fn the_planners_read_the_cluster() {
    let Some(clients) = Clients::begin("Ganeti's planners") else { return };
    let socket = clients.cluster.master.layout().luxi_socket();
    for (program, told) in
        [("hinfo", "Loaded 1 node"), ("hbal", "Cluster is empty"), ("hspace", "1 node")]
    {
        let mut command = clients.ganeti.command(program);
        command.arg(format!("--luxi={}", socket.display()));
        let ended = run(command);
        let said = ended.ok();
        assert!(said.contains(told), "no {told:?} in {said}");
    }
}
