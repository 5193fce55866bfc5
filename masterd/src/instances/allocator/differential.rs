//! The choices of Ganeti's `hail` and of the built-in allocator in random clusters. The latter are as good, and
//! better where `hail` leaves a node out because another one's instances might once have to go there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use model::instance::InstanceSettings;
use model::node::NodeRole;
use model::opcode::instance::create::CreateParameters;
use proptest::prelude::{Strategy, any, prop};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::built_in::{Loads, Wish, choose};
use super::question::{Request, question};
use crate::config::{Config, ConfigChange};
use crate::instances::batch::Planned;
use crate::instances::blueprint::Making;
use crate::instances::capacity::AllFacts;
use crate::testing;

/// Random clusters, for each of which a process starts.
const USUAL: usize = 40;
/// The same by `cargo xtask test --long`.
const LONG: usize = 500;
/// Scores that differ by less are those of nodes that are equally good.
const EQUAL: f64 = 1e-6;
/// Its path in Ganeti's packages.
const HAIL: &str = "/usr/lib/ganeti/iallocators/hail";

/// Memory in GiB, processors, disk in GiB, and instances with memory in units of 128 MiB, processors, and
/// whether they are up.
type Drawn = (u64, u32, u64, Vec<(u64, u64, bool)>);

fn drawn() -> impl Strategy<Value = (Vec<Drawn>, (u64, u64))> {
    let instances = prop::collection::vec((1_u64..64, 1_u64..5, any::<bool>()), 0..9);
    let node = (8_u64..64, 4_u32..65, 100_u64..4_000, instances);
    (prop::collection::vec(node, 2..9), (1_u64..250, 1_u64..9))
}

fn cluster(nodes: &[Drawn]) -> (Config, AllFacts) {
    let further: Vec<_> = (2..=nodes.len())
        .map(|number| testing::node(&format!("n{number}.example"), NodeRole::Regular))
        .collect();
    let mut config = testing::config(&further);
    let settings = InstanceSettings {
        enabled_hypervisors: vec!["fake".to_owned()],
        enabled_disk_templates: vec!["diskless".to_owned()],
        ..InstanceSettings::default()
    };
    config.apply([ConfigChange::InstanceSettings(settings)]);
    let mut facts = AllFacts::new();
    for (number, (memory, cpus, disk, instances)) in (1..).zip(nodes) {
        let node = format!("n{number}.example");
        let told = rpc::calls::NodeFacts {
            cpus: *cpus,
            memory_total_mib: memory << 10,
            disk_total_mib: disk << 10,
            ..testing::facts()
        };
        facts.insert(node.parse().unwrap(), Arc::new(told));
        for (turn, (memory, vcpus, is_up)) in instances.iter().enumerate() {
            let mut instance = testing::instance(&format!("i{number}-{turn}"), &node);
            instance.beparams = [("maxmem", memory * 128), ("minmem", 128), ("vcpus", *vcpus)]
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .into();
            if !is_up {
                instance.admin_state = model::instance::state::AdminState::Down;
            }
            config.apply([ConfigChange::Instance(instance)]);
        }
    }
    (config, facts)
}

/// Runs Debian's `hail`, installed or unpacked beside the `hbal` of the path.
fn hail() -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    let hbal = std::env::split_paths(&path).map(|place| place.join("hbal"));
    let hbal = hbal.filter_map(|file| file.canonicalize().ok()).next()?;
    if PathBuf::from(HAIL).is_file() {
        return Some(Command::new(HAIL));
    }
    let mut command = Command::new(hbal);
    command.arg(HAIL);
    Some(command)
}

fn answered(question: &Value) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    stdx::atomic::write(file.path(), question.to_string().as_bytes(), 0o600).unwrap();
    let said = hail().unwrap().arg(file.path()).output().unwrap();
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?} to {question:#}"))
}

#[test]
fn the_built_in_allocator_places_as_well_as_hail() {
    if hail().is_none() {
        println!("skipped: the choices of hail: Ganeti's package is not there");
        return;
    }
    let cases = if std::env::var_os("GANTRY_TEST_LONG").is_some() { LONG } else { USUAL };
    let mut runner = TestRunner::deterministic();
    let (mut same, mut full) = (0, 0);
    for _ in 0..cases {
        let (nodes, (memory, vcpus)) = drawn().new_tree(&mut runner).unwrap().current();
        let (config, facts) = cluster(&nodes);
        let mut op = Box::new(CreateParameters::named("new.example".to_owned()));
        op.disk_template = Some("diskless".to_owned());
        op.hypervisor = Some("fake".to_owned());
        op.no_install = Some(true);
        op.beparams = json!({"memory": memory * 128, "vcpus": vcpus}).as_object().unwrap().clone();
        let making = Making { facts: &facts, job: model::JobId(1), now: testing::NOW, seed: 1 };
        let planned = Planned::new(op, &config, making, 0).unwrap();
        let settings = config.instance_settings();
        let newcomer = planned.newcomer(&settings);
        let answer = answered(&question(&config, &facts, Request::Allocate(&newcomer, None)));
        let share = planned.blueprint.share(&settings);
        let ours = choose(&config, &facts, Wish { share, extent: None, group: None, not: None });
        let theirs = answer["result"][0].as_str();
        let (Some(theirs), Ok(ours)) = (theirs, &ours) else {
            // It wants room for the instances of any node that fails, too.
            assert!(
                theirs.is_none(),
                "ours finds no room: {ours:?}, hail says {answer}: {nodes:?}"
            );
            full += 1;
            continue;
        };
        let loads = Loads::of(&config, &facts);
        let score = |name: &str| loads.score(config.node(name).unwrap(), share).unwrap();
        let (our_score, their_score) = (score(ours.name.as_str()), score(theirs));
        assert!(
            our_score <= their_score + EQUAL,
            "ours {} {our_score}, hail's {theirs} {their_score}: {nodes:?}",
            ours.name
        );
        same += usize::from(our_score + EQUAL > their_score);
    }
    // Else it would be another measure than hail's.
    assert!(same * 10 >= (cases - full) * 9, "{same} of {cases}, and {full} without room");
    println!("{same} of {cases} times as good a node; {full} times no room for hail");
}
