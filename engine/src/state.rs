//! The engine's state machine: our keys and files.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use queue_format::{Batch, Change, Key, Position, Recorder};
use tokio::sync::mpsc;

use crate::Committed;
use crate::log::{Log, Tag};
use crate::message::SnapshotHead;
use crate::types::{
    Applied, LogEntry, LogId, Membership, Payload, Proposal, StoredMembership, TypeConfig, log_id,
    members_to_text, position,
};

type Meta = SnapshotMetaOf<TypeConfig>;
type Snapshot = SnapshotOf<TypeConfig, Image>;

/// All keys and contents of one moment, for a member that is too far behind for the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image(pub(crate) Contents);

/// Keys with their contents.
type Contents = Vec<(Key, Bytes)>;

impl Image {
    /// One that is about to arrive.
    pub(crate) fn arriving(_recorder: &Recorder<Tag>, _head: &SnapshotHead) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Takes what arrived.
    pub(crate) fn take(mut self, part: Contents) -> io::Result<Self> {
        self.0.extend(part);
        Ok(self)
    }

    /// The next part to be sent, of about `bytes_max`; none at the end.
    pub(crate) fn part(mut self, bytes_max: usize) -> io::Result<(Self, Option<Contents>)> {
        let mut bytes = 0;
        let mut fits = |(key, content): &(Key, Bytes)| {
            let before = bytes;
            bytes += key.as_str().len() + content.len();
            before < bytes_max
        };
        let count = self.0.iter().take_while(|item| fits(item)).count();
        let part: Vec<_> = self.0.drain(..count).collect();
        Ok((self, (!part.is_empty()).then_some(part)))
    }
}

/// Applies committed entries to readers, files and the owner's stream.
pub(crate) struct StateMachine {
    recorder: Arc<Recorder<Tag>>,
    log: Log,
    applied: Option<LogId>,
    members: StoredMembership,
    /// The engine was told of a snapshot.
    has_snapshot: bool,
    committed: mpsc::Sender<Committed>,
}

impl StateMachine {
    pub(crate) fn new(
        recorder: Arc<Recorder<Tag>>,
        log: Log,
        (applied, members): (Position, StoredMembership),
        committed: mpsc::Sender<Committed>,
    ) -> Self {
        let applied = log_id(applied);
        Self { recorder, log, applied, members, has_snapshot: false, committed }
    }

    async fn apply_one(&mut self, entry: &LogEntry) -> io::Result<Position> {
        // Committed by the others is not yet durable here, and files must not be ahead of us.
        self.log.wait_durable(entry.log_id.index()).await?;
        let position = position(&entry.log_id);
        let apply = |batch: &Batch, members: Option<&Membership>| {
            let members = members.map(members_to_text);
            self.recorder.apply(position, batch, members).map_err(io::Error::other)
        };
        match &entry.payload {
            Payload::Blank => apply(&Batch::default(), None)?,
            Payload::Membership(members) => {
                apply(&Batch::default(), Some(members))?;
                self.members = StoredMembership::new(Some(entry.log_id), members.clone());
            }
            Payload::Normal(Proposal(bytes)) => {
                let batch = Batch::decode(bytes.clone()).map_err(io::Error::other)?;
                apply(&batch, None)?;
                // An owner who does not listen any more has ended.
                if self.committed.send(Committed { position, batch }).await.is_err() {
                    tracing::debug!("nobody listens to what is committed");
                }
            }
        }
        self.applied = Some(entry.log_id);
        Ok(position)
    }

    fn meta(&self) -> Meta {
        Meta { last_log_id: self.applied, last_membership: self.members.clone() }
    }

    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Recorder<Tag>) -> R + Send + 'static,
    ) -> io::Result<R> {
        let recorder = self.recorder.clone();
        tokio::task::spawn_blocking(move || work(&recorder)).await.map_err(io::Error::other)
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Image;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.members.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let position = self.apply_one(&entry).await?;
            if let Some(responder) = responder {
                responder.send(Applied(position));
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.has_snapshot = true;
        Builder(self.meta())
    }

    async fn install_snapshot(&mut self, meta: &Meta, image: Image) -> Result<(), io::Error> {
        let members = members_to_text(meta.last_membership.membership());
        let at = meta.last_log_id.map(|id| position(&id)).unwrap_or_default();
        let complete = self
            .blocking(move |recorder| {
                let batch = replacement(recorder, image)?;
                recorder.apply(at, &batch, Some(members)).map_err(io::Error::other)?;
                Ok::<_, io::Error>(recorder.make_durable())
            })
            .await??;
        if !complete {
            return Err(io::Error::other("the store has ended"));
        }
        self.applied = meta.last_log_id;
        self.members = meta.last_membership.clone();
        self.has_snapshot = true;
        Ok(())
    }

    /// The state as it is applied now, which is at least as new as what was last built.
    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        if !self.has_snapshot {
            return Ok(None);
        }
        let image = self.blocking(Recorder::image).await?.map_err(io::Error::other)?;
        Ok(Some(Snapshot { meta: self.meta(), snapshot: Image(image) }))
    }
}

/// The changes that make the store the image.
fn replacement(recorder: &Recorder<Tag>, image: Image) -> io::Result<Batch> {
    let mut changes: Vec<Change> = Vec::new();
    for (key, _content) in recorder.image().map_err(io::Error::other)? {
        changes.push(Change::Delete { key });
    }
    changes.extend(image.0.into_iter().map(|(key, content)| Change::Put { key, content }));
    Ok(Batch(changes).collapse())
}

/// Tells the engine up to where it may purge its log. The content is read when a member asks for
/// it: everything that is applied can be read at any time.
pub(crate) struct Builder(Meta);

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Image;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        Ok(Snapshot { meta: self.0.clone(), snapshot: Image::default() })
    }
}
