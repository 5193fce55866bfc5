//! Keeps instances as they are to be: starts those that died, notes those that their own users shut down,
//! and goes on with what a job left halfway. It looks, and submits jobs; `rules` decides.

pub(crate) mod rules;

use std::sync::Arc;
use std::time::Duration;

use jobs::locks::{Level, LockName, Locks};
use model::instance::Instance;
use model::instance::state::{AdminStateSource, NodeState};
use model::opcode::common::Unchanged;
use model::opcode::instance::Timeout;
use model::opcode::{
    InstanceDetachCopies, InstanceMigrate, InstanceRemove, InstanceRename, InstanceResync,
    InstanceShutdown, InstanceStartup, OpCode, OpInput, ReasonEntry,
};
use model::{InstanceName, Timestamp, Uuid};
use parking_lot::Mutex;
use stdx::Clock;
use tokio::time::{Instant, sleep_until};

use super::copies::rules::{Need, needs, other};
use super::standing::{DOWN_AFTER, Stands, node_state};
use crate::agents::contacts::Contacts;
use crate::config::Config;
use crate::config::queue::{Published, Submitter};
use crate::config::reconciler::Reconciler;
use rules::{Attempts, InstanceStands, Order};

/// Between two looks where nothing wakes it.
const ROUND: Duration = Duration::from_secs(1);
/// Least time between two looks: many sights that come at once are one look.
const AT_LEAST: Duration = Duration::from_millis(50);
/// The priority of a job for which a guest stands still: the most urgent that a submission may have.
const URGENT: i32 = -10;
/// The source of its jobs, in their reasons.
const SOURCE: &str = "gantry:instances";

/// Looks after instances.
#[derive(Debug, Clone)]
pub(crate) struct InstanceKeeper {
    pub(crate) published: Arc<Published>,
    pub(crate) submitter: Submitter,
    pub(crate) contacts: Arc<Contacts>,
    pub(crate) locks: Locks,
    /// The jobs that it tried, for alarms too.
    pub(crate) attempts: Arc<Mutex<Attempts>>,
    pub(crate) clock: Clock,
}

/// One at work.
#[derive(Debug)]
pub(crate) struct Keeping {
    keeper: InstanceKeeper,
    looked: Instant,
}

impl InstanceKeeper {
    pub(crate) fn at_work(self) -> Keeping {
        Keeping { keeper: self, looked: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now_micros())
    }

    /// The orders of this moment.
    fn orders(&self, config: &Config) -> Vec<(InstanceName, Order)> {
        let now = self.now();
        let jobs = &self.published.jobs;
        let seen = |instance: &Instance| {
            let lock = LockName::member(Level::Instance, instance.name.as_str());
            let stands = Stands::of(config, instance, &self.contacts, now);
            InstanceStands {
                needs: self.needs(config, instance, &stands),
                stands,
                is_held: self.locks.is_exclusive(&lock),
                is_unfinished: instance.is_unfinished(|job| jobs.has_ended(job)),
            }
        };
        self.attempts.lock().orders(config, seen, |job| jobs.has_ended(job), now)
    }

    /// The needs of copies of an instance's disks: nothing is filled on a node that does not answer, and until
    /// it is known whether it does.
    fn needs(&self, config: &Config, instance: &Instance, stands: &Stands) -> Vec<Need> {
        let Some(sight) = &stands.sight else { return Vec::new() };
        let now = self.now();
        let answers = |disk: &Uuid| {
            let Some(disk) = config.disks.get(disk) else { return false };
            let node = other(disk, &instance.primary_node);
            node.is_some_and(|node| {
                let since = disk.stale.get(node).copied().unwrap_or(now);
                since.plus_seconds(DOWN_AFTER + 1) <= now
                    && node_state(config, node, &self.contacts, now) == NodeState::Up
            })
        };
        let needs = needs(config, instance, sight).into_iter();
        needs.filter(|(disk, need)| *need != Need::Join || answers(disk)).map(|(_, n)| n).collect()
    }

