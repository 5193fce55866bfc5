//! One round of the writer as one commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Job, document};
use queue_format::{Change, Key, Refusal, SUBMISSION_MOVES_MAX};

use crate::commits::Commits;
use crate::configuration::{Changed, Configuration, Documents};
use crate::effects::Effects;
use crate::event::Channels;
use crate::published::{After, ConfigAfter, Done};

/// Pause before a commit that found no room is offered again. Only a disk that is full or far too
/// slow makes the writer wait here, and then everything waits with it.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(20);

/// Objects that changed in one round, before it is closed: more would only make the first of them
/// wait longer.
const ROUND_CHANGES_MAX: usize = 1_024;

/// Bytes of jobs that changed in one round, likewise: they are all written out at once.
const ROUND_BYTES_MAX: usize = 16 << 20;

/// The result of one round of commands.
#[derive(Debug)]
pub(super) struct Round<C> {
    pub(super) effects: Effects<Channels>,
    /// By key: what changes twice in a round is written once.
    documents: Documents,
    /// Weight of the documents, each time that one changed.
    document_bytes: usize,
    config: Option<ConfigAfter<C>>,
    transactions: Vec<Done>,
}

impl<C> Default for Round<C> {
    fn default() -> Self {
        Self {
            effects: Effects::default(),
            documents: Documents::new(),
            document_bytes: 0,
            config: None,
            transactions: Vec::new(),
        }
    }
}

impl<C: Configuration> Round<C> {
    /// Whether it is time to commit before the next command is taken.
    pub(super) fn is_full(&self) -> bool {
        let effects = &self.effects;
        effects.changed.len() + effects.archived.len() + self.documents.len() >= ROUND_CHANGES_MAX
            || effects.changed_bytes >= ROUND_BYTES_MAX
    }

    pub(super) fn commits_nothing(&self) -> bool {
        self.effects.commits_nothing() && self.documents.is_empty() && self.transactions.is_empty()
    }

    /// Whether a transaction fits the same commit as those that the round has.
    pub(super) fn has_room(&self, prepared: &Prepared<C>, bytes_max: usize) -> bool {
        self.document_bytes + prepared.bytes <= bytes_max
    }

    /// Takes a transaction; the configuration is that of `prepared` from here on.
    pub(super) fn take(&mut self, prepared: Prepared<C>, done: Done) -> Arc<C> {
        let Prepared { config, documents, racks, bytes } = prepared;
        self.documents.extend(documents);
        self.document_bytes += bytes;
        let after = self.config.get_or_insert_with(|| ConfigAfter::new(&config));
        after.config = Arc::clone(&config);
        after.racks.extend(racks);
        self.transactions.push(done);
        config
    }
}

/// The result of a transaction on the configuration.
#[derive(Debug)]
pub(super) struct Prepared<C> {
    config: Arc<C>,
    documents: Documents,
    racks: BTreeSet<u32>,
    /// Weight of the documents.
    pub(super) bytes: usize,
}

impl<C: Configuration> Prepared<C> {
    /// Whether any document is written.
    pub(super) fn changes_something(&self) -> bool {
        !self.documents.is_empty()
    }

    /// Applies `changes` to a copy of `config`.
    pub(super) fn new(changes: Vec<C::Change>, config: &Arc<C>) -> Self {
        let mut changed = Changed::default();
        let mut next = Arc::clone(config);
        if !changes.is_empty() {
            changed = Arc::make_mut(&mut next).apply(changes);
        }
        let Changed { documents, racks } = changed;
        let weigh = |(key, content): (&String, &Option<Bytes>)| {
            document_change(key, content.as_ref()).weight()
        };
        let bytes = documents.iter().map(weigh).sum();
        Self { config: next, documents, racks, bytes }
    }
}

/// Hands a round to the store, in as many commits as it takes; all that follows from it comes with the
/// last. A crash between two commits leaves a state from which recovery can go on. Changes are in the
/// order in which jobs depend on each other, and nobody was told anything yet.
///
/// `lone` says that nothing else is to be done before it is durable.
pub(super) async fn submit<C: Configuration>(commits: &Commits<C>, round: Round<C>, lone: bool) {
    let pieces = pieces(&round);
    let Round { effects, config, transactions, .. } = round;
    let after = After {
        changed: effects.changed.into_values().collect(),
        archived: effects.archived.into_keys().collect(),
        drained: effects.drained,
        config,
        replies: effects.replies,
        transactions,
    };
    if let Err(why) = offer_all(commits, pieces, after, lone).await {
        if let Refusal::TooLarge { what } = &why {
            // Memory is ahead of a disk that will never follow: going on would spread that.
            tracing::error!(what, "a change does not fit the store; the daemon ends");
            std::process::abort();
        }
        // The answers were dropped, which tells everybody that the outcome is not known.
        tracing::error!(%why, "the store takes no more commits");
    }
}

/// Commits `pieces` in their order, as many at a time as the store takes; `after` comes with the
/// last.
///
/// # Errors
/// The store will never take one: it is too large, or the store has stopped.
pub async fn offer_all<C: Configuration>(
    commits: &Commits<C>,
    pieces: Vec<Piece>,
    after: After<C>,
    lone: bool,
) -> Result<(), Refusal> {
    let mut packed = pack(pieces, commits.submission_bytes_max());
    let last = packed.pop().unwrap_or_default();
    for commit in packed {
        offer(commits, commit, After::default(), false).await?;
    }
    offer(commits, last, after, lone).await
}

