//! Whole lives of a master in one process. The master runs on a disk in memory, with a clock that jumps
//! and clients that do anything. It ends in the middle of an operation on the disk. The answers to
//! clients before that must hold in every later life.
//!
//! A seed decides everything: what the clients do, in which order all steps are taken, where the world
//! ends and what the power cut leaves. `SEED=n cargo xtask test simulation` repeats one.
//!
//! The clients act in [`client`]; [`oracle`] has the answers that they got. Chance has no part in
//! [`endless`] and [`canceled`]. Several members, of which one is master, live in [`cluster`].

mod canceled;
mod client;
mod cluster;
mod endless;
mod instances;
mod oracle;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use engine::simulation::seeds;
use jobs::rounds::{self, Tools};
use jobs::worker::Workers;
use model::layout::Layout;
use model::{Secret, Timestamp, document};
use parking_lot::Mutex;
use queue_format::simulation::{Chance, Hand, Loss, SimDisk, Step, Stop};
use queue_format::{Callbacks, Change, Epoch, Key, Store, StoreOptions};
use rpc::identity::{Authority, NodeIdentity};
use stdx::{Clock, Tasks};
use tokio_util::sync::CancellationToken;

use crate::config::queue::After;
use crate::config::queue::Commits;
use crate::door::service::LuxiService;
use crate::instances::keep::InstanceKeeper;
use crate::process::assembly::{Assembly, Parts};
use crate::process::leadership::{self, Begin, Keys, Master, Publisher};
use crate::process::{self as daemon};
use crate::role::load::{self, Found};
use crate::store::bootstrap;
use client::Excuse;
use oracle::Oracle;

/// Simulated histories in a usual run, and in a long one.
const HISTORIES: (u64, u64) = (300, 6_400);
/// Lives of a master in one history, besides the last one, which no crash ends.
const LIVES_MAX: usize = 4;
/// Clients at the same time.
const CLIENTS: usize = 3;
/// A life ends at latest after so many changing operations on the disk.
const OPERATIONS_MAX: usize = 400;
/// Turns of the last life until its jobs must have ended; hundreds suffice.
const LAST_TURNS_MAX: usize = 100_000;
/// When the first life begins.
const BEGIN: i64 = 1_700_000_000_000_000;
/// The clock jumps by at most so much, in both directions: some 12 years.
const JUMP_SECONDS_MAX: usize = 1 << 28;

/// The start of every history: a new cluster, made by the code that makes real ones.
struct Ground {
    layout: Layout,
    documents: Vec<Change>,
    _dir: tempfile::TempDir,
}

impl Ground {
    fn keys(&self) -> Keys {
        let (identity, membership) = NodeIdentity::load(&self.layout).unwrap();
        let found = self.documents.iter().find_map(|change| match change {
            Change::Put { key, content } if key.as_str() == document::AUTHORITY => Some(content),
            _ => None,
        });
        let key = Secret::new(String::from_utf8(found.unwrap().to_vec()).unwrap());
        let authority = Authority::with_key(&self.layout, &key).unwrap();
        Keys { identity: Arc::new(identity), membership, authority }
    }
}

fn ground() -> &'static Ground {
    static GROUND: OnceLock<Ground> = OnceLock::new();
    GROUND.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        bootstrap::init(&layout, &crate::testing::first_node(), Timestamp::from_micros(BEGIN))
            .unwrap();
        let store = Store::open(&layout.data(), StoreOptions::default()).unwrap();
        let put = |(key, content)| Change::Put { key, content };
        let documents = store.scan("").unwrap().map(|entry| put(entry.unwrap())).collect();
        Ground { layout, documents, _dir: dir }
    })
}

/// A disk with the store of a new cluster.
fn founded() -> SimDisk {
    let disk = SimDisk::empty();
    let store = Store::open_simulated(&disk, options()).unwrap();
    let epoch = Epoch { term: 1, node: 1 };
    let (committer, mut hand) =
        store.start_by_hand(epoch, Callbacks::new(|_: Vec<()>, _| {})).unwrap();
    committer.submit(ground().documents.clone(), ()).unwrap();
    hand.take(Step::Log).unwrap();
    hand.finish().unwrap();
    disk
}

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 64 << 10,
        segments: 2,
        write_behind: Duration::ZERO,
        ..StoreOptions::default()
    }
}

/// How a life is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// In the middle of things.
    Crash,
    /// When the clients have done what they wanted; asked to.
    Asked,
    /// When every job has ended.
    Last,
}

/// The world ended.
#[derive(Debug)]
struct Ended;

struct History {
    disk: SimDisk,
    clock: Clock,
    chance: Chance,
    oracle: Arc<Mutex<Oracle>>,
}

impl History {
    fn new(seed: u64) -> Self {
        let disk = founded();
        let clock = Clock::manual(BEGIN);
        Self { disk, clock, chance: Chance::new(seed), oracle: Arc::default() }
    }

