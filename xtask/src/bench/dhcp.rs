//! Leases of an agent beside those of Debian's Kea, in turns, under the load of `perfdhcp`; and a
//! power-on of thousands of machines at once.
//!
//! Both servers have the same network and the same range, and write each lease to their disk before they
//! answer, as far as each has that. `perf` is the load, `kea` the other server, `storm` the power-on.

mod kea;
mod perf;
pub mod storm;

use std::net::Ipv4Addr;
use std::time::Duration;

use super::bed::{self, Bed};
use super::report::{Report, Target};
use super::{BenchError, Setting};
use crate::guest::GuestError;
use perf::{Found, Load};

/// Programs of others that the bench needs.
const PROGRAMS: [&str; 2] = ["perfdhcp", "kea-dhcp4"];
/// Clients: as many as the range has addresses, nearly.
const CLIENTS: u32 = 4_000;
/// Exchanges a second that each server meets first.
const FIRST_RATE: f64 = 500.0;
/// The next rate by the last one.
const STEP: f64 = 1.25;
/// No rate beyond it: the client would be measured.
const RATE_MAX: f64 = 30_000.0;
/// Share of lost messages that still counts as served.
const DROPS_MAX: f64 = 0.001;
/// Tries at a rate: on a shared machine others take a processor now and then.
const TRIES: usize = 3;
/// How long a server may take to answer at first.
const SOON: Duration = Duration::from_secs(60);

/// One server at work.
struct Server {
    address: Ipv4Addr,
    /// The highest rate that it held.
    held: f64,
    /// Whether it may hold a higher one.
    goes_on: bool,
}

/// The bench `dhcp`.
///
/// # Errors
/// Something does not build, start or answer.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    if let Some(why) = bed::missing(&PROGRAMS) {
        report.tell(format!("skipped: leases beside Kea: {why}"));
        return Ok(());
    }
    let mut bed = Bed::new(setting)?;
    let namespace = bed.add_host("load", 2)?;
    let kea = kea::start(&mut bed)?;
    bed.wait_for_service()?;
    let load = Load { bed: &bed, namespace };
    let mut agent = Server::new(bed::agent());
    let mut kea = Server::new(kea);
    for server in [&agent, &kea] {
        server.warm_up(&load)?;
    }
    let mut rate = FIRST_RATE;
    while rate < RATE_MAX && (agent.goes_on || kea.goes_on) {
        for server in [&mut agent, &mut kea] {
            server.meet(&load, rate, setting.time)?;
        }
        rate *= STEP;
    }
    report.add_compared("dhcp.held", agent.held, "1/s", kea.held);
    report.aim("dhcp.held", Target::RatioAtLeast(1.2));
    if kea.held > 0.0 {
        let [own, theirs] = [&agent, &kea].map(|server| server.delays(&load, setting, kea.held));
        let (own, theirs) = (own?, theirs?);
        report.add_compared("dhcp.offer.p99", own.offer_ms, "ms", theirs.offer_ms);
        report.add_compared("dhcp.ack.p99", own.ack_ms, "ms", theirs.ack_ms);
        report.aim("dhcp.ack.p99", Target::ValueBelow(5.0));
    }
    drop(load);
    drop(bed);
    storm::bench(setting, report)
}

/// 99th percentiles.
struct Delays {
    offer_ms: f64,
    ack_ms: f64,
}

impl Server {
    const fn new(address: Ipv4Addr) -> Self {
        Self { address, held: 0.0, goes_on: true }
    }

    /// Waits for its first answer, and has every client take a lease.
    fn warm_up(&self, load: &Load<'_>) -> Result<(), GuestError> {
        let one = || {
            let found = load.run(self.address, FIRST_RATE, 1, Duration::from_secs(1));
            found.is_ok_and(|found| found.received > 0)
        };
        load.bed.rack.stage.wait_until(&format!("a lease of {}", self.address), SOON, one)?;
        let all = Duration::from_secs_f64(f64::from(CLIENTS) / FIRST_RATE);
        load.run(self.address, FIRST_RATE, CLIENTS, all).map(drop)
    }

    /// Has it serve at a rate, and notes whether it does.
    fn meet(&mut self, load: &Load<'_>, rate: f64, time: Duration) -> Result<(), GuestError> {
        if !self.goes_on {
            return Ok(());
        }
        for _ in 0..TRIES {
            let found = load.run(self.address, rate, CLIENTS, time / 2)?;
            println!("  {} at {rate:.0}/s: {found}", self.address);
            if found.drops() < DROPS_MAX {
                self.held = found.asked_per_second();
                return Ok(());
            }
        }
        self.goes_on = false;
        Ok(())
    }

    fn delays(&self, load: &Load<'_>, setting: &Setting, rate: f64) -> Result<Delays, GuestError> {
        let mut all = Found::default();
        for _ in 0..TRIES {
            all.extend(load.run(self.address, rate, CLIENTS, setting.time / 2)?);
        }
        Ok(Delays { offer_ms: perf::p99(&all.offer_ms), ack_ms: perf::p99(&all.ack_ms) })
    }
}
