//! Blobs on their way from this machine to agents. An agent alone writes the blobs of its machine,
//! also that of the master's; the master reads those, and the spool of uploads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use model::blob::{Blob, BlobDigest};
use model::layout::Layout;
use model::node::Node;
use parking_lot::Mutex;
use rpc::RpcError;
use rpc::calls::{BlobAppend, BlobHeld, PIECE_BYTES};
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::agents::{Agents, Behalf};

/// Times that an agent may lose what it had of a blob.
const LOSSES_MAX: usize = 3;

/// A blob that did not come to an agent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It is not on this machine.
    #[error("{0} is neither in the spool nor among the blobs of this machine; upload it again")]
    Missing(BlobDigest),
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The file has another length.
    #[error("`{path}` has {length} bytes, and {wanted} were told")]
    Length {
        /// The file.
        path: PathBuf,
        length: u64,
        /// As it was told.
        wanted: u64,
    },
    /// The agent did not take it.
    #[error(transparent)]
    Agent(#[from] RpcError),
    /// The agent loses what it is sent.
    #[error("the agent lost {0} while it arrived, more than {LOSSES_MAX} times")]
    Lost(BlobDigest),
}

/// The files of this machine that blobs come from.
#[derive(Debug)]
pub struct Source {
    spool: PathBuf,
    blobs: PathBuf,
    /// Blobs of images that are not committed yet, by the number of jobs that need them.
    pinned: Mutex<BTreeMap<Blob, usize>>,
    /// Shared by those that have agents remove blobs. A job that needs blobs waits for them: an agent
    /// would else remove what the job has sent, as nothing named it when the removal began.
    removing: RwLock<()>,
}

/// Keeps blobs at agents before a committed image names them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pin(Arc<Source>, Vec<Blob>);

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pinned = self.0.pinned.lock();
        for blob in &self.1 {
            if let Some(count) = pinned.get_mut(blob) {
                *count -= 1;
            }
        }
        pinned.retain(|_, count| *count > 0);
    }
}

impl Source {
    pub(crate) fn new(layout: &Layout) -> Self {
        let (spool, blobs) = (layout.spool(), layout.blobs());
        Self { spool, blobs, pinned: Mutex::default(), removing: RwLock::default() }
    }

    /// Keeps blobs at agents that no image names yet, once removals that are under way have ended.
    pub(crate) async fn pin(self: &Arc<Self>, blobs: &[Blob]) -> Pin {
        let _ended = self.removing.write().await;
        let mut pinned = self.pinned.lock();
        blobs.iter().for_each(|blob| *pinned.entry(*blob).or_default() += 1);
        Pin(Arc::clone(self), blobs.to_vec())
    }

    /// Has nobody pin further blobs until the guard is dropped. A caller that has an agent remove blobs
    /// holds it from before it reads what is wanted until the agent has answered.
    pub(crate) async fn removing(&self) -> RwLockReadGuard<'_, ()> {
        self.removing.read().await
    }

    /// The blobs that are kept so.
    pub(crate) fn pinned(&self) -> Vec<Blob> {
        self.pinned.lock().keys().copied().collect()
    }

    /// Opens a blob, whole as to its length.
    pub(crate) fn open(&self, blob: Blob) -> Result<(File, PathBuf), SendError> {
        let mut damaged = None;
        for directory in [&self.blobs, &self.spool] {
            let path = directory.join(blob.sha256.to_string());
            let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
            match opened {
                Ok((length, file)) if length == blob.size => return Ok((file, path)),
                // It may have been uploaded again.
                Ok((length, _)) => {
                    damaged = Some(SendError::Length { path, length, wanted: blob.size });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(SendError::Read { path, error }),
            }
        }
        Err(damaged.unwrap_or(SendError::Missing(blob.sha256)))
    }

    /// Removes uploads that are blobs of this machine by now.
    pub(crate) fn clear(&self, blobs: impl IntoIterator<Item = Blob>) {
        for blob in blobs {
            let name = blob.sha256.to_string();
            if !self.blobs.join(&name).exists() {
                continue;
            }
            let path = self.spool.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "an upload stays in the spool");
                }
                _ => {}
            }
        }
    }
}

/// A blob on its way to a node's agent, from where that has it.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    agents: &'a Agents,
    node: &'a Node,
    blob: Blob,
    behalf: Option<Behalf>,
    /// The file; none where the agent has all of it.
    file: Option<(Arc<File>, PathBuf)>,
    offset: u64,
    losses: usize,
}

