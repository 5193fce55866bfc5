//! Having what a master commits replicated: an engine that leads, and who proposes to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{End, Engine, EngineOptions, Peers, Proposer};
use queue_format::{Callbacks, Epoch};
use stdx::{Executor, Tasks};
use tokio::sync::watch;
use uuid::Uuid;

use super::follow::Follower;
use crate::agents::metrics::Metrics;
use crate::config::queue::{After, Led, OpenEngine, Published};
use crate::role::members::Founding;

/// Shows what is committed, and counts it.
#[derive(Debug, Clone)]
pub struct Publisher {
    published: Arc<Published>,
    metrics: Arc<Metrics>,
}

impl Publisher {
    /// Shows it in `published`, counts it in `metrics`.
    pub fn new(published: Arc<Published>, metrics: Arc<Metrics>) -> Self {
        Self { published, metrics }
    }

    /// The callbacks for a committer.
    pub fn callbacks(self) -> Callbacks<After> {
        let counted = Arc::clone(&self.metrics);
        Callbacks::new(move |group, position| self.published.publish(group, position))
            .on_flushed(move |flushed| counted.flushed(flushed))
    }

    /// The callback for a proposer.
    pub fn on_committed(self) -> engine::OnCommitted<After> {
        Box::new(move |group, position, flushed| {
            self.metrics.flushed(flushed);
            self.published.publish(group, position);
        })
    }
}

/// The channel for a proposer's end.
pub type Ended = watch::Sender<Option<End>>;

/// Lets `engine`, which leads in `epoch`, commit what a master submits; `ended` is told when that is
/// over.
pub fn propose(
    engine: Arc<Engine>,
    epoch: Epoch,
    publisher: Publisher,
    tasks: &Tasks,
    ended: Ended,
) -> Led {
    let proposer: Arc<Proposer<After>> = Arc::new(Proposer::new(Arc::clone(&engine), epoch));
    let run = Arc::clone(&proposer);
    tasks.spawn("proposer", async move {
        let end = run.run(publisher.on_committed()).await;
        tracing::info!(?end, term = epoch.term, "nothing more is proposed");
        ended.send_replace(Some(end));
    });
    (engine, proposer)
}

/// How long an engine may take to lead again that goes on where a committer ended: it asks nobody.
const LEADS_WITHIN: Duration = Duration::from_secs(5);

/// The parts with which a lone master lets others follow it.
#[derive(Debug)]
pub struct Alone {
    /// The data directory of its store.
    pub data: PathBuf,
    /// The executor of its engine.
    pub executor: Executor,
    /// How it goes on: in its epoch.
    pub options: EngineOptions,
    /// The way to the others.
    pub peers: Arc<dyn Peers>,
    /// Listens to what is committed.
    pub(crate) follower: Follower,
    /// The tasks in which that runs.
    pub followers: Tasks,
    /// Shows what is committed.
    pub publisher: Publisher,
    /// Told when nothing more is proposed.
    pub ended: Ended,
    /// Identity of the store.
    pub incarnation: Uuid,
}

impl Alone {
    /// How replication begins, for who invites the first follower.
    pub(crate) fn founding(self: Arc<Self>) -> Founding {
        let (member, incarnation) = (self.options.member, self.incarnation);
        Founding { member, incarnation, open: Box::new(move || self.go_over()) }
    }

    /// Opens the engine on the store, once that is closed, and goes on in the epoch of this leadership.
    pub fn go_over(self: &Arc<Self>) -> OpenEngine {
        let alone = Arc::clone(self);
        Box::new(move || {
            Box::pin(async move {
                let Self { options, follower, followers, .. } = &*alone;
                let epoch = options.goes_on.unwrap_or_default();
                let opening = Arc::clone(&alone);
                let open = async move {
                    let Self { data, options, peers, .. } = &*opening;
                    Engine::open(data, options.clone(), Arc::clone(peers)).await
                };
                let (engine, news) = alone.executor.run(open).await?;
                let engine = Arc::new(engine);
                // Until it leads again it would look as if it had been deposed.
                let leads = |status: &engine::EngineStatus| status.leads == Some(epoch);
                let (_, status) = engine.wait_for(LEADS_WITHIN, leads).await;
                if !leads(&status) {
                    tracing::error!(
                        ?status,
                        "the engine does not continue in the epoch of this leadership"
                    );
                }
                followers.spawn("follower", follower.clone().run(Arc::clone(&engine), news));
                let (publisher, ended) = (alone.publisher.clone(), alone.ended.clone());
                Ok(propose(engine, epoch, publisher, followers, ended))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use queue_format::{Change, Key, Store, StoreOptions};

    use super::*;
    use crate::agents::metrics::Metrics;
    use crate::config::queue::Commits;
    use crate::config::queue::Published;
    use crate::testing::{Nobody, config};

    /// Far more than a flush takes.
    const SOON: Duration = Duration::from_secs(60);

    async fn put(commits: &Commits, serial: u64) {
        let key = Key::parse("queue/serial").unwrap();
        let change = Change::Put { key, content: format!("{serial}\n").into() };
        let (reply, done) = tokio::sync::oneshot::channel();
        commits.submit(vec![change], After::role_entry(Vec::new(), reply), false).unwrap();
        tokio::time::timeout(SOON, done).await.unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_master_that_was_alone_goes_on_with_an_engine_in_its_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
        let epoch = Epoch { term: 4, node: 1 };
        let published = Published::new(Arc::default(), Arc::new(config(&[])), false, 1);
        let publisher = Publisher::new(Arc::new(published), Arc::new(Metrics::default()));
        let store = Store::open(dir.path(), options.clone()).unwrap();
        let commits = Commits::local(store.start(epoch, publisher.clone().callbacks()).unwrap());
        put(&commits, 1).await;
        let before = commits.position();

        let mut engine = EngineOptions::new(1, "n1.example", options.clone());
        engine.goes_on = Some(epoch);
        let (followers, (ended, mut end)) = (Tasks::new(), watch::channel(None));
        let alone = Arc::new(Alone {
            executor: Executor::default(),
            data: dir.path().to_owned(),
            options: engine,
            peers: Arc::new(Nobody),
            follower: Follower::of_nobody(dir.path()),
            followers: followers.clone(),
            publisher,
            ended,
            incarnation: Uuid::nil(),
        });
        assert!(commits.engine().is_none());
        commits.go_over(alone.go_over()).await.unwrap();
        let engine = commits.engine().unwrap();
        let leads = |status: &engine::EngineStatus| status.takes_proposals() == Some(epoch);
        assert!(engine.wait_for(SOON, leads).await.0);
        put(&commits, 2).await;
        assert!(commits.position() > before && commits.position().epoch == epoch);
        let read = commits.reader().read(&Key::parse("queue/serial").unwrap()).unwrap();
        assert_eq!(read, Some(Bytes::from_static(b"2\n")));

        commits.close().await.unwrap();
        end.wait_for(|end| *end == Some(End::Closed)).await.unwrap();
        engine.close().await.unwrap();
        followers.join().await;
        // A master that is alone does not take it back.
        assert!(Store::open(dir.path(), options).is_err());
    }
}
