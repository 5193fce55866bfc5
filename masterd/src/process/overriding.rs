//! The override of `gnt cluster master-failover --no-voting --yes-do-it`: this member becomes the only
//! one, with what it holds (docs/failover.md). Serves the change of master, for `takeover`.

mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::{Engine, EngineOptions, OfflineStore};
use model::cluster::Cluster;
use model::node::Node;
use model::{NodeName, Timestamp, document};
use queue_format::Key;
use serde::de::DeserializeOwned;

use self::written::{Before, changes, others};
use super::DaemonError;
use super::lifecycle::Lifecycle;
use crate::config::load::LoadError;
use crate::role::load::FoundError;
use membership::confirm::{Question, Verdict};
use membership::forced_takeover::{Override, Taker};

impl Lifecycle {
    /// Closes the engine, makes this member the only one in one durable record, and opens the engine
    /// again, which is to be elected then. The others' data is cut from here on, whatever becomes of
    /// this process.
    ///
    /// # Errors
    /// An error that ends the process. The next start finds the state of before, or the override made.
    pub(super) async fn override_others(
        &self,
        engine: &Arc<Engine>,
        question: &Question,
        verdict: &Verdict,
    ) -> Result<Arc<Engine>, DaemonError> {
        let member = engine.member();
        engine.close().await?;
        self.followers.join().await;
        let (data, options) = (self.options.layout.data(), self.engine_options(member));
        let now = Timestamp::from_micros(self.clock.now_micros());
        let asked = (question, verdict);
        let taken = stdx::aside(|| overrule(&data, options, self.me(), asked, now))?;
        for cut in &taken.cut {
            tracing::error!("override: {cut}");
        }
        let Override { epoch, job_id, next_node_id, .. } = taken;
        tracing::error!(%epoch, job_id, next_node_id, "override: this member is the only one now");
        self.open_engine(member).await
    }
}

/// Writes the override into the store in `data`, which no engine has open.
fn overrule(
    data: &Path,
    options: EngineOptions,
    me: &NodeName,
    (question, verdict): (&Question, &Verdict),
    now: Timestamp,
) -> Result<Override, DaemonError> {
    let member = options.member;
    let resting = OfflineStore::open(data, options)?;
    let before = before(&resting)?;
    let taker = Taker {
        node: me.clone(),
        member,
        last: resting.last(),
        // Above a leadership of which nobody tells any more, too.
        vote: question.later.as_ref().map_or(resting.vote(), |l| resting.vote().max(l.epoch)),
        job_id: before.serial,
        next_node_id: before.cluster.next_node_id,
    };
    let taken = Override::of(&taker, &others(&before.nodes, me, question, verdict));
    let batch = changes(before, &taken, me, now);
    resting.override_members(taken.epoch, &batch)?;
    Ok(taken)
}

/// The state that the override changes, as it was written last.
fn before(resting: &OfflineStore) -> Result<Before, DaemonError> {
    let key = |name: &str| Key::parse(name).expect("names of documents are keys");
    let newest = |name: &str| resting.newest(&key(name)).map_err(FoundError::Read);
    let content = newest(document::CLUSTER)?;
    let content = content.ok_or(FoundError::Config(LoadError::Missing(document::CLUSTER)))?;
    let cluster: Cluster = read(document::CLUSTER, &content)?;
    let mut nodes = BTreeMap::new();
    let below = format!("{}/", document::NODES);
    for (key, content) in resting.all_newest(&below).map_err(FoundError::Read)? {
        let node: Node = read(key.as_str(), &content)?;
        nodes.insert(node.name.clone(), node);
    }
    let content = newest(document::QUEUE_SERIAL)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&content).trim().to_owned();
    let serial = if text.is_empty() { Ok(0) } else { text.parse() };
    let serial = serial.map_err(|_no_number| {
        let (key, wanted) = (document::QUEUE_SERIAL, "the last job id");
        FoundError::Queue(jobs::load::LoadError::Queue { key, found: text, wanted })
    })?;
    Ok(Before { cluster, nodes, serial })
}

fn read<T: DeserializeOwned>(key: &str, content: &[u8]) -> Result<T, FoundError> {
    serde_json::from_slice(content)
        .map_err(|error| LoadError::Malformed { key: key.to_owned(), error }.into())
}
