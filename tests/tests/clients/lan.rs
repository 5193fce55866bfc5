//! A rack at a switch, with hosts that ask for addresses.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::place::programs;
use tests::run::wait_for;
use xtask::guest::GuestError;
use xtask::guest::rack::Rack;
use xtask::needs;

/// For anything that should happen soon; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The gateway of rack 0, by rule.
pub(crate) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 1);
/// The address of node 1, whose agent serves the rack.
pub(crate) const AGENT: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
/// Last numbers of the addresses that DHCP leases in rack 0, by rule.
pub(crate) const RANGE: std::ops::RangeInclusive<u8> = 32..=62;
/// Programs that every test here needs.
const PROGRAMS: [&str; 3] = ["ip", "tcpdump", "nsenter"];

/// A rack with so many agents. If this machine cannot have one, or lacks a program, the function says so
/// and gives nothing.
pub(crate) fn rack(agents: u8, further: &[&str]) -> Option<Rack> {
    let missing = |program: &&&str| needs::find(program).is_none();
    if let Some(program) = PROGRAMS.iter().chain(further).find(missing) {
        tests::skip("real DHCP clients", &format!("there is no `{program}`"));
        return None;
    }
    match Rack::new(programs().clone(), &std::env::temp_dir(), agents, 0) {
        Ok(rack) => Some(rack),
        Err(GuestError::Impossible(why)) => {
            tests::skip("real DHCP clients", &why);
            None
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    }
}

/// The file of a program that [`rack`] has found.
pub(crate) fn program(name: &str) -> PathBuf {
    needs::find(name).unwrap_or_else(|| panic!("there is no `{name}`"))
}

/// The output of a command that succeeds.
pub(crate) fn said(command: &mut Command) -> String {
    xtask::guest::run(command).unwrap_or_else(|error| panic!("{}", stdx::daemon::chain(&error)))
}

/// The master's list of leases.
pub(crate) fn leases(rack: &Rack) -> Vec<Value> {
    let list = rack.gnt(&["lease", "list", "--json", "-o", "ipv4,mac,serial,state,agent"]);
    serde_json::from_str(&list.unwrap()).unwrap()
}

/// The address that an Ethernet address has by a lease, as far as the master knows.
fn leased(rack: &Rack, mac: &str) -> Option<String> {
    let leases = leases(rack);
    let lease = leases.iter().find(|lease| lease["mac"] == mac && lease["state"] == "bound")?;
    Some(lease["ipv4"].as_str().unwrap().to_owned())
}

/// Waits until the master knows of a lease.
pub(crate) fn wait_for_lease(rack: &Rack, mac: &str, address: Ipv4Addr) {
    wait_for(&format!("{address} of {mac} in `gnt lease list`"), PATIENCE, || {
        (leased(rack, mac)? == address.to_string()).then_some(())
    });
}

/// Waits until the master knows that there is no lease any more.
pub(crate) fn wait_for_no_lease(rack: &Rack, mac: &str) {
    wait_for(&format!("no lease of {mac} in `gnt lease list`"), PATIENCE, || {
        leased(rack, mac).is_none().then_some(())
    });
}
