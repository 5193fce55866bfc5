//! Members with disks, and the network between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use queue_format::simulation::{Chance, Loss, RecorderHand, SimDisk, Step};
use queue_format::{Key, ReplicatedStore, StoreOptions};
use tokio::sync::{mpsc, oneshot};

use super::{Net, Node, Unanswered};
use crate::{Answer, Committed, Engine, EngineOptions, EngineStatus, Link, PeerError, Peers};

/// The content of all files of a member.
pub type Files = BTreeMap<Key, Bytes>;

/// Entries that members keep for others: few, so that images are sent.
const ENTRIES_KEPT: usize = 20;

/// Turns in which an engine must have come to its end; some suffice.
const CLOSING_TURNS_MAX: usize = 1_000;

/// Carries questions of engines, and their answers.
pub type Wires = Net<(u8, Bytes), Result<Bytes, String>>;

#[derive(Debug)]
struct End(Wires, u64);

struct Wire(Wires, u64, u64);

impl Peers for End {
    fn link(&self, member: u64, _node: &str) -> Box<dyn Link> {
        Box::new(Wire(self.0.clone(), self.1, member))
    }
}

impl Link for Wire {
    fn ask(&mut self, kind: u8, body: Bytes, limit: Duration) -> Answer<'_> {
        Box::pin(async move {
            let gone = |reason: String, soon| PeerError { reason, soon };
            match self.0.ask(self.1, self.2, (kind, body), limit).await {
                Ok(answer) => answer.map_err(|reason| gone(reason, false)),
                Err(Unanswered::Gone) => Err(gone("nobody is there".to_owned(), false)),
                Err(Unanswered::Late) => Err(gone("no answer in time".to_owned(), true)),
            }
        })
    }
}

/// Ends an engine in order. Its last work, as to forget old entries, waits for its disk.
fn close(node: &Node, engine: Arc<Engine>, hand: &RecorderHand) {
    let (tell, mut told) = oneshot::channel();
    node.spawn(async move { drop(tell.send(engine.close().await)) });
    for _ in 0..CLOSING_TURNS_MAX {
        node.run(1);
        if let Ok(closed) = told.try_recv() {
            return closed.expect("an engine whose disk is well closes");
        }
        hand.take(Step::Log).expect("a disk that is well takes what is committed");
    }
    panic!("an engine does not come to its end");
}

fn store_options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 64 << 10,
        segments: 2,
        write_behind: Duration::ZERO,
        ..StoreOptions::default()
    }
}

/// The process of a member. Its owner's part of it ends first.
#[derive(Debug)]
pub struct Alive<L> {
    /// The owner's part of it.
    pub life: L,
    pub engine: Arc<Engine>,
    hand: RecorderHand,
    frozen_ms: u64,
    lag_ms: u64,
    /// The runtime of its tasks.
    pub node: Node,
}

/// A member, with its process or without.
#[derive(Debug)]
pub struct Member<L> {
    pub disk: SimDisk,
    /// Its process.
    pub alive: Option<Alive<L>>,
}

/// All members, by their ids.
#[derive(Debug)]
pub struct World<L> {
    /// They.
    pub members: BTreeMap<u64, Member<L>>,
    /// The wires by which they ask each other.
    pub wires: Wires,
    /// Decides everything.
    pub chance: Chance,
    /// Time since the beginning.
    pub now_ms: u64,
}

impl<L> World<L> {
    /// One without members. All that happens on this thread from here on follows from `chance`.
    pub fn new(mut chance: Chance) -> Self {
        super::set_chance(Some(branch(&mut chance)));
        let wires = Net::new(branch(&mut chance));
        Self { members: BTreeMap::new(), wires, chance, now_ms: 0 }
    }

    /// Adds a member with an empty disk, which does not run.
    pub fn add(&mut self, id: u64) {
        self.members.insert(id, Member { disk: SimDisk::empty(), alive: None });
    }

