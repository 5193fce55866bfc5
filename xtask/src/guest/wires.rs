//! A switch with nodes and guests around it, in network namespaces.

use std::net::Ipv4Addr;
use std::process::Command;

use super::{GuestError, run};

/// Length of the rack's prefix.
pub const PREFIX: u8 = 26;

/// A switch in a namespace of its own. It is gone when dropped, with the namespaces of its nodes.
#[derive(Debug)]
pub struct Switch {
    name: String,
    nodes: u8,
}

impl Switch {
    /// A switch with ports for so many guests and nodes. A node's interface is `rack0`, with its address.
    ///
    /// # Errors
    /// Network namespaces cannot be made here.
    pub fn new(guests: u8, nodes: &[Ipv4Addr]) -> Result<Self, GuestError> {
        static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let made = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("gantry{}-{made}", std::process::id());
        let mut switch = Self { name, nodes: 0 };
        ip(&["netns", "add", &switch.name])
            .map_err(|error| GuestError::Impossible(crate::chain(&error)))?;
        let at = switch.name.clone();
        ip(&["-n", &at, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", &at, "link", "set", "switch", "up"])?;
        for guest in 0..guests {
            let port = port(guest);
            ip(&["-n", &at, "tuntap", "add", &port, "mode", "tap"])?;
            ip(&["-n", &at, "link", "set", &port, "master", "switch", "up"])?;
        }
        for (node, address) in (1..).zip(nodes) {
            let name = switch.node(node);
            ip(&["netns", "add", &name])?;
            switch.nodes = node;
            let port = format!("node{node}");
            let cable = ["link", "add", &port, "type", "veth", "peer", "rack0", "netns", &name];
            ip(&[&["-n", &at][..], &cable].concat())?;
            ip(&["-n", &at, "link", "set", &port, "master", "switch", "up"])?;
            ip(&["-n", &name, "addr", "add", &format!("{address}/{PREFIX}"), "dev", "rack0"])?;
            for interface in ["lo", "rack0"] {
                ip(&["-n", &name, "link", "set", interface, "up"])?;
            }
        }
        Ok(switch)
    }

    /// A command beside the guests.
    #[must_use]
    pub fn at_switch(&self, program: &Command) -> Command {
        within(&self.name, program)
    }

    /// A command on a node, counted from 1.
    #[must_use]
    pub fn at_node(&self, node: u8, program: &Command) -> Command {
        within(&self.node(node), program)
    }

    fn node(&self, node: u8) -> String {
        format!("{}-n{node}", self.name)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for node in 1..=self.nodes {
            drop(ip(&["netns", "del", &self.node(node)]));
        }
        drop(ip(&["netns", "del", &self.name]));
    }
}

/// The switch's port of a guest.
#[must_use]
pub fn port(guest: u8) -> String {
    format!("guest{guest}")
}

/// The same command, with its environment, in a namespace.
fn within(namespace: &str, program: &Command) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn ip(arguments: &[&str]) -> Result<(), GuestError> {
    run(Command::new("ip").args(arguments)).map(drop)
}
