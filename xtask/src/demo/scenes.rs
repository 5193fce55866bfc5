//! The scenes, in the order in which they are played.

use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use model::layout::{BOOT_PORT, Layout, PEER_PORT, RAPI_PORT};

use super::machine::{Machine, fetch};
use super::{DemoError, Play, Scene, guest, instance, switch, virtual_machine};
use crate::{images, needs};

/// How long a daemon may take to serve.
const SOON: Duration = Duration::from_secs(30);
/// Port on which the agent takes DHCP from relays; the usual one needs a privilege.
const DHCP_PORT: u16 = 6_767;

/// All scenes.
pub const SCENES: &[Scene] = &[
    Scene { title: "A cluster begins", play: begin },
    Scene { title: "Two more nodes join, each with a one-time token", play: join },
    Scene {
        title: "Jobs: side by side, one behind another, one fails, one is canceled",
        play: jobs,
    },
    Scene { title: "A rack: addresses by rule, machines registered all or none", play: rack },
    Scene { title: "A network: addresses from a pool, one template for a role", play: network },
    Scene { title: "A switch: its ports follow the machines behind them", play: switch::play },
    Scene { title: "An instance: made, moved, stopped, removed", play: instance::play },
    Scene {
        title: "A virtual machine: a kernel, a disk more while it runs, a console",
        play: virtual_machine::play,
    },
    Scene {
        title: "What a machine is made with: Ignition by role, keys of its disks",
        play: ignition,
    },
    Scene { title: "A machine boots from its rack's agent", play: boot },
    Scene { title: "The master is away, and the rack still boots", play: without_master },
    Scene { title: "A real machine: UEFI, iPXE, kernel, first program", play: guest::boot },
    Scene { title: "The front door: HTTPS, users, roles", play: front_door },
    Scene { title: "The master dies, and another node goes on with its jobs", play: fail_over },
    Scene { title: "What is done is archived", play: archive },
];

fn begin(play: &Play) -> Result<(), DemoError> {
    let node = play.address(1).to_string();
    play.gnt(&[
        "cluster",
        "init",
        "demo.example",
        "--node-name",
        "n1.example",
        "--primary-ip",
        &node,
    ])?;
    start_master(play, 1)?;
    play.start_agent(1, &[])?;
    play.gnt(&["cluster", "getmaster"])?;
    play.gnt(&["node", "list", "-o", "name,role,pip"])
}

/// Starts the `masterd` of a node, which is the master if it was that before.
fn start_master(play: &Play, node: u8) -> Result<(), DemoError> {
    let socket = Layout::new(play.root(node)).luxi_socket();
    let mut masterd = play.programs.command("masterd");
    masterd.arg("--root").arg(play.root(node));
    masterd.args(["--peers", &format!("{}:{PEER_PORT}", play.address(node))]);
    play.stage.start(&format!("masterd{node}"), masterd)?;
    Ok(play.stage.wait_until("the socket of masterd", SOON, || socket.exists())?)
}

/// Starts the agent of the second node, which serves the rack.
pub(super) fn start_rack_agent(play: &Play, further: &[&str]) -> Result<(), DemoError> {
    let (rack, dhcp) = (play.rack_address(3).to_string(), DHCP_PORT.to_string());
    let serve = ["--boot-address", &rack, "--dhcp-address", &rack, "--dhcp-port", &dhcp];
    play.start_agent(2, &[&serve[..], further].concat())
}

fn join(play: &Play) -> Result<(), DemoError> {
    for number in [2, 3] {
        let name = format!("n{number}.example");
        let address = play.address(number).to_string();
        let enroll = ["enroll", "--address", &address];
        match number {
            2 => start_rack_agent(play, &enroll)?,
            _ => play.start_agent(number, &enroll)?,
        }
        let said = play.stage.root().join(format!("noded{number}.out"));
        let token = || {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let found = text.lines().find_map(|line| line.strip_prefix("token: "));
            found.map(str::to_owned)
        };
        play.stage.wait_until("the token of a new node", SOON, || token().is_some())?;
        println!("  the token that `noded enroll` shows there goes to standard input:");
        play.gnt_with(&["node", "add", &name, "--secret", "-"], token().as_deref())?;
    }
    play.gnt(&["node", "list", "-o", "name,role,pip,mtotal,mfree"])
}

