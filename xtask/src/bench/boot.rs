//! From power-on to the first program of a system. A guest with UEFI firmware boots from an agent, and
//! the same guest from dnsmasq and nginx, in turns.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::time::Instant;

use super::bed;
use super::report::{Report, Target};
use super::{BenchError, Setting, nginx};
use crate::guest::GuestError;
use crate::guest::parts::Parts;
use crate::guest::rack::{Guest, Rack, SOON, address};
use crate::guest::wires::port;
use crate::needs;
use crate::programs::{self, Profile, Programs};

/// Programs of others that the bench needs.
const PROGRAMS: [&str; 3] = ["qemu-system-x86_64", "dnsmasq", "nginx"];
/// Boots from each; the median counts.
const BOOTS: usize = 3;
/// The guest.
const GUEST: Guest<'_> =
    Guest { number: 0, serial: "SN-7", mac: "52:54:00:aa:bb:01", disk: None, secure: None };
/// The output of its first program.
const RUNS: &str = "GUEST runs";
/// The port of the other server, which has the same image.
const PORT: u16 = 8_080;
const IMAGE: &str = "uki.efi";
/// The same range and options as those of the agent.
const DNSMASQ: &[&str] = &[
    "--no-daemon",
    "--conf-file=/dev/null",
    "--port=0",
    "--interface=rack0",
    "--bind-interfaces",
    "--dhcp-range=10.69.0.32,10.69.0.62,255.255.255.192,1h",
    "--dhcp-authoritative",
    "--no-ping",
    "--dhcp-vendorclass=set:httpclient,HTTPClient",
    "--dhcp-option-force=tag:httpclient,60,HTTPClient",
];

/// The bench `boot`.
///
/// # Errors
/// Something does not build, start or boot.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let missing =
        bed::missing(&PROGRAMS).or_else(|| Parts::provide().err().map(|e| crate::chain(&e)));
    if let Some(why) = missing {
        report.tell(format!("skipped: power-on beside dnsmasq: {why}"));
        return Ok(());
    }
    let programs = Programs::build(Profile::Release, programs::NODE)?;
    let rack = Rack::new(programs, &setting.dir, 1, 1)?;
    let add = ["machine", "add", "--serial", GUEST.serial, "--rack", "0", "--role", "worker"];
    rack.gnt(&[&add[..], &["--mac", GUEST.mac]].concat())?;
    let uki = rack.parts().uki.clone();
    rack.gnt(&["image", "upload", "guest/1", "--uki", &uki.display().to_string()])?;
    rack.gnt(&["machine", "set-boot", "guest/1", GUEST.serial])?;
    let copy = rack.stage.root().join(IMAGE);
    std::fs::copy(&uki, &copy)
        .map_err(|error| GuestError::File { path: copy.display().to_string(), error })?;

    let boots = if setting.quick { 1 } else { BOOTS };
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..boots {
        own.push(boot(&rack)?);
        rack.stage.stop("noded1");
        serve_otherwise(&rack)?;
        theirs.push(boot(&rack)?);
        rack.stage.stop("dnsmasq");
        rack.stage.stop("nginx");
        rack.start_agent(1, &[]).map_err(GuestError::Stage)?;
    }
    println!("  agent {own:.1?} s, dnsmasq {theirs:.1?} s");
    report.add_compared("boot.userspace", median(own), "s", median(theirs));
    report.aim("boot.userspace", Target::RatioBelow(1.05));
    Ok(())
}

/// Starts the other servers at the agent's address.
fn serve_otherwise(rack: &Rack) -> Result<(), GuestError> {
    let (own, root) = (address(1), rack.stage.root());
    let mut dnsmasq = Command::new(needs::provide("dnsmasq").map_err(GuestError::Impossible)?);
    dnsmasq.args(DNSMASQ).arg(format!("--dhcp-leasefile={}", root.join("leases").display()));
    dnsmasq.arg(format!("--dhcp-boot=tag:httpclient,http://{own}:{PORT}/{IMAGE}"));
    rack.stage.start("dnsmasq", rack.switch.at_node(1, &dnsmasq))?;
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT);
    rack.stage.start("nginx", rack.switch.at_node(1, &nginx::command(&root, any)?))?;
    let pid = root.join(nginx::PID);
    Ok(rack.stage.wait_until("nginx", SOON, || pid.exists())?)
}

/// Seconds from power-on to the guest's first program; the guest has ended then.
fn boot(rack: &Rack) -> Result<f64, GuestError> {
    let begun = Instant::now();
    rack.power_on(&GUEST)?;
    rack.wait_for(GUEST.number, RUNS)?;
    let seconds = begun.elapsed().as_secs_f64();
    rack.stage.kill(&port(GUEST.number));
    Ok(seconds)
}

pub(super) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
