//! The files of images and assets, as the agents should have them: candidates, any of which may be the
//! master that sends them, and agents of racks.

use std::collections::BTreeSet;

use model::blob::Blob;
use model::node::{Node, NodeRole};
use rpc::calls::{BlobHeld, BlobKeep};
use stdx::daemon::chain;

use super::AgentSync;
use super::desired_state::Kept;
use crate::agents::blobs::{SendError, Sending};
use crate::config::Config;
use crate::config::queue::Snapshot;

/// The files of all images, and assets.
#[derive(Debug)]
pub(super) struct ImageBlobs(BTreeSet<Blob>);

impl Kept for ImageBlobs {
    const WHAT: &'static str = "the files of images and assets";

    fn of(snapshot: &Snapshot) -> Self {
        Self(named(&snapshot.config).collect())
    }

    fn is_like(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn must_follow(&self, _newest: &Self) -> bool {
        false
    }

    async fn push(&self, sync: &AgentSync, node: &Node) -> Result<(), String> {
        if node.role != NodeRole::Candidate && node.rack.is_none() {
            return Ok(());
        }
        let blobs: Vec<Blob> = self.0.iter().copied().collect();
        let asked = BlobHeld { blobs: blobs.clone() };
        let held = sync.agents.call(node, asked, None).await.map_err(|error| chain(&error))?;
        let (mut whole, mut lacks) = (BTreeSet::new(), Vec::new());
        for (&blob, held) in blobs.iter().zip(held) {
            if blob.size == held {
                whole.insert(blob);
            } else {
                lacks.push(blob);
            }
        }
        sync.contacts.set_blobs(&node.name, whole.clone());
        let mut failed = None;
        for blob in lacks {
            let sent = async {
                let from = (&sync.agents, &*sync.source);
                let mut sending = Sending::begin(from, node, blob, None).await?;
                while sending.next().await? {}
                Ok::<_, SendError>(())
            };
            match sent.await {
                Ok(()) => drop(whole.insert(blob)),
                Err(error) => failed = Some(chain(&error)),
            }
        }
        sync.contacts.set_blobs(&node.name, whole);
        sync.contacts.set_files_failed(&node.name, failed.clone());
        if let Some(why) = failed {
            return Err(why);
        }
        let _nobody_pins = sync.source.removing().await;
        // The pinned files are read first: a job commits before it lets go.
        let mut kept: BTreeSet<Blob> = sync.source.pinned().into_iter().collect();
        kept.extend(named(&sync.published.snapshot().config));
        let kept = BlobKeep { blobs: kept.into_iter().map(|blob| blob.sha256).collect() };
        sync.agents.call(node, kept, None).await.map_err(|error| chain(&error))
    }
}

/// The files that images and assets name.
fn named(config: &Config) -> impl Iterator<Item = Blob> {
    let images = config.images.values().flat_map(|image| image.files.blobs());
    images.chain(config.assets.values().map(|asset| asset.blob))
}
