//! The agent's durable memory: the epoch that it obeys, its allowed callers, rack documents, leases,
//! records of ramdisks, and the outbox. One store, one order of changes; a change is answered when it is
//! on disk.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use model::Timestamp;
use model::rack::{Event, Observation, RackDocument};
use queue_format::{Callbacks, Change, Committer, Epoch, Fill, Health, Key, Store, StoreOptions};
use rpc::calls::{AllowList, Membership, RamdiskTold, Sign};
use rpc::fence::Obeyed;
use stdx::metrics::{Histogram, LATENCY};

use crate::dhcp::LeaseRecord;
use crate::outbox::Outbox;

mod changes;
mod error;
mod keys;
mod ramdisks;
mod repeats;
mod restore;
mod signs;

pub use error::LedgerError;
pub use ramdisks::{Durable, Known, Ramdisks, is_of, observed};

use changes::{Changed, Changes};
use repeats::Repeats;
use restore::Owner;
use signs::{Heard, Signs};

/// Bytes of a journal segment. A rack document must fit half of one; an agent changes little, and
/// two of these are made when it starts for the first time.
pub const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// Segments: one being written, one being checkpointed.
const SEGMENTS: usize = 2;

/// Keys that are removed in one change, far below what the store takes.
const REMOVED_AT_ONCE: usize = 10_000;

/// The part of a change that comes back when it is durable.
#[derive(Debug)]
struct Tag {
    /// The last event of the change.
    number: Option<u64>,
    done: Option<oneshot::Sender<()>>,
}

/// The agent's state. Reads see what is durable, but for leases, which are seen when they are given.
#[derive(Debug)]
pub struct Ledger {
    committer: Committer<Tag>,
    state: Mutex<State>,
    /// The last event that is durable.
    durable: watch::Sender<u64>,
    /// The last change that other agents are told of.
    changed: watch::Sender<u64>,
    incarnation: Uuid,
    /// Another one after each start.
    run: Uuid,
    /// When that began.
    began: Instant,
    /// When the node was enrolled.
    enrolled: Timestamp,
    commit_seconds: Arc<Histogram>,
}

/// The ledger's content in memory.
#[derive(Debug, Default)]
struct State {
    outbox: Outbox,
    leases: BTreeMap<Ipv4Addr, LeaseRecord>,
    ramdisks: Ramdisks,
    changes: Changes,
    repeats: Repeats,
    signs: Signs,
}

/// Changes, for another agent.
#[derive(Debug, Default)]
pub struct News {
    pub leases: Vec<LeaseRecord>,
    /// Records of ramdisks.
    pub ramdisks: Vec<RamdiskTold>,
    /// Whether the agent serves machines at other addresses than before.
    pub has_places: bool,
    /// How many changes were looked at.
    pub count: usize,
    /// The number up to which that is all.
    pub upto: u64,
    /// Whether something changed after it.
    pub more: bool,
}

/// The state that the store held at the start.
#[derive(Debug, Default)]
pub struct Restored {
    /// The epoch and the master that it obeys.
    pub obeyed: Obeyed,
    /// The allowed callers, if the master named them since the enrolment.
    pub allow: Option<AllowList>,
    pub racks: Vec<RackDocument>,
}

