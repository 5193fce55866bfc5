//! Jobs on instances that are cut at each of their calls, by each fault. Whatever is done then, the job
//! again, the keeper's work or a removal, ends with an instance that is whole, or with none.

mod agent;
mod world;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::simulation::seeds;
use model::instance::Phase;
use parking_lot::Mutex;
use queue_format::simulation::Chance;
use serde_json::Value;

use crate::instances::rename::renamed;
use agent::Moment;
use world::{Fault, World};

const FAULTS: [Fault; 4] =
    [Fault::MasterDies, Fault::AgentDies, Fault::NodeDies, Fault::AnswerLost];

/// How it goes on after a job that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The same job again.
    Repeat,
    /// The master goes on by itself.
    Keep,
    /// At once the end of [`round`].
    Remove,
}

const NEXTS: [Next; 3] = [Next::Repeat, Next::Keep, Next::Remove];

/// A job that is cut.
struct Sample {
    /// The jobs before it.
    before: &'static [&'static str],
    /// Itself.
    job: &'static str,
    /// The job by which it goes on.
    again: &'static str,
    /// Whether that may be told that it is done already.
    may_be_done: bool,
}

impl Sample {
    /// A sample that goes on with the same job again.
    const fn new(before: &'static [&'static str], job: &'static str, may_be_done: bool) -> Self {
        Self { before, job, again: job, may_be_done }
    }
}

const CREATE: &str = r#"{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "web1", "mode": "create",
    "disks": [{"size": 1024}, {"size": 2048}], "nics": [{"network": "net0", "ip": "pool"}],
    "pnode": "n2.example", "hypervisor": "fake", "disk_template": "file", "no_install": true,
    "os_type": "noop", "name_check": false, "ip_check": false}"#;
const SHARED: &str = r#"{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "web1", "mode": "create",
    "disks": [{"size": 1024}], "nics": [{}], "pnode": "n2.example", "hypervisor": "fake",
    "disk_template": "sharedfile", "no_install": true, "os_type": "noop", "name_check": false,
    "ip_check": false}"#;
const SHUTDOWN: &str = r#"{"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web1"}"#;
const REMOVE: &str = r#"{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "web1"}"#;

const STARTUP: &str = r#"{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "web1"}"#;
const REBOOT: &str =
    r#"{"OP_ID": "OP_INSTANCE_REBOOT", "instance_name": "web1", "reboot_type": "hard"}"#;
const RENAME: &str = r#"{"OP_ID": "OP_INSTANCE_RENAME", "instance_name": "web1",
    "new_name": "web2", "name_check": false, "ip_check": false}"#;
const GROW: &str = r#"{"OP_ID": "OP_INSTANCE_GROW_DISK", "instance_name": "web1", "disk": 0,
    "amount": 4096, "absolute": true}"#;
/// No job: all disks that are a node's own are lost.
const LOSE: &str = "lose";
const RECREATE: &str = r#"{"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "instance_name": "web1"}"#;
const ADD_DISK: &str = r#"{"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web1",
    "disks": [["add", {"size": 1024}]]}"#;
const REMOVE_DISK: &str = r#"{"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web1",
    "disks": [["remove", 1, {}]]}"#;
const FAILOVER: &str = r#"{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "web1",
    "target_node": "n3.example"}"#;
const MIGRATE: &str = r#"{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web1",
    "target_node": "n3.example", "allow_failover": true}"#;
const MOVE: &str = r#"{"OP_ID": "OP_INSTANCE_MOVE", "instance_name": "web1",
    "target_node": "n3.example"}"#;
const CLEANUP: &str =
    r#"{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web1", "cleanup": true}"#;

const SAMPLES: [Sample; 16] = [
    Sample::new(&[], CREATE, true),
    Sample::new(&[CREATE, SHUTDOWN], STARTUP, false),
    Sample::new(&[CREATE], SHUTDOWN, false),
    Sample::new(&[CREATE], REBOOT, false),
    Sample::new(&[CREATE, SHUTDOWN], RENAME, true),
    Sample::new(&[CREATE], GROW, true),
    Sample::new(&[CREATE, SHUTDOWN, LOSE], RECREATE, true),
    Sample::new(&[CREATE, SHUTDOWN], ADD_DISK, false),
    Sample::new(&[CREATE, SHUTDOWN], REMOVE_DISK, true),
    Sample::new(&[CREATE], REMOVE, true),
    Sample::new(&[CREATE, REMOVE], CREATE, true),
    Sample::new(&[SHARED], FAILOVER, true),
    Sample::new(&[SHARED, SHUTDOWN], FAILOVER, true),
    Sample { again: CLEANUP, ..Sample::new(&[SHARED], MIGRATE, false) },
    Sample::new(&[CREATE], MOVE, true),
    Sample { again: CLEANUP, ..Sample::new(&[CREATE, SHUTDOWN], MOVE, true) },
];

