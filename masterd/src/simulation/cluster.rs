//! Several members in one process, each with its engine and its disk, of which one is master. Answers to
//! clients of any leadership must hold in every later one, and at the end all files are the same.
//!
//! [`process`] is one member's part: the daemon's own life, with the vote check over simulated streams.
//! Each node has its agent of [`agents`]; [`calls`] has what agents may not do. All of these run on
//! [`nodes`]. This file has the events that befall them.

mod agents;
mod calls;
pub(super) mod nodes;
mod process;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::simulation::{Files, World, branch, seeds};
use engine::{Engine, MembersChange};
use model::Job;
use parking_lot::Mutex;
use queue_format::simulation::{Chance, Loss, Stop};
use queue_format::{Batch, Change};
use rpc::simulation::Network;
use stdx::Clock;

use self::agents::Agents;
use self::calls::Calls;
use self::process::{Begin, Process};
use super::BEGIN;
use super::oracle::Oracle;
use crate::role::load;

/// Simulated histories in a usual run, and in a long one.
const HISTORIES: (u64, u64) = (60, 2_400);
/// Seeds of which one shows that there are no fences; a few suffice.
const UNFENCED_MAX: u64 = 60;
/// Seeds of each history that is told what befalls it: of clusters of all sizes.
const DIRECTED: u64 = 10;
/// Time in which the role has moved by itself, if it does, in simulated milliseconds.
const SILENCE_MS: u64 = 30_000;
/// Seeds that are played twice.
const REPEATED: u64 = 5;
/// Time in which things befall members.
const TROUBLE_MS: usize = 6_000;
/// Turns until those who are well must have done what is asked of them.
const TURNS_MAX: usize = 30_000;
/// Operations of a disk after which it may stop.
const OPERATIONS_MAX: usize = 100;
/// A process rests for up to so long, and a little more.
const FREEZE_MS: usize = 4_000;
/// A clock jumps by at most so much: some weeks.
const JUMP_SECONDS_MAX: usize = 1 << 21;
/// Turns between two failovers, where nobody leads.
const FAIL_OVER_AFTER: usize = 1_000;

struct History {
    world: World<Process>,
    /// Carries calls to agents.
    network: Network,
    agents: Agents,
    calls: Arc<Mutex<Calls>>,
    clocks: BTreeMap<u64, Clock>,
    oracle: Arc<Mutex<Oracle>>,
    /// The members have a cluster, and live as such.
    founded: bool,
    /// The role moves by itself where there are enough.
    by_itself: bool,
    /// No more clients come.
    quiet: Arc<AtomicBool>,
    /// The member that is to take the role, and when.
    heir: Option<(u64, u64)>,
}

impl History {
    /// One whose agents have their fences, or not.
    fn new(seed: u64, fenced: bool) -> Self {
        let mut world = World::new(Chance::new(seed));
        let count: u64 = [3, 3, 3, 5, 2][world.chance.below(5)];
        let clocks = (1..=count).map(|id| (id, Clock::manual(BEGIN))).collect();
        let network = Network::new(branch(&mut world.chance));
        let calls = Arc::default();
        let agents = Agents::new(count, (&network, &calls), fenced, &mut world.chance);
        let (oracle, quiet) = (Arc::default(), Arc::default());
        let mut history = Self {
            world,
            network,
            agents,
            calls,
            clocks,
            oracle,
            quiet,
            founded: false,
            by_itself: false,
            heir: None,
        };
        history.begin(count);
        history
    }

    /// The first founds a cluster with nodes for all, and takes the others in.
    fn begin(&mut self, count: u64) {
        for id in 1..=count {
            self.world.add(id);
            self.start(id);
        }
        let ready = Arc::new(AtomicBool::new(false));
        let incarnations = self.world.engines().map(|(_, engine)| engine.recovered().incarnation);
        let incarnations: Vec<_> = incarnations.collect();
        self.by_itself = self.world.chance.below(2) == 0;
        let documents = nodes::documents(&incarnations, self.by_itself);
        let alive = self.world.alive(1).expect("it was started");
        let (engine, done) = (Arc::clone(&alive.engine), Arc::clone(&ready));
        alive.node.spawn(async move {
            found(&engine, count, documents).await;
            done.store(true, Ordering::Relaxed);
        });
        self.until("the cluster is there", |history| {
            ready.load(Ordering::Relaxed) && history.world.is_alike()
        });
        self.founded = true;
        (1..=count).for_each(|id| self.restart(id));
        self.until("a first leader", |history| history.leads().is_some());
    }