impl Ledger {
    /// Opens the store in `directory` for the node that `membership` names. State of another node, or of
    /// the same machine in another cluster, is removed. Segments of a new journal have `segment_bytes`,
    /// which is [`SEGMENT_BYTES`] but where agents share a disk. Blocks.
    ///
    /// # Errors
    /// The store cannot be opened or read.
    pub fn open(
        directory: &Path,
        membership: &Membership,
        segment_bytes: u64,
    ) -> Result<(Self, Restored), LedgerError> {
        std::fs::create_dir_all(directory)
            .map_err(|error| LedgerError::Directory { path: directory.to_owned(), error })?;
        let options = StoreOptions { segment_bytes, segments: SEGMENTS, ..StoreOptions::default() };
        let store =
            Store::open(directory, options).map_err(|error| LedgerError::open(directory, error))?;
        let found = restore::read(&store, directory, membership)?;
        let incarnation = store.recovered().incarnation;
        let (durable, _) = watch::channel(found.outbox.numbers().last);
        let telling = durable.clone();
        let callbacks = Callbacks::new(move |tags: Vec<Tag>, _position| {
            let last = tags.iter().filter_map(|tag| tag.number).max();
            telling.send_if_modified(|durable| {
                let before = *durable;
                *durable = last.map_or(before, |last| last.max(before));
                *durable != before
            });
            for done in tags.into_iter().filter_map(|tag| tag.done) {
                // The caller may have given up.
                done.send(()).unwrap_or(());
            }
        });
        let commit_seconds = Arc::new(Histogram::new(LATENCY));
        let counted = Arc::clone(&commit_seconds);
        let callbacks = callbacks.on_flushed(move |flushed| counted.observe_time(flushed.took));
        let committer = store.start(Epoch::default(), callbacks)?;
        let ramdisks = found.ramdisks.keys();
        let ramdisks = ramdisks.map(|(rack, serial)| Changed::Ramdisk(*rack, serial.clone()));
        let leases = found.leases.keys().map(|address| Changed::Lease(*address));
        let changes: Changes = leases.chain(ramdisks).collect();
        let (changed, _) = watch::channel(changes.last());
        let state = State {
            outbox: found.outbox,
            leases: found.leases,
            ramdisks: found.ramdisks,
            changes,
            repeats: Repeats::default(),
            signs: Signs::default(),
        };
        let state = Mutex::new(state);
        let enrolled = membership.enrolled;
        let (run, began) = (Uuid::new_v4(), Instant::now());
        let ledger = Self {
            committer,
            state,
            durable,
            changed,
            incarnation,
            run,
            began,
            enrolled,
            commit_seconds,
        };
        ledger.begin(&Owner::of(membership), found.foreign)?;
        Ok((ledger, found.restored))
    }

    /// Makes the store that of `owner`, after what is `foreign` has been removed.
    fn begin(&self, owner: &Owner, foreign: Vec<Key>) -> Result<(), LedgerError> {
        drop(self.delete(foreign)?);
        self.submit(vec![put(keys::owner(), owner)], None).map(drop)
    }

    /// Submits the removal of `keys`; what comes back tells of the last of them.
    fn delete(&self, keys: Vec<Key>) -> Result<Option<oneshot::Receiver<()>>, LedgerError> {
        let mut last = None;
        for group in keys.chunks(REMOVED_AT_ONCE) {
            let changes = group.iter().map(|key| Change::Delete { key: key.clone() }).collect();
            last = Some(self.submit(changes, None)?);
        }
        Ok(last)
    }

    /// Identity of the store: another one after the node lost its disk.
    pub fn incarnation(&self) -> Uuid {
        self.incarnation
    }

