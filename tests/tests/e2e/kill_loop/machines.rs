//! The same with changes of the configuration: a machine is registered if its job succeeded, and
//! two machines never share an index.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use luxi::Client;
use luxi::method::SubmitJob;
use model::{JobId, JobStatus};
use serde_json::json;
use tests::cluster::{Cluster, IPAM};
use tests::run::pass;
use tests::seed::Seed;

const ROUNDS: u64 = 6;
/// The master is killed at latest after so many milliseconds of load.
const LOAD_MS: u64 = 500;
/// Machines that fit a rack, as the rules say.
const RACK: usize = 28;
/// Racks that are filled at the same time.
const RACKS: u64 = 40;

/// Serials of machines whose jobs succeeded, until the master is gone.
fn load(socket: &Path, round: u64, client: u64) -> Vec<String> {
    let mut seen = Vec::new();
    let Ok(mut luxi) = Client::connect(socket) else { return seen };
    for at in 0_u64.. {
        let serial = format!("R{round}C{client}N{at}");
        let rack = 1 + (at + client * 7 + round * 11) % RACKS;
        let machine = json!({"serial": serial, "rack": rack, "role": "worker"});
        let ops = json!([{"OP_ID": "OP_MACHINE_ADD", "machines": [machine]}]);
        let ops = serde_json::from_str(&ops.to_string()).unwrap();
        let Ok(id) = luxi.call(&SubmitJob { ops }) else { break };
        let Ok(outcome) = luxi.wait_for_job(JobId(id.0), &mut ()) else { break };
        if outcome.status != JobStatus::Success {
            // Racks that are full end the load, nothing else fails.
            assert!(outcome.opresult[0].to_string().contains("28"), "{outcome:?}");
            break;
        }
        seen.push(serial);
    }
    seen
}

/// The serials of all machines, which must stand on places of their own.
fn check(cluster: &Cluster) -> BTreeSet<String> {
    let rows = cluster.gnt("machine list --json -o serial,rack,index").json();
    let mut places = BTreeSet::new();
    let mut serials = BTreeSet::new();
    for row in rows.as_array().unwrap() {
        let place = (row["rack"].as_u64().unwrap(), row["index"].as_u64().unwrap());
        assert!(places.insert(place), "two machines at {place:?}");
        serials.insert(row["serial"].as_str().unwrap().to_owned());
    }
    serials
}

#[test]
fn a_job_that_succeeded_has_done_its_work() {
    let mut seed = Seed::new();
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let ipam = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let mut known = BTreeSet::new();
    for round in 0..ROUNDS {
        let moment = Duration::from_millis(20 + seed.below(LOAD_MS));
        let seen = std::thread::scope(|scope| {
            let start = |client| {
                let socket = &socket;
                scope.spawn(move || load(socket, round, client))
            };
            let clients: Vec<_> = (0..2).map(start).collect();
            pass(moment);
            cluster.kill_master();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        known.extend(seen);
        cluster.start_master();
        let found = check(&cluster);
        let lost: Vec<_> = known.difference(&found).collect();
        assert!(lost.is_empty(), "registered and lost: {lost:?}");
    }
    assert!(known.len() > 20, "there was no load: {}", known.len());

    // The free indices are free, and no more: the rack's indices agree with its machines.
    let rows = cluster.gnt("machine list --json -o serial,rack -F rack==1").json();
    let free = RACK - rows.as_array().unwrap().len();
    let machine = |at| json!({"serial": format!("LAST{at}"), "rack": 1, "role": "worker"});
    for (count, code) in [(free + 1, 1), (free, 0)] {
        let machines: Vec<_> = (0..count).map(machine).collect();
        let file = cluster.write("machines.json", &json!(machines).to_string());
        let added = cluster.gnt(&format!("machine add -f {}", file.display()));
        assert_eq!(added.code(), code, "{added:?}");
    }
    check(&cluster);
}
