//! Two network namespaces and a cable: the server in one, the client in the other.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The server's address.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
/// The first address of the lease range, which a client alone gets.
pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 32);
/// The client's Ethernet address; not one that the kernel made up.
pub(crate) const MAC: &str = "52:54:00:aa:bb:01";

/// Two namespaces and a cable, gone when dropped.
pub(crate) struct Wire {
    server: String,
    client: String,
}

impl Wire {
    /// The wire of the test `name`. Nothing, and a word about it, where there can be none.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let unique = format!("gt{}{name}", std::process::id());
        if let Some(why) = missing(&unique) {
            skip(why);
            return None;
        }
        let wire = Self { server: format!("{unique}-s"), client: format!("{unique}-c") };
        let (at, to) = (wire.server.as_str(), wire.client.as_str());
        ip(&["netns", "add", at]);
        ip(&["netns", "add", to]);
        ip(&["-n", at, "link", "add", "rack0", "type", "veth", "peer", "eth0", "netns", to]);
        ip(&["-n", to, "link", "set", "eth0", "address", MAC]);
        ip(&["-n", at, "addr", "add", &format!("{SERVER}/26"), "dev", "rack0"]);
        ip(&["-n", at, "link", "set", "lo", "up"]);
        ip(&["-n", at, "link", "set", "rack0", "up"]);
        ip(&["-n", to, "link", "set", "eth0", "up"]);
        Some(wire)
    }

    /// A command on the client's side.
    pub(crate) fn in_client(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.client, program]);
        command
    }

    /// Runs `work`, and the threads that it starts, on the server's side.
    pub(crate) fn at_server<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        within(&self.server, work)
    }

    /// Runs `work`, and the threads that it starts, on the client's side.
    pub(crate) fn at_client<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        within(&self.client, work)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            // There may be nothing to delete, if the test failed early.
            drop(Command::new("ip").args(["netns", "del", name]).status());
        }
    }
}

fn within<R: Send>(namespace: &str, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(Path::new("/run/netns").join(namespace)).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success(), "ip {args:?}");
}

/// Whether there is such a program.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

/// Says that a test did not run.
#[expect(clippy::explicit_write, reason = "the test harness would keep `eprintln` to itself")]
pub(crate) fn skip(why: &str) {
    writeln!(std::io::stderr(), "skipped: real clients in network namespaces: {why}").unwrap();
}

/// Why this test cannot run here.
fn missing(unique: &str) -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        Some("network namespaces need root")
    } else if !has("ip") {
        Some("there is no `ip`, of iproute2")
    } else if !has("udhcpc") {
        Some("there is no `udhcpc`")
    } else {
        let probe = format!("{unique}-probe");
        let made = Command::new("ip").args(["netns", "add", &probe]).output().unwrap();
        drop(Command::new("ip").args(["netns", "del", &probe]).output());
        (!made.status.success()).then_some("this system does not allow network namespaces")
    }
}