    /// Submits the job of an order, which rests on the instance as it is now.
    async fn submit(&self, config: &Config, name: &InstanceName, order: Order) {
        let Some(instance) = config.instances.get(name) else { return };
        let why = order.to_string();
        let mut op = OpInput::new(opcode(instance, order));
        if order == Order::DetachCopies {
            op.common.priority = URGENT;
        } else {
            let document = format!("instances/{name}");
            let digest = config.digest(&document);
            op.common.unchanged.push(Unchanged(document, digest));
        }
        let nanos = self.now().micros().saturating_mul(1_000);
        op.common.reason.push(ReasonEntry(SOURCE.to_owned(), why.clone(), nanos));
        let submitted = self.submitter.submit(vec![vec![op]], false, None).await;
        match submitted.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(job))) => {
                tracing::info!(%job, instance = %name, why, "a job for an instance was submitted");
                self.attempts.lock().submitted(name, order, job, self.now());
            }
            Ok(Some(Err(error))) | Err(error) => {
                tracing::warn!(instance = %name, why, %error, "a job for an instance was not taken");
            }
            Ok(None) => {}
        }
    }
}

/// The opcode of an order.
fn opcode(instance: &Instance, order: Order) -> OpCode {
    let instance_name = instance.name.to_string();
    match order {
        // The wish is as it is: it was not met.
        Order::Start => OpCode::InstanceStartup(InstanceStartup {
            instance_name,
            instance_uuid: None,
            force: false,
            ignore_offline_nodes: false,
            hvparams: model::opcode::instance::Told::new(),
            beparams: model::opcode::instance::Told::new(),
            no_remember: true,
            startup_paused: false,
            shutdown_timeout: Timeout::default(),
        }),
        Order::NoteShutdown => OpCode::InstanceShutdown(InstanceShutdown {
            instance_name,
            instance_uuid: None,
            force: false,
            ignore_offline_nodes: false,
            timeout: Timeout(0),
            no_remember: false,
            admin_state_source: Some(AdminStateSource::User),
        }),
        Order::FinishMove => OpCode::InstanceMigrate(InstanceMigrate {
            instance_name,
            instance_uuid: None,
            mode: None,
            live: None,
            target_node: None,
            target_node_uuid: None,
            iallocator: None,
            allow_runtime_changes: true,
            ignore_ipolicy: false,
            cleanup: true,
            allow_failover: false,
            ignore_hvversions: false,
        }),
        Order::FinishRename => OpCode::InstanceRename(InstanceRename {
            instance_name,
            instance_uuid: None,
            new_name: instance.renaming.as_ref().map(ToString::to_string).unwrap_or_default(),
            name_check: false,
            ip_check: false,
        }),
        Order::DetachCopies => OpCode::InstanceDetachCopies(InstanceDetachCopies {
            instance_name,
            instance_uuid: Some(instance.uuid.to_string()),
        }),
        Order::Resync => OpCode::InstanceResync(InstanceResync {
            instance_name,
            instance_uuid: Some(instance.uuid.to_string()),
        }),
        Order::RemoveAgain => OpCode::InstanceRemove(InstanceRemove {
            instance_name,
            instance_uuid: None,
            shutdown_timeout: Timeout(0),
            ignore_failures: false,
        }),
    }
}

impl Reconciler for Keeping {
    const NAME: &'static str = "instances";

    async fn reconcile(&mut self) -> Option<Duration> {
        self.looked = Instant::now();
        let config = self.keeper.published.snapshot().config;
        let is_paused = config.cluster.watcher_pause.is_some_and(|until| until > self.keeper.now());
        if is_paused || self.keeper.published.is_drained() || config.instances.is_empty() {
            return Some(ROUND);
        }
        for (name, order) in self.keeper.orders(&config) {
            self.keeper.submit(&config, &name, order).await;
        }
        Some(ROUND)
    }

    async fn woken(&mut self) {
        self.keeper.contacts.instances.changed().await;
        sleep_until(self.looked + AT_LEAST).await;
    }
}
