//! Networks: addresses of one pool claimed in large jobs, files rendered for ten thousand machines, and
//! steps planned for a host with many interfaces.

use std::process::Command;
use std::time::Instant;

use luxi::client::Client;
use luxi::method::{GantryNetworkFiles, SubmitJob};
use model::OpInput;
use model::network::Owner;
use model::opcode::network::{CLAIMS_MAX, ClaimSpec};
use model::opcode::{NetworkClaim, OpCode};
use stdx::atomic;

use super::cluster::{Cluster, ClusterError};
use super::register::{MACHINES_PER_RACK, MODE, RACKS, register, serial};
use super::report::{Report, Target};
use super::{BenchError, Setting, client};
use crate::guest::{GuestError, run};
use crate::programs;

/// Jobs of [`CLAIMS_MAX`] claims each.
const JOBS: usize = 10;
/// The template that is rendered.
const TEMPLATE: &str = "
links:
  - {name: em1}
  - {name: em2}
  - name: bond0
    kind: bond
    mode: active-backup
    members: [em1, em2]
    addresses: [\"{{ ip['net0'] }}\"]
    routes:
      - {to: default, via: \"{{ config['net0'].gateway }}\"}
    dns_servers: {{ config['net0'].dnsServers }}
";

/// The bench `network`.
///
/// # Errors
/// Something did not serve, or was refused.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let cluster = Cluster::start(setting)?;
    let added = ["network", "add", "many", "--network", "10.0.0.0/12", "--pool"];
    cluster.gnt(&[&added[..], &["10.0.1.0-10.15.255.200"]].concat())?;
    let mut client = cluster.connect()?;
    let seconds: Vec<f64> =
        (0..JOBS).map(|job| claim(&mut client, job)).collect::<Result<_, _>>()?;
    let rate = count(CLAIMS_MAX * JOBS) / seconds.iter().sum::<f64>();
    report.add("network.claims", rate, "1/s");
    report.aim("network.claims", Target::ValueAbove(50_000.0));
    let (first, last) = (seconds[0], seconds[JOBS - 1]);
    report.add_compared("network.last_claims", last, "s", first);
    report.aim("network.last_claims", Target::RatioBelow(1.5));
    render(&cluster, &mut client, report)?;
    plan(report)
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// One job of many claims; gives the seconds from its submission to its success.
fn claim(client: &mut Client, job: usize) -> Result<f64, ClusterError> {
    let owner = |number: usize| format!("owner-{job}-{number}").parse().map(Owner::Name);
    let spec = |number| {
        let (network, owner) = ("many".parse(), owner(number));
        ClaimSpec {
            network: network.expect("a word"),
            owner: owner.expect("a word"),
            address: None,
        }
    };
    let claims = (0..CLAIMS_MAX).map(spec).collect();
    let asked = Instant::now();
    let op = OpCode::NetworkClaim(NetworkClaim { claims });
    let id = client.call(&SubmitJob { ops: vec![OpInput::new(op)] })?;
    client::succeed(client, id)?;
    Ok(asked.elapsed().as_secs_f64())
}

/// Ten thousand machines with a template: what its upload takes, and asking for the files of all.
fn render(cluster: &Cluster, client: &mut Client, report: &mut Report) -> Result<(), ClusterError> {
    let [_, racks] = RACKS;
    register(cluster, racks)?;
    let added = ["network", "add", "net0", "--network", "10.32.0.0/16", "--gateway", "10.32.0.1"];
    cluster
        .gnt(&[&added[..], &["--pool", "10.32.1.0-10.32.200.0", "--dns", "10.32.0.2"]].concat())?;
    let file = cluster.data().with_file_name("worker.yaml");
    atomic::write(&file, TEMPLATE.as_bytes(), MODE).map_err(std::io::Error::other)?;
    let upload = cluster.gnt(&["network-template", "upload", "worker", &file.to_string_lossy()])?;
    report.add("network.upload_for_10000_machines", upload.as_secs_f64(), "s");
    let asked = Instant::now();
    for number in 0..racks * MACHINES_PER_RACK {
        let format = "netplan".to_owned();
        client.call(&GantryNetworkFiles { serial: serial(number), version: None, format })?;
    }
    report.add("network.render_10000_machines", asked.elapsed().as_secs_f64(), "s");
    report.aim("network.render_10000_machines", Target::ValueBelow(2.0));
    Ok(())
}

/// The cost of a plan for a host with many interfaces, by the example of the planner.
fn plan(report: &mut Report) -> Result<(), BenchError> {
    let program = programs::example("hostnet", "plan", &[])?;
    let said = run(&mut Command::new(program))?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [steps, milliseconds] = numbers[..] else {
        return Err(GuestError::Impossible(format!("the planner said `{}`", said.trim())).into());
    };
    report.add("network.steps_of_500_interfaces", steps, "steps");
    report.add("network.plan_500_interfaces", milliseconds, "ms");
    report.aim("network.plan_500_interfaces", Target::ValueBelow(50.0));
    Ok(())
}
