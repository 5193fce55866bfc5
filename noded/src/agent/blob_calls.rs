//! Calls that send images to this node.

use std::sync::Arc;

use blobs::{BlobError, Blobs};
use rpc::calls::{BlobAppend, BlobKeep, PIECE_BYTES};
use rpc::{Failure, FailureKind};
use stdx::daemon::chain;

use super::Agent;

impl Agent {
    /// Does something with the blobs, where that may block.
    async fn with_blobs<T: Send + 'static>(
        &self,
        does: impl FnOnce(&Blobs) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, Failure> {
        let blobs = Arc::clone(&self.blobs);
        let done = tokio::task::spawn_blocking(move || does(&blobs)).await;
        let done = done.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        done.map_err(|error| Failure::failed(chain(&error)))
    }

    pub(super) async fn blob_append(&self, call: BlobAppend) -> Result<u64, Failure> {
        let BlobAppend { blob, offset, data } = call;
        if data.len() > PIECE_BYTES {
            let text = format!("a piece of {} bytes; at most {PIECE_BYTES} are taken", data.len());
            return Err(Failure::new(FailureKind::Malformed, text));
        }
        self.with_blobs(move |blobs| blobs.append(blob, offset, &data)).await
    }

    pub(super) async fn blob_keep(&self, call: BlobKeep) -> Result<(), Failure> {
        let removed = self.with_blobs(move |blobs| blobs.keep(&call.blobs.into_iter().collect()));
        let removed = removed.await?;
        if removed.files > 0 {
            tracing::info!(files = removed.files, bytes = removed.bytes, "blobs removed");
        }
        Ok(())
    }
}