    fn start(&mut self, id: u64) {
        let begin = Begin {
            id,
            nodes: self.clocks.len() as u64,
            network: self.network.clone(),
            clock: self.clocks[&id].clone(),
            oracle: Arc::clone(&self.oracle),
            chance: branch(&mut self.world.chance),
            quiet: Arc::clone(&self.quiet),
            founded: self.founded,
        };
        self.world.start(id, |node, engine, news| Process::begin(begin, node, engine, news));
    }

    fn run(mut self) -> (Tally, Files) {
        self.trouble();
        self.quiet.store(true, Ordering::Relaxed);
        let files = self.end_well();
        assert_eq!(self.calls.lock().finding(), None);
        let ([leads, jobs, refused], [calls, superseded]) =
            (self.oracle.lock().tally(), self.calls.lock().tally());
        ([leads, jobs, refused, calls, superseded], files)
    }

    /// Things befall the cluster, until an agent has done what it must not.
    fn trouble(&mut self) {
        let end_ms = self.world.now_ms + 1_000 + self.world.chance.below(TROUBLE_MS) as u64;
        while self.world.now_ms < end_ms && self.calls.lock().finding().is_none() {
            self.turn();
            self.befall();
            if let Some((at_ms, heir)) = self.heir
                && at_ms <= self.world.now_ms
            {
                self.heir = None;
                self.fail_over(heir);
            }
        }
    }

    /// A little time passes, on the wall too.
    fn turn(&mut self) {
        let before = self.world.now_ms;
        self.world.turn();
        let passed_ms = self.world.now_ms - before;
        self.network.arrive(self.world.now_ms);
        self.agents.turn(passed_ms, &mut self.world.chance);
        assert!(!seeds::has_panicked(), "a task panicked, as was told above");
        let passed = i64::try_from(passed_ms).unwrap() * 1_000;
        for clock in self.clocks.values() {
            let jump = match self.world.chance.below(20_000) {
                0 => i64::try_from(self.world.chance.below(JUMP_SECONDS_MAX)).unwrap() * 1_000_000,
                1 => -i64::try_from(self.world.chance.below(JUMP_SECONDS_MAX)).unwrap() * 1_000_000,
                _ => 0,
            };
            clock.set((clock.now_micros() + passed + jump).max(0));
        }
        let ended = |id: &u64| self.world.alive(*id).is_some_and(|one| one.life.has_ended());
        let ended: Vec<u64> = self.world.members.keys().copied().filter(ended).collect();
        ended.into_iter().for_each(|id| self.restart(id));
    }

    fn befall(&mut self) {
        match self.world.chance.below(350) {
            0 => {
                if let Some(id) = self.world.any_alive() {
                    self.crash(id);
                }
            }
            1..=5 => self.restart_one(),
            6 => {
                for (from, to) in self.world.cut_some() {
                    self.network.cut(nodes::address(from), nodes::address(to));
                }
            }
            7..=9 => {
                self.world.wires.heal();
                self.network.heal();
            }
            10..=17 => {
                let idle = self.leads().is_none();
                if (idle || self.world.chance.below(8) == 0)
                    && let Some(id) = self.world.any_alive()
                {
                    self.fail_over(id);
                }
            }
            18 => {
                let ms = 100 + self.world.chance.below(FREEZE_MS) as u64;
                if let Some(id) = self.world.any_alive() {
                    self.world.freeze(id, ms);
                }
            }
            19 => {
                if let Some(id) = self.world.any_alive() {
                    self.world.members[&id].disk.set_full(true);
                }
            }
            20 => {
                let stop = [Stop::Before, Stop::After][self.world.chance.below(2)];
                let operations = self.world.chance.below(OPERATIONS_MAX);
                if let Some(id) = self.world.any_alive() {
                    self.world.members[&id].disk.stop_after(operations, stop);
                }
            }
            22..=25 => self.world.members.values().for_each(|member| member.disk.set_full(false)),
            21 => {
                let one_in = 2 + self.world.chance.below(20);
                self.world.wires.lose(one_in);
                self.network.lose(one_in);
            }
            31 | 32 => self.contest(),
            26 => {
                let id = 1 + self.world.chance.below(self.clocks.len()) as u64;
                self.agents.crash(id);
            }
            27..=29 => {
                let id = 1 + self.world.chance.below(self.clocks.len()) as u64;
                self.agents.start(id);
            }
            30 => {
                let id = 1 + self.world.chance.below(self.clocks.len()) as u64;
                self.agents.freeze(id, 100 + self.world.chance.below(FREEZE_MS) as u64);
            }
            _ => {}
        }
    }