fn jobs(play: &Play) -> Result<(), DemoError> {
    for _ in 0..3 {
        play.gnt(&["debug", "delay", "--no-master", "-n", "n2.example", "--submit", "2"])?;
    }
    play.gnt(&["debug", "delay", "--no-locks", "--submit", "3"])?;
    println!("  the three on n2 want its lock one after the other; the fourth wants none:");
    play.gnt(&["job", "list"])?;
    play.gnt(&["debug", "locks"])?;
    println!("  the third waits for its lock; canceling it takes it out of the line at once:");
    play.gnt(&["job", "cancel", "--force", &play.last_job(2)])?;
    let chain = play.write(
        "chain.json",
        &format!(
            r#"[{{"OP_ID": "OP_TEST_DELAY", "duration": 0.2, "depends": [[{}, ["success"]]]}}]"#,
            play.last_job(1)
        ),
    )?;
    println!("  this one depends on the fourth:");
    play.gnt(&["debug", "submit-job", &chain])?;
    let failing = play.write(
        "failing.json",
        r#"[{"OP_ID": "OP_TEST_JQUEUE", "fail": true}, {"OP_ID": "OP_TEST_DELAY", "duration": 1}]"#,
    )?;
    println!("  and this one fails, and with it what follows:");
    play.gnt_fails(&["debug", "submit-job", &failing])?;
    println!("  a job that repeats itself, followed live:");
    play.gnt(&["debug", "delay", "--no-locks", "-r", "3", "0.4"])?;
    play.gnt(&["job", "list"])
}

fn rack(play: &Play) -> Result<(), DemoError> {
    let pool = Ipv4Addr::from(u32::from(play.rack_address(0)) & 0xffff_0000);
    let rules = play.write(
        "ipam.json",
        &format!(
            r#"{{"max-nodes-in-rack": 28, "node-ipv4-pool": "{pool}/16", "node-ipv4-range-size": 6,
 "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
 "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20}}"#
        ),
    )?;
    play.gnt(&["ipam", "set", "-f", &rules])?;
    play.gnt(&["node", "modify", "--rack", "0", "n2.example"])?;
    let machines = play.write(
        "machines.json",
        r#"[{"serial": "SN-0001", "product": "R630", "rack": 0, "role": "boot"},
 {"serial": "SN-0002", "product": "R630", "rack": 0, "role": "worker", "mac": ["52:54:00:00:00:02"]},
 {"serial": "SN-0003", "product": "R630", "rack": 0, "role": "worker"}]"#,
    )?;
    play.gnt(&["machine", "add", "-f", &machines])?;
    println!("  the same again is refused as a whole:");
    play.gnt_fails(&["machine", "add", "-f", &machines])?;
    play.gnt(&["machine", "list"])
}

