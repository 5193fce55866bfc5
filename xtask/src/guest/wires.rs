//! A switch with nodes and guests around it, in network namespaces.

use std::net::Ipv4Addr;
use std::process::Command;

use super::{GuestError, run};

/// Length of the rack's prefix.
pub const PREFIX: u8 = 26;
/// The interface of a host that is no node.
pub const HOST_INTERFACE: &str = "eth0";

/// A switch in a namespace of its own. It is gone when dropped, with the namespaces of its nodes.
#[derive(Debug)]
pub struct Switch {
    name: String,
    nodes: u8,
    hosts: Vec<String>,
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
        let mut switch = Self { name, nodes: 0, hosts: Vec::new() };
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
            switch.plug(&port, &name, "rack0")?;
            ip(&["-n", &name, "addr", "add", &format!("{address}/{PREFIX}"), "dev", "rack0"])?;
            for interface in ["lo", "rack0"] {
                ip(&["-n", &name, "link", "set", interface, "up"])?;
            }
        }
        Ok(switch)
    }

    /// A further host: a namespace whose interface [`HOST_INTERFACE`] is at the switch and has no
    /// address; gives the namespace.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn add_host(&mut self, host: &str, mac: &str) -> Result<String, GuestError> {
        let name = format!("{}-{host}", self.name);
        ip(&["netns", "add", &name])?;
        self.hosts.push(name.clone());
        self.plug(host, &name, HOST_INTERFACE)?;
        ip(&["-n", &name, "link", "set", HOST_INTERFACE, "address", mac])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        ip(&["-n", &name, "link", "set", HOST_INTERFACE, "up"])?;
        Ok(name)
    }

    /// One more interface of a namespace, which is at this switch.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn add_interface(&self, namespace: &str, interface: &str) -> Result<(), GuestError> {
        self.plug(interface, namespace, interface)?;
        ip(&["-n", namespace, "link", "set", interface, "up"])
    }

    /// A cable from a port of the switch.
    fn plug(&self, port: &str, namespace: &str, interface: &str) -> Result<(), GuestError> {
        let cable = ["link", "add", port, "type", "veth", "peer", interface, "netns", namespace];
        ip(&[&["-n", &self.name][..], &cable].concat())?;
        ip(&["-n", &self.name, "link", "set", port, "master", "switch", "up"])
    }

    /// A command beside the guests.
    pub fn at_switch(&self, program: &Command) -> Command {
        within(&self.name, program)
    }

    /// A command on a node, counted from 1.
    pub fn at_node(&self, node: u8, program: &Command) -> Command {
        within(&self.node(node), program)
    }

    /// The namespace of a node, counted from 1.
    pub fn node(&self, node: u8) -> String {
        format!("{}-n{node}", self.name)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for node in 1..=self.nodes {
            drop(ip(&["netns", "del", &self.node(node)]));
        }
        for host in &self.hosts {
            drop(ip(&["netns", "del", host]));
        }
        drop(ip(&["netns", "del", &self.name]));
    }
}

/// The switch's port of a guest.
pub fn port(guest: u8) -> String {
    format!("guest{guest}")
}

/// The same command, with its environment, in a namespace.
pub fn within(namespace: &str, program: &Command) -> Command {
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

/// Runs `ip`.
///
/// # Errors
/// It fails.
pub fn ip(arguments: &[&str]) -> Result<(), GuestError> {
    run(Command::new("ip").args(arguments)).map(drop)
}
