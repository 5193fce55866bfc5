//! A rack at a switch, for benches of what its agent serves: one node with master and agent, and hosts
//! that put load on them.

use std::net::Ipv4Addr;
use std::process::Command;

use super::{BenchError, Setting};
use crate::guest::rack::{Rack, SOON, address};
use crate::guest::wires::{HOST_INTERFACE, ip, within};
use crate::guest::{GuestError, run};
use crate::needs;
use crate::programs::{self, Profile, Programs};

/// Length of the network's prefix: a rack has a lease range of some thousand addresses.
pub const PREFIX: u8 = 20;
/// The rules of addresses, with such a range: 10.69.0.32 to 10.69.15.254.
const IPAM: &str = r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16",
 "node-ipv4-range-size": 12, "node-ipv4-range-mask": 20, "node-ip-per-node": 3,
 "node-index-offset": 3, "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-offset": "0.0.1.0",
 "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20}"#;
/// The agent's log line once it serves leases.
const SERVED: &str = "dhcp is served";
/// Mode of its files.
const MODE: u32 = 0o644;

/// The rack.
#[derive(Debug)]
pub struct Bed {
    /// Node 1 and the switch.
    pub rack: Rack,
}

/// Why there can be no such bench here.
pub fn missing(wanted: &[&str]) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    wanted.iter().find_map(|program| needs::provide(program).err())
}

/// The address of the agent, at which it serves by itself.
pub fn agent() -> Ipv4Addr {
    address(1)
}

impl Bed {
    /// Builds the programs and starts them.
    ///
    /// # Errors
    /// Any of it failed.
    pub fn new(setting: &Setting) -> Result<Self, BenchError> {
        let programs = Programs::build(Profile::Release, programs::NODE)?;
        let rack = Rack::with_rules(programs, &setting.dir, (1, 0), IPAM)?;
        let node = rack.switch.node(1);
        for change in ["del", "add"] {
            let prefix = if change == "del" { crate::guest::wires::PREFIX } else { PREFIX };
            let own = format!("{}/{prefix}", agent());
            ip(&["-n", &node, "address", change, &own, "dev", "rack0"])?;
        }
        Ok(Self { rack })
    }

    /// Waits until the agent leases addresses of the large range.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_for_service(&self) -> Result<(), GuestError> {
        let log = self.rack.stage.root().join("n1/var/log/gantry/node-daemon.log");
        let served = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(SERVED));
        Ok(self.rack.stage.wait_until("the agent's word that it serves DHCP", SOON, served)?)
    }

    /// A host with an address of the network; gives its namespace.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn add_host(&mut self, name: &str, last: u8) -> Result<String, GuestError> {
        let namespace = self.rack.switch.add_host(name, &format!("02:00:00:00:01:{last:02x}"))?;
        let own = format!("10.69.0.{last}/{PREFIX}");
        ip(&["-n", &namespace, "address", "add", &own, "dev", HOST_INTERFACE])?;
        Ok(namespace)
    }

    /// Starts a daemon in a namespace.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(&self, name: &str, namespace: &str, daemon: &Command) -> Result<(), GuestError> {
        Ok(self.rack.stage.start(name, within(namespace, daemon))?)
    }

    /// The output of a program in a namespace.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, namespace: &str, program: &Command) -> Result<String, GuestError> {
        run(&mut within(namespace, program))
    }

    /// A file below the bed's root.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<String, GuestError> {
        let path = self.rack.stage.root().join(name);
        write(&path, text)?;
        Ok(path.display().to_string())
    }
}

fn write(path: &std::path::Path, text: &str) -> Result<(), GuestError> {
    stdx::atomic::write(path, text.as_bytes(), MODE).map_err(|error| GuestError::File {
        path: path.display().to_string(),
        error: std::io::Error::other(error),
    })
}
