//! The cost of planning the steps of a host with many interfaces: prints their number, and milliseconds.
#![expect(clippy::print_stdout, reason = "the bench that runs this reads what it prints")]

use std::time::Instant;

use model::host::HostNetwork;

/// VLANs of the host, and the interface below them.
const INTERFACES: usize = 500;

fn main() {
    let (actual, desired) = (host(1), host(2));
    let begun = Instant::now();
    let planned = hostnet::plan(&actual, &desired);
    let took = begun.elapsed();
    let steps = planned.map_or(0, |plan| plan.steps.len());
    println!("{steps} {}", took.as_secs_f64() * 1e3);
}

/// A host with many VLANs, of which each has another address for another `third`.
fn host(third: u8) -> HostNetwork {
    let links = (1..INTERFACES).map(|number| {
        let last = number % 250 + 1;
        let second = number / 250;
        format!(
            "\n  - {{name: vlan{number}, kind: vlan, vlan: {number}, parent: eth0, addresses: [10.{second}.{third}.{last}/32]}}"
        )
    });
    let text = format!("links:\n  - {{name: eth0}}{}", links.collect::<String>());
    hostnet::from_yaml(&text).expect("a network")
}
