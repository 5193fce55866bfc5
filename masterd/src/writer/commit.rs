//! One round of the writer as one commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Exception, Job, document};
use queue_format::{Change, Committer, Key, Refusal};
use tokio::sync::oneshot;

use super::Reply;
use super::publish::{After, ConfigAfter};
use crate::config::change::Document;
use crate::config::{Config, ConfigChange};
use crate::jobs::Effects;

/// Pause before a commit that found no room is offered again. Only a disk that is full or far too
/// slow makes the writer wait here, and then everything waits with it.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(20);

/// Objects that changed in one round, before it is closed: one command more must still fit what
/// the store takes at once.
const ROUND_CHANGES_MAX: usize = 1_024;
/// Jobs that are archived in one round, likewise; the store takes 1,024 moves, and one command makes
/// at most [`crate::jobs::ARCHIVED_PER_COMMIT_MAX`].
const ROUND_ARCHIVED_MAX: usize = 24;

/// What one round of commands came to.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) effects: Effects<Reply>,
    /// By key: what changes twice in a round is written once.
    documents: BTreeMap<String, Option<Bytes>>,
    config: Option<ConfigAfter>,
    pub(super) transactions: Vec<oneshot::Sender<Result<(), Exception>>>,
    pub(super) refusals: Vec<(oneshot::Sender<Result<(), Exception>>, Exception)>,
}

impl Round {
    pub(super) fn new(effects: Effects<Reply>) -> Self {
        Self {
            effects,
            documents: BTreeMap::new(),
            config: None,
            transactions: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Whether it is time to commit before the next command is taken.
    pub(super) fn is_full(&self) -> bool {
        self.effects.changed.len() + self.documents.len() >= ROUND_CHANGES_MAX
            || self.effects.archived.len() >= ROUND_ARCHIVED_MAX
    }

    pub(super) fn commits_nothing(&self) -> bool {
        self.effects.commits_nothing() && self.documents.is_empty() && self.transactions.is_empty()
    }

    /// Applies changes to the configuration.
    pub(super) fn apply(&mut self, changes: Vec<ConfigChange>, config: &mut Arc<Config>) {
        let mut racks = BTreeSet::new();
        let mut documents = Vec::new();
        let next = Arc::make_mut(config);
        for change in changes {
            racks.extend(change.racks(next));
            let moved_from = match &change {
                ConfigChange::Node(node) => next.nodes.get(&node.name).and_then(|node| node.rack),
                _ => None,
            };
            racks.extend(moved_from);
            change.apply(next, &mut documents);
        }
        self.documents
            .extend(documents.into_iter().map(|document| (document.key, document.content)));
        let after = self.config.get_or_insert_with(|| ConfigAfter::new(config));
        after.config = Arc::clone(config);
        after.racks.extend(racks);
    }
}

/// Hands a round to the store.
pub(super) async fn submit(committer: &Committer<After>, round: Round) {
    let changes = changes(&round);
    let Round { effects, config, transactions, .. } = round;
    let after = After {
        changed: effects.changed.into_values().collect(),
        archived: effects.archived.into_keys().collect(),
        drained: effects.drained,
        config,
        replies: effects.replies,
        transactions,
    };
    match offer(committer, changes, after).await {
        Ok(()) => {}
        Err(Refusal::TooLarge { what }) => {
            // Memory is ahead of a disk that will never follow: going on would spread that.
            tracing::error!(what, "a round does not fit the store; the daemon ends");
            std::process::abort();
        }
        // The answers were dropped, which tells everybody that the outcome is not known.
        Err(why) => tracing::error!(%why, "the store takes no more commits"),
    }
}

/// Commits, waiting while there is no room.
///
/// # Errors
/// The store will never take it: it is too large, or the store has stopped.
pub async fn offer(
    committer: &Committer<After>,
    mut changes: Vec<Change>,
    mut after: After,
) -> Result<(), Refusal> {
    while let Err(refused) = committer.submit(changes, after) {
        match refused.reason {
            Refusal::Busy | Refusal::DiskFull { .. } => {
                tracing::warn!(reason = %refused.reason, "the store has no room; waiting");
                tokio::time::sleep(NO_ROOM_PAUSE).await;
            }
            Refusal::Stopped | Refusal::TooLarge { .. } => return Err(refused.reason),
        }
        changes = refused.changes;
        after = refused.tag;
    }
    Ok(())
}

/// The first commit of a master: who it is, and the jobs that it found and changed.
#[must_use]
pub fn role_entry(jobs: &[Arc<Job>], documents: &[Document]) -> Vec<Change> {
    let job =
        |job: &Arc<Job>| Change::Put { key: key(&document::job(job.id)), content: job_file(job) };
    let document = |d: &Document| document_change(&d.key, d.content.as_ref());
    jobs.iter().map(job).chain(documents.iter().map(document)).collect()
}

fn document_change(name: &str, content: Option<&Bytes>) -> Change {
    let key = key(name);
    match content {
        Some(content) => Change::Put { key, content: content.clone() },
        None => Change::Delete { key },
    }
}

fn changes(round: &Round) -> Vec<Change> {
    let effects = &round.effects;
    let mut changes = Vec::with_capacity(
        effects.changed.len() + effects.archived.len() + round.documents.len() + 2,
    );
    for job in effects.changed.values() {
        changes.push(Change::Put { key: key(&document::job(job.id)), content: job_file(job) });
    }
    for &id in effects.archived.keys() {
        changes.push(Change::Move {
            from: key(&document::job(id)),
            to: key(&document::archived_job(id)),
        });
    }
    if let Some(serial) = effects.serial {
        changes.push(Change::Put {
            key: key(document::QUEUE_SERIAL),
            content: Bytes::from(format!("{serial}\n")),
        });
    }
    match effects.drained {
        Some(true) => changes.push(Change::Put {
            key: key(document::QUEUE_DRAIN),
            content: Bytes::from_static(b""),
        }),
        Some(false) => changes.push(Change::Delete { key: key(document::QUEUE_DRAIN) }),
        None => {}
    }
    changes.extend(
        round.documents.iter().map(|(key, content)| document_change(key, content.as_ref())),
    );
    changes
}

/// A job as its file holds it.
pub(crate) fn job_file(job: &Job) -> Bytes {
    serde_json::to_vec(job).expect("a job has plain keys and no failing parts").into()
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("the names of objects are checked to be good keys")
}
