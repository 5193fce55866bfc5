//! How the cluster stands, for `gnt cluster status`: collected where the process lives, whatever it
//! is at the moment. Serves operators, by the method `door::service` has for it.
//!
//! Nothing here waits for another machine, for a commit, or for a lock that lasts, so that it answers
//! when nothing else does.

pub mod alarms;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Engine;
use jobs::locks::Locks;
use model::cluster::{Cluster, Role};
use model::cluster_status::{
    AgentUnreached, AgentsStatus, CertificateOwner, CertificateStatus, ClusterStatus,
    HEARD_WITHIN_MS, MasterStatus, OldestJob, ProcessState, QueueStatus, StandbyStatus,
    StoreHealth, StoreMissing, StoreStatus,
};
use model::node::{Node, NodeRole};
use model::role_check::RoleTaken;
use model::{JobStatus, Timestamp, document};
use queue_format::{Backlog, Epoch, Fill, Health, Position};
use stdx::Clock;

use crate::agents::contacts::Contacts;
use crate::config::queue::{Commits, Published};
use crate::health::alarm::Alarm;
use crate::health::watcher::alarms::agents::{AgentsSeen, of_racks};
use crate::health::watcher::{self, Alarms};
use crate::role::local_member::{self, LocalMember, MemberState};
use crate::role::standing;
use membership::peers::PeerBook;

/// The master's sources for the status of the cluster.
#[derive(Debug)]
pub(crate) struct MasterView {
    pub(crate) published: Arc<Published>,
    pub(crate) commits: Arc<Commits>,
    pub(crate) contacts: Arc<Contacts>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) locks: Locks,
}

impl MasterView {
    /// The alarms that the watcher raised; those of agents and racks at once, as who looks sees them.
    pub(crate) fn alarms_at(&self, now: Timestamp) -> Vec<Alarm> {
        let config = self.published.snapshot().config;
        let (agents, unserved) =
            (watcher::agents(&config, &self.contacts.all()), watcher::unserved(&config));
        let master = &config.role.master;
        let seen = AgentsSeen { now, master, agents: &agents, unserved: &unserved };
        let raised = self.alarms.all();
        let is_raised = |alarm: &Alarm| raised.iter().any(|known| known.what == alarm.what);
        let mut alarms = of_racks(&seen);
        alarms.retain(|alarm| !is_raised(alarm));
        alarms.extend(raised.iter().cloned());
        alarms
    }
}

/// The role of the process, for its clients.
#[derive(Debug)]
pub(crate) enum Part {
    Master(Arc<MasterView>),
    /// Something else.
    Other {
        /// Whether it was the master last, where the log does not tell.
        starting: bool,
        /// The outcome of its last attempt to start.
        attempt: Option<Arc<RoleTaken>>,
    },
    /// Nothing, for want of a store.
    Outside(Option<StoreMissing>),
}

/// How the cluster stands, as far as this process knows.
pub(crate) async fn collect(local: &LocalMember, part: Part, clock: &Clock) -> ClusterStatus {
    let now = Timestamp::from_micros(clock.now_micros());
    let state = local.state();
    let place = local.clone();
    let mut seen = nothing(local, now);
    let space = stdx::apart(move || place.space()).await.ok().flatten();
    let watched = match (part, state) {
        (Part::Master(master), _) => {
            of_master(&mut seen, &master, &local.book);
            note_listening(&mut seen, &master, local);
            master.alarms_at(now)
        }
        (Part::Other { starting, attempt }, MemberState::Standby(engine)) => {
            of_standby(&mut seen, &engine, starting, attempt).await;
            if let Some(standby) = &mut seen.standby {
                standby.forgot = local.reverted();
            }
            Vec::new()
        }
        // Between two states; it is over in a moment.
        (Part::Other { .. }, MemberState::Master { .. }) => {
            seen.state = ProcessState::Starting;
            Vec::new()
        }
        (Part::Outside(missing), _) => {
            seen.store_missing = missing;
            Vec::new()
        }
        (Part::Other { .. }, MemberState::Outside) => Vec::new(),
    };
    if let (Some(store), Some(space)) = (&mut seen.store, space) {
        store.disk_free_mib = Some(space.free_mib);
        store.disk_mib = Some(space.total_mib);
    }
    seen.alarms = alarms::alarms(&seen, &watched);
    seen
}