impl<'a> Sending<'a> {
    /// Asks the agent what it has.
    ///
    /// # Errors
    /// The blob is not on this machine, or the agent does not answer.
    pub(crate) async fn begin(
        (agents, source): (&'a Agents, &Source),
        node: &'a Node,
        blob: Blob,
        behalf: Option<Behalf>,
    ) -> Result<Self, SendError> {
        let offset = held(agents, node, blob, behalf).await?;
        let opened = (offset < blob.size).then(|| stdx::aside(|| source.open(blob))).transpose()?;
        let file = opened.map(|(file, path)| (Arc::new(file), path));
        Ok(Self { agents, node, blob, behalf, file, offset, losses: 0 })
    }

    /// Bytes that the agent has.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Sends the next piece; gives whether there was one.
    ///
    /// # Errors
    /// The file cannot be read, or the agent does not take it.
    pub(crate) async fn next(&mut self) -> Result<bool, SendError> {
        let Self { agents, node, blob, behalf, offset, .. } = *self;
        let Some((file, path)) = self.file.as_ref().filter(|_| offset < blob.size) else {
            return Ok(false);
        };
        let read = read(file, offset, blob.size).await;
        let data = read.map_err(|error| SendError::Read { path: path.clone(), error })?;
        let append = BlobAppend { blob, offset, data };
        let now = match agents.call(node, append, behalf).await {
            Ok(now) => now,
            Err(error) if error.certainly_not_done() => return Err(error.into()),
            // It may have the piece; and another sender may have been faster.
            Err(error) => match held(agents, node, blob, behalf).await {
                Ok(now) if now > offset => now,
                _ => return Err(error.into()),
            },
        };
        self.losses += usize::from(now <= offset);
        if self.losses > LOSSES_MAX {
            return Err(SendError::Lost(blob.sha256));
        }
        self.offset = now;
        Ok(true)
    }
}

async fn held(
    agents: &Agents,
    node: &Node,
    blob: Blob,
    behalf: Option<Behalf>,
) -> Result<u64, RpcError> {
    let held = agents.call(node, BlobHeld { blobs: vec![blob] }, behalf).await?;
    Ok(held.first().copied().unwrap_or(0))
}

/// Reads one piece.
async fn read(file: &Arc<File>, offset: u64, size: u64) -> io::Result<Bytes> {
    let length = usize::try_from(size - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
    let file = Arc::clone(file);
    let reading = tokio::task::spawn_blocking(move || {
        let mut piece = vec![0; length];
        file.read_exact_at(&mut piece, offset)?;
        Ok(Bytes::from(piece))
    });
    reading.await.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_damaged_file_is_not_in_the_way_of_an_upload() {
        let dir = tempfile::tempdir().unwrap();
        let source = Source::new(&Layout::new(dir.path()));
        let blob = Blob { sha256: "aa".repeat(32).parse().unwrap(), size: 6 };
        let write = |directory: &PathBuf, content: &[u8]| {
            fs::create_dir_all(directory).unwrap();
            let path = directory.join(blob.sha256.to_string());
            stdx::atomic::write(&path, content, 0o600).unwrap();
        };
        assert!(matches!(source.open(blob), Err(SendError::Missing(_))));
        write(&source.blobs, b"ker");
        assert!(matches!(source.open(blob), Err(SendError::Length { length: 3, .. })));
        write(&source.spool, b"kernel");
        assert_eq!(source.open(blob).unwrap().1, source.spool.join(blob.sha256.to_string()));
    }

    #[tokio::test]
    async fn a_job_that_needs_blobs_waits_for_removals_and_the_next_ones_see_it() {
        let source = Arc::new(Source::new(&Layout::new(PathBuf::from("/nowhere"))));
        let blob = Blob { sha256: "aa".repeat(32).parse().unwrap(), size: 1 };
        let removal = source.removing().await;
        let blobs = [blob];
        let mut pinning = pin!(source.pin(&blobs));
        assert!((&mut pinning).now_or_never().is_none());
        drop(removal);
        let pin = pinning.await;
        let _next = source.removing().await;
        assert_eq!(source.pinned(), [blob]);
        drop(pin);
        assert_eq!(source.pinned(), []);
    }
}
