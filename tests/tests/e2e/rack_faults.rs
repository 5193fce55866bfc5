//! A rack that is not served: each cause is named on both status pages with one command, and that ends it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tests::cluster::{Cluster, Host, IPAM, MASTER, PATIENCE};
use tests::run::{Ended, run, wait_for};
use tests::wire::Wire;
use tests::{place, skip};

use crate::master_ip::{begin, ip, second};
use crate::rack::serves;

/// Another DHCP server, in any namespace.
const DNSMASQ: &str = "dnsmasq";
/// The address of a host with another DHCP server.
const STRANGER: &str = "10.69.0.9";

/// A command of a shell, as an operator types it on a host.
fn shell(namespace: &str, line: &str) -> Ended {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]);
    run(Wire::within(namespace, &shell))
}

/// The words of both pages, where both name the cause.
struct Named {
    text: String,
    remedy: String,
}

impl Named {
    /// The command of the remedy.
    fn command(&self) -> &str {
        self.remedy.split('`').nth(1).unwrap_or_else(|| panic!("no command in {}", self.remedy))
    }
}

fn rack_warnings(cluster: &Cluster) -> Vec<String> {
    let ended = cluster.gnt("rack status --json");
    let rows: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    let warnings = rows[0]["warnings"].as_array().cloned().unwrap_or_default();
    assert_eq!(ended.code() == 0, warnings.is_empty(), "{ended:?}");
    warnings.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

fn alarms(cluster: &Cluster) -> Vec<Value> {
    let ended = cluster.gnt("cluster status --json");
    let status: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    let alarms = status["alarms"].as_array().cloned().unwrap_or_default();
    assert_eq!(ended.code() == 0, alarms.is_empty(), "{ended:?}");
    alarms
}

fn look(cluster: &Cluster, cause: &str, code: &str) -> Option<Named> {
    let text =
        rack_warnings(cluster).into_iter().find(|one| one.contains(&format!("[{cause}]")))?;
    let is_it = |alarm: &&Value| {
        let what = alarm["what"].as_str().unwrap_or_default();
        alarm["kind"] == code && (code != "rack-unserved" || what.contains(cause))
    };
    let alarm = alarms(cluster).iter().find(is_it)?.clone();
    let remedy = alarm["todo"].as_str().unwrap().to_owned();
    assert!(text.ends_with(&remedy), "two remedies for one cause: {text}; {remedy}");
    Some(Named { text, remedy })
}

/// Waits until both pages name the cause.
fn named(cluster: &Cluster, cause: &str, code: &str) -> Named {
    wait_for(&format!("{cause} on both pages"), PATIENCE, || look(cluster, cause, code))
}

/// Waits until neither names it.
fn over(cluster: &Cluster, cause: &str) {
    wait_for(&format!("the end of {cause}"), PATIENCE, || {
        let word = format!("[{cause}]");
        rack_warnings(cluster).iter().all(|one| !one.contains(&word)).then_some(())
    });
}

fn dnsmasq(cluster: &Cluster, namespace: &str, interface: &str) {
    let (leases, pid) = (cluster.dir().join("dnsmasq.leases"), cluster.dir().join("dnsmasq.pid"));
    let mut server = Command::new(DNSMASQ);
    server.args(["--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root"]);
    server.arg(format!("--interface={interface}"));
    server.arg("--dhcp-range=10.69.0.10,10.69.0.12,10m");
    server.arg(format!("--dhcp-leasefile={}", leases.display()));
    server.arg(format!("--pid-file={}", pid.display()));
    cluster.start(DNSMASQ, Wire::within(namespace, &server));
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin".into(), "/sbin".into()];
    std::env::split_paths(&path).chain(sbin).any(|dir: PathBuf| dir.join(program).exists())
}

/// Starts the master's agent with a boot loader in the cluster's directory.
fn start_agent(cluster: &Cluster) {
    let mut noded = cluster.noded(&cluster.master);
    noded.arg("--ipxe").arg(cluster.dir().join("snponly.efi"));
    cluster.start(MASTER, noded);
}

/// A rack whose only agent serves it, and has a boot loader.
fn served() -> Option<(Wire, Cluster)> {
    let (wire, cluster) = begin()?;
    let _loader = cluster.write("snponly.efi", "MZ");
    cluster.kill_agent(&cluster.master);
    start_agent(&cluster);
    serves(&cluster, MASTER);
    wait_for("a rack without warnings", PATIENCE, || {
        rack_warnings(&cluster).is_empty().then_some(())
    });
    Some((wire, cluster))
}

#[test]
fn what_a_host_lacks_is_named_with_the_command_that_ends_it() {
    let Some((wire, cluster)) = served() else { return };

    cluster.kill_agent(&cluster.master);
    let silent = named(&cluster, "agent-silent", "agent");
    assert_eq!(silent.command(), "systemctl start gantry-noded");
    start_agent(&cluster);
    over(&cluster, "agent-silent");

    for (harm, cause) in [
        ("address del 10.69.0.3/26 dev rack0", "address-missing"),
        ("link set rack0 down", "link-down"),
    ] {
        let _harmed = ip(&wire.rack, harm).ok();
        let missing = named(&cluster, cause, "rack-unserved");
        let _mended = shell(&wire.rack, missing.command()).ok();
        over(&cluster, cause);
    }

    std::fs::remove_file(cluster.dir().join("snponly.efi")).unwrap();
    let missing = named(&cluster, "loader-misplaced", "rack-unserved");
    let copied = cluster.dir().join("snponly.efi").display().to_string();
    assert!(missing.command().ends_with(&copied), "{}", missing.remedy);
    let _loader = cluster.write("snponly.efi", "MZ");
    over(&cluster, "loader-misplaced");

    let wrong = "cluster modify --master-ip 10.69.0.50 --master-netdev eth9 --master-netmask 26";
    let _wrong = cluster.gnt(wrong).ok();
    let missing = named(&cluster, "master-address", "master-address");
    assert!(missing.text.contains("no interface `eth9`"), "{}", missing.text);
    let _mended = cluster.gnt(missing.command().strip_prefix("gnt ").unwrap()).ok();
    over(&cluster, "master-address");
    wait_for("a cluster without alarms", PATIENCE, || alarms(&cluster).is_empty().then_some(()));
}

#[test]
fn other_servers_are_named_with_the_command_that_ends_them() {
    if !has(DNSMASQ) {
        skip("another DHCP server", "it needs the program dnsmasq");
        return;
    }
    let Some((wire, cluster)) = served() else { return };

    cluster.kill_agent(&cluster.master);
    dnsmasq(&cluster, &wire.rack, "rack0");
    wait_for("dnsmasq to have the port", PATIENCE, || {
        shell(&wire.rack, "ss -Hlun sport = :67").stdout.contains(":67").then_some(())
    });
    start_agent(&cluster);
    let taken = named(&cluster, "port-taken", "rack-unserved");
    let pid = cluster.pid(DNSMASQ).unwrap();
    assert!(taken.text.contains(&format!("dnsmasq (process {pid}")), "{}", taken.text);
    assert_eq!(taken.command(), format!("kill {pid}"));
    let _ended = shell(&wire.rack, taken.command()).ok();
    over(&cluster, "port-taken");
    cluster.kill(DNSMASQ);

    let _host = ip(&wire.client, &format!("address add {STRANGER}/26 dev eth0")).ok();
    dnsmasq(&cluster, &wire.client, "eth0");
    let other = named(&cluster, "other-server", "rack-unserved");
    assert!(other.remedy.contains(&format!("on the host {STRANGER}")), "{}", other.remedy);
    let _ended = shell(&wire.client, other.command()).ok();
    over(&cluster, "other-server");
}

#[test]
fn a_range_without_addresses_is_named() {
    let Some((wire, cluster)) = served() else { return };
    // One address is left for leases.
    let tight = IPAM
        .replace(r#""max-nodes-in-rack": 28"#, r#""max-nodes-in-rack": 58"#)
        .replace(r#""bmc-ipv4-range-size": 5"#, r#""bmc-ipv4-range-size": 6"#);
    let ipam = cluster.write("tight.json", &tight);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    wire.become_machine("52:54:00:00:00:01");
    let leased = wait_for("the only address", PATIENCE, || {
        let leased = wire.lease(&cluster.dir());
        (leased.address.octets()[3] == 62).then_some(leased.address)
    });
    wire.become_machine("52:54:00:00:00:02");
    let mut late = Command::new("udhcpc");
    late.args(["-i", "eth0", "-s", "/bin/true", "-q", "-n", "-f", "-t", "3", "-T", "1"]);
    let none = run(Wire::within(&wire.client, &late));
    assert_ne!(none.code(), 0, "{none:?}");
    let full = named(&cluster, "range-full", "rack-unserved");
    assert!(full.text.contains(&leased.to_string()), "{}", full.text);
    assert!(full.remedy.contains("`gnt lease list --rack 0`"), "{}", full.remedy);

    let released = cluster.gnt(&format!("lease release {leased}"));
    assert!(released.ok().contains("52:54:00:00:00:01"), "{released:?}");
    assert_eq!(wire.lease(&cluster.dir()).address, leased);
    let of_nobody = cluster.gnt("lease release 10.69.0.4");
    assert!(of_nobody.failed(1).contains("is in no lease range"), "{of_nobody:?}");
}

/// The rack with a second agent, on whose host each fault is.
fn two_agents() -> Option<(Wire, Cluster, Host)> {
    let (wire, cluster) = begin()?;
    let host = second(&cluster, &wire);
    serves(&cluster, MASTER);
    let _given = cluster.gnt(&format!("node modify --rack 0 {}", host.name)).ok();
    Some((wire, cluster, host))
}

fn blobs(host: &Host) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(host.layout().blobs()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

#[test]
fn files_that_an_agent_lost_come_back() {
    let Some((_wire, cluster, host)) = two_agents() else { return };
    let kernel = cluster.write("vmlinuz", &xtask::images::kernel("debian/12"));
    let upload = format!("image upload debian/12 --kernel {}", kernel.display());
    let _uploaded = cluster.gnt(&upload).ok();
    let _added = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let _boots = cluster.gnt("machine set-boot debian SN1").ok();
    let come = |host: &Host| {
        wait_for(&format!("the files at {}", host.name), PATIENCE, || {
            (blobs(host).len() == 1).then_some(())
        });
    };
    come(&host);
    // By itself, where another node has them.
    std::fs::remove_dir_all(host.layout().blobs()).unwrap();
    come(&host);
    over(&cluster, "file-missing");

    // By a command, where nobody has them.
    for lost in [&host, &cluster.master] {
        blobs(lost).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
    let missing = named(&cluster, "file-missing", "rack-unserved");
    assert!(missing.text.contains("files of image debian/12"), "{}", missing.text);
    assert_eq!(missing.command(), "gnt image upload debian/12");
    let verified = cluster.gnt("cluster verify");
    assert!(verified.stdout.contains("files of image debian/12"), "{verified:?}");
    let _uploaded = cluster.gnt(&upload).ok();
    over(&cluster, "file-missing");
}

#[test]
fn a_full_disk_is_named() {
    let Some((wire, cluster, host)) = two_agents() else { return };
    cluster.kill_agent(&host);
    // A file system of its own, which ends with the agent.
    let data = host.layout().node_data();
    let mount = format!("mount -t tmpfs -o size=48m none {} && exec \"$@\"", data.display());
    let mut noded = Command::new("unshare");
    noded.args(["--mount", "sh", "-c", &mount, "sh"]);
    let program = place::programs().command("noded");
    noded.arg(program.get_program()).arg("--root").arg(&host.root);
    cluster.start(&host.name, Wire::within(&wire.client, &noded));
    over(&cluster, "agent-silent");
    let pid = cluster.pid(&host.name).unwrap();
    let within = |line: &str| {
        let mut shell = Command::new("nsenter");
        shell.args(["--mount", "--target", &pid.to_string(), "sh", "-c", line]);
        run(shell)
    };
    let ballast = data.join("ballast").display().to_string();
    let filled = within(&format!("dd if=/dev/zero of={ballast} bs=64k"));
    assert!(filled.stderr.contains("No space left"), "{filled:?}");
    let full = named(&cluster, "disk-full", "rack-unserved");
    let shown = within(full.command());
    assert!(shown.ok().contains(&data.display().to_string()), "{shown:?}");
    let _room = within(&format!("rm {ballast}")).ok();
    over(&cluster, "disk-full");
}

/// The library by which one program has another time.
fn faketime() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut libraries = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}

#[test]
fn a_wrong_clock_is_named_and_what_it_told_is_not_of_the_future() {
    let Some(library) = faketime() else {
        skip("a wrong clock", "it needs the package faketime");
        return;
    };
    let Some((wire, cluster, host)) = two_agents() else { return };
    let _added = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let clock = |offset: &str| cluster.write("clock", offset);
    let start = |offset: &str| {
        cluster.kill_agent(&host);
        let clock = clock(offset);
        let mut noded = Command::new("env");
        noded.arg(format!("LD_PRELOAD={}", library.display()));
        noded.arg(format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()));
        noded.args(["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]);
        let program = place::programs().command("noded");
        noded.arg(program.get_program()).arg("--root").arg(&host.root);
        cluster.start(&host.name, Wire::within(&wire.client, &noded));
    };
    // By years, either way; behind, no certificate of the cluster is valid yet.
    for (offset, words) in [("+1460d", "ahead of that of n1.example"), ("-1460d", "differ so much")]
    {
        start(offset);
        let wrong = named(&cluster, "clock-off", "clock-off");
        assert!(wrong.text.contains(words), "{}", wrong.text);
        assert_eq!(wrong.command(), "timedatectl set-ntp true");
        if offset.starts_with('+') {
            let script = "curl --silent http://10.69.0.4:10080/api/v1/boot/ipxe/SN1";
            let _script = shell(&wire.rack, script).ok();
            let seen = wait_for("the stage of its boot", PATIENCE, || {
                cluster.gnt("machine info --json SN1").json()[0]["seen"].as_f64()
            });
            let now = cluster.gnt("cluster status --json");
            let now: Value = serde_json::from_str(&now.stdout).unwrap();
            assert!(seen <= now["now"].as_f64().unwrap(), "{seen} is later than {now}");
        }
        let _right = clock("+0");
        over(&cluster, "clock-off");
    }
}
