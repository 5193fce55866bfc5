//! The troubles that befall members, and the end of a history.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use queue_format::simulation::{Chance, Loss, Stop};

use super::oracle::Oracle;
use crate::simulation::World;
use crate::{Engine, HandOverError, MembersChange, ProposeError};

/// Time in which things befall members.
const TROUBLE_MS: usize = 4_000;
/// Turns until those who are well must have done what is asked of them; hundreds suffice.
const TURNS_MAX: usize = 15_000;
/// Operations of a disk after which it may stop.
const OPERATIONS_MAX: usize = 60;
/// Bytes of a batch are up to ten times this.
const BATCH_BYTES: usize = 400;
/// How long an election may take.
const ELECTION: Duration = Duration::from_secs(4);

pub(super) struct History {
    world: World<()>,
    oracle: Arc<Mutex<Oracle>>,
    /// Ids of those who vote, and of those who only follow.
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
    next_id: u64,
    /// One whose disk was emptied, until another one is in its place.
    lost: Option<(u64, u64)>,
    /// A change of members is under way.
    changing: Arc<Mutex<bool>>,
    /// Members that could not hand over, and are to begin anew.
    stuck: Arc<Mutex<BTreeSet<u64>>>,
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
        let mut world = World::new(Chance::new(seed));
        let count = [3, 3, 3, 3, 5, 4, 2, 1][world.chance.below(8)];
        let mut history = Self {
            world,
            oracle: Arc::default(),
            voters: [1].into(),
            learners: BTreeSet::new(),
            next_id: count + 1,
            lost: None,
            changing: Arc::default(),
            stuck: Arc::default(),
        };
        history.begin(count);
        history
    }

    /// The first leads alone and takes the others in. With two, the other one only follows.
    fn begin(&mut self, count: u64) {
        (1..=count).for_each(|id| self.world.add(id));
        self.start(1);
        self.elect(1);
        self.until("leads", |world| leads(world, 1));
        (2..=count).for_each(|id| self.start(id));
        self.learners = (2..=count).collect();
        if count > 2 {
            self.voters.append(&mut self.learners);
        }
        let all = self.voters.union(&self.learners).count();
        while self.world.alive(1).is_none_or(|alive| {
            let members = alive.engine.status().members;
            members.voters != self.voters || members.nodes.len() != all
        }) {
            let (voters, learners) = (self.voters.clone(), self.learners.clone());
            self.change(1, None, voters, learners);
            let changing = self.changing.clone();
            self.until("takes the others in", |_| !*changing.lock());
        }
    }

    /// Plays to the end; gives what tells it from others, and how much was acknowledged.
    pub(super) fn run(mut self) -> (u64, usize) {
        let end_ms = self.world.now_ms + 1_000 + self.world.chance.below(TROUBLE_MS) as u64;
        while self.world.now_ms < end_ms {
            self.world.turn();
            self.befall();
        }
        self.heal();
        let files = self.world.same_files();
        let oracle = self.oracle.lock();
        oracle.check(&files);
        (oracle.trace(), oracle.acknowledgements())
    }

    fn befall(&mut self) {
        self.restart_stuck();
        if self.world.chance.below(6) == 0 {
            self.propose();
        }
        match self.world.chance.below(300) {
            0 => self.crash(),
            1..=4 => self.restart_one(),
            5 => drop(self.world.cut_some()),
            6..=7 => self.world.wires.heal(),
            8..=12 => self.fail_over(),
            13 => self.freeze(),
            14 => self.hand_over(),
            15 => self.fill_disk(),
            16 => self.stop_disk(),
            17 => self.lose_disk(),
            18 => self.world.wires.lose(2 + self.world.chance.below(20)),
            19..=30 => self.replace_lost(),
            _ => {}
        }
    }

    /// Gives every leader something to commit.
    fn propose(&mut self) {
        let leaders: Vec<_> = self
            .world
            .engines()
            .filter_map(|(id, engine)| Some((id, engine.clone(), engine.leads()?)))
            .collect();
        for (id, engine, epoch) in leaders {
            let oracle = self.oracle.clone();
            let (pick, bytes) = {
                let chance = &mut self.world.chance;
                (chance.below(1_000), chance.below(BATCH_BYTES))
            };
            let (what, batch, before) = oracle.lock().wish(pick, bytes);
            let disk = self.world.members[&id].disk.clone();
            let Some(alive) = self.world.alive(id) else { continue };
            alive.node.spawn(async move {
                let answer = engine.propose(epoch, batch).await;
                // Its process has ended in the middle of reading: nobody hears of it.
                if !matches!(answer, Err(ProposeError::Move(_)) if disk.is_stopped()) {
                    oracle.lock().told((what, epoch, before), &answer);
                }
            });
        }
    }

    fn loss(&mut self) -> Loss {
        [Loss::Nothing, Loss::PowerCut][self.world.chance.below(2)]
    }

    fn crash(&mut self) {
        let loss = self.loss();
        if let Some(id) = self.world.any_alive() {
            self.crash_with(id, loss);
        }
    }

    fn crash_with(&mut self, id: u64, loss: Loss) {
        self.oracle.lock().note(("crashed", id));
        self.world.crash(id, loss);
    }

    fn start(&mut self, id: u64) {
        let oracle = self.oracle.clone();
        self.world.start(id, |node, engine, mut committed| {
            oracle.lock().note(("started", id, engine.position().index));
            node.spawn(async move {
                while let Some(committed) = committed.recv().await {
                    oracle.lock().committed(id, &committed);
                }
            });
        });
    }

    fn restart_one(&mut self) {
        let down = self.world.down();
        if !down.is_empty() {
            let id = down[self.world.chance.below(down.len())];
            self.start(id);
        }
    }

    fn elect(&mut self, id: u64) {
        let Some(alive) = self.world.alive(id) else { return };
        let engine = alive.engine.clone();
        alive.node.spawn(async move { drop(engine.take_over(ELECTION).await) });
    }

    /// Mostly when nobody leads.
    fn fail_over(&mut self) {
        let somebody = self.world.engines().any(|(_, engine)| engine.leads().is_some());
        if (!somebody || self.world.chance.below(8) == 0)
            && let Some(id) = self.world.any_alive()
            && !self.has_nothing(id)
        {
            self.elect(id);
        }
    }

    /// A member that was just invited is not asked to lead: it would be a cluster of its own.
    fn has_nothing(&self, id: u64) -> bool {
        self.world.alive(id).is_some_and(|alive| alive.engine.status().last.index == 0)
    }

    /// The members that vote as far as they know: of two, the other one was perhaps given a vote.
    fn able_to_lead(&self) -> Vec<u64> {
        let able = |(id, engine): (u64, &Arc<Engine>)| {
            engine.status().members.voters.contains(&id).then_some(id)
        };
        self.world.engines().filter_map(able).collect()
    }

    fn hand_over(&mut self) {
        let leader = self.world.leader();
        let to = self.world.any_alive();
        if let (Some((id, engine)), Some(to)) = (leader, to)
            && let Some(alive) = self.world.alive(id)
        {
            let stuck = self.stuck.clone();
            alive.node.spawn(async move {
                if let Err(HandOverError::Stuck { .. }) = engine.hand_over(to, ELECTION).await {
                    stuck.lock().insert(id);
                }
            });
        }
    }

    /// A member whose engine takes no proposals any more begins anew, as its owner is told to.
    fn restart_stuck(&mut self) {
        let stuck = std::mem::take(&mut *self.stuck.lock());
        for id in stuck {
            if self.world.alive(id).is_some() {
                self.crash_with(id, Loss::Nothing);
                self.start(id);
            }
        }
    }

    fn freeze(&mut self) {
        let ms = 100 + self.world.chance.below(4_000) as u64;
        if let Some(id) = self.world.any_alive() {
            self.world.freeze(id, ms);
        }
    }

    fn fill_disk(&mut self) {
        if let Some(id) = self.world.any_alive() {
            let full = !self.world.members[&id].disk.is_full();
            self.world.members[&id].disk.set_full(full);
        }
    }

    /// A process ends in the middle of an operation of its disk.
    fn stop_disk(&mut self) {
        let stop = [Stop::Before, Stop::After][self.world.chance.below(2)];
        let operations = self.world.chance.below(OPERATIONS_MAX);
        if let Some(id) = self.world.any_alive() {
            self.world.members[&id].disk.stop_after(operations, stop);
        }
    }

    /// A disk is emptied. Its member never comes back: another one with a new id takes its place.
    /// Only where the others are enough without it, one at a time.
    fn lose_disk(&mut self) {
        let ids: Vec<u64> = self.voters.iter().copied().collect();
        let id = ids[self.world.chance.below(ids.len())];
        if self.lost.is_some() || self.voters.len() < 3 || *self.changing.lock() {
            return;
        }
        self.crash_with(id, Loss::PowerCut);
        self.world.members.remove(&id);
        let new = self.next_id;
        self.next_id += 1;
        self.world.add(new);
        self.lost = Some((id, new));
        self.oracle.lock().note(("lost", id, new));
    }

    /// The leader puts the new member in the place of the lost one.
    fn replace_lost(&mut self) {
        let Some((lost, new)) = self.lost else { return };
        if *self.changing.lock() {
            return;
        }
        let Some((leader, engine)) = self.world.leader() else { return };
        let members = engine.status().members;
        if !members.nodes.contains_key(&lost) && members.voters.contains(&new) {
            self.voters.remove(&lost);
            self.voters.insert(new);
            self.lost = None;
            return;
        }
        if self.world.alive(new).is_none() {
            self.start(new);
        }
        let mut voters = self.voters.clone();
        voters.remove(&lost);
        voters.insert(new);
        let learners = self.learners.clone();
        self.change(leader, Some(lost), voters, learners);
    }

    /// Has the leader make these the members, step by step, as far as it comes.
    fn change(
        &mut self,
        leader: u64,
        gone: Option<u64>,
        voters: BTreeSet<u64>,
        learners: BTreeSet<u64>,
    ) {
        let Some(alive) = self.world.alive(leader) else { return };
        *self.changing.lock() = true;
        let (engine, done) = (alive.engine.clone(), Done(self.changing.clone()));
        alive.node.spawn(async move {
            let _done = done;
            let done = change_all(&engine, gone, voters, learners).await;
            tracing::debug!(?done, "members changed");
        });
    }

    /// Everything is well again: the members elect one who is asked to, and come to be alike.
    fn heal(&mut self) {
        self.world.heal();
        let before = self.oracle.lock().acknowledgements();
        for turn in 0..TURNS_MAX {
            self.world.turn();
            // A disk may still have had its end before it.
            self.restart_one();
            self.restart_stuck();
            if turn.is_multiple_of(400) && self.world.leader().is_none() {
                let able = self.able_to_lead();
                if !able.is_empty() {
                    self.elect(able[turn / 400 % able.len()]);
                }
            }
            let acknowledged = self.oracle.lock().acknowledgements() > before;
            if turn.is_multiple_of(100) {
                self.replace_lost();
                if !acknowledged {
                    self.propose();
                }
            }
            if acknowledged
                && turn.is_multiple_of(20)
                && self.lost.is_none()
                && self.world.is_alike()
            {
                return;
            }
        }
        self.never("everyone has everything");
    }

    fn until(&mut self, what: &str, enough: impl Fn(&World<()>) -> bool) {
        for _ in 0..TURNS_MAX {
            self.world.turn();
            if enough(&self.world) {
                return;
            }
        }
        self.never(what);
    }

    fn never(&self, what: &str) -> ! {
        let status: Vec<_> = self.world.engines().map(|(_, engine)| engine.status()).collect();
        let (lost, changing) = (self.lost, *self.changing.lock());
        let acknowledged = self.oracle.lock().acknowledgements();
        let down = self.world.down();
        panic!(
            "never {what}: {acknowledged} acknowledged, down {down:?}, lost {lost:?}, members \
             {}: {}",
            if changing { "changing" } else { "at rest" },
            status.iter().map(|one| format!("\n{one:?}")).collect::<String>()
        );
    }
}

/// Tells that a change is over, however.
struct Done(Arc<Mutex<bool>>);

impl Drop for Done {
    fn drop(&mut self) {
        *self.0.lock() = false;
    }
}

async fn change_all(
    engine: &Engine,
    gone: Option<u64>,
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
) -> Result<(), crate::MembersError> {
    let members = engine.status().members;
    for &member in voters.union(&learners) {
        if !members.nodes.contains_key(&member) {
            let node = format!("n{member}");
            engine.change_members(MembersChange::AddLearner { member, node }).await?;
        }
    }
    if members.voters != voters {
        engine.change_members(MembersChange::SetVoters(voters)).await?;
    }
    if let Some(gone) = gone {
        engine.change_members(MembersChange::RemoveLearner(gone)).await?;
    }
    Ok(())
}

fn leads(world: &World<()>, id: u64) -> bool {
    world.status().any(|(one, status)| one == id && status.takes_proposals().is_some())
}
