//! One object of the configuration, beside few machines and beside many.

use std::hint::black_box;
use std::slice;
use std::sync::Arc;

use gungraun::library_benchmark;
use luxi::query::Filter;
use luxi::response::Response;
use masterd::config::load::Loader;
use masterd::config::{Config, ConfigChange};
use masterd::machines::machine::fields::{FIELDS, MachineRow, limited};
use masterd::machines::machine::register;
use masterd::units::list::Listing;
use model::machine::MachineSpec;
use model::{MacAddress, Serial, document};
use serde_json::{Value, json};

use crate::sample;
use crate::turns::TURNS;

/// Machines of a rack.
const IN_RACK: u32 = 25;
/// A rack without machines.
const EMPTY_RACK: u32 = 4_500;
/// Machines that are registered at a time.
const AT_ONCE: usize = 10_000;

fn spec(number: u32, rack: u32) -> MachineSpec {
    let [_, high, middle, low] = number.to_be_bytes();
    let mac = MacAddress::new([2, 0, 0, high, middle, low]);
    let spec = json!({"serial": serial(number), "rack": rack, "role": "worker", "mac": [mac]});
    serde_json::from_value(spec).expect("a machine")
}

/// As serial numbers are: not in the order of racks.
fn serial(number: u32) -> Serial {
    format!("SN{:08}", number.wrapping_mul(2_654_435_761)).parse().expect("a serial number")
}

fn hall(machines: u32) -> Arc<Config> {
    let mut loader = Loader::default();
    let mut add = |key: &str, content: Value| {
        loader.add(key, content.to_string().as_bytes()).expect("a document");
    };
    let then = [1, 0];
    add(document::ROLE, json!({"master": "n1.example", "term": 2, "node": 1, "since": then}));
    add(
        document::CLUSTER,
        json!({"cluster_name": "demo.example", "uuid": "c-1", "serial_no": 1, "ctime": then,
            "mtime": then, "candidate_pool_size": 10, "max_running_jobs": 20,
            "max_tracked_jobs": 25, "mac_prefix": "aa:00:00", "master_netdev": null,
            "master_netmask": null, "tags": [], "next_node_id": 10}),
    );
    add(
        document::IPAM,
        json!({"max-nodes-in-rack": 28, "node-ipv4-pool": "10.0.0.0/8", "node-ipv4-range-size": 6,
            "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
            "bmc-ipv4-pool": "172.16.0.0/12", "bmc-ipv4-range-size": 5,
            "bmc-ipv4-range-mask": 20}),
    );
    let mut config = loader.finish().expect("a cluster");
    let specs: Vec<_> = (0..machines).map(|number| spec(number, number / IN_RACK)).collect();
    for specs in specs.chunks(AT_ONCE) {
        let machines = register(&config, specs, sample::moment(0)).expect("good machines");
        config.apply(machines.into_iter().map(ConfigChange::Machine));
    }
    Arc::new(config)
}

fn new_machines(beside: u32) -> (Arc<Config>, Vec<MachineSpec>) {
    let numbers = (beside..).take(usize::try_from(TURNS).expect("a small number"));
    (hall(beside), numbers.map(|number| spec(number, EMPTY_RACK)).collect())
}

// Registers a machine, as a job does, and removes it.
#[library_benchmark]
#[bench::beside_10(new_machines(10))]
#[bench::beside_10000(new_machines(10_000))]
fn register_machine((config, specs): (Arc<Config>, Vec<MachineSpec>)) -> Arc<Config> {
    for spec in specs {
        let register = || register(&config, slice::from_ref(&spec), sample::moment(1));
        black_box(register()).expect("its check succeeds");
        let made = register().expect("so does its transaction");
        let mut with = Arc::clone(&config);
        let made = made.into_iter().map(ConfigChange::Machine);
        black_box(Arc::make_mut(&mut with).apply(made));
        let mut without = Arc::clone(&with);
        let removed = [ConfigChange::MachineRemoved(spec.serial)];
        black_box(Arc::make_mut(&mut without).apply(removed));
    }
    config
}

// Changes what is no machine.
#[library_benchmark]
#[bench::beside_10(hall(10))]
#[bench::beside_10000(hall(10_000))]
fn set_tag(config: Arc<Config>) -> Arc<Config> {
    for number in 0..TURNS {
        let mut cluster = config.cluster.as_ref().clone();
        cluster.tags = vec![format!("t:{number}")];
        let mut next = Arc::clone(&config);
        black_box(Arc::make_mut(&mut next).apply([ConfigChange::Cluster(cluster)]));
    }
    config
}

fn questions(machines: u32) -> (Arc<Config>, Vec<Filter>) {
    let numbers = (0..u32::try_from(TURNS).expect("a small number")).map(|n| n * 499 % machines);
    (hall(machines), numbers.map(|n| Filter::any_of("serial", [serial(n).as_str()])).collect())
}

// Lists one machine by its serial number.
#[library_benchmark]
#[bench::beside_10(questions(10))]
#[bench::beside_10000(questions(10_000))]
fn find_machine((config, filters): (Arc<Config>, Vec<Filter>)) -> Arc<Config> {
    let fields = ["serial", "rack", "role", "ipv4", "lease"].map(str::to_owned);
    for filter in &filters {
        let mut listing = Listing::new(FIELDS, &fields, Some(filter)).expect("a good filter");
        for machine in limited(&config, Some(filter)).expect("a filter by key") {
            let (machine, config) = (Arc::clone(machine), Arc::clone(&config));
            listing.add(&MachineRow { machine, config, now: sample::moment(1) });
        }
        let list = listing.table();
        assert_eq!(black_box(&list).data.len(), 1);
        black_box(Response::success(&list));
    }
    config
}
