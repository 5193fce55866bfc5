//! A thousand ports of one Open vSwitch: how long all of them take, and how soon a change by somebody
//! else is set back.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, ClusterError, pause};
use super::report::{Report, Target};
use super::{BenchError, Setting};
use crate::needs;
use crate::ovs::{self, Ovs, OvsError};
use crate::stage::Stage;

/// Ports of the switch.
const PORTS: usize = 1_000;
/// Ports that are set one by one, as others do it; with `--quick` fewer.
const ONE_BY_ONE: [usize; 2] = [1_000, 50];
/// Changes by somebody else whose median counts.
const DRIFTS: usize = 5;
/// How long one may stay.
const SOON: Duration = Duration::from_secs(60);

/// The bench `switches`.
///
/// # Errors
/// Something does not start, or does not do what it should.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    if let Some(Err(why)) = ovs::PROGRAMS.iter().map(|one| needs::provide(one)).find(Result::is_err)
    {
        report.tell(format!("skipped: ports of switches: {why}"));
        return Ok(());
    }
    let cluster = Cluster::start(setting)?;
    let own = ["--rpc-address", "127.0.0.1", "--boot-address", "127.0.0.1"];
    let ports = ["--boot-alias-port", "0", "--dhcp-address", "127.0.0.1", "--dhcp-port", "6767"];
    cluster.start_beside("noded", &[&own[..], &ports].concat())?;
    let stage = Stage::new(&setting.dir).map_err(ClusterError::from)?;
    let names: Vec<String> = (0..PORTS).map(|number| format!("p{number}")).collect();
    let switch = Ovs::start(&stage, &stage.root().join("switch"), &names)?;

    let one_by_one = one_by_one(&switch, &names[..ONE_BY_ONE[usize::from(setting.quick)]])?;
    for vlan in ["7", "8"] {
        cluster.gnt(&["port-configuration", "add", &format!("v{vlan}"), "--untagged", vlan])?;
    }
    cluster.gnt(&["switch", "add", "tor", "--url", &switch.url(), "--all-ports"])?;
    let before = transactions(&switch)?;
    let all: Vec<String> = names.iter().map(|name| format!("tor/{name}")).collect();
    let mut words = vec!["port", "set", "--configuration", "v7"];
    words.extend(all.iter().map(String::as_str));
    let taken = cluster.gnt(&words)?.as_secs_f64();
    let batches = transactions(&switch)? - before;
    report.add_compared("switches.1000_ports", taken, "s", one_by_one * PORTS as f64);
    report.aim("switches.1000_ports", Target::ValueBelow(10.0));
    report.add("switches.1000_ports.transactions", batches, "");
    report.aim("switches.1000_ports.transactions", Target::ValueBelow(2.5));
    report.add("switches.drift.p50", drift(&switch)?, "s");
    report.aim("switches.drift.p50", Target::ValueBelow(1.0));
    Ok(())
}

/// Seconds of one port by `ovs-vsctl`.
fn one_by_one(switch: &Ovs, names: &[String]) -> Result<f64, OvsError> {
    let begun = Instant::now();
    for name in names {
        switch.vsctl(&["set", "port", name, "tag=6"])?;
    }
    Ok(begun.elapsed().as_secs_f64() / names.len() as f64)
}

/// Transactions that changed the switch so far.
fn transactions(switch: &Ovs) -> Result<f64, BenchError> {
    let told = switch.vsctl(&["get", "open_vswitch", ".", "next_cfg"])?;
    let wrong = || ClusterError::Client(format!("next_cfg is `{told}`"));
    told.parse().map_err(|_no_number| wrong().into())
}

/// Median of the seconds after which a change by somebody else is set back.
fn drift(switch: &Ovs) -> Result<f64, BenchError> {
    let mut all = Vec::new();
    for number in 0..DRIFTS {
        let port = format!("p{}", number * 17);
        switch.vsctl(&["set", "port", &port, "tag=9"])?;
        let begun = Instant::now();
        while switch.vsctl(&["get", "port", &port, "tag"])? != "7" {
            if begun.elapsed() > SOON {
                let why = format!("nobody sets {port} back");
                return Err(ClusterError::Client(why).into());
            }
            pause();
        }
        all.push(begun.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    Ok(all[DRIFTS / 2])
}
