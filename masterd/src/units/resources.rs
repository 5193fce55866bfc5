//! The parts with which logical units work.

use std::sync::Arc;

use jobs::locks::Locks;
use jobs::pause::Pause;
use membership::peers::PeerBook;
use model::layout::Layout;
use stdx::Clock;

use crate::agents::Agents;
use crate::agents::allow_list::AllowListPush;
use crate::agents::blobs::Source;
use crate::agents::contacts::Contacts;
use crate::agents::master_address::MoveAddress;
use crate::agents::metrics::Metrics;
use crate::config::queue::{Commits, Published, Submitter, Writer};
use crate::config::secrets::StagedSecrets;
use crate::role::replica_audit::ReplicaAudit;

/// The parts with which logical units work. They reach these by their [`Context`](super::Context) alone.
#[derive(Debug)]
pub struct Resources {
    /// Changes queue and configuration.
    pub(crate) writer: Writer,
    /// What is committed.
    pub(crate) published: Arc<Published>,
    /// Takes jobs.
    pub(crate) submitter: Submitter,
    /// Who holds what.
    pub(crate) locks: Locks,
    /// The gate at which opcodes wait while none may run.
    pub(crate) pause: Arc<Pause>,
    /// The way to the agents.
    pub(crate) agents: Agents,
    /// Which agents are reached.
    pub(crate) contacts: Arc<Contacts>,
    /// Tells agents who may call them.
    pub(crate) allow_lists: Arc<AllowListPush>,
    /// Moves the master's address.
    pub(crate) address: Arc<MoveAddress>,
    /// The way to other members' `masterd`.
    pub(crate) peers: PeerBook,
    /// Tells who is a member.
    pub(crate) commits: Arc<Commits>,
    /// Compares candidates' stores.
    pub(crate) audit: Arc<ReplicaAudit>,
    /// The source of image files.
    pub(crate) source: Arc<Source>,
    /// One-time secrets of nodes that are about to be added.
    pub(crate) secrets: Arc<StagedSecrets>,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Gives the time.
    pub(crate) clock: Clock,
    /// Where things live.
    pub(crate) layout: Layout,
}
