//! A master and the nodes of its instances, each a process on a runtime of its own, and what befalls them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::simulation::Node;
use jobs::locks::{Level, LockName};
use luxi::method::SubmitJob;
use model::instance::InstanceSettings;
use model::instance::state::Seen;
use model::node::NodeRole;
use model::{JobId, JobStatus, Uuid};
use parking_lot::Mutex;
use queue_format::Store;
use queue_format::simulation::{Chance, Loss, SimDisk, Step};
use rpc::simulation::Network;
use serde_json::Value;
use stdx::Clock;
use virt::Storage;

use super::super::client::{Client, Excuse};
use super::super::cluster::nodes;
use super::super::{BEGIN, Daemon, Taker, founded, ground, options, take_role};
use super::agent::{Gate, Machine, Moment};
use crate::config::reconciler::Reconciler;
use crate::config::{Config, ConfigChange};
use crate::instances::owned;
use crate::process as daemon;
use crate::role::load;
use crate::testing;

/// The first node that has instances; the one before it is the master's.
const FIRST: u64 = 2;
/// Turns of a millisecond until something awaited must have happened.
const TURNS_MAX: usize = 60_000;
/// The longest time between two tries of the keeper, and a little more, in milliseconds.
const TRIES_MS: i64 = 20_000;

/// A fault that befalls the world while a call of a job is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    MasterDies,
    AgentDies,
    NodeDies,
    /// The connection breaks, and the agent is there again at once.
    AnswerLost,
}

/// A master, as its own parts see it.
struct Life {
    daemon: Daemon,
    client: Client,
}

/// A master's process.
struct Master {
    node: Node,
    life: Arc<OnceLock<Life>>,
    hand: Taker,
}

impl Drop for Master {
    fn drop(&mut self) {
        // Nothing that ends with the process may wait for steps of its store.
        drop(self.hand.lock().take());
    }
}

pub(super) struct World {
    disk: SimDisk,
    clock: Clock,
    now_ms: u64,
    chance: Chance,
    network: Network,
    master: Option<Master>,
    machines: BTreeMap<u64, Machine>,
    pub(super) gate: Arc<Mutex<Gate>>,
    directory: tempfile::TempDir,
}

impl World {
    /// A cluster with a network, and with so many nodes for instances.
    pub(super) fn new(count: u64) -> Self {
        let disk = founded();
        let directory = tempfile::tempdir().unwrap();
        let (gate, mut chance) = (Arc::<Mutex<Gate>>::default(), Chance::new(1));
        let network = Network::new(engine::simulation::branch(&mut chance));
        let files = directory.path().join("files");
        let storage = Storage::new(directory.path().join("no list"), files);
        let machine = |id: u64| {
            let records = directory.path().join(format!("n{id}"));
            (id, Machine::new(id, records, storage.clone(), Arc::clone(&gate)))
        };
        let machines = (FIRST..FIRST + count).map(machine).collect();
        let clock = Clock::manual(BEGIN);
        let mut world = Self {
            disk,
            clock,
            now_ms: 0,
            chance,
            network,
            master: None,
            machines,
            gate,
            directory,
        };
        world.start_agents();
        world.start_master();
        let files = world.files_below().to_str().unwrap().to_owned();
        let network = world.network.clone();
        world.transact(move |config| prepared(config, (count, &network), &files));
        for id in FIRST..FIRST + count {
            let lock = LockName::member(Level::Node, nodes::name(id).as_str());
            world.life().daemon.parts.locks.add(&lock);
        }
        world.settle();
        world
    }

    fn files_below(&self) -> PathBuf {
        self.directory.path().join("files")
    }

    /// Time goes on by a millisecond, and everyone does something.
    fn turn(&mut self) {
        self.now_ms += 1;
        self.clock.set(BEGIN + i64::try_from(self.now_ms).unwrap() * 1_000);
        self.network.arrive(self.now_ms);
        let machines = self.machines.values().filter_map(Machine::process);
        for process in machines.chain(self.master.as_ref().map(|master| &master.node)) {
            process.advance(Duration::from_millis(1));
            process.run(2);
        }
        if let Some(master) = &self.master
            && let Some(hand) = master.hand.lock().as_mut()
        {
            for step in [Step::Log, Step::Files] {
                hand.take(step).unwrap();
            }
        }
        self.one_run_at_most();
    }

    /// No instance runs on two nodes, at any time.
    fn one_run_at_most(&self) {
        let mut runs = BTreeSet::new();
        for machine in self.machines.values() {
            let Some(instances) = machine.instances() else { continue };
            for sight in instances.since(None).instances {
                if sight.seen == Seen::Running {
                    assert!(runs.insert(sight.uuid), "{} runs on two nodes", sight.name);
                }
            }
        }
    }

    fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        for _ in 0..TURNS_MAX {
            if is_so(self) {
                return;
            }
            self.turn();
        }
        let calls = self.gate.lock().calls.clone();
        let life = self.master.as_ref().and_then(|master| master.life.get());
        let jobs = life.map(|life| life.daemon.published.jobs.all());
        let last = jobs.as_ref().and_then(|jobs| jobs.iter().max_by_key(|job| job.id));
        panic!("not within {TURNS_MAX} ms: {what}; calls {calls:?}, last job {last:?}");
    }

    pub(super) fn start_agents(&mut self) {
        for machine in self.machines.values_mut() {
            machine.start(&self.network, &self.clock);
        }
        self.until("agents", |world| world.machines.values().all(|one| one.instances().is_some()));
    }

    pub(super) fn start_master(&mut self) {
        let store = Store::open_simulated(&self.disk, options()).unwrap();
        let found = load::load(&store.reader()).unwrap();
        let (clock, network) = (self.clock.clone(), self.network.clone());
        let excuse = Excuse::Disk(self.disk.clone());
        let (node, life, hand) = (Node::new(), Arc::<OnceLock<Life>>::default(), Taker::default());
        let (lives, taker) = (Arc::clone(&life), Arc::clone(&hand));
        node.spawn(async move {
            let keys = nodes::keys(1, &network);
            let me = daemon::check_role(&found.config, keys.identity.name()).unwrap();
            let master = take_role(store, found, me, &clock, &taker).await.unwrap();
            let daemon = Daemon::start(master, &ground().layout, keys, &clock);
            let (service, oracle) = (Arc::clone(&daemon.service), Arc::default());
            let client = Client::new(0, service, Chance::new(0), (oracle, excuse));
            assert!(lives.set(Life { daemon, client }).is_ok(), "it begins once");
            std::future::pending::<()>().await;
        });
        self.master = Some(Master { node, life, hand });
        self.until("a master", |world| {
            world.master.as_ref().is_some_and(|master| master.life.get().is_some())
        });
    }

    fn end_master(&mut self) {
        self.master = None;
        self.disk = self.disk.crash(Loss::Nothing, &mut self.chance);
    }

    fn life(&self) -> &Life {
        self.master.as_ref().and_then(|master| master.life.get()).unwrap()
    }

    /// Has the master's process do something to its end.
    fn have<T, F>(&mut self, work: impl FnOnce(Arc<OnceLock<Life>>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let done = Arc::new(Mutex::new(None));
        let master = self.master.as_ref().unwrap();
        let (tell, work) = (Arc::clone(&done), work(Arc::clone(&master.life)));
        master.node.spawn(async move {
            let output = work.await;
            *tell.lock() = Some(output);
        });
        self.until("a task of the master", |_| done.lock().is_some());
        done.lock().take().unwrap()
    }

    fn transact(&mut self, decide: impl Fn(&Config) -> Vec<ConfigChange> + Send + Sync + 'static) {
        self.have(|life| async move {
            let writer = life.get().unwrap().daemon.parts.writer.clone();
            writer.transact(None, move |config| Ok((decide(config), ()))).await.unwrap();
        });
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.life().daemon.parts.published.latest()
    }

    /// Submits a job, and waits for its end, as [`Self::jobs`].
    pub(super) fn job(&mut self, op: &str, fault: Option<Fault>) -> Result<(), Value> {
        self.jobs(&[op.to_owned()], fault).remove(0)
    }

    /// Submits jobs of one opcode, and waits for their ends; the fault befalls the world when the gate has
    /// cut a call. Gives the errors of jobs that failed.
    pub(super) fn jobs(&mut self, ops: &[String], fault: Option<Fault>) -> Vec<Result<(), Value>> {
        let jobs: Vec<_> =
            ops.iter().map(|op| serde_json::from_str(&format!("[{op}]")).unwrap()).collect();
        let ids: Vec<JobId> = self.have(|life| async move {
            let mut ids = Vec::new();
            for ops in jobs {
                ids.push(life.get().unwrap().client.ask(SubmitJob { ops }).await.unwrap());
            }
            ids
        });
        let all_ended = |world: &Self| ids.iter().all(|id| world.has_ended(*id));
        self.until("the end of jobs", |world| {
            all_ended(world) || world.gate.lock().stands.is_some()
        });
        let stands = self.gate.lock().stands.take();
        if let (Some(fault), Some(node)) = (fault, stands) {
            self.befalls(fault, node);
            self.until("the end of the jobs of which one was cut", all_ended);
            self.start_agents();
        }
        ids.iter().map(|id| self.outcome(*id)).collect()
    }

    fn outcome(&self, id: JobId) -> Result<(), Value> {
        let job = self.life().daemon.published.jobs.get(id).unwrap();
        match job.status() {
            JobStatus::Success => Ok(()),
            _ => Err(serde_json::to_value(&job.ops[0].result).unwrap()),
        }
    }

    fn has_ended(&self, id: JobId) -> bool {
        let ended = |job: Arc<model::Job>| job.status().is_final();
        self.life().daemon.published.jobs.get(id).is_some_and(ended)
    }

    fn befalls(&mut self, fault: Fault, node: u64) {
        let machine = self.machines.get_mut(&node).unwrap();
        match fault {
            // The agent stands still at its call, which ends with its connection.
            Fault::MasterDies => {
                self.end_master();
                self.start_master();
            }
            Fault::AgentDies => machine.end_agent(),
            Fault::NodeDies => machine.end(),
            Fault::AnswerLost => {
                machine.end_agent();
                self.start_agents();
            }
        }
    }

    /// Lets the master hear of all agents, and these of it, as their exchanges do.
    pub(super) fn settle(&mut self) {
        let config = self.config();
        for (id, machine) in &self.machines {
            let (name, process) = (nodes::name(*id), machine.process().unwrap());
            let instances = machine.instances().unwrap();
            process.block_on(instances.set(&owned(&config, &name))).unwrap();
            let contacts = &self.life().daemon.parts.contacts;
            contacts.set_facts(&name, testing::facts());
            contacts.instances.take(&name, instances.since(None));
        }
        self.one_run_at_most();
    }

    /// Lets the keeper of instances do what it would, until it has nothing more to do.
    pub(super) fn keep(&mut self) {
        let mut jobs = self.newest_job();
        loop {
            self.settle();
            self.have(|life| async move {
                let mut keeping = life.get().unwrap().daemon.keeper.clone().at_work();
                keeping.reconcile().await
            });
            let newest = self.newest_job();
            if newest == jobs {
                return;
            }
            jobs = newest;
            self.until("the end of the keeper's job", |world| world.has_ended(newest));
            // Its next try comes later.
            let later = self.now_ms + u64::try_from(TRIES_MS).unwrap();
            self.until("the time of its next try", |world| world.now_ms >= later);
        }
    }

    fn newest_job(&self) -> JobId {
        let jobs = self.life().daemon.published.jobs.all();
        jobs.iter().map(|job| job.id).max().unwrap_or(JobId(0))
    }

    /// The paths of all files that are disks.
    pub(super) fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        collect(&self.files_below(), &mut found);
        found
    }

    /// Disks that are a node's own vanish.
    pub(super) fn lose_disks(&self) {
        std::fs::remove_dir_all(self.files_below().join("local")).unwrap();
    }

    /// The instances of which a node has a record.
    pub(super) fn on_nodes(&self) -> Vec<(u64, Uuid, Seen)> {
        let told = self.machines.iter().flat_map(|(id, machine)| {
            let sights = machine.instances().unwrap().since(None).instances;
            sights.into_iter().map(|sight| (*id, sight.uuid, sight.seen))
        });
        told.collect()
    }

    /// Has the gate stop a call.
    pub(super) fn cut(&self, at: usize, moment: Moment) {
        let mut gate = self.gate.lock();
        gate.calls.clear();
        gate.cut = Some((at, moment));
    }
}