    /// Runs to the end of the last life, and gives all that is stored then.
    fn run(&mut self) -> BTreeMap<Key, Bytes> {
        for _ in 0..=self.chance.below(LIVES_MAX) {
            let ending = if self.chance.below(6) == 0 { Ending::Asked } else { Ending::Crash };
            if ending == Ending::Crash {
                let stop = [Stop::Before, Stop::After][self.chance.below(2)];
                self.disk.stop_after(self.chance.below(OPERATIONS_MAX), stop);
            }
            let ended = self.live(ending);
            let loss = match ended {
                Ok(()) => Loss::Nothing,
                Err(Ended) => [Loss::Nothing, Loss::PowerCut][self.chance.below(2)],
            };
            self.disk = self.disk.crash(loss, &mut self.chance);
        }
        self.live(Ending::Last).expect("nothing ends the last life but its own end");
        let store = Store::open_simulated(&self.disk, options()).unwrap();
        let found = load::load(&store.reader()).unwrap();
        self.oracle.lock().check(&found, &store.reader());
        self.oracle.lock().check_ended(&found, &store.reader());
        store.scan("").unwrap().map(Result::unwrap).collect()
    }

    /// A source of chance that follows from this one.
    fn branch(&mut self) -> Chance {
        Chance::new(u64::try_from(self.chance.below(usize::MAX)).unwrap())
    }

    /// One life on a runtime of its own, which is dropped with everything that runs in it.
    fn live(&mut self, ending: Ending) -> Result<(), Ended> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(self.life(ending))
    }

    async fn life(&mut self, ending: Ending) -> Result<(), Ended> {
        let store = match Store::open_simulated(&self.disk, options()) {
            Ok(store) => store,
            Err(_) if self.disk.is_stopped() => return Err(Ended),
            Err(error) => panic!("the store does not open: {error:?}"),
        };
        let found = load::load(&store.reader()).unwrap();
        self.oracle.lock().check(&found, &store.reader());
        let begin = Start {
            store,
            found,
            clock: self.clock.clone(),
            told: (Arc::clone(&self.oracle), Excuse::Disk(self.disk.clone())),
            clients: (0..CLIENTS).map(|_| self.branch()).collect(),
            ending,
        };
        let hand = Taker::default();
        let mut chance = self.branch();
        let lived = serve(begin, Arc::clone(&hand));
        tokio::pin!(lived);
        let _dropped_first = Release(Arc::clone(&hand));
        let (clock, disk) = (self.clock.clone(), self.disk.clone());
        loop {
            tokio::select! {
                biased;
                () = turn(&mut chance) => {
                    if disk.is_stopped() {
                        return Err(Ended);
                    }
                    maybe_jump(&clock, &mut chance);
                    if let Some(hand) = hand.lock().as_mut()
                        && step(hand, &mut chance).is_err()
                    {
                        assert!(disk.is_stopped(), "the store failed by itself");
                        return Err(Ended);
                    }
                }
                lived = &mut lived => {
                    // Its end waits for the steps that are still to be taken.
                    let committer = lived?;
                    let hand = hand.lock().take();
                    let ended = hand.map_or(Ok(()), Hand::finish);
                    drop(committer);
                    return ended.map_err(|_error| Ended);
                }
            }
        }
    }
}

/// The hand that takes the steps of a store, while there is one.
type Taker = Arc<Mutex<Option<Hand<After>>>>;

/// Lets the hand go before all that may wait for its steps.
struct Release(Taker);

