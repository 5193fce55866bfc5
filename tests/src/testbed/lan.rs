//! A network of nodes, each in a namespace of its own, on one bridge: cut, in whole or between two,
//! in one direction or both.
//!
//! Only a [sealed](crate::sealed) process has one, so names are its own and nothing is removed.

use std::net::Ipv4Addr;
use std::process::Command;

use serde_json::Value;

use crate::run::{Ended, run};

const BRIDGE: &str = "bridge";
/// The interface of every node.
pub const INTERFACE: &str = "eth0";
/// Nobody has this address: frames to it are lost without a word.
const NOBODY: &str = "02:00:00:00:ff:ff";
/// Bits of the network's prefix.
pub const PREFIX: u8 = 24;
/// The address that moves with the master.
pub const MASTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 100);

/// A network of some nodes, numbered from 0.
#[derive(Debug)]
pub struct Lan {
    count: usize,
}

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, last(node))
}

fn last(node: usize) -> u8 {
    u8::try_from(node + 1).expect("a network of a few nodes")
}

fn hardware(node: usize) -> String {
    format!("02:00:00:00:00:{:02x}", last(node))
}

fn namespace(node: usize) -> String {
    format!("n{}", node + 1)
}

/// The end of a node's cable at the bridge.
fn port(node: usize) -> String {
    format!("port{}", node + 1)
}

impl Lan {
    /// A network of so many nodes.
    pub fn new(count: usize) -> Self {
        ip(&format!("link add {BRIDGE} type bridge"));
        ip(&format!("link set {BRIDGE} up"));
        for node in 0..count {
            let (space, port) = (namespace(node), port(node));
            ip(&format!("netns add {space}"));
            ip(&format!("link add {port} type veth peer {INTERFACE} netns {space}"));
            let hardware = hardware(node);
            ip(&format!("-n {space} link set {INTERFACE} address {hardware}"));
            ip(&format!("-n {space} address add {}/{PREFIX} dev {INTERFACE}", address(node)));
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} link set {INTERFACE} up"));
            ip(&format!("link set {port} master {BRIDGE} up"));
        }
        Self { count }
    }

    /// A command as it runs on a node. `ip netns exec` would give it mounts of its own, under which a
    /// disk that is unmounted here stays in use.
    pub fn on(&self, node: usize, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/run/netns/{}", namespace(node))).arg("--");
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    /// Nothing goes from or to a node any more, and its interface does not know.
    pub fn unplug(&self, node: usize) {
        ip(&format!("link set {} nomaster", port(node)));
    }

    /// The end of [`Lan::unplug`].
    pub fn plug(&self, node: usize) {
        ip(&format!("link set {} master {BRIDGE}", port(node)));
    }

    /// Drops all packets from one node to another one; the way back stays.
    pub fn silence(&self, from: usize, to: usize) {
        let entry = format!("{} lladdr {NOBODY} dev {INTERFACE} nud permanent", address(to));
        ip(&format!("-n {} neigh replace {entry}", namespace(from)));
    }

    /// The end of [`Lan::silence`].
    pub fn let_speak(&self, from: usize, to: usize) {
        let entry = format!("{} lladdr {} dev {INTERFACE}", address(to), hardware(to));
        ip(&format!("-n {} neigh replace {entry} nud reachable", namespace(from)));
    }

    pub fn others(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..self.count).filter(move |other| *other != node)
    }

    /// Whether a node has the master's address.
    pub fn has_master_address(&self, node: usize) -> bool {
        let shown = try_ip(&format!("-n {} -j address show dev {INTERFACE}", namespace(node)));
        let shown = shown.json();
        let links = shown.as_array().into_iter().flatten();
        let mut all = links.flat_map(|link| link["addr_info"].as_array().into_iter().flatten());
        all.any(|one: &Value| one["local"] == MASTER_ADDRESS.to_string())
    }

    /// Removes the master's address from a node, as a daemon that does not know it would.
    pub fn remove_master_address(&self, node: usize) {
        let line = format!("address del {MASTER_ADDRESS}/{PREFIX} dev {INTERFACE}");
        ip(&format!("-n {} {line}", namespace(node)));
    }
}

fn try_ip(line: &str) -> Ended {
    let mut command = Command::new("ip");
    command.args(line.split(' '));
    run(command)
}

fn ip(line: &str) {
    let ended = try_ip(line);
    assert_eq!(ended.code(), 0, "{ended:?}");
}
