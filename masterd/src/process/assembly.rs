//! Puts a master together: each part gets what it names, and nothing else.

use std::sync::Arc;

use jobs::locks::Locks;
use jobs::pause::Pause;
use model::layout::Layout;
use parking_lot::Mutex;
use rpc::Client;
use stdx::{Clock, Tasks};

use super::leadership::{Keys, Master};
use crate::agents::allow_list::AllowListPush;
use crate::agents::blobs::Source;
use crate::agents::contacts::Contacts;
use crate::agents::master_address::MoveAddress;
use crate::agents::metrics::Metrics;
use crate::agents::{Agents, Caller};
use crate::config::queue::{Archive, Commits, Published, Submitter, Writer};
use crate::config::secrets::StagedSecrets;
use crate::door::service::Sources;
use crate::health::status::MasterView;
use crate::health::watcher::{Alarms, Watcher};
use crate::instances::keep::InstanceKeeper;
use crate::instances::keep::rules::Attempts;
use crate::process::logical_units::LogicalUnits;
use crate::role::replica_audit::ReplicaAudit;
use crate::store::export::downloads::Exports;
use crate::switching::watch::{SwitchLooks, SwitchWatcher};
use crate::sync::AgentSync;
use crate::sync::spool::Spool;
use crate::units::Resources;
use membership::peers::PeerBook;

/// The parts of a master that several others work with. Each of those gets what it needs.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) published: Arc<Published>,
    pub(crate) commits: Arc<Commits>,
    pub(crate) writer: Writer,
    pub(crate) contacts: Arc<Contacts>,
    pub(crate) audit: Arc<ReplicaAudit>,
    pub(crate) agents: Agents,
    pub(crate) locks: Locks,
    pub(crate) pause: Arc<Pause>,
    pub(crate) address: Arc<MoveAddress>,
}

/// A master, ready to be set to work.
pub(crate) struct Assembly {
    /// The parts that its leadership works with.
    pub(crate) parts: Parts,
    /// What opcodes do.
    pub(crate) units: Arc<LogicalUnits>,
    /// Keeps agents in step.
    pub(crate) sync: Arc<AgentSync>,
    /// Looks at the cluster, and submits jobs.
    pub(crate) watcher: Watcher,
    /// Looks after ports of switches.
    pub(crate) switches: SwitchWatcher,
    /// Looks after instances.
    pub(crate) instances: InstanceKeeper,
    /// Clears the spool.
    pub(crate) spool: Spool,
    /// The sources of answers to clients.
    pub(crate) sources: Arc<Sources>,
    /// The sources of its status.
    pub(crate) view: Arc<MasterView>,
}

impl Assembly {
    /// The parts of `master`, which is known to agents by `keys`.
    pub(crate) fn new(master: &Master, layout: &Layout, keys: Keys, clock: &Clock) -> Self {
        let wiring = Wiring::new(master, layout, keys, clock);
        Self {
            units: Arc::new(LogicalUnits(Arc::new(wiring.resources(layout)))),
            sync: Arc::new(wiring.sync()),
            watcher: wiring.watcher(),
            switches: wiring.switches(),
            instances: wiring.instances(),
            spool: Spool::new(layout.spool(), Arc::clone(&wiring.source), clock.clone()),
            sources: Arc::new(wiring.sources()),
            view: Arc::new(wiring.view()),
            parts: wiring.parts(),
        }
    }
}