fn nothing(local: &LocalMember, now: Timestamp) -> ClusterStatus {
    ClusterStatus {
        cluster: None,
        node: local.node.clone(),
        state: ProcessState::Outside,
        now,
        master: None,
        quorum: None,
        auto_failover: None,
        candidates: Vec::new(),
        standby: None,
        store_missing: None,
        queue: None,
        store: None,
        agents: None,
        certificates: certificates(local),
        watcher_paused_until: None,
        overridden: None,
        alarms: Vec::new(),
    }
}

fn certificates(local: &LocalMember) -> Vec<CertificateStatus> {
    let identity = local.book.identity();
    let own = CertificateOwner::Node(identity.name().clone());
    let ends = [(own, identity.ends()), (CertificateOwner::Authority, identity.authority_ends())];
    let held = ends.into_iter().filter_map(|(owner, ends)| match ends {
        Ok(ends) => Some(CertificateStatus { owner, ends }),
        Err(error) => {
            tracing::error!(%error, ?owner, "it is not known when a certificate ends");
            None
        }
    });
    held.collect()
}

fn master(role: &Role) -> MasterStatus {
    let Role { master, term, node, since } = role;
    let epoch = Epoch { term: *term, node: *node }.to_string();
    MasterStatus { node: master.clone(), epoch, since: *since }
}

fn of_master(seen: &mut ClusterStatus, view: &MasterView, book: &PeerBook) {
    let config = view.published.snapshot().config;
    let status = view.commits.engine().map(|engine| (engine.member(), engine.status()));
    let contacts = view.contacts.all();
    let admitted = view.commits.admit();
    seen.state = ProcessState::Master;
    seen.cluster = Some(config.cluster.cluster_name.clone());
    seen.master = Some(master(&config.role));
    seen.auto_failover = Some(config.cluster.auto_failover);
    seen.quorum = Some(match &status {
        Some((own, status)) => crate::role::standing::quorum(status, *own, admitted),
        None => crate::role::standing::lone_quorum(seen.node.as_str(), admitted),
    });
    seen.candidates = standing::all_candidates(
        (&config, view.commits.engine().as_deref(), &view.contacts),
        book,
        seen.now,
    );
    seen.queue = Some(queue(&view.published));
    let fill = view.commits.journal_fill();
    let (health, backlog) = (view.commits.health(), view.commits.backlog());
    seen.store = Some(store(&health, view.commits.position(), backlog, fill, seen.now));
    let is_offline = |role| role == NodeRole::Offline;
    let called = config.nodes.values().filter(|node| !is_offline(node.role));
    let found = called.filter_map(|node| Some((node, contacts.get(&node.name)?)));
    let mut agents = AgentsStatus { reached: 0, unreached: Vec::new(), offline: 0 };
    for (node, contact) in found {
        match &contact.failure {
            None => agents.reached += 1,
            Some(why) => agents.unreached.push(AgentUnreached {
                node: node.name.clone(),
                since: contact.since,
                why: why.clone(),
            }),
        }
    }
    let others = config.nodes.values().filter(|node| node.name != seen.node);
    let others = others.filter(|node| !is_offline(node.role));
    seen.certificates.extend(others.filter_map(|node| {
        let ends = contacts.get(&node.name)?.held.certificate_ends?;
        Some(CertificateStatus { owner: CertificateOwner::Node(node.name.clone()), ends })
    }));
    agents.offline = number(config.nodes.values().filter(|node| is_offline(node.role)).count());
    seen.agents = Some(agents);
    seen.overridden.clone_from(&config.cluster.overridden);
    seen.watcher_paused_until = config.cluster.watcher_pause.filter(|until| *until > seen.now);
}

/// Notes where other candidates cannot ask the master, if there are any.
fn note_listening(seen: &mut ClusterStatus, view: &MasterView, local: &LocalMember) {
    let config = view.published.snapshot().config;
    let own = config.nodes.get(local.node.as_str()).zip(local.listens());
    let (Some((node, listens)), true) = (own, seen.candidates.len() > 1) else { return };
    for candidate in seen.candidates.iter_mut().filter(|one| one.master) {
        let elsewhere =
            crate::role::standing::not_listening(node, listens.map(|place| place.address));
        let missing = || listens.filter(|place| place.is_missing()).map(|place| place.to_string());
        candidate.not_listening = elsewhere.or_else(missing);
    }
}