    /// A process ends, or all of its machine.
    fn crash(&mut self, id: u64) {
        let powerless = self.world.chance.below(2) == 0;
        self.network.set_powerless(powerless);
        if powerless {
            self.agents.crash(id);
        }
        let loss = if powerless { Loss::PowerCut } else { Loss::Nothing };
        self.world.crash(id, loss);
        self.network.set_powerless(false);
    }

    /// The master of the moment is not heard, or gone, and another is to follow it soon: what it began
    /// may still run then.
    fn contest(&mut self) {
        let Some((master, _)) = self.world.leader() else { return };
        match self.world.chance.below(4) {
            0 => {
                let ms = 2_000 + self.world.chance.below(FREEZE_MS) as u64;
                self.world.freeze(master, ms);
            }
            1 => self.crash(master),
            ways => {
                for other in self.clocks.keys().filter(|other| **other != master) {
                    self.world.wires.cut(master, *other);
                    self.world.wires.cut(*other, master);
                    // It hears no other member, and may still reach agents.
                    if ways == 3 {
                        self.network.cut(nodes::address(master), nodes::address(*other));
                    }
                }
            }
        }
        let others: Vec<u64> = self.clocks.keys().copied().filter(|id| *id != master).collect();
        let heir = others[self.world.chance.below(others.len())];
        self.heir = Some((self.world.now_ms + 1_000 + self.world.chance.below(1_000) as u64, heir));
    }

    fn restart_one(&mut self) {
        let down = self.world.down();
        if !down.is_empty() {
            let id = down[self.world.chance.below(down.len())];
            self.start(id);
        }
    }

    fn restart(&mut self, id: u64) {
        self.world.crash(id, Loss::Nothing);
        self.start(id);
    }

    fn fail_over(&self, id: u64) {
        if let Some(alive) = self.world.alive(id) {
            alive.life.take_role();
        }
    }

    /// The member that leads by its own word and by the world's.
    fn leads(&self) -> Option<u64> {
        let (id, _) = self.world.leader()?;
        self.world.alive(id)?.life.leads().then_some(id)
    }

    /// Everything is well again: a failover gives a master, all jobs end, all members are alike.
    fn end_well(&mut self) -> Files {
        self.world.heal();
        self.network.heal();
        for turn in 0..TURNS_MAX {
            self.turn();
            self.restart_one();
            self.agents.start_all();
            match self.leads() {
                Some(id) if turn.is_multiple_of(50) => {
                    let alive = self.world.alive(id).expect("it leads");
                    if alive.life.is_done() && self.world.is_alike() {
                        return self.check_end(id);
                    }
                }
                None if turn.is_multiple_of(FAIL_OVER_AFTER) => {
                    let ids: Vec<u64> = self.world.engines().map(|(id, _)| id).collect();
                    self.fail_over(ids[turn / FAIL_OVER_AFTER % ids.len()]);
                }
                _ => {}
            }
        }
        self.never("all jobs end and all members are alike")
    }

    fn check_end(&mut self, id: u64) -> Files {
        let reader = self.world.alive(id).expect("it leads").engine.reader();
        let found = load::load(&reader).unwrap();
        let mut oracle = self.oracle.lock();
        oracle.check(&found, &reader);
        oracle.check_ended(&found, &reader);
        drop(oracle);
        self.world.same_files()
    }

    fn until(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        for _ in 0..TURNS_MAX {
            self.turn();
            if enough(self) {
                return;
            }
        }
        self.never(what)
    }

    fn never(&self, what: &str) -> ! {
        for (id, engine) in self.world.engines() {
            let leads = self.world.alive(id).is_some_and(|alive| alive.life.leads());
            eprintln!("{id}, leads: {leads}: {:?}", engine.status());
        }
        panic!("it never came to be that {what}")
    }
}