/// Everything, until it is handed out.
struct Wiring {
    published: Arc<Published>,
    commits: Arc<Commits>,
    writer: Writer,
    submitter: Submitter,
    archive: Archive,
    locks: Locks,
    pause: Arc<Pause>,
    agents: Agents,
    contacts: Arc<Contacts>,
    allow_lists: Arc<AllowListPush>,
    address: Arc<MoveAddress>,
    peers: PeerBook,
    audit: Arc<ReplicaAudit>,
    alarms: Arc<Alarms>,
    seen: Arc<SwitchLooks>,
    attempts: Arc<Mutex<Attempts>>,
    secrets: Arc<StagedSecrets>,
    source: Arc<Source>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl Wiring {
    fn new(master: &Master, layout: &Layout, keys: Keys, clock: &Clock) -> Self {
        let Keys { identity, membership, authority } = keys;
        let caller = Caller {
            authority,
            epoch: master.epoch,
            cluster_uuid: membership.cluster_uuid,
            cluster_name: membership.cluster_name,
            me: identity.name().clone(),
            clock: clock.clone(),
            metrics: Arc::clone(&master.metrics),
            majority: master.commits.majority(),
        };
        let (published, commits) = (Arc::clone(&master.published), Arc::clone(&master.commits));
        let peers = PeerBook::new(Arc::clone(&identity), membership.cluster_uuid);
        let agents = Agents::new(Client::new(identity, Tasks::new()), Tasks::new(), caller);
        let (writer, locks, pause) = (master.writer.clone(), Locks::new(), Arc::<Pause>::default());
        let contacts = Arc::<Contacts>::default();
        let archive = Archive::new(Arc::clone(&commits));
        let submitter = Submitter::new(writer.clone(), Arc::clone(&commits), archive.clone());
        let address = MoveAddress::new(Arc::clone(&published), agents.clone(), clock.clone());
        let address = Arc::new(address);
        let allow_lists = Arc::new(AllowListPush::new(Arc::clone(&published), agents.clone()));
        let audit = Arc::new(ReplicaAudit::new(
            Arc::clone(&commits),
            Arc::clone(&published),
            peers.clone(),
            clock.clone(),
        ));
        let (alarms, secrets) = (Arc::<Alarms>::default(), Arc::<StagedSecrets>::default());
        Self {
            published,
            commits,
            writer,
            submitter,
            archive,
            locks,
            pause,
            agents,
            contacts,
            allow_lists,
            address,
            peers,
            audit,
            alarms,
            seen: Arc::default(),
            attempts: Arc::default(),
            secrets,
            source: Arc::new(Source::new(layout)),
            metrics: Arc::clone(&master.metrics),
            clock: clock.clone(),
        }
    }

    fn parts(self) -> Parts {
        let Self {
            published, commits, writer, contacts, audit, agents, locks, pause, address, ..
        } = self;
        Parts { published, commits, writer, contacts, audit, agents, locks, pause, address }
    }

    fn resources(&self, layout: &Layout) -> Resources {
        Resources {
            writer: self.writer.clone(),
            published: Arc::clone(&self.published),
            submitter: self.submitter.clone(),
            locks: self.locks.clone(),
            pause: Arc::clone(&self.pause),
            agents: self.agents.clone(),
            contacts: Arc::clone(&self.contacts),
            allow_lists: Arc::clone(&self.allow_lists),
            address: Arc::clone(&self.address),
            peers: self.peers.clone(),
            commits: Arc::clone(&self.commits),
            audit: Arc::clone(&self.audit),
            secrets: Arc::clone(&self.secrets),
            source: Arc::clone(&self.source),
            metrics: Arc::clone(&self.metrics),
            clock: self.clock.clone(),
            layout: layout.clone(),
        }
    }

    fn sync(&self) -> AgentSync {
        AgentSync {
            published: Arc::clone(&self.published),
            writer: self.writer.clone(),
            submitter: self.submitter.clone(),
            agents: self.agents.clone(),
            contacts: Arc::clone(&self.contacts),
            allow_lists: Arc::clone(&self.allow_lists),
            address: Arc::clone(&self.address),
            metrics: Arc::clone(&self.metrics),
            source: Arc::clone(&self.source),
            clock: self.clock.clone(),
        }
    }

    fn switches(&self) -> SwitchWatcher {
        SwitchWatcher {
            published: Arc::clone(&self.published),
            submitter: self.submitter.clone(),
            agents: self.agents.clone(),
            seen: Arc::clone(&self.seen),
            clock: self.clock.clone(),
        }
    }

    fn instances(&self) -> InstanceKeeper {
        InstanceKeeper {
            published: Arc::clone(&self.published),
            submitter: self.submitter.clone(),
            contacts: Arc::clone(&self.contacts),
            locks: self.locks.clone(),
            attempts: Arc::clone(&self.attempts),
            clock: self.clock.clone(),
        }
    }

    fn watcher(&self) -> Watcher {
        Watcher {
            published: Arc::clone(&self.published),
            commits: Arc::clone(&self.commits),
            writer: self.writer.clone(),
            submitter: self.submitter.clone(),
            contacts: Arc::clone(&self.contacts),
            allow_lists: Arc::clone(&self.allow_lists),
            address: Arc::clone(&self.address),
            audit: Arc::clone(&self.audit),
            alarms: Arc::clone(&self.alarms),
            switches: Arc::clone(&self.seen),
            attempts: Arc::clone(&self.attempts),
            clock: self.clock.clone(),
        }
    }

    fn sources(&self) -> Sources {
        Sources {
            published: Arc::clone(&self.published),
            archive: self.archive.clone(),
            writer: self.writer.clone(),
            submitter: self.submitter.clone(),
            commits: Arc::clone(&self.commits),
            locks: self.locks.clone(),
            contacts: Arc::clone(&self.contacts),
            agents: self.agents.clone(),
            address: Arc::clone(&self.address),
            secrets: Arc::clone(&self.secrets),
            exports: Exports::default(),
            switches: Arc::clone(&self.seen),
            clock: self.clock.clone(),
        }
    }

    fn view(&self) -> MasterView {
        MasterView {
            published: Arc::clone(&self.published),
            commits: Arc::clone(&self.commits),
            contacts: Arc::clone(&self.contacts),
            alarms: Arc::clone(&self.alarms),
            locks: self.locks.clone(),
        }
    }
}
