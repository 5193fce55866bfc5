//! Notices ports that are not as they are to be, and submits jobs that bring them there.
//!
//! A task for each switch waits at its agent for anything to change there. Lists and alarms show its
//! last look, too. Machines' own jobs set their ports as one of their steps; this is for what they left,
//! and for what others changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::machine::Machine;
use model::opcode::{OpInput, ReasonEntry, SwitchSettle};
use model::switch::change::digest;
use model::switch::{Actual, Actuals, PortKey, PortState, Switch, SwitchPort};
use model::{JobId, OpCode, Timestamp, Word};
use parking_lot::Mutex;
use rpc::calls::SWITCH_WATCH_MS_MAX;
use stdx::{Clock, Tasks};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::desired::Desired;
use super::reach::Reached;
use crate::agents::Agents;
use crate::config::Config;
use crate::config::queue::{Published, Submitter};
use crate::config::reconciler::Reconciler;

/// The first reason of its jobs.
const SOURCE: &str = "gnt:switches";
/// Between two looks where nothing happens.
const ROUND: Duration = Duration::from_secs(5);
/// Between two looks at least, whatever happens.
const AT_LEAST: Duration = Duration::from_millis(200);
/// Before a switch is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(5);
/// How long what was seen before a job counts as that: an agent tells of a change in milliseconds.
const STALE: Duration = Duration::from_secs(30);
/// Seconds that a machine's own job has for its ports before others look after them.
const GRACE: i64 = 5;
/// Seconds after which a change is given up by whoever began it.
const ABANDONED: i64 = 30;

/// The last look at a switch.
#[derive(Debug, Clone)]
pub struct Look {
    /// Since when it is so.
    pub since: Timestamp,
    /// Since when it answers, if it does.
    pub reached: Option<Timestamp>,
    /// Its ports, or why they are not known.
    pub ports: Result<Arc<Actuals>, String>,
}

/// The last looks at all switches.
#[derive(Debug, Default)]
pub struct SwitchLooks {
    looks: Mutex<BTreeMap<Word, Look>>,
    news: Notify,
}

impl SwitchLooks {
    /// The last look at one.
    pub fn of(&self, switch: &str) -> Option<Look> {
        self.looks.lock().get(switch).cloned()
    }

    fn note(&self, switch: &Word, ports: Result<Arc<Actuals>, String>, now: Timestamp) {
        let mut looks = self.looks.lock();
        let before = looks.get(switch);
        let since = match (before, &ports) {
            (Some(Look { since, ports: Err(_), .. }), Err(_)) => *since,
            (Some(Look { since, ports: Ok(before), .. }), Ok(ports)) if before == ports => *since,
            _ => now,
        };
        let reached = before.and_then(|look| look.reached).or(Some(now)).filter(|_| ports.is_ok());
        looks.insert(switch.clone(), Look { since, reached, ports });
        drop(looks);
        self.news.notify_one();
    }

    fn forget(&self, switch: &str) {
        self.looks.lock().remove(switch);
    }
}

/// Looks at ports, and submits jobs.
#[derive(Debug)]
pub(crate) struct SwitchWatcher {
    pub(crate) published: Arc<Published>,
    pub(crate) submitter: Submitter,
    pub(crate) agents: Agents,
    pub(crate) seen: Arc<SwitchLooks>,
    pub(crate) clock: Clock,
}

/// One at work.
#[derive(Debug)]
pub(crate) struct Watching {
    watcher: SwitchWatcher,
    /// The tasks that wait at agents, each with the count of changes of the switch that it knows.
    waiting: BTreeMap<Word, (u64, CancellationToken)>,
    tasks: Tasks,
    /// Jobs that have not ended.
    own: BTreeMap<Word, JobId>,
    /// The look for which the last job was submitted: it says nothing of what that job did.
    stale: BTreeMap<Word, (Timestamp, Instant)>,
    looked: Instant,
}