    /// Makes durable whom the agent obeys.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn hold_epoch(&self, obeyed: &Obeyed) -> Result<(), LedgerError> {
        self.commit(vec![put(keys::epoch(), obeyed)]).await
    }

    /// Makes the list of callers durable, which lasts until the node is enrolled anew.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn keep_allow_list(&self, list: &AllowList) -> Result<(), LedgerError> {
        let enrolled = put(keys::enrolled(), &self.enrolled);
        self.commit(vec![put(keys::allow_list(), list), enrolled]).await
    }

    /// Makes a rack document durable.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn keep_rack(&self, document: &RackDocument) -> Result<(), LedgerError> {
        self.commit(vec![put(keys::rack(document.rack), document)]).await
    }

    /// Forgets a rack document.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn forget_rack(&self, rack: u32) -> Result<(), LedgerError> {
        self.commit(vec![Change::Delete { key: keys::rack(rack) }]).await
    }

    /// Forgets everything but the store's own identity and the numbers that were given: the master
    /// may remember how far it came.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn wipe(&self, racks: &[u32]) -> Result<(), LedgerError> {
        let mut gone = vec![keys::epoch(), keys::allow_list(), keys::enrolled()];
        gone.extend(racks.iter().map(|rack| keys::rack(*rack)));
        let done = {
            let mut state = self.state.lock();
            gone.extend(state.leases.keys().map(|address| keys::lease(*address)));
            gone.extend(state.ramdisks.keys().map(|(rack, serial)| keys::ramdisk(*rack, serial)));
            gone.extend(state.outbox.kept().map(keys::event));
            // Last: a stop before it leaves a store that the next owner empties.
            gone.push(keys::owner());
            let outbox = Outbox::restore(state.outbox.numbers(), []);
            *state = State { outbox, ..State::default() };
            self.delete(gone)?
        };
        match done {
            Some(done) => done.await.map_err(|_ended| LedgerError::Ended),
            None => Ok(()),
        }
    }

    /// Makes `leases`, and what is to be told of them, durable in one change.
    ///
    /// # Errors
    /// The store does not take it: then nothing has happened.
    pub async fn keep_leases(
        &self,
        leases: Vec<LeaseRecord>,
        at: Timestamp,
        observations: Vec<Observation>,
    ) -> Result<(), LedgerError> {
        let changes = leases.iter().map(|lease| put(keys::lease(lease.address), lease)).collect();
        let done = {
            let mut state = self.state.lock();
            let done = self.submit_events(&mut state, changes, at, observations)?;
            // Another agent is told at once: what it is told later it may have decided without.
            leases.iter().for_each(|lease| state.changes.note(Changed::Lease(lease.address)));
            state.leases.extend(leases.into_iter().map(|lease| (lease.address, lease)));
            self.changed.send_replace(state.changes.last());
            done
        };
        done.await.map_err(|_ended| LedgerError::Ended)
    }

    /// Notes what was seen. It is handed out once it is durable; nobody waits for it here. Gives whether
    /// it tells something new. Signs of life are news twice in a boot; the others are [told](Self::signs)
    /// from memory alone.
    ///
    /// # Errors
    /// The store does not take it: then it is not noted.
    pub fn note(&self, at: Timestamp, mut observation: Observation) -> Result<bool, LedgerError> {
        let mut state = self.state.lock();
        if !state.repeats.is_news(at, &observation) {
            return Ok(false);
        }
        let heard = state.signs.hear(self.began.elapsed(), &observation);
        match (heard, &mut observation) {
            (Heard::Again, _) => return Ok(false),
            (Heard::Second(seconds), Observation::Boot { every, .. }) => *every = Some(seconds),
            (Heard::Second(_) | Heard::First, _) => {}
        }
        let noted = self.submit_events(&mut state, Vec::new(), at, vec![observation.clone()]);
        if noted.is_err() {
            state.signs.forget(&observation);
        }
        noted.map(|_| true)
    }

    /// Signs of life to tell the master of, at most so many: those that it does not know, or each one's last
    /// where it knows nothing.
    pub fn signs(&self, knows_nothing: bool, most: usize) -> Vec<Sign> {
        self.state.lock().signs.take_due(self.began.elapsed(), knows_nothing, most)
    }

    /// Submits `changes` with the events of `observations`. The lock that `state` came from is
    /// held, so numbers reach the store in their order.
    fn submit_events(
        &self,
        state: &mut State,
        mut changes: Vec<Change>,
        at: Timestamp,
        observations: Vec<Observation>,
    ) -> Result<oneshot::Receiver<()>, LedgerError> {
        let plan = state.outbox.plan(at, observations);
        changes.extend(plan.forget.iter().map(|n| Change::Delete { key: keys::event(*n) }));
        changes.extend(plan.put.iter().map(|event| put(keys::event(event.number), event)));
        let number = plan.put.last().map(|event| event.number);
        if number.is_some() {
            changes.push(put(keys::numbers(), &plan.numbers));
        }
        let done = self.submit(changes, number)?;
        state.outbox.apply(plan);
        Ok(done)
    }

    /// Forgets events up to `number`, as far as they were ever handed out.
    ///
    /// # Errors
    /// The store does not take it; they are then handed out again after a restart.
    pub fn acknowledge(&self, number: u64) -> Result<(), LedgerError> {
        let mut state = self.state.lock();
        let number = number.min(*self.durable.borrow());
        let gone = state.outbox.acknowledge(number);
        if gone.is_empty() {
            return Ok(());
        }
        let changes = gone.into_iter().map(|n| Change::Delete { key: keys::event(n) }).collect();
        self.submit(changes, None).map(drop)
    }

    /// The durable events, oldest first, at most `most`, and the number of those given up.
    pub fn pending(&self, most: usize) -> (Vec<Event>, u64) {
        let durable = *self.durable.borrow();
        let state = self.state.lock();
        (state.outbox.pending(durable, most), state.outbox.numbers().dropped)
    }

    /// How many events wait, and how many were given up.
    pub fn outbox_len(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.outbox.len(), state.outbox.numbers().dropped)
    }

    /// How long commits took.
    pub fn commit_seconds(&self) -> &Histogram {
        &self.commit_seconds
    }

    /// How full the journal is.
    pub fn journal_fill(&self) -> Fill {
        self.committer.journal_fill()
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        self.committer.health()
    }

    /// Changes when an event has become durable.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.durable.subscribe()
    }

    /// The lease of `address`, the last one where it has ended.
    pub fn lease(&self, address: Ipv4Addr) -> Option<LeaseRecord> {
        self.state.lock().leases.get(&address).cloned()
    }

    /// All leases, by address.
    pub fn leases(&self) -> Vec<LeaseRecord> {
        self.state.lock().leases.values().cloned().collect()
    }

    /// The changes after this number of this [`Self::run`], `most` of them at most.
    pub fn news_after(&self, number: u64, most: usize) -> News {
        let state = self.state.lock();
        let mut news = News { upto: state.changes.last(), ..News::default() };
        for (number, changed) in state.changes.after(number).take(most) {
            news.count += 1;
            match changed {
                Changed::Lease(address) => news.leases.extend(state.leases.get(address).cloned()),
                Changed::Ramdisk(rack, serial) => {
                    let record = state.ramdisks.get(&(*rack, serial.clone()));
                    news.ramdisks.extend(record.cloned());
                }
                Changed::Places => news.has_places = true,
            }
            if news.count == most {
                (news.upto, news.more) = (number, number < state.changes.last());
            }
        }
        news
    }

    /// Notes that the agent serves machines at other addresses, which is news to other agents.
    pub fn note_places(&self) {
        let mut state = self.state.lock();
        state.changes.note(Changed::Places);
        self.changed.send_replace(state.changes.last());
    }

    /// Identity of this run of the agent.
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// Watches the number of the last change that [`Self::news_after`] counts.
    pub fn watch_news(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), LedgerError> {
        self.submit(changes, None)?.await.map_err(|_ended| LedgerError::Ended)
    }

    fn submit(
        &self,
        changes: Vec<Change>,
        number: Option<u64>,
    ) -> Result<oneshot::Receiver<()>, LedgerError> {
        let (done, told) = oneshot::channel();
        let tag = Tag { number, done: Some(done) };
        self.committer
            .try_submit(changes, tag)
            .map_err(|refused| LedgerError::Refused(refused.reason))?;
        Ok(told)
    }

    /// Commits what waits and completes the files. Blocks.
    ///
    /// # Errors
    /// The files could not be completed; nothing is lost.
    pub fn close(&self) -> Result<(), LedgerError> {
        Ok(self.committer.close()?)
    }
}

fn put<T: Serialize>(key: Key, document: &T) -> Change {
    let content = serde_json::to_vec(document).expect("the agent's documents have JSON forms");
    Change::Put { key, content: Bytes::from(content) }
}

fn parse<T: DeserializeOwned>(path: &Path, key: &Key, content: &[u8]) -> Result<T, LedgerError> {
    serde_json::from_slice(content).map_err(|error| LedgerError::Document {
        key: key.to_string(),
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests;