/// Makes a cluster of `count` nodes, which these documents tell of.
async fn found(engine: &Engine, count: u64, documents: Vec<Change>) {
    let epoch = engine.take_over(std::time::Duration::from_secs(60)).await.unwrap();
    engine.propose(epoch, Batch(documents)).await.unwrap();
    for member in 2..=count {
        let node = format!("n{member}");
        engine.change_members(MembersChange::AddLearner { member, node }).await.unwrap();
    }
    if count > 2 {
        let voters = (1..=count).collect();
        engine.change_members(MembersChange::SetVoters(voters)).await.unwrap();
    }
}

/// Leaderships, jobs accepted, jobs refused, calls of agents, and those that a later leadership ended.
type Tally = [u64; 5];

fn run_one(seed: u64) -> (Tally, Files) {
    History::new(seed, true).run()
}

/// The part of the files that a seed decides; it does not decide the identity of a cluster.
fn decided((tally, files): (Tally, Files)) -> (Tally, Vec<(String, String)>) {
    let jobs = files.into_iter().filter(|(key, _)| key.as_str().starts_with("queue/"));
    let jobs = jobs.map(|(key, content)| {
        let text = serde_json::from_slice::<Job>(&content).map(|job| format!("{job:?}"));
        (key.to_string(), text.unwrap_or_default())
    });
    (tally, jobs.collect())
}

#[test]
fn simulation_of_a_cluster_repeats_with_its_seed() {
    for seed in 0..REPEATED {
        let twice = [seeds::one(seed, run_one), seeds::one(seed, run_one)].map(decided);
        assert!(twice[0] == twice[1], "seed {seed} gave two histories");
    }
}

/// Without fences, calls of two masters run together, and that is seen.
#[test]
fn simulation_of_agents_without_fences_is_found_out() {
    let found = (0..UNFENCED_MAX).any(|seed| {
        seeds::one(seed, |seed| {
            let mut history = History::new(seed, false);
            history.trouble();
            let calls = history.calls.lock();
            calls.finding().is_some()
        })
    });
    assert!(found, "agents that obey anybody are not found out");
}

/// The role moves between two that live, as the older one hands it over.
#[test]
fn simulation_of_a_hand_over() {
    for seed in 0..DIRECTED {
        seeds::one(seed, |seed| {
            let mut history = History::new(seed, true);
            let from = history.leads().expect("somebody leads at the beginning");
            let to = from % history.clocks.len() as u64 + 1;
            // While jobs come, some always takes longer than it is waited for.
            history.quiet.store(true, Ordering::Relaxed);
            for turn in 0..TURNS_MAX {
                if turn.is_multiple_of(FAIL_OVER_AFTER) {
                    history.fail_over(to);
                }
                history.turn();
                if history.leads() == Some(to) {
                    break;
                }
            }
            assert_eq!(history.leads(), Some(to), "seed {seed}");
        });
    }
}

/// The role moves by itself when its master ends, where that is wanted, and nowhere else does it move
/// by itself; who merely starts takes it from nobody.
#[test]
fn simulation_of_the_end_of_a_master() {
    let mut moved = [false; 2];
    for seed in 0..DIRECTED {
        seeds::one(seed, |seed| {
            let mut history = History::new(seed, true);
            let from = history.leads().expect("somebody leads at the beginning");
            history.crash(from);
            let end_ms = history.world.now_ms + SILENCE_MS;
            history.until("time passes", |history| {
                history.world.now_ms > end_ms || history.leads().is_some()
            });
            let by_itself = history.by_itself && history.clocks.len() > 2;
            assert_eq!(history.leads().is_some(), by_itself, "seed {seed}");
            moved[usize::from(by_itself)] = true;
            let to = history.leads().unwrap_or(from);
            history.start(from);
            history.until("somebody leads again", |history| history.leads() == Some(to));
        });
    }
    assert_eq!(moved, [true; 2], "the seeds are of one kind");
}

#[test]
fn simulation_of_a_cluster_and_its_clients() {
    let tally = [const { AtomicU64::new(0) }; 5];
    seeds::many("clusters", HISTORIES, |seed| {
        for (sum, more) in tally.iter().zip(run_one(seed).0) {
            sum.fetch_add(more, Ordering::Relaxed);
        }
    });
    let [leads, jobs, refused, calls, superseded] = tally.map(AtomicU64::into_inner);
    eprintln!(
        "clusters: {leads} leaderships, {jobs} jobs accepted and {refused} refused, {calls} calls of \
         agents, {superseded} of them ended by a later leadership"
    );
}