impl SwitchWatcher {
    pub(crate) fn at_work(self) -> Watching {
        Watching {
            watcher: self,
            waiting: BTreeMap::new(),
            tasks: Tasks::new(),
            own: BTreeMap::new(),
            stale: BTreeMap::new(),
            looked: Instant::now(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now_micros())
    }

    async fn submit(&self, switch: Word, ports: Vec<Word>) -> Option<JobId> {
        let why = format!("{} ports of switch {switch} are not as they are to be", ports.len());
        let op = SwitchSettle { switch_name: switch.to_string(), ports, reset: false };
        let mut op = OpInput::new(OpCode::SwitchSettle(op));
        let nanos = self.now().micros().saturating_mul(1_000);
        op.common.reason.push(ReasonEntry(SOURCE.to_owned(), why.clone(), nanos));
        let submitted = self.submitter.submit(vec![vec![op]], false, None).await;
        match submitted.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(job))) => {
                tracing::info!(%job, why, "a job for ports of a switch was submitted");
                Some(job)
            }
            Ok(Some(Err(error))) | Err(error) => {
                tracing::warn!(why, %error, "a job for ports of a switch was not taken");
                None
            }
            Ok(None) => None,
        }
    }
}

impl Reconciler for Watching {
    const NAME: &'static str = "switches";

    async fn reconcile(&mut self) -> Option<Duration> {
        self.looked = Instant::now();
        let config = self.watcher.published.snapshot().config;
        self.wait_at_agents(&config);
        let jobs = &self.watcher.published.jobs;
        self.own.retain(|_, job| !jobs.has_ended(*job));
        let now = self.watcher.now();
        for switch in config.switches.values() {
            if self.own.contains_key(&switch.name) {
                continue;
            }
            let look = self.watcher.seen.of(switch.name.as_str());
            let since = look.as_ref().map(|look| look.since);
            let stale = self.stale.get(&switch.name);
            let is_stale =
                stale.is_some_and(|(seen, at)| Some(*seen) == since && at.elapsed() < STALE);
            let look = look.filter(|_| !is_stale);
            let due = due(&config, switch, look.as_ref(), now, |job| jobs.has_ended(job));
            if due.is_empty() {
                continue;
            }
            let job = self.watcher.submit(switch.name.clone(), due).await;
            self.stale.extend(since.map(|since| (switch.name.clone(), (since, Instant::now()))));
            self.own.extend(job.map(|job| (switch.name.clone(), job)));
        }
        Some(ROUND)
    }

    async fn woken(&mut self) {
        let mut committed = self.watcher.published.subscribe();
        tokio::select! {
            _ = committed.changed() => {}
            () = self.watcher.seen.news.notified() => {}
        }
        sleep_until(self.looked + AT_LEAST).await;
    }

    fn begin_anew(&mut self) {
        self.waiting.values().for_each(|(_, stop)| stop.cancel());
        self.waiting.clear();
        self.own.clear();
        self.stale.clear();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.begin_anew();
    }
}

impl Watching {
    /// Has a task wait for each switch, and none for those that are gone.
    fn wait_at_agents(&mut self, config: &Config) {
        let seen = &self.watcher.seen;
        self.waiting.retain(|name, (known, stop)| {
            let is_same = config.switches.get(name).is_some_and(|s| s.serial_no == *known);
            if !is_same {
                stop.cancel();
                seen.forget(name.as_str());
            }
            is_same
        });
        for switch in config.switches.values() {
            if self.waiting.contains_key(&switch.name) {
                continue;
            }
            let stop = CancellationToken::new();
            self.waiting.insert(switch.name.clone(), (switch.serial_no, stop.clone()));
            let waiting = wait(
                switch.name.clone(),
                Arc::clone(&self.watcher.published),
                self.watcher.agents.clone(),
                Arc::clone(&self.watcher.seen),
                self.watcher.clock.clone(),
            );
            self.tasks.spawn("switch watch", async move {
                stop.run_until_cancelled(waiting).await;
            });
        }
    }
}

