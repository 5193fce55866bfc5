//! Real firmware boots from a rack's agents: guests of QEMU, one test at a time.

#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

use std::path::Path;

use tests::place::programs;
use xtask::guest::GuestError;
use xtask::guest::rack::Rack;

mod boot;
mod cloud_init;
mod confined;
mod copies;
mod debian;
mod host_network;
mod instances;
mod kills;
mod life;
mod mirror;
mod screens;
mod xen;

/// The serial number of the machine, and the address of its card.
const SERIAL: &str = "SN-7";
const MAC: &str = "52:54:00:aa:bb:01";

/// A rack with so many agents and one registered machine, of which the card may be told.
fn rack(nodes: u8, mac: Option<&str>) -> Option<Rack> {
    let rack = match Rack::new(programs().clone(), &std::env::temp_dir(), nodes, 1) {
        Ok(rack) => rack,
        Err(GuestError::Impossible(why)) => {
            tests::skip("machines that boot", &why);
            return None;
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker"];
    let mac = mac.map(|mac| ["--mac", mac]);
    rack.gnt(&[&add[..], mac.as_ref().map_or(&[][..], |mac| mac)].concat()).unwrap();
    Some(rack)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