/// Changes that belong into one commit.
pub type Piece = Vec<Change>;

/// Puts pieces together to commits of at most `bytes_max`, or of a single piece.
fn pack(pieces: Vec<Piece>, bytes_max: usize) -> Vec<Vec<Change>> {
    let mut commits: Vec<Vec<Change>> = Vec::new();
    let (mut bytes, mut moves) = (0, 0);
    for piece in pieces {
        let piece_bytes: usize = piece.iter().map(Change::weight).sum();
        let piece_moves = piece.iter().filter(|c| matches!(c, Change::Move { .. })).count();
        bytes += piece_bytes;
        moves += piece_moves;
        match commits.last_mut() {
            Some(commit) if bytes <= bytes_max && moves <= SUBMISSION_MOVES_MAX => {
                commit.extend(piece);
            }
            _ => {
                (bytes, moves) = (piece_bytes, piece_moves);
                commits.push(piece);
            }
        }
    }
    commits
}

/// Commits, waiting while there is no room.
///
/// # Errors
/// The store will never take it: it is too large, or the store has stopped.
async fn offer<C: Configuration>(
    commits: &Commits<C>,
    mut changes: Vec<Change>,
    mut after: After<C>,
    lone: bool,
) -> Result<(), Refusal> {
    while let Err(refused) = commits.submit(changes, after, lone) {
        match refused.reason {
            Refusal::Busy | Refusal::CutOff | Refusal::DiskFull { .. } => {
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
pub fn role_entry(jobs: &[Arc<Job>], documents: &Documents) -> Vec<Piece> {
    let documents = documents.iter().map(|(key, content)| document_change(key, content.as_ref()));
    jobs.iter().map(|job| vec![put_job(job)]).chain([documents.collect()]).collect()
}

/// Writes a document, or deletes it.
///
/// # Panics
/// The name is no key, which the names of documents are.
pub fn document_change(name: &str, content: Option<&Bytes>) -> Change {
    let key = key(name);
    match content {
        Some(content) => Change::Put { key, content: content.clone() },
        None => Change::Delete { key },
    }
}

/// The changes of a round: each job by itself, the configuration together. The serial goes before the
/// jobs, since a stop in between must not let an id be used twice. The configuration goes behind them,
/// since a job that was never stored may change nothing.
fn pieces<C>(round: &Round<C>) -> Vec<Piece> {
    let effects = &round.effects;
    let mut pieces = Vec::with_capacity(effects.changed.len() + effects.archived.len() + 3);
    if let Some(serial) = effects.serial {
        let content = Bytes::from(format!("{serial}\n"));
        pieces.push(vec![Change::Put { key: key(document::QUEUE_SERIAL), content }]);
    }
    pieces.extend(effects.changed.values().map(|job| vec![put_job(job)]));
    pieces.extend(effects.archived.keys().map(|&id| {
        let from = key(&document::job(id));
        vec![Change::Move { from, to: key(&document::archived_job(id)) }]
    }));
    if let Some(drained) = effects.drained {
        let key = key(document::QUEUE_DRAIN);
        pieces.push(vec![match drained {
            true => Change::Put { key, content: Bytes::new() },
            false => Change::Delete { key },
        }]);
    }
    if !round.documents.is_empty() {
        let documents = round.documents.iter();
        let changes = documents.map(|(key, content)| document_change(key, content.as_ref()));
        pieces.push(changes.collect());
    }
    pieces
}

fn put_job(job: &Job) -> Change {
    Change::Put { key: key(&document::job(job.id)), content: job_file(job) }
}

/// The bytes of a small job's file; with that capacity, writing it moves nothing about.
const SMALL_JOB_BYTES: usize = 1_024;

/// A job as its file holds it.
pub fn job_file(job: &Job) -> Bytes {
    let mut file = Vec::with_capacity(SMALL_JOB_BYTES);
    serde_json::to_writer(&mut file, job).expect("a job has plain keys and no failing parts");
    file.into()
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("the names of objects are checked to be good keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize) -> Piece {
        vec![Change::Put { key: key("queue/job-1"), content: vec![0; bytes].into() }]
    }

    #[test]
    fn a_round_is_cut_by_weight_and_by_moves_and_pieces_stay_whole() {
        let lengths =
            |pieces, max| -> Vec<usize> { pack(pieces, max).iter().map(Vec::len).collect() };
        assert!(pack(Vec::new(), 10).is_empty());
        assert_eq!(lengths(vec![put(100), put(100), put(100)], 300), [2, 1]);
        assert_eq!(lengths(vec![put(10), put(1_000), put(10)], 300), [1, 1, 1]);
        let whole = vec![put(100), [put(100), put(100)].concat(), put(10)];
        assert_eq!(lengths(whole, 300), [1, 3]);
        let from = || key("queue/job-1");
        let to = || key("queue/archive/0/job-1");
        let moves = vec![vec![Change::Move { from: from(), to: to() }]; SUBMISSION_MOVES_MAX + 1];
        assert_eq!(lengths(moves, usize::MAX), [SUBMISSION_MOVES_MAX, 1]);
    }
}
