//! The rendered files, read by the programs that they are for.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]
#![expect(clippy::print_stdout, reason = "a test that tests nothing here says so")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostnet::{Format, RenderedFile, from_yaml, render};
use model::host::HostNetwork;

/// Hosts that netplan, systemd-networkd and NetworkManager all know.
const HOSTS: &[&str] = &[
    "
links:
  - {name: em0, permanent_mac: '52:54:00:00:00:01', mtu: 9000, dns_servers: [192.0.2.53, '2001:db8::53'],
     search_domains: [example.com], addresses: [192.0.2.10/24, '2001:db8::10/64'],
     routes: [{to: default, via: 192.0.2.1}, {to: '::/0', via: '2001:db8::1', metric: 100},
              {to: 10.0.0.0/8, via: 192.0.2.254, table: 100}]}
  - {name: em1, permanent_mac: '52:54:00:00:00:02'}
  - {name: em2, permanent_mac: '52:54:00:00:00:03'}
  - {name: em3}
  - {name: bond0, kind: bond, mode: 802.3ad, miimon_ms: 100, lacp_rate: fast, updelay_ms: 200, min_links: 1, ad_select: count,
     xmit_hash_policy: layer3+4, members: [em1, em2], mac: '02:00:00:00:00:01'}
  - {name: vlan100, kind: vlan, vlan: 100, parent: bond0, addresses: [198.51.100.10/24]}
  - {name: br0, kind: bridge, members: [em3], stp: false, dhcp4: true}
rules:
  - {from: 192.0.2.0/24, table: 100, priority: 1000}
  - {to: '2001:db8:1::/48', table: 101, priority: 1001}
",
    "
links:
  - {name: em0, addresses: [192.0.2.10/24], dhcp6: true,
     routes: [{to: default, via: 198.51.100.1, on_link: true, metric: 50}]}
  - {name: vx7, kind: vxlan, vni: 7, parent: em0, local: 192.0.2.10, remote: 192.0.2.11}
  - {name: bond1, kind: bond, mode: active-backup, members: [em1, em2], primary: em1, arp_interval_ms: 500,
     arp_ip_targets: [192.0.2.1, 192.0.2.2], fail_over_mac: active}
  - {name: em1}
  - {name: em2, up: false}
",
];
/// Kinds of links that netplan of Debian 12 does not know.
const MORE: &str = "
links:
  - {name: em0}
  - {name: mv0, kind: macvlan, parent: em0, mode: private, addresses: [198.51.100.10/24]}
  - {name: dummy0, kind: dummy, addresses: [192.0.2.99/32], routes: [{to: 10.0.0.0/8}]}
";
/// Open vSwitch, which only netplan and files of OpenStack know.
const OVS: &str = "
links:
  - {name: br-ctlplane, kind: ovs_bridge, members: [bond1], addresses: [192.168.0.10/24],
     routes: [{to: default, via: 192.168.0.1}], dns_servers: [8.8.8.8, 8.8.4.4]}
  - {name: bond1, kind: ovs_bond, members: [em1, em2], ovs_options: bond_mode=balance-slb lacp=active}
  - {name: em1}
  - {name: em2}
";

fn network(text: &str) -> HostNetwork {
    from_yaml(text).unwrap()
}

/// A program, or a loud word that this test tests nothing.
fn program(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/lib/systemd", "/lib/systemd"].map(PathBuf::from);
    // An unpacked program comes first: it is there because no other works.
    let unpacked = [target.join("unpacked/bin")];
    let mut dirs = unpacked.into_iter().chain(std::env::split_paths(&path)).chain(system);
    let found = dirs.find_map(|dir| Some(dir.join(name)).filter(|file| file.is_file()));
    if found.is_none() {
        println!("skipped: {name} is not installed");
    }
    found
}

fn write(root: &Path, files: &[RenderedFile]) {
    for file in files {
        let path = root.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        stdx::atomic::write(&path, file.content.as_bytes(), file.mode).unwrap();
    }
}