/// Does what comes before a sample.
fn prepare(world: &mut World, sample: &Sample) {
    for op in sample.before {
        if *op == LOSE {
            world.lose_disks();
            continue;
        }
        world.job(op, None).unwrap();
        world.settle();
    }
    world.gate.lock().calls.clear();
}

/// The disks and addresses that are there are those of the records.
fn nothing_is_without_a_record(world: &World) {
    let config = world.config();
    let mut recorded: BTreeSet<String> = BTreeSet::new();
    for disk in config.disks.values() {
        recorded.extend(agent::files(&disk.nodes, disk.place.path()));
    }
    for instance in config.instances.values() {
        let new = instance.renaming.as_ref();
        let moved = new.map(|new| renamed(&config, instance, new)).into_iter().flatten();
        recorded.extend(moved.flat_map(|(disk, path)| agent::files(&disk.nodes, &path)));
    }
    let files = world.files();
    let without: Vec<_> = files.difference(&recorded).collect();
    assert!(without.is_empty(), "no record has {without:?}");
    let nics = config.instances.values().flat_map(|instance| &instance.nics);
    assert_eq!(config.claims.len(), nics.filter(|nic| nic.network.is_some()).count());
}

fn phases(world: &World) -> Vec<Phase> {
    world.config().instances.values().map(|instance| instance.phase.clone()).collect()
}

fn is_whole(world: &World) -> bool {
    phases(world).iter().all(|phase| *phase == Phase::Ready)
}

/// The calls of a job that nothing befalls.
fn calls_of(sample: &Sample) -> Vec<&'static str> {
    let mut world = World::new(2);
    prepare(&mut world, sample);
    world.job(sample.job, None).unwrap();
    std::mem::take(&mut world.gate.lock().calls)
}

/// Cuts a job, goes on, and removes what there is.
fn round(world: &mut World, &Round { sample, cut: (at, moment), fault, next, .. }: &Round) {
    prepare(world, sample);
    world.cut(at, moment);
    drop(world.job(sample.job, Some(fault)));
    world.gate.lock().cut = None;
    match next {
        Next::Repeat => {
            world.settle();
            let done = world.job(sample.again, None);
            let is_told = |why: &Value| !sample.may_be_done || !is_prereq(why);
            if let Err(why) = done
                && is_told(&why)
            {
                panic!("the job again: {why}");
            }
            assert!(is_whole(world), "{:?}", phases(world));
        }
        Next::Keep => world.keep(),
        Next::Remove => {}
    }
    world.settle();
    nothing_is_without_a_record(world);
    all_goes(world);
}

/// Removes what there is, after which nothing is left.
fn all_goes(world: &mut World) {
    let names: Vec<_> = world.config().instances.keys().cloned().collect();
    for name in names {
        let remove = format!(r#"{{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "{name}"}}"#);
        world.job(&remove, None).unwrap();
    }
    world.settle();
    nothing_is_without_a_record(world);
    let left = (world.config().instances.len(), world.files(), world.on_nodes());
    assert_eq!(left, (0, BTreeSet::new(), Vec::new()), "what is left after all");
}

/// Whether a job was refused before it did anything.
fn is_prereq(why: &Value) -> bool {
    why.to_string().contains("OpPrereqError")
}

/// A job, what befalls which of its calls, and how it goes on.
struct Round {
    sample: &'static Sample,
    call: String,
    cut: (usize, Moment),
    fault: Fault,
    next: Next,
}

impl Round {
    /// Plays it; gives why it ended wrongly, if it did.
    fn played(&self) -> Option<String> {
        // It is dropped later: a master that ends in a panic ends all.
        let mut world = World::new(2);
        let round = || round(&mut world, self);
        let panic = std::panic::catch_unwind(AssertUnwindSafe(round)).err()?;
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let Self { sample, call, cut, fault, next } = self;
        Some(format!("{}: {cut:?} {call}, {fault:?}, {next:?}: {why}", sample.job))
    }
}

/// All rounds; in a usual run each call is cut by each fault, and goes on in one of the ways.
fn rounds() -> Vec<Round> {
    let is_long = std::env::var_os("GANTRY_TEST_LONG").is_some();
    let mut rounds = Vec::new();
    let mut number = 0;
    for sample in &SAMPLES {
        let calls = calls_of(sample);
        assert!(!calls.is_empty(), "{}", sample.job);
        for (at, call) in calls.iter().enumerate() {
            for moment in [Moment::Before, Moment::After] {
                for fault in FAULTS {
                    number += 1;
                    for (place, next) in NEXTS.into_iter().enumerate() {
                        if is_long || place == number % NEXTS.len() {
                            let (call, cut) = ((*call).to_owned(), (at, moment));
                            rounds.push(Round { sample, call, cut, fault, next });
                        }
                    }
                }
            }
        }
    }
    rounds
}

#[test]
fn whatever_befalls_a_job_on_an_instance_it_ends_whole_or_gone() {
    let rounds = rounds();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(round) = rounds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failed.lock().extend(round.played());
                }
            });
        }
    });
    let failed = failed.into_inner();
    let (some, all) = (failed.len(), rounds.len());
    assert!(failed.is_empty(), "{some} of {all}:\n{}", failed.join("\n"));
}