fn collect(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
}

/// The nodes, what instances may have, and a network for them.
fn prepared(config: &Config, (count, network): (u64, &Network), files: &str) -> Vec<ConfigChange> {
    let mut changes = Vec::new();
    for id in FIRST..FIRST + count {
        let identity = nodes::identity(id, network);
        let mut node = testing::node(identity.name().as_str(), NodeRole::Regular);
        (node.id, node.rpc_port) = (id, nodes::AGENT_PORT);
        node.primary_ip = nodes::address(id);
        node.fingerprint = identity.fingerprint();
        changes.push(ConfigChange::Node(node));
    }
    let kinds = ["diskless", "file", "sharedfile"];
    changes.push(ConfigChange::InstanceSettings(InstanceSettings {
        enabled_hypervisors: vec!["fake".to_owned()],
        enabled_disk_templates: kinds.map(str::to_owned).to_vec(),
        file_storage_dir: format!("{files}/local"),
        shared_file_storage_dir: format!("{files}/shared"),
        ..InstanceSettings::default()
    }));
    let mut net = testing::network("net0", 0);
    let connection = model::network::Connection {
        mode: model::network::NicMode::Bridged,
        link: "br0".parse().unwrap(),
        vlan: String::new(),
    };
    net.groups.insert(config.group("default").unwrap().uuid.clone(), connection);
    changes.push(ConfigChange::Network(net));
    changes
}