#[test]
fn netplan_takes_what_is_rendered() {
    let Some(netplan) = program("netplan") else { return };
    for host in HOSTS.iter().chain([&OVS]) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &render(Format::Netplan, &network(host), None).unwrap());
        let generate = |root: &Path| {
            let mut command = Command::new(&netplan);
            command.arg("generate").arg("--root-dir").arg(root).output().unwrap()
        };
        let out = generate(root.path());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if said.contains("'ovs-vsctl' tool is required") {
            println!(
                "skipped: netplan reads bridges of Open vSwitch only where ovs-vsctl is; \
                 as root: cargo xtask test install"
            );
            continue;
        }
        assert!(out.status.success() && said.is_empty(), "{said}\n{host}");
        let made = root.path().join("run/systemd/network");
        assert!(fs::read_dir(made).unwrap().count() > 1);
        // It does not take everything.
        write(
            root.path(),
            &[RenderedFile {
                path: "etc/netplan/60.yaml".into(),
                mode: 0o600,
                content: "network: {ethernets: {em0: {mtus: 5}}}".into(),
            }],
        );
        assert!(!generate(root.path()).status.success());
    }
}

/// Starts `systemd-networkd` with the units in a namespace of its own, and returns what it says of them.
fn networkd_says(networkd: &Path, files: &[RenderedFile]) -> Vec<String> {
    const SCRIPT: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/network /run/systemd/netif || exit 1
        cp \"$1\"/etc/systemd/network/* /run/systemd/network/ && chmod 644 /run/systemd/network/* || exit 1
        umount -l /sys && mount -t sysfs -o ro sysfs /sys; exec \"$0\"";
    let root = tempfile::tempdir().unwrap();
    write(root.path(), files);
    let mut child = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", SCRIPT])
        .args([networkd, root.path()])
        .env("SYSTEMD_LOG_LEVEL", "info")
        .env("SYSTEMD_LOG_TARGET", "console")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut said = Vec::new();
    let mut is_done = false;
    for line in lines {
        is_done = line.contains("Enumeration completed");
        if is_done {
            break;
        }
        if line.contains("/run/systemd/network/") && !line.contains("Configuring with") {
            said.push(line);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_done, "systemd-networkd did not start: {said:?}");
    said
}

#[test]
fn networkd_takes_what_is_rendered() {
    let Some(networkd) = program("systemd-networkd") else { return };
    if !Command::new("unshare").args(["--net", "--mount", "true"]).status().unwrap().success() {
        println!("skipped: only root makes network namespaces");
        return;
    }
    for host in HOSTS.iter().chain([&MORE]) {
        let mut files = render(Format::Networkd, &network(host), None).unwrap();
        // Files of cards are udev's.
        files.retain(|file| !file.path.ends_with(".link"));
        assert_eq!(networkd_says(&networkd, &files), Vec::<String>::new(), "{host}");
        files[0].content.push_str("\n[Network]\nAdress=192.0.2.10/24\n");
        assert_eq!(networkd_says(&networkd, &files).len(), 1, "it complains of a wrong key");
    }
}

/// A keyfile as NetworkManager's library reads and writes it again.
fn rewritten(nmcli: &Path, content: &str) -> Result<String, String> {
    let mut child = Command::new(nmcli)
        .args(["--offline", "connection", "modify", "connection.zone", "probe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    if out.status.success() { Ok(String::from_utf8(out.stdout).unwrap()) } else { Err(said) }
}

#[test]
fn network_manager_takes_what_is_rendered() {
    let Some(nmcli) = program("nmcli") else { return };
    if !Command::new(&nmcli).arg("--version").output().unwrap().status.success() {
        println!("skipped: nmcli does not start; as root: cargo xtask test install");
        return;
    }
    for host in HOSTS.iter().chain([&MORE]) {
        for file in render(Format::NetworkManager, &network(host), None).unwrap() {
            let again = rewritten(&nmcli, &file.content).unwrap_or_else(|error| {
                panic!("{}: {error}\n{}", file.path, file.content);
            });
            // `nmcli` would not write a line that it did not understand.
            for line in file.content.lines() {
                let kept = again.to_ascii_lowercase();
                let is_kept = kept.contains(&line.to_ascii_lowercase());
                assert!(is_kept, "{}: `{line}` is lost in\n{again}", file.path);
            }
        }
    }
    assert!(rewritten(&nmcli, "[connection]\nid=x\ntype=vlan\n[vlan]\nid=7\n").is_err());
}