/// Names of instances in a random history, and those that one may be given.
const NAMES: (usize, usize) = (3, 5);
/// Times at which jobs are submitted in one.
const BATCHES_MAX: usize = 10;
/// Jobs of one time.
const JOBS_MAX: usize = 3;
/// Random histories in a usual run, and in a long one.
const HISTORIES: (u64, u64) = (40, 2_000);

/// A job of a random history.
fn any_job(chance: &mut Chance) -> String {
    let jobs = [
        CREATE,
        SHARED,
        SHUTDOWN,
        SHUTDOWN,
        STARTUP,
        REBOOT,
        RENAME,
        RENAME,
        GROW,
        RECREATE,
        ADD_DISK,
        REMOVE_DISK,
        REMOVE,
        FAILOVER,
        MIGRATE,
        MIGRATE,
        MOVE,
        MOVE,
        CLEANUP,
    ];
    let node = |chance: &mut Chance| format!("\"n{}.example\"", 2 + chance.below(4));
    let name = |number: usize| format!("\"web{}\"", 1 + number);
    let (one, other) = (name(chance.below(NAMES.0)), name(chance.below(NAMES.1)));
    let job = jobs[chance.below(jobs.len())];
    let job = job.replace("\"web2\"", &other).replace("\"web1\"", &one);
    let at = node(chance);
    match chance.below(2) {
        _ if job.contains("OP_INSTANCE_MOVE") => job.replace("\"n3.example\"", &at),
        0 => job.replace("\"n2.example\"", &at).replace("\"n3.example\"", &at),
        // The allocator chooses.
        _ => job
            .replace("\"pnode\": \"n2.example\",", "")
            .replace("\"target_node\": \"n3.example\",", "")
            .replace(",\n    \"target_node\": \"n3.example\"", ""),
    }
}

/// Jobs at the same time on four nodes, some of which are cut; at the end all is whole, or goes.
fn history(world: &mut World, chance: &mut Chance, tally: &AtomicUsize) {
    for (op, name) in [(CREATE, "web1"), (SHARED, "web2"), (SHARED, "web3")] {
        world.job(&op.replace("web1", name), None).unwrap();
    }
    world.settle();
    for _ in 0..=chance.below(BATCHES_MAX) {
        let jobs: Vec<String> = (0..=chance.below(JOBS_MAX)).map(|_| any_job(chance)).collect();
        let fault = FAULTS[chance.below(FAULTS.len())];
        let moment = [Moment::Before, Moment::After][chance.below(2)];
        world.cut(chance.below(8), moment);
        let done = world.jobs(&jobs, Some(fault));
        tally.fetch_add(done.iter().filter(|done| done.is_ok()).count(), Ordering::Relaxed);
        world.gate.lock().cut = None;
        match chance.below(3) {
            0 => world.keep(),
            _ => world.settle(),
        }
        nothing_is_without_a_record(world);
    }
    world.keep();
    let left_half_made = |phase: &Phase| matches!(phase, Phase::Creating { .. });
    assert!(phases(world).iter().all(|phase| *phase == Phase::Ready || left_half_made(phase)));
    all_goes(world);
}

#[test]
fn simulation_of_instances_and_all_that_befalls_them() {
    let (histories, tally) = (AtomicUsize::new(0), AtomicUsize::new(0));
    seeds::many("lives of instances", HISTORIES, |seed| {
        history(&mut World::new(4), &mut Chance::new(seed), &tally);
        histories.fetch_add(1, Ordering::Relaxed);
    });
    let (histories, tally) = (histories.into_inner(), tally.into_inner());
    assert!(tally >= histories, "only {tally} jobs of {histories} histories did something");
}