fn network(play: &Play) -> Result<(), DemoError> {
    let added =
        ["network", "add", "storage", "--network", "10.90.0.0/24", "--gateway", "10.90.0.1"];
    play.gnt(&[&added[..], &["--pool", "10.90.0.10-10.90.0.250", "--mtu", "9000"]].concat())?;
    let template = play.write(
        "worker.yaml",
        "links:
  - {name: em1}
  - {name: em2}
  - name: bond0
    kind: bond
    mode: active-backup
    members: [em1, em2]
    mtu: {{ config['storage'].mtu }}
    addresses: [\"{{ ip['storage'] }}\"]
    routes: [{to: default, via: \"{{ config['storage'].gateway }}\"}]
",
    )?;
    play.gnt(&["network-template", "upload", "worker", &template])?;
    play.gnt(&["network", "list-claims"])?;
    play.gnt(&["network", "render", "SN-0002", "--format", "netplan"])
}

fn ignition(play: &Play) -> Result<(), DemoError> {
    let template = play.write(
        "worker.ign",
        r#"{"ignition": {"version": "3.3.0"},
 "storage": {"files": [{"path": "/etc/hostname", "contents": {"source": "data:,{{ .Spec.Serial }}"}}]}}
"#,
    )?;
    play.gnt(&["ignition-template", "upload", "worker", "1.0.0", &template])?;
    play.gnt(&["ignition", "render", "SN-0002"])?;
    println!("\n  a key of a disk is sealed before it is in any job:");
    let key = play.write("disk.key", "correct horse battery staple")?;
    play.gnt(&["machine", "disk-key", "add", "SN-0002", "sda", &key])?;
    play.gnt(&["machine", "disk-key", "get", "SN-0002", "sda"])?;
    println!();
    play.gnt(&["machine", "list", "-o", "serial,role,network_template,disk_keys"])
}

fn front_door(play: &Play) -> Result<(), DemoError> {
    if let Some(why) = needs::missing(&["curl"]) {
        play.skip(&why);
        return Ok(());
    }
    let layout = Layout::new(play.root(1));
    let users = layout.rapi_users();
    let written = stdx::atomic::write(&users, b"alice secret write\nbob secret read\n", 0o640);
    written.map_err(|error| DemoError::Write { path: users, error })?;
    let address = play.address(1);
    let mut rapi = play.programs.command("rapi");
    rapi.arg("--root").arg(play.root(1)).args(["--address", &address.to_string()]);
    play.stage.start("rapi1", rapi)?;
    let is_open = || TcpStream::connect((address, RAPI_PORT)).is_ok();
    play.stage.wait_until("the front door", SOON, is_open)?;
    println!("  sabakan's REST API and Ganeti's, for the same cluster:");
    let authority = layout.ca_certificate();
    let curl = |user: &str, options: &[&str], path: &str| {
        let url = format!("https://{address}:{RAPI_PORT}{path}");
        let shown = options.join(" ");
        println!("$ curl --user {user}:secret {shown} {url}");
        let mut curl = needs::command("curl");
        curl.args(["--silent", "--show-error", "--cacert"]).arg(&authority);
        curl.args(["--user", &format!("{user}:secret")]).args(options).arg(&url);
        let command = format!("curl {url}");
        let status = curl.status().map_err(|error| DemoError::Start { command, error })?;
        println!();
        match status.success() {
            true => Ok(()),
            false => Err(DemoError::Failed { command: format!("curl {url}"), status }),
        }
    };
    curl("bob", &[], "/api/v1/machines?serial=SN-0003")?;
    curl("bob", &[], "/2/nodes")?;
    println!("  bob may look, and not change; alice may:");
    let tag = ["--request", "PUT"];
    curl("bob", &tag, "/2/tags?tag=demo")?;
    curl("alice", &tag, "/2/tags?tag=demo")?;
    play.gnt(&["job", "wait", &play.last_job(1)])?;
    play.gnt(&["cluster", "list-tags"])
}

fn boot(play: &Play) -> Result<(), DemoError> {
    let kernel = play.write("vmlinuz", &images::kernel("a kernel"))?;
    let initrd = play.write("initrd", &images::initrd("a file system in memory"))?;
    play.gnt(&["image", "upload", "demo/1", "--kernel", &kernel, "--initrd", &initrd])?;
    play.gnt(&["image", "list"])?;
    play.gnt(&["machine", "set-boot", "demo/1", "SN-0002"])?;
    boot_machine(play, "SN-0002", 2)?;
    seen(play, "SN-0002")?;
    play.gnt(&["machine", "list"])
}

fn without_master(play: &Play) -> Result<(), DemoError> {
    println!("  stopping masterd");
    play.stage.stop("masterd1");
    boot_machine(play, "SN-0003", 3)?;
    println!("  starting masterd: the agent tells it what it saw meanwhile");
    start_master(play, 1)?;
    seen(play, "SN-0003")?;
    play.gnt(&["machine", "list"])
}

fn fail_over(play: &Play) -> Result<(), DemoError> {
    println!("  starting masterd on n2 and n3: they get a copy of everything, and a vote");
    for node in [2, 3] {
        start_master(play, node)?;
    }
    let vote = || {
        let status = play.quiet(&["cluster", "status"]);
        status.is_some_and(|status| status.contains("3 of 3 voters heard"))
    };
    play.stage.wait_until("three voters", SOON, vote)?;
    play.gnt(&["cluster", "status"])?;
    play.gnt(&["debug", "delay", "--submit", "60"])?;
    play.gnt(&["debug", "delay", "--submit", "1"])?;
    println!("  the first one runs, the second one waits for its lock; kill -9 for masterd on n1:");
    play.stage.kill("masterd1");
    play.gnt_on(2, &["cluster", "master-failover"])?;
    println!("  what ran has failed with the reason, what waited goes on:");
    play.gnt_on(2, &["job", "wait", &play.last_job_on(2, 1)])?;
    play.gnt_on(2, &["job", "list"])?;
    println!("  masterd on n1 is a standby when it is back; and it is handed the role again:");
    start_master(play, 1)?;
    let heard = || {
        let status = play.quiet_on(2, &["cluster", "status"]);
        status.is_some_and(|status| status.contains("3 of 3 voters heard"))
    };
    play.stage.wait_until("three voters again", SOON, heard)?;
    play.gnt_on(2, &["cluster", "master-failover", "--to", "n1.example"])?;
    play.gnt(&["cluster", "verify"])
}

/// A machine asks for its lease and fetches what the lease names, and what that chains to.
fn boot_machine(play: &Play, serial: &str, number: u8) -> Result<(), DemoError> {
    let agent = play.rack_address(3);
    let machine = Machine {
        mac: model::MacAddress::new([0x52, 0x54, 0, 0, 0, number]),
        relay: play.rack_address(2),
        server: SocketAddrV4::new(agent, DHCP_PORT),
    };
    let failed = |error| DemoError::Machine { serial: serial.to_owned(), error };
    let lease = machine.lease().map_err(failed)?;
    println!("  {} has a lease of {}", machine.mac, lease.address);
    println!("  and fetches {}", lease.boot_file);
    let server = SocketAddrV4::new(agent, BOOT_PORT);
    let path = format!("/api/v1/boot/ipxe/{serial}");
    println!("  which chains to {path}:");
    let script = fetch(lease.address, server, &path).map_err(failed)?;
    for line in script.lines() {
        println!("    {line}");
    }
    // The same words as iPXE's, in the same order: files, and where the system reports.
    let base = format!("http://{server}");
    let urls = script.split_whitespace().filter_map(|word| word.split_once(&base));
    let (reports, files): (Vec<_>, Vec<_>) = urls.partition(|(before, _)| !before.is_empty());
    for (_, path) in files.into_iter().chain(reports) {
        let body = fetch(lease.address, server, path).map_err(failed)?;
        println!("  fetches {path}: {} bytes", body.len());
    }
    Ok(())
}

/// Waits until the master was told of a machine's boot.
fn seen(play: &Play, serial: &str) -> Result<(), DemoError> {
    let what = format!("news of {serial} at the master");
    let told = || {
        let list = play.quiet(&["machine", "list", "--no-headers", "-o", "serial,stage"]);
        let reached = |line: &str| line.contains("script") || line.contains("system");
        list.is_some_and(|list| list.lines().any(|l| l.starts_with(serial) && reached(l)))
    };
    Ok(play.stage.wait_until(&what, SOON, told)?)
}

fn archive(play: &Play) -> Result<(), DemoError> {
    play.gnt(&["job", "list", "-o", "id,status,summary,received_ts"])?;
    play.gnt(&["job", "autoarchive", "all"])?;
    play.gnt(&["job", "list"])?;
    if io::stdin().is_terminal() {
        let bin = play.programs.dir().display();
        let root = play.root(1);
        println!("\n  To go on by yourself, in another terminal:");
        println!("    export PATH={bin}:$PATH GANTRY_ROOT={}", root.display());
        println!("    gnt debug delay 5; gnt job list; gnt machine list; gnt --help");
        println!("  The queue's files: {}", Layout::new(&root).data().join("queue").display());
        let then = match play.keeps {
            true => "then its daemons end, and the files stay",
            false => "then everything is cleared away",
        };
        println!("\n  The cluster runs until you press Enter; {then}.");
        // Whatever ends the waiting, the demonstration is over.
        drop(io::stdin().read_line(&mut String::new()));
    }
    Ok(())
}