fn queue(published: &Published) -> QueueStatus {
    let mut status = QueueStatus {
        running: 0,
        waiting: 0,
        queued: 0,
        oldest: None,
        drained: published.is_drained(),
    };
    let mut live = 0;
    for (of, number) in published.jobs.status_counts().now() {
        match of {
            JobStatus::Running => status.running += number,
            JobStatus::Waiting => status.waiting += number,
            JobStatus::Queued => status.queued += number,
            _ => {}
        }
        live += if of.is_final() { 0 } else { number };
    }
    // A queue without live jobs needs no search for the oldest one.
    let oldest = (live > 0).then(|| published.jobs.first(|job| !job.status().is_final()));
    status.oldest =
        oldest.flatten().map(|job| OldestJob { job: job.id, since: job.received_timestamp });
    status
}

fn store(
    health: &Health,
    position: Position,
    backlog: Backlog,
    fill: Fill,
    now: Timestamp,
) -> StoreStatus {
    StoreStatus {
        health: match health {
            Health::Good => StoreHealth::Good,
            Health::DiskFull { path, since, reason } => StoreHealth::DiskFull {
                since: crate::role::standing::before(now, number_of_ms(since.elapsed())),
                reason: format!("`{}`: {reason}", path.display()),
            },
            Health::Failed { reason } => StoreHealth::Failed { reason: reason.clone() },
        },
        position: position.to_string(),
        disk_free_mib: None,
        disk_mib: None,
        journal_used_bytes: fill.used_bytes,
        journal_bytes: fill.bytes,
        files_lag_keys: number(backlog.file_lag_keys),
        files_lag_bytes: number(backlog.file_lag_bytes),
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn number_of_ms(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

async fn of_standby(
    seen: &mut ClusterStatus,
    engine: &Arc<Engine>,
    starting: bool,
    attempt: Option<Arc<RoleTaken>>,
) {
    let status = engine.status();
    let (reading, members) = (Arc::clone(engine), status.members.nodes.clone());
    let me = document::node(&seen.node);
    let read = move || {
        // An unreadable document is reported elsewhere.
        let own = local_member::newest::<Node>(&reading, &me).ok().flatten();
        let offline = own.is_some_and(|node| node.role == NodeRole::Offline);
        let role = local_member::newest::<Role>(&reading, document::ROLE);
        let cluster = local_member::newest::<Cluster>(&reading, document::CLUSTER);
        let never_master = members.into_values().filter(|name| {
            let node = name.parse().map(|name| document::node(&name)).ok();
            let node =
                node.and_then(|key| local_member::newest::<Node>(&reading, &key).ok().flatten());
            node.is_some_and(|node| !node.may_be_master())
        });
        let never_master: BTreeSet<_> = never_master.collect();
        (role.ok().flatten(), cluster.ok().flatten(), never_master, offline)
    };
    let (role, cluster, never_master, offline) = stdx::apart(read).await.unwrap_or_default();
    seen.auto_failover = cluster.as_ref().map(|cluster| cluster.auto_failover);
    seen.cluster = cluster.map(|cluster| cluster.cluster_name);
    seen.master = role.as_ref().map(master);
    let master = role.as_ref().map(|role| role.master.as_str());
    let (quorum, candidates) = crate::role::standing::followed(&status, master, &never_master);
    (seen.quorum, seen.candidates) = (Some(quorum), candidates);
    // The log knows sooner than clients are told that another node has the role.
    let starting = master.map_or(starting, |master| master == seen.node.as_str());
    seen.state = if starting { ProcessState::Starting } else { ProcessState::Standby };
    let known = crate::role::standing::standby(&status, seen.node.as_str(), master, starting);
    let is_heard = status.heard_ms.is_some_and(|ms| ms <= HEARD_WITHIN_MS);
    let attempt = attempt.filter(|_| !is_heard).map(|taken| RoleTaken::clone(&taken));
    seen.standby = Some(StandbyStatus { attempt, offline, ..known });
    let (backlog, fill) = (engine.backlog(), engine.journal_fill());
    let health = match status.stopped {
        Some(reason) => Health::Failed { reason },
        None => engine.health(),
    };
    seen.store = Some(store(&health, status.applied, backlog, fill, seen.now));
}

#[cfg(test)]
mod tests;
