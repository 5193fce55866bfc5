//! Several members in one process, and a network between them that can be cut.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use queue_format::{Batch, Change, Epoch, Position, StoreOptions};
use tempfile::TempDir;

use super::{SOON, files, key, store_options};
use crate::{
    Answer, Engine, EngineOptions, EngineStatus, Kept, Link, MembersChange, PeerError, Peers,
    ProposeError,
};

#[derive(Debug, Default)]
struct Wires {
    engines: BTreeMap<u64, Arc<Engine>>,
    cut: HashSet<u64>,
    /// How many more questions of a kind are lost.
    lost: BTreeMap<u8, usize>,
    asked: BTreeMap<u8, u64>,
}

/// Where members meet.
#[derive(Debug, Clone, Default)]
pub(super) struct Net(Arc<Mutex<Wires>>);

#[derive(Debug)]
struct End(Net, u64);

struct Wire(Net, u64, u64);

impl Peers for End {
    fn link(&self, member: u64, _node: &str) -> Box<dyn Link> {
        Box::new(Wire(self.0.clone(), self.1, member))
    }
}

impl Wire {
    fn way(&self, kind: u8) -> Option<Arc<Engine>> {
        let Self(net, from, to) = self;
        let mut wires = net.0.lock();
        let open = !wires.cut.contains(from) && !wires.cut.contains(to);
        let losses = wires.lost.get_mut(&kind).filter(|more| **more > 0);
        let is_lost = losses.map(|more| *more -= 1).is_some();
        let open = open && !is_lost;
        let engine = wires.engines.get(to).filter(|_| open).cloned();
        *wires.asked.entry(kind).or_default() += 1;
        engine
    }
}

impl Link for Wire {
    fn ask(&mut self, kind: u8, body: Bytes, _limit: Duration) -> Answer<'_> {
        Box::pin(async move {
            let gone = |reason: &str| PeerError { reason: reason.to_owned(), soon: false };
            let engine = self.way(kind).ok_or_else(|| gone("no way"))?;
            let answer = engine.answer(self.1, kind, body).await;
            let answer = answer.map_err(|error| gone(&error.to_string()))?;
            // An answer can be lost where its question was not.
            self.way(kind).ok_or_else(|| gone("no way back"))?;
            Ok(answer)
        })
    }
}

/// Members with their directories.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) net: Net,
    root: TempDir,
    pub(super) kept: Kept,
}

impl Cluster {
    /// A cluster whose only member leads, in the epoch that is returned.
    pub(super) async fn begin(kept: Kept) -> (Self, Epoch) {
        let root = tempfile::tempdir().unwrap();
        let cluster = Self { net: Net::default(), root, kept };
        cluster.start(1, None).await;
        let epoch = cluster.engine(1).take_over(SOON).await.unwrap();
        (cluster, epoch)
    }

    /// As [`Self::begin`], with `count` voters.
    pub(super) async fn voters(count: u64) -> (Self, Epoch) {
        let (cluster, epoch) = Self::begin(Kept::default()).await;
        for member in 2..=count {
            cluster.join(1, member).await;
        }
        cluster.set_voters(1, 1..=count).await;
        (cluster, epoch)
    }

    pub(super) fn directory(&self, member: u64) -> PathBuf {
        self.root.path().join(format!("m{member}"))
    }

    pub(super) fn engine(&self, member: u64) -> Arc<Engine> {
        self.net.0.lock().engines[&member].clone()
    }

    pub(super) async fn start(&self, member: u64, goes_on: Option<Epoch>) {
        self.start_with(member, goes_on, store_options()).await;
    }

    pub(super) async fn start_with(
        &self,
        member: u64,
        goes_on: Option<Epoch>,
        store: StoreOptions,
    ) {
        let mut options = EngineOptions::new(member, &format!("n{member}"), store);
        options.kept = self.kept;
        options.goes_on = goes_on;
        let peers = Arc::new(End(self.net.clone(), member));
        let on_fatal = Box::new(|error: &queue_format::FatalError| {
            println!("{error:?}");
            std::process::abort();
        });
        let opened = Engine::open_or(&self.directory(member), options, peers, Some(on_fatal)).await;
        let (engine, mut committed) = opened.unwrap();
        #[expect(clippy::disallowed_methods, reason = "ends with the engine")]
        tokio::spawn(async move { while committed.recv().await.is_some() {} });
        self.net.0.lock().engines.insert(member, Arc::new(engine));
    }

    /// Ends a member; its directory stays.
    pub(super) async fn stop(&self, member: u64) {
        let engine = self.net.0.lock().engines.remove(&member).unwrap();
        engine.close().await.unwrap();
    }

    pub(super) async fn join(&self, leader: u64, member: u64) {
        self.start(member, None).await;
        let add = MembersChange::AddLearner { member, node: format!("n{member}") };
        self.engine(leader).change_members(add).await.unwrap();
    }

    /// Waits until these have everything, and lets them vote.
    pub(super) async fn set_voters(&self, leader: u64, voters: impl IntoIterator<Item = u64>) {
        let voters: BTreeSet<u64> = voters.into_iter().collect();
        for &member in &voters {
            self.caught_up(leader, member).await;
        }
        self.engine(leader).change_members(MembersChange::SetVoters(voters)).await.unwrap();
    }

    /// Waits until `member` leads and takes proposals, in the epoch that is returned.
    pub(super) async fn leads(&self, member: u64) -> Epoch {
        let ready = |status: &EngineStatus| {
            status.takes_proposals().is_some_and(|epoch| status.applied.epoch == epoch)
        };
        let (leads, status) = self.engine(member).wait_for(SOON, ready).await;
        assert!(leads, "{status:?}");
        status.leads.unwrap()
    }

    /// Waits until `member` has applied what `leader` has.
    pub(super) async fn caught_up(&self, leader: u64, member: u64) {
        let wanted = self.engine(leader).position();
        let (reached, status) =
            self.engine(member).wait_for(SOON, |status| status.applied >= wanted).await;
        assert!(reached, "{status:?}");
    }

    pub(super) fn cut(&self, member: u64) {
        self.net.0.lock().cut.insert(member);
    }

    /// Loses the next questions of this kind, this many.
    pub(super) fn lose(&self, kind: u8, count: usize) {
        self.net.0.lock().lost.insert(kind, count);
    }

    pub(super) fn heal(&self) {
        let mut wires = self.net.0.lock();
        wires.cut.clear();
        wires.lost.clear();
    }

    /// How often a question of this kind was asked.
    pub(super) fn asked(&self, kind: u8) -> u64 {
        self.net.0.lock().asked.get(&kind).copied().unwrap_or_default()
    }

    pub(super) async fn put(
        &self,
        leader: u64,
        epoch: Epoch,
        (name, content): (&str, &str),
    ) -> Result<Position, ProposeError> {
        let content = Bytes::copy_from_slice(content.as_bytes());
        let batch = Batch(vec![Change::Put { key: key(name), content }]);
        self.engine(leader).propose(epoch, batch).await
    }

    /// Ends everyone; all must have the same files, which are returned.
    pub(super) async fn same_files(self, leader: u64) -> BTreeMap<String, String> {
        let members: Vec<u64> = self.net.0.lock().engines.keys().copied().collect();
        for &member in &members {
            self.caught_up(leader, member).await;
        }
        for &member in &members {
            self.stop(member).await;
        }
        let mut all = members.iter().map(|&member| files(&self.directory(member)));
        let first = all.next().unwrap();
        all.for_each(|other| assert_eq!(first, other));
        first
    }
}
