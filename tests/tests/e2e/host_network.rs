//! The network of a node's host: applied, cut off, rolled back; and from a template.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use model::layout::BOOT_PORT;
use serde_json::Value;
use tests::cluster::{Cluster, Host, MASTER, PATIENCE};
use tests::run::wait_for;
use tests::wire::Wire;

use crate::master_ip::{begin, ip, second, start_second};

/// The network of the second node with an address more.
const WIDER: &str = "
links:
  - name: eth0
    mtu: 1400
    addresses: [10.69.0.4/26, 192.168.7.4/24]
    routes: [{to: 192.168.9.0/24, via: 192.168.7.1}]
";
/// The same in other words.
const WIDER_AGAIN: &str = "
links:
  - name: eth0
    addresses: [192.168.7.4/24, 10.69.0.4/26]
    mtu: 1400
    routes: [{via: 192.168.7.1, to: 192.168.9.0/24}]
";
/// One by which nobody reaches it.
const CUT_OFF: &str = "links: [{name: eth0, mtu: 1400, addresses: [10.70.0.4/26]}]";
/// An address of the second node beside the one that the master calls, from which its rack boots.
const BOOT: &str = "10.90.0.2";
/// Both as options of its agent.
const OWN: &[&str] = &["--rpc-address", "10.69.0.4", "--boot-address", BOOT];
/// For a role of machines, and for a node.
const TEMPLATE: &str = "
links:
  - name: eth0
    addresses: [10.69.0.4/26, \"{{ ip['net0'] }}\"]
    dns_servers: {{ config['net0'].dnsServers }}
";

/// One of os-net-config, with what the host gets when the first part fails.
const OS_NET_CONFIG: &str = "
network_config:
  - {type: interface, name: em1, use_dhcp: true}
fallback_config:
  - {type: interface, name: em1, addresses: [{ip_netmask: 192.0.2.9/24}]}
";

/// The addresses of the second node.
fn held(wire: &Wire) -> Vec<String> {
    let shown = ip(&wire.client, "-4 -j address show dev eth0").json();
    let of = |link: &Value| link["addr_info"].as_array().cloned().unwrap_or_default();
    let all = shown.as_array().unwrap().iter().flat_map(of);
    let mut all: Vec<String> =
        all.map(|one| format!("{}/{}", one["local"].as_str().unwrap(), one["prefixlen"])).collect();
    all.sort();
    all
}

fn wait_until(wire: &Wire, addresses: &[&str]) {
    wait_for(&format!("{addresses:?}"), PATIENCE, || (held(wire) == addresses).then_some(()));
}

/// A master and a second node with its agent, whose host has a directory of netplan's.
fn nodes() -> Option<(Wire, Cluster, Host)> {
    let (wire, cluster) = begin()?;
    let host = second(&cluster, &wire);
    std::fs::create_dir_all(host.root.join("etc/netplan")).unwrap();
    Some((wire, cluster, host))
}

fn apply(cluster: &Cluster, host: &Host, text: &str, options: &str) -> String {
    let file = cluster.write("network.yaml", text);
    format!("node network apply {} -f {} {options}", host.name, file.display())
}

#[test]
fn a_host_gets_its_network_and_goes_back_when_cut_off() {
    let Some((wire, cluster, host)) = nodes() else { return };
    let gnt = |text, options| cluster.gnt(&apply(&cluster, &host, text, options));

    let planned = gnt(WIDER, "--dry-run");
    assert!(planned.ok().contains("192.168.7.4/24"), "{planned:?}");
    assert_eq!(held(&wire), ["10.69.0.4/26"]);
    let macvlan = format!("{WIDER}  - {{name: mv0, kind: macvlan, parent: eth0}}\n");
    let planned = gnt(&macvlan, "--dry-run");
    assert!(planned.ok().contains("netplan has no macvlan"), "{planned:?}");
    let applied = gnt(WIDER, "");
    assert!(applied.ok().contains("/etc/netplan/"), "{applied:?}");
    let wider = ["10.69.0.4/26", "192.168.7.4/24"];
    assert_eq!(held(&wire), wider);

    // Equal meaning: nothing is told to the kernel, which would say so to those who watch.
    let mut monitor = Command::new("ip");
    monitor.args(["-n", &wire.client, "monitor", "link", "address", "route"]);
    cluster.start("monitor", monitor);
    let hears = |mark: &str| {
        wait_for("the monitor to hear", PATIENCE, || {
            let mark = format!("address change {mark}/32 dev lo");
            let _told = ip(&wire.client, &mark).ok();
            let _told = ip(&wire.client, &mark.replace("change", "del")).ok();
            cluster.printed("monitor").contains(mark.split([' ', '/']).nth(2)?).then_some(())
        });
    };
    hears("192.168.8.1");
    let again = gnt(WIDER_AGAIN, "");
    assert!(again.ok().contains("is so already"), "{again:?}");
    hears("192.168.8.2");
    let heard = cluster.printed("monitor");
    // The kernel itself tells of the address that it gives each link.
    let mut lines = heard.lines().filter(|line| !line.contains("fe80"));
    assert!(lines.all(|line| !line.contains("eth0")), "{heard}");

    let failed = gnt(CUT_OFF, "--deadline 10");
    assert!(failed.failed(1).contains("was not reached behind its change"), "{failed:?}");
    wait_until(&wire, &wider);
    cluster.wait_for_facts(&host.name);
    let none = cluster.gnt(&format!("node network rollback {}", host.name));
    assert!(none.ok().contains("has no change that waits"), "{none:?}");

    let refused = gnt("links: [{name: eth7, addresses: [10.9.0.1/24]}]", "");
    assert!(refused.failed(1).contains("eth7"), "{refused:?}");
    let refused = gnt("links: [{name: eth0, addresses: [10.9.0.300/24]}]", "");
    assert!(refused.failed(1).contains("10.9.0.300"), "{refused:?}");
    let refused = cluster.gnt(&format!("node network apply --again {MASTER}"));
    assert!(refused.failed(1).contains("no network was applied on this host yet"), "{refused:?}");
    assert_eq!(held(&wire), wider);

    let _lost = ip(&wire.client, "address del 192.168.7.4/24 dev eth0").ok();
    let mended = cluster.gnt(&format!("node network apply --again {}", host.name));
    assert!(mended.ok().contains("192.168.7.4/24"), "{mended:?}");
    assert_eq!(held(&wire), wider);
}

#[test]
fn files_are_of_the_whole_host_and_are_mended_too() {
    let Some((wire, cluster, host)) = nodes() else { return };
    let gnt = |text: &str| cluster.gnt(&apply(&cluster, &host, text, "")).ok().to_owned();
    let path = host.root.join("etc/netplan/50-gantry.yaml");
    let file = || std::fs::read_to_string(&path).unwrap();

    // The kernel is so already, the file is not there.
    let told = gnt("links: [{name: eth0, addresses: [10.69.0.4/26]}]");
    assert!(told.contains("its files differ") && told.contains("written"), "{told}");
    let _wider = gnt(WIDER);
    // A link that another configuration does not name stays.
    let told = gnt("links: [{name: lo, addresses: [10.1.1.1/32]}]");
    assert!(told.contains("written"), "{told}");
    assert!(file().contains("10.69.0.4/26") && file().contains("10.1.1.1/32"), "{}", file());
    let shown = ip(&wire.client, "address show dev lo").ok().to_owned();
    assert!(shown.contains("127.0.0.1/8") && shown.contains("10.1.1.1/32"), "{shown}");
    // Neither the MTU that is not named, nor servers of names alone, are nothing.
    let dns = "links: [{name: eth0, addresses: [10.69.0.4/26], dns_servers: [8.8.8.8]}]";
    let _dns = gnt(dns);
    assert!(file().contains("mtu: 1400") && file().contains("8.8.8.8"), "{}", file());
    let other = dns.replace("8.8.8.8", "9.9.9.9");
    assert!(gnt(&other).contains("its files differ"));
    assert!(file().contains("9.9.9.9") && !file().contains("8.8.8.8"), "{}", file());
    assert!(gnt(&other).contains("is so already"));
    std::fs::remove_file(&path).unwrap();
    assert!(gnt(&other).contains("written"));
    assert!(file().contains("9.9.9.9"), "{}", file());

    // A link that was ours once, and is somebody else's now, is left alone.
    let _made = gnt("links: [{name: eth0, addresses: [10.69.0.4/26]}, {name: br7, kind: bridge}]");
    let _gone = gnt("links: [{name: eth0, addresses: [10.69.0.4/26]}]\nabsent: [br7]");
    let _theirs = ip(&wire.client, "link add br7 type bridge").ok();
    let again = cluster.gnt(&format!("node network apply --again {}", host.name));
    assert!(again.ok().contains("is so already"), "{again:?}");
    let _there = ip(&wire.client, "link show dev br7").ok();
}

#[test]
fn an_agent_that_dies_between_change_and_commit_goes_back_at_its_start() {
    let Some((wire, cluster, host)) = nodes() else { return };
    let job = cluster.gnt_start(&apply(&cluster, &host, CUT_OFF, "--deadline 3600"));
    wait_until(&wire, &["10.70.0.4/26"]);
    cluster.kill_agent(&host);
    start_second(&cluster, &wire, &host, &[]);
    wait_until(&wire, &["10.69.0.4/26"]);
    let failed = job.end();
    assert!(failed.failed(1).contains("went back before the master reached it"), "{failed:?}");
    let planned = cluster.gnt(&apply(&cluster, &host, WIDER, ""));
    assert!(planned.ok().contains("192.168.7.4/24"), "{planned:?}");
}

/// Whether somebody listens where the rack of the second node boots from.
fn is_booted_from(wire: &Wire) -> bool {
    let address = format!("{BOOT}:{BOOT_PORT}").parse().unwrap();
    wire.in_client(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok())
}

#[test]
fn an_agent_goes_back_before_it_listens_on_addresses_that_the_change_removed() {
    let Some((wire, cluster, host)) = nodes() else { return };
    let add = format!("address add {BOOT}/24 dev eth0");
    let _added = ip(&wire.client, &add).ok();
    let _rack = cluster.gnt(&format!("node modify --rack 7 {}", host.name)).ok();
    let restart = || {
        cluster.kill_agent(&host);
        start_second(&cluster, &wire, &host, OWN);
    };
    let booted = |is| {
        wait_for("the boot side", PATIENCE, || (is_booted_from(&wire) == is).then_some(()));
    };
    restart();
    cluster.wait_for_facts(&host.name);
    let job = cluster.gnt_start(&apply(&cluster, &host, CUT_OFF, "--deadline 3600"));
    wait_until(&wire, &["10.70.0.4/26"]);
    restart();
    wait_until(&wire, &["10.69.0.4/26", "10.90.0.2/24"]);
    booted(true);
    let failed = job.end();
    assert!(failed.failed(1).contains("went back before the master reached it"), "{failed:?}");

    // An address that somebody else took away is told, and served as soon as it is back.
    let _lost = ip(&wire.client, &format!("address del {BOOT}/24 dev eth0")).ok();
    restart();
    wait_for("the agent to tell", PATIENCE, || {
        let told = cluster.gnt("rack status 7");
        let names = told.stdout.contains(BOOT) && told.stdout.contains("`--boot-address`");
        names.then_some(())
    });
    booted(false);
    let _back = ip(&wire.client, &add).ok();
    booted(true);
    wait_for("the agent to tell no more", PATIENCE, || {
        (!cluster.gnt("rack status 7").stdout.contains("--boot-address")).then_some(())
    });
    assert_eq!(cluster.printed(&host.name).matches("already-running").count(), 0);
}

#[test]
fn a_template_gives_machines_and_nodes_their_networks() {
    let Some((wire, cluster, host)) = nodes() else { return };
    let added = "network add net0 --network 192.168.0.0/24 --gateway 192.168.0.1 \
                 --pool 192.168.0.10-192.168.0.20 --dns 8.8.8.8";
    let _added = cluster.gnt(added).ok();
    let ipam = cluster.write("ipam.json", tests::cluster::IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _machine = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let file = cluster.write("worker.yaml", TEMPLATE);
    let upload = format!("network-template upload worker {}", file.display());
    let _uploaded = cluster.gnt(&upload).ok();
    let rendered = cluster.gnt("network render SN1 --format netplan");
    assert!(rendered.ok().contains("192.168.0.10/24"), "{rendered:?}");
    assert!(rendered.ok().contains("8.8.8.8"), "{rendered:?}");

    let _machine = cluster.gnt("machine add --serial SN2 --rack 0 --role plain").ok();
    let file = cluster.write("plain.yaml", OS_NET_CONFIG);
    let _uploaded = cluster.gnt(&format!("network-template upload plain {}", file.display())).ok();
    let rendered = cluster.gnt("network render SN2 --format os-net-config");
    let rendered = rendered.ok();
    assert!(rendered.contains("fallback_config") && rendered.contains("192.0.2.9"), "{rendered}");

    let wrong = cluster.write("wrong.yaml", "links:\n  - name: {{ nothing }}\n");
    let refused = cluster.gnt(&format!("network-template upload worker {}", wrong.display()));
    assert!(refused.failed(1).contains("line 2"), "{refused:?}");

    let applied = cluster.gnt(&format!("node network apply {} --template worker", host.name));
    assert!(applied.ok().contains("192.168.0.11/24"), "{applied:?}");
    assert_eq!(held(&wire), ["10.69.0.4/26", "192.168.0.11/24"]);
    let claims = cluster.gnt("network list-claims --no-headers -o owner,addresses").ok().to_owned();
    assert!(claims.contains("machine:SN1") && claims.contains(&host.name), "{claims}");
}
