//! The inventory: ten thousand machines in one job, and one machine changed where there are few and
//! where there are many.

use std::time::Instant;

use luxi::client::Client;
use luxi::method::SubmitJob;
use model::OpInput;
use model::opcode::{MachineSetParams, OpCode};
use serde_json::json;

use super::cluster::{Cluster, ClusterError};
use super::queue::percentiles;
use super::report::{Report, Target};
use super::{BenchError, Setting, client};

/// Machines of a rack.
pub(super) const MACHINES_PER_RACK: u32 = 10;
/// Few racks, and many.
pub(super) const RACKS: [u32; 2] = [10, 1_000];
/// Changes whose median counts.
const CHANGES: u32 = 500;
/// The same with `--quick`.
const CHANGES_QUICK: u32 = 100;
/// Rules with room for so many racks.
const IPAM: &str = r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.64.0.0/13",
 "node-ipv4-range-size": 6, "node-ipv4-range-mask": 26, "node-ip-per-node": 3,
 "node-index-offset": 3, "bmc-ipv4-pool": "10.128.0.0/12", "bmc-ipv4-range-size": 5,
 "bmc-ipv4-range-mask": 12}"#;
/// Mode of its files.
pub(super) const MODE: u32 = 0o644;

/// The bench `register`.
///
/// # Errors
/// Something did not serve, or was refused.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let changes = if setting.quick { CHANGES_QUICK } else { CHANGES };
    let mut few = 0.0;
    for racks in RACKS {
        let cluster = Cluster::start(setting)?;
        let seconds = register(&cluster, racks)?;
        let machines = racks * MACHINES_PER_RACK;
        let name = format!("register.{machines}_machines");
        report.add(&*name, seconds, "s");
        let [median, _] = percentiles(&change(&cluster, machines, changes)?);
        let changed = format!("register.change_among_{racks}_racks.p50");
        if few > 0.0 {
            report.aim(&name, Target::ValueBelow(2.0));
            report.add_compared(&*changed, median, "us", few);
            report.aim(&changed, Target::RatioBelow(1.1));
        } else {
            report.add(changed, median, "us");
            few = median;
        }
    }
    Ok(())
}

pub(in crate::bench) fn serial(number: u32) -> String {
    format!("SN-{number:06}")
}

/// Registers all in one job, as an operator does; gives the seconds from the start of `gnt` to its end.
pub(super) fn register(cluster: &Cluster, racks: u32) -> Result<f64, ClusterError> {
    let machines: Vec<_> = (0..racks * MACHINES_PER_RACK)
        .map(|number| {
            let [.., a, b, c] = number.to_be_bytes();
            json!({"serial": serial(number), "rack": number / MACHINES_PER_RACK, "role": "worker",
                "mac": [format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")]})
        })
        .collect();
    let file = |name: &str, text: String| {
        let path = cluster.data().with_file_name(name);
        let written = stdx::atomic::write(&path, text.as_bytes(), MODE);
        written.map(|()| path.display().to_string()).map_err(std::io::Error::other)
    };
    let rules = file("ipam.json", IPAM.to_owned())?;
    cluster.gnt(&["ipam", "set", "-f", &rules])?;
    let list = file("machines.json", json!(machines).to_string())?;
    Ok(cluster.gnt(&["machine", "add", "-f", &list])?.as_secs_f64())
}

/// Changes one machine after the other, all over the racks; gives the microseconds from each submission
/// to the success of its job.
fn change(cluster: &Cluster, machines: u32, count: u32) -> Result<Vec<u32>, ClusterError> {
    let mut client = cluster.connect()?;
    let mut taken = Vec::new();
    for at in 0..count {
        let serial = serial(at * 7 % machines);
        let product = Some(format!("product {at}"));
        taken.push(timed(&mut client, MachineSetParams { serial, product, ..Default::default() })?);
    }
    Ok(taken)
}

fn timed(client: &mut Client, change: MachineSetParams) -> Result<u32, ClusterError> {
    let asked = Instant::now();
    let id =
        client.call(&SubmitJob { ops: vec![OpInput::new(OpCode::MachineSetParams(change))] })?;
    client::succeed(client, id)?;
    Ok(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX))
}