impl Drop for Release {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

/// The oracle, where clients put down their answers, and the disk that may have ended.
type Told = (Arc<Mutex<Oracle>>, Excuse);

/// The start of a life.
struct Start {
    store: Store,
    found: Found,
    clock: Clock,
    told: Told,
    clients: Vec<Chance>,
    ending: Ending,
}

/// The daemon with its clients, until these have done what they wanted.
async fn serve(begin: Start, hand: Taker) -> Result<Arc<Commits>, Ended> {
    let Start { store, found, clock, told, clients, ending } = begin;
    let layout = &ground().layout;
    let keys = ground().keys();
    let me = daemon::check_role(&found.config, keys.identity.name()).unwrap();
    // Nothing but the end of the disk keeps a master from its role.
    let master = take_role(store, found, me, &clock, &hand).await.map_err(|_error| Ended)?;
    let commits = Arc::clone(&master.commits);
    let daemon = Daemon::start(master, layout, keys, &clock);
    if ending == Ending::Last {
        daemon.undrain(&told).await;
        daemon.all_jobs_end().await;
    } else {
        daemon.clients(clients, &told).await;
    }
    daemon.stop().await;
    Ok(commits)
}

/// Has the role taken by a master whose store takes its steps by hand.
async fn take_role(
    store: Store,
    found: Found,
    (id, me): (u64, model::NodeName),
    clock: &Clock,
    hand: &Mutex<Option<Hand<After>>>,
) -> Result<Master, daemon::DaemonError> {
    let epoch = Epoch { term: found.config.role.term + 1, node: id };
    let (reader, position) = (store.reader(), store.recovered().position);
    let metrics = Arc::default();
    let begin = Begin { found, reader, position, me, epoch, metrics, adopt: None };
    let start = |publisher: Publisher| {
        let (committer, taker) = store.start_by_hand(epoch, publisher.callbacks())?;
        *hand.lock() = Some(taker);
        Ok(Commits::local(committer))
    };
    leadership::take_role(begin, clock, start).await
}

/// A master that serves.
struct Daemon {
    parts: Parts,
    layout: Layout,
    service: Arc<LuxiService>,
    published: Arc<crate::config::queue::Published>,
    closing: CancellationToken,
    stop: CancellationToken,
    background: Tasks,
    opcodes: Tasks,
    /// Looks after instances, where a scene asks it to.
    keeper: InstanceKeeper,
}

impl Daemon {
    fn start(master: Master, layout: &Layout, keys: Keys, clock: &Clock) -> Self {
        let Assembly { parts, units, sources, instances: keeper, .. } =
            Assembly::new(&master, layout, keys, clock);
        let (background, opcodes) = (Tasks::new(), Tasks::new());
        let (closing, stop) = (CancellationToken::new(), CancellationToken::new());
        let tools = Tools {
            clock: clock.clone(),
            commits: Arc::clone(&master.commits),
            published: Arc::clone(&master.published),
            workers: Workers::new(
                units,
                parts.writer.clone(),
                parts.locks.clone(),
                opcodes.clone(),
            ),
        };
        let published = Arc::clone(&master.published);
        let job =
            rounds::Run { archived: master.archived, closing: closing.clone(), stop: stop.clone() };
        background.spawn("writer", rounds::run(master.state, tools, master.commands, job));
        let service = Arc::new(LuxiService::new(sources, stdx::Executor::default()));
        let layout = layout.clone();
        Self { parts, layout, service, published, closing, stop, background, opcodes, keeper }
    }

    async fn clients(&self, seeds: Vec<Chance>, told: &Told) {
        let mut clients = tokio::task::JoinSet::new();
        for (number, chance) in seeds.into_iter().enumerate() {
            let service = Arc::clone(&self.service);
            let client = client::Client::new(number, service, chance, told.clone());
            clients.spawn(client.run());
        }
        while let Some(ended) = clients.join_next().await {
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic.into_panic());
            }
        }
    }

    async fn undrain(&self, told: &Told) {
        let service = Arc::clone(&self.service);
        client::Client::new(0, service, Chance::new(0), told.clone()).drain(false).await;
    }

    async fn all_jobs_end(&self) {
        for _ in 0..LAST_TURNS_MAX {
            if !self.published.jobs.any(|job| !job.status().is_final()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a job stays without an end");
    }

    async fn stop(self) {
        self.closing.cancel();
        // The next start fails the jobs that still run.
        drop(tokio::time::timeout(Duration::from_secs(1), self.opcodes.join()).await);
        self.stop.cancel();
        self.background.join().await;
    }
}

/// Lets the others go on, or lets time pass if they all wait for it.
async fn turn(chance: &mut Chance) {
    match chance.below(4) {
        0 => {
            let micros = u64::try_from(chance.below(20_000)).unwrap();
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
        _ => tokio::task::yield_now().await,
    }
}

fn step(hand: &mut Hand<After>, chance: &mut Chance) -> Result<(), queue_format::FatalError> {
    match chance.below(16) {
        0..=5 => hand.take(Step::Log),
        6..=8 => hand.take(Step::Files),
        9 => hand.take(Step::Checkpoint),
        _ => Ok(()),
    }
}

/// Now and then the clock is set, by a little or by years; mostly it just goes on.
fn maybe_jump(clock: &Clock, chance: &mut Chance) {
    let forward = i64::try_from(chance.below(10_000)).unwrap();
    let jump = match chance.below(100) {
        0 => i64::try_from(chance.below(JUMP_SECONDS_MAX)).unwrap() * 1_000_000,
        1 => -i64::try_from(chance.below(JUMP_SECONDS_MAX)).unwrap() * 1_000_000,
        2 => -forward * 1_000,
        _ => forward,
    };
    clock.set(clock.now_micros().saturating_add(jump).max(0));
}

fn run_one(seed: u64) -> BTreeMap<Key, Bytes> {
    History::new(seed).run()
}

#[test]
fn simulation_repeats_with_its_seed() {
    for seed in 0..20 {
        let twice = [seeds::one(seed, run_one), seeds::one(seed, run_one)];
        let [one, other] = &twice;
        for (key, content) in one {
            let there = other.get(key);
            assert!(there == Some(content), "seed {seed}: {key} is {content:?} and {there:?}");
        }
        assert_eq!(one.len(), other.len(), "seed {seed} gave two histories");
    }
}

#[test]
fn simulation_of_lives_and_power_cuts() {
    seeds::many("lives of a master", HISTORIES, |seed| drop(run_one(seed)));
}