    /// Starts the process of a member; `begin` makes the owner's part of it. False where the disk
    /// ends before, or is full.
    ///
    /// # Panics
    /// There is no such member, or its store does not open.
    pub fn start(
        &mut self,
        id: u64,
        begin: impl FnOnce(&Node, &Arc<Engine>, mpsc::Receiver<Committed>) -> L,
    ) -> bool {
        let member = self.members.get_mut(&id).expect("only members are started");
        let node = Node::new();
        let mut options = EngineOptions::new(id, &format!("n{id}"), store_options());
        options.kept.entries = ENTRIES_KEPT;
        let peers = Arc::new(End(self.wires.clone(), id));
        let opened = node.block_on(Engine::open_simulated(&member.disk, options, peers));
        let (engine, committed, hand) = match opened {
            Ok(opened) => opened,
            Err(_) if member.disk.is_stopped() || member.disk.is_full() => return false,
            Err(error) => panic!("the store of {id} does not open: {error:?}"),
        };
        let engine = Arc::new(engine);
        let life = begin(&node, &engine, committed);
        member.alive = Some(Alive { life, engine, hand, frozen_ms: 0, lag_ms: 0, node });
        true
    }

    /// Ends a process where it is, if it runs.
    ///
    /// # Panics
    /// There is no such member.
    pub fn crash(&mut self, id: u64, loss: Loss) {
        let member = self.members.get_mut(&id).expect("only members crash");
        // Nobody sees what the process does from here on.
        member.disk = member.disk.crash(loss, &mut self.chance);
        if let Some(alive) = member.alive.take() {
            alive.hand.end();
            drop(alive);
        }
    }

    /// The engines of those that run.
    pub fn engines(&self) -> impl Iterator<Item = (u64, &Arc<Engine>)> {
        self.members.iter().filter_map(|(id, member)| Some((*id, &member.alive.as_ref()?.engine)))
    }

    /// The process of a member.
    pub fn alive(&self, id: u64) -> Option<&Alive<L>> {
        self.members.get(&id)?.alive.as_ref()
    }

    /// Some of those whose process runs.
    pub fn any_alive(&mut self) -> Option<u64> {
        let alive: Vec<u64> = self.engines().map(|(id, _)| id).collect();
        (!alive.is_empty()).then(|| alive[self.chance.below(alive.len())])
    }

    /// A little time passes, letters arrive, and everyone does something.
    pub fn turn(&mut self) {
        let passed = match self.chance.below(20) {
            0..=7 => 0,
            8..=11 => 1,
            12..=15 => 5,
            16..=18 => 20,
            _ => 60,
        };
        self.now_ms += passed;
        for member in self.members.values_mut() {
            if let Some(alive) = &mut member.alive {
                alive.pass(passed);
            }
        }
        for letter in self.wires.arrive(self.now_ms) {
            let Some(alive) = self.members.get(&letter.to).and_then(|one| one.alive.as_ref())
            else {
                continue;
            };
            let (engine, wires) = (alive.engine.clone(), self.wires.clone());
            alive.node.spawn(async move {
                let (kind, body) = letter.question.clone();
                let answer = engine.answer(letter.from, kind, body).await;
                wires.answer(letter, answer.map_err(|error| error.to_string()));
            });
        }
        let ids: Vec<u64> = self.engines().map(|(id, _)| id).collect();
        for id in ids {
            self.work(id);
        }
    }

    /// Lets a node and its disk do something.
    fn work(&mut self, id: u64) {
        let chance = &mut self.chance;
        let member = self.members.get_mut(&id).expect("only members work");
        let Some(alive) = member.alive.as_mut().filter(|alive| alive.frozen_ms == 0) else {
            return;
        };
        let step = match chance.below(16) {
            0..=8 => Some(Step::Log),
            9..=11 => Some(Step::Files),
            12 => Some(Step::Checkpoint),
            _ => None,
        };
        alive.node.run(1 + chance.below(3));
        if let Some(step) = step
            && let Err(error) = alive.hand.take(step)
        {
            assert!(member.disk.is_stopped(), "the store of {id} failed by itself: {error:?}");
        }
        assert!(!super::seeds::has_panicked(), "a task panicked, as was told above");
        if member.disk.is_stopped() {
            let loss = [Loss::Nothing, Loss::PowerCut][self.chance.below(2)];
            self.crash(id, loss);
        }
    }

