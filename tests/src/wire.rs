//! Two network namespaces and a cable between them.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::run::{Ended, run};

/// The address of the rack's side.
pub const RACK_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
/// The interface of the clients' side.
const CLIENT_INTERFACE: &str = "eth0";

/// The script that `udhcpc` runs: configures the interface and keeps the answer.
const SCRIPT: &str = "#!/bin/sh
case \"$1\" in
bound|renew) ip addr flush dev eth0; ip addr add \"$ip/${mask:-26}\" dev eth0; env > \"$OUT\";;
esac
";

/// Two namespaces and a cable, gone when dropped.
#[derive(Debug)]
pub struct Wire {
    /// The namespace of master and agent.
    pub rack: String,
    /// The namespace of the machines.
    pub client: String,
}

/// The lease of a DHCP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    pub address: Ipv4Addr,
    /// Option 67.
    pub boot_file: String,
}

/// Distinguishes what tests of this process, and of others, make at the same time.
fn unique() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

impl Wire {
    /// Why there can be no wire here.
    pub fn missing() -> Option<&'static str> {
        if !crate::is_root() {
            return Some("network namespaces need root");
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has =
            |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).exists());
        if !["ip", "udhcpc", "curl"].into_iter().all(has) {
            return Some("it needs the programs ip, udhcpc and curl");
        }
        let probe = format!("gt{}-probe", unique());
        let made = Command::new("ip").args(["netns", "add", &probe]).output().unwrap();
        // A namespace that could not be made leaves nothing to delete.
        drop(Command::new("ip").args(["netns", "del", &probe]).output());
        (!made.status.success()).then_some("this system does not allow network namespaces")
    }

    /// Makes both namespaces and the cable.
    pub fn new() -> Self {
        let unique = format!("gt{}", unique());
        let wire = Self { rack: format!("{unique}-r"), client: format!("{unique}-c") };
        let (rack, client) = (wire.rack.as_str(), wire.client.as_str());
        ip(&["netns", "add", rack]);
        ip(&["netns", "add", client]);
        let peer = ["type", "veth", "peer", CLIENT_INTERFACE, "netns", client];
        ip(&[&["-n", rack, "link", "add", "rack0"], &peer[..]].concat());
        ip(&["-n", rack, "addr", "add", &format!("{RACK_ADDRESS}/26"), "dev", "rack0"]);
        let links = [(rack, "lo"), (rack, "rack0"), (client, "lo"), (client, CLIENT_INTERFACE)];
        for (at, interface) in links {
            ip(&["-n", at, "link", "set", interface, "up"]);
        }
        wire
    }

    /// `command` as it runs in a namespace.
    pub fn within(namespace: &str, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", namespace]);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    /// Runs `work` in the clients' namespace, on a thread of its own.
    pub fn in_client<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.client)).unwrap();
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).unwrap();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Makes the clients' side another machine, without an address.
    pub fn become_machine(&self, mac: &str) {
        ip(&["-n", &self.client, "link", "set", CLIENT_INTERFACE, "down"]);
        ip(&["-n", &self.client, "addr", "flush", "dev", CLIENT_INTERFACE]);
        ip(&["-n", &self.client, "link", "set", CLIENT_INTERFACE, "address", mac]);
        ip(&["-n", &self.client, "link", "set", CLIENT_INTERFACE, "up"]);
    }

    /// Gets a lease with `udhcpc` and configures the interface by it.
    pub fn lease(&self, dir: &std::path::Path) -> Leased {
        let (script, out) = (dir.join("udhcpc.sh"), dir.join("udhcpc.out"));
        stdx::atomic::write(&script, SCRIPT.as_bytes(), 0o755).unwrap();
        let mut udhcpc = Command::new("udhcpc");
        udhcpc.args(["-i", CLIENT_INTERFACE, "-O", "bootfile", "-s"]).arg(&script);
        udhcpc.args(["-q", "-n", "-f", "-t", "15", "-T", "1"]);
        let mut inside = Self::within(&self.client, &udhcpc);
        inside.env("OUT", &out);
        let ended = run(inside);
        let told = ended.ok();
        let answer =
            std::fs::read_to_string(&out).unwrap_or_else(|error| panic!("{error}: {told}"));
        std::fs::remove_file(&out).unwrap();
        let value = |name: &str| {
            let line = answer.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
            line.unwrap_or_else(|| panic!("no {name} in {answer}")).to_owned()
        };
        let boot_file = if answer.contains("\nbootfile=") { "bootfile" } else { "boot_file" };
        Leased { address: value("ip").parse().unwrap(), boot_file: value(boot_file) }
    }

    /// Fetches a document with `curl`.
    pub fn curl(&self, url: &str) -> Ended {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "20", url]);
        run(Self::within(&self.client, &curl))
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in [&self.rack, &self.client] {
            // There may be nothing to delete, if the test failed early.
            drop(Command::new("ip").args(["netns", "del", name]).output());
        }
    }
}

fn ip(args: &[&str]) {
    let mut command = Command::new("ip");
    command.args(args);
    let ended = run(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
}