/// Waits at the agents of a switch for anything to change there, until the switch is gone.
async fn wait(
    name: Word,
    published: Arc<Published>,
    agents: Agents,
    seen: Arc<SwitchLooks>,
    clock: Clock,
) {
    let mut known = None;
    loop {
        let config = published.snapshot().config;
        let Some(switch) = config.switches.get(&name) else { return };
        let answer = match Reached::of(&config, switch) {
            Ok(reached) => {
                let answer = reached.watch(&agents, known.clone(), SWITCH_WATCH_MS_MAX).await;
                answer.map_err(|no| no.why)
            }
            Err(error) => Err(error.message().to_owned()),
        };
        let now = Timestamp::from_micros(clock.now_micros());
        match answer {
            Ok(ports) => {
                known = Some(digest(&ports));
                seen.note(&name, Ok(Arc::new(ports)), now);
            }
            Err(why) => {
                known = None;
                seen.note(&name, Err(why), now);
                sleep(AGAIN).await;
            }
        }
    }
}

/// The ports of a switch that somebody must look after.
pub(crate) fn due(
    config: &Config,
    switch: &Switch,
    look: Option<&Look>,
    now: Timestamp,
    has_ended: impl Fn(JobId) -> bool,
) -> Vec<Word> {
    let actuals = look.and_then(|look| look.ports.as_deref().ok());
    let reached = look.and_then(|look| look.reached);
    let is_due = |port: &&Arc<SwitchPort>| {
        // A switch that is back gets what it missed at once.
        let is_back = reached.is_some_and(|reached| reached > port.since);
        if is_back && port.again().is_some() {
            return true;
        }
        let actual = switch.ports.get(&port.port).and_then(|spec| actuals?.get(&spec.name));
        is_due(config, port, actual, now, &has_ended)
    };
    let ports = config.switch_ports.by.switch.of(switch.name.clone());
    ports.filter(is_due).map(|port| port.port.clone()).collect()
}

fn is_due(
    config: &Config,
    port: &SwitchPort,
    actual: Option<&Actual>,
    now: Timestamp,
    has_ended: impl Fn(JobId) -> bool,
) -> bool {
    let desired = config.desired(port);
    let passed = |since: Timestamp, seconds: i64| now >= since.plus_seconds(seconds);
    match (port.state, &desired) {
        (_, Desired::Left) | (PortState::Deleting, _) => false,
        (PortState::Error, Desired::Refused { .. }) => !port.refused,
        (_, Desired::Refused { .. }) => true,
        (PortState::Error, Desired::Set(_)) => {
            port.refused || port.again().is_some_and(|again| now >= again)
        }
        (PortState::Validating | PortState::Configuring | PortState::Cleaning, Desired::Set(_)) => {
            passed(port.since, ABANDONED)
        }
        (PortState::None | PortState::Active | PortState::Idle, Desired::Set(target)) => {
            let has = port.applied.as_ref();
            let is_told = has.is_some_and(|has| {
                has.configuration == target.configuration && has.settings == target.settings
            });
            match is_told {
                true => actual.is_some_and(|actual| !actual.is(&target.settings)),
                false => !is_at_work(config, &port.key(), now, has_ended),
            }
        }
    }
}

/// Whether a job of its machine is about to set the port itself.
fn is_at_work(
    config: &Config,
    key: &PortKey,
    now: Timestamp,
    has_ended: impl Fn(JobId) -> bool,
) -> bool {
    let behind = config.behind(key);
    let machine = behind.served().and_then(|served| config.machines.get(&served.serial));
    let prepares = |machine: &Machine| machine.life.preparing().is_some_and(|job| !has_ended(job));
    machine
        .is_some_and(|machine| prepares(machine) || now < machine.state_since().plus_seconds(GRACE))
}