    /// Ends all in order, and gives what their files hold, which must be the same.
    ///
    /// # Panics
    /// One does not run or does not close, or they differ.
    pub fn same_files(&mut self) -> Files {
        let mut same: Option<Files> = None;
        for (id, member) in &mut self.members {
            let Alive { node, engine, life, hand, .. } =
                member.alive.take().expect("all of them run");
            drop(life);
            close(&node, engine, &hand);
            drop(node);
            let store = ReplicatedStore::open_simulated(&member.disk, store_options(), *id);
            let store = store.expect("a store that was closed opens");
            let scan = store.reader().scan("").expect("a simulated disk is read");
            let files = scan.map(|entry| entry.expect("a simulated disk is read")).collect();
            match &same {
                Some(same) => assert!(*same == files, "{id} has other files"),
                None => same = Some(files),
            }
        }
        same.unwrap_or_default()
    }

    /// Whether all run, somebody leads, and all have applied the same log.
    pub fn is_alike(&self) -> bool {
        let status: Vec<_> = self.status().map(|(_, status)| status).collect();
        let last = status.iter().map(|one| one.last).max().unwrap_or_default();
        status.iter().any(|one| one.takes_proposals().is_some())
            && status.len() == self.members.len()
            && status.iter().all(|one| one.applied == last && one.last == last)
    }

    /// The member that leads and is heard by a majority.
    pub fn leader(&self) -> Option<(u64, Arc<Engine>)> {
        let mut status = self.status();
        let (id, _) = status.find(|(_, status)| status.takes_proposals().is_some())?;
        Some((id, self.alive(id)?.engine.clone()))
    }

    /// How those that run stand, each by its own clock.
    pub fn status(&self) -> impl Iterator<Item = (u64, EngineStatus)> {
        self.members.iter().filter_map(|(id, member)| {
            let alive = member.alive.as_ref()?;
            Some((*id, alive.node.look(|| alive.engine.status())))
        })
    }

    /// The members that do not run.
    pub fn down(&self) -> Vec<u64> {
        let down = self.members.iter().filter(|(_, member)| member.alive.is_none());
        down.map(|(id, _)| *id).collect()
    }

    /// Cuts some ways of a member, in one direction or in both; gives those, from whom and to whom.
    pub fn cut_some(&mut self) -> Vec<(u64, u64)> {
        let ids: Vec<u64> = self.members.keys().copied().collect();
        let one = ids[self.chance.below(ids.len())];
        let ways = 1 + self.chance.below(3);
        let mut cut = Vec::new();
        for other in ids {
            if other != one && self.chance.below(3) > 0 {
                if ways != 1 {
                    cut.push((one, other));
                }
                if ways != 2 {
                    cut.push((other, one));
                }
            }
        }
        cut.iter().for_each(|(from, to)| self.wires.cut(*from, *to));
        cut
    }

    /// Lets a process rest for so long, while time goes on.
    pub fn freeze(&mut self, id: u64, ms: u64) {
        if let Some(alive) = self.members.get_mut(&id).and_then(|one| one.alive.as_mut()) {
            alive.frozen_ms = ms;
        }
    }

    /// Network and disks are well again. Processes that have met an end stay down.
    pub fn heal(&mut self) {
        self.wires.heal();
        let ids: Vec<u64> = self.members.keys().copied().collect();
        for id in ids {
            let disk = &self.members[&id].disk;
            disk.set_full(false);
            if disk.is_stopped() {
                self.crash(id, Loss::Nothing);
            } else {
                disk.go_on();
            }
        }
    }
}

impl<L> Alive<L> {
    /// Time passes; for a frozen process only the clock knows.
    fn pass(&mut self, ms: u64) {
        if self.frozen_ms > 0 {
            self.frozen_ms = self.frozen_ms.saturating_sub(ms);
            self.lag_ms += ms;
        } else if ms > 0 {
            let passed = ms + std::mem::take(&mut self.lag_ms);
            self.node.advance(Duration::from_millis(passed));
        }
    }
}

/// A source of chance that follows from this one.
pub fn branch(chance: &mut Chance) -> Chance {
    Chance::new(chance.below(usize::MAX) as u64)
}
