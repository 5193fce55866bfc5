//! The engine's state machine: our keys and files.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use queue_format::{Batch, Frozen, FrozenError, Incoming, Key, Position, Recorder};
use tokio::sync::mpsc;

use crate::Committed;
use crate::log::{Log, Tag};
use crate::message::SnapshotHead;
use crate::types::{
    Applied, LogEntry, LogId, Membership, Payload, Proposal, StoredMembership, TypeConfig, Vote,
    log_id, members_to_text, position,
};

pub(crate) mod changed_keys;

use changed_keys::Notes;

type Meta = SnapshotMetaOf<TypeConfig>;
type Snapshot = SnapshotOf<TypeConfig, Image>;

/// Bytes that are in memory while an image is carried from one store of a process to another.
const CARRIED_BYTES: usize = 1 << 20;

pub(crate) type Contents = Vec<(Key, Bytes)>;

/// All keys and contents of one moment, for a member that is too far behind for the log.
#[derive(Debug)]
pub(crate) enum Image {
    /// Only the word that there is one.
    Word,
    /// On its way to another member.
    Leaving(Frozen),
    /// It cannot be read at the moment.
    Unread(FrozenError),
    /// On its way to this one.
    Arriving(Incoming),
}

/// Does what may wait for the disk apart from the engine's tasks.
async fn apart<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> io::Result<R> {
    stdx::apart(work).await.map_err(io::Error::other)
}

impl Image {
    /// An image that is about to arrive.
    pub(crate) async fn arriving(
        recorder: &Arc<Recorder<Tag>>,
        head: &SnapshotHead,
    ) -> io::Result<Self> {
        let (recorder, at) = (recorder.clone(), head.at);
        let members = (head.members_at, head.members.clone());
        let begun = apart(move || recorder.receive(at, members)).await?;
        Ok(Self::Arriving(begun.map_err(io::Error::other)?))
    }

    /// Takes what arrived; after an error all of it is lost.
    pub(crate) async fn take(self, part: Contents) -> io::Result<Self> {
        let Self::Arriving(mut incoming) = self else {
            return Err(io::Error::other("this snapshot does not arrive"));
        };
        let pushed = apart(move || incoming.push(&part).map(|()| incoming)).await?;
        Ok(Self::Arriving(pushed.map_err(io::Error::other)?))
    }

    /// All has arrived; returns when it is durable.
    pub(crate) async fn finish(self) -> io::Result<Self> {
        let Self::Arriving(mut incoming) = self else {
            return Err(io::Error::other("this snapshot does not arrive"));
        };
        let finished = apart(move || incoming.finish().map(|()| incoming)).await?;
        Ok(Self::Arriving(finished.map_err(io::Error::other)?))
    }

    /// The next part to be sent, of about `bytes_max`; none at the end.
    pub(crate) async fn part(self, bytes_max: usize) -> io::Result<(Self, Option<Contents>)> {
        match self {
            Self::Leaving(mut frozen) => {
                let read = apart(move || frozen.next_chunk(bytes_max).map(|part| (frozen, part)));
                let (frozen, part) = read.await?.map_err(io::Error::other)?;
                Ok((Self::Leaving(frozen), part))
            }
            Self::Unread(error) => Err(io::Error::other(error)),
            Self::Word | Self::Arriving(_) => Err(io::Error::other("this snapshot does not leave")),
        }
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
    notes: Notes,
}

impl StateMachine {
    pub(crate) fn new(
        recorder: Arc<Recorder<Tag>>,
        log: Log,
        (applied, members): (Position, StoredMembership),
        committed: mpsc::Sender<Committed>,
    ) -> Self {
        let (applied, notes) = (log_id(applied), Notes::default());
        Self { recorder, log, applied, members, has_snapshot: false, committed, notes }
    }

    /// The notes of what changes, if somebody asks for them.
    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
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
                self.notes.applying(&batch, || apply(&batch, None))?;
                // An owner who does not listen any more has ended.
                if self.committed.send(Committed { position, batch }).await.is_err() {
                    tracing::debug!("nobody listens to what is committed");
                }
            }
        }
        self.applied = Some(entry.log_id);
        Ok(position)
    }

    /// One of another store of this process that is about to arrive.
    pub(crate) async fn arriving(&self, meta: &Meta) -> io::Result<Image> {
        let members = &meta.last_membership;
        let head = SnapshotHead {
            vote: Vote::new_committed(0, 0),
            at: meta.last_log_id.as_ref().map(position).unwrap_or_default(),
            members_at: members.log_id().as_ref().map(position).unwrap_or_default(),
            members: members_to_text(members.membership()),
        };
        Image::arriving(&self.recorder, &head).await
    }

    /// Takes an image that comes straight from another store of this process, as upstream's suite
    /// has it, the way that one from the wire takes.
    async fn carry(&self, meta: &Meta, mut leaving: Image) -> io::Result<Image> {
        let mut arriving = self.arriving(meta).await?;
        loop {
            let (rest, part) = leaving.part(CARRIED_BYTES).await?;
            leaving = rest;
            match part {
                Some(part) => arriving = arriving.take(part).await?,
                None => return arriving.finish().await,
            }
        }
    }

    fn meta(&self) -> Meta {
        Meta { last_log_id: self.applied, last_membership: self.members.clone() }
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
        let image = match image {
            leaving @ Image::Leaving(_) => self.carry(meta, leaving).await?,
            image => image,
        };
        let Image::Arriving(incoming) = image else {
            return Err(io::Error::other("this snapshot did not arrive"));
        };
        let recorder = self.recorder.clone();
        let replacing = self.notes.replacing();
        let installed = apart(move || recorder.install(incoming)).await;
        drop(replacing);
        installed?.map_err(io::Error::other)?;
        self.applied = meta.last_log_id;
        self.members = meta.last_membership.clone();
        self.has_snapshot = true;
        Ok(())
    }

    /// The state as it is applied now, which is at least as new as what was last built. Nothing is
    /// applied before this returns.
    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        if !self.has_snapshot {
            return Ok(None);
        }
        let recorder = self.recorder.clone();
        let snapshot = match apart(move || recorder.freeze()).await? {
            Ok(frozen) => Image::Leaving(frozen),
            // To the engine an error here would be the end.
            Err(error) => Image::Unread(error),
        };
        Ok(Some(Snapshot { meta: self.meta(), snapshot }))
    }
}

/// Tells the engine up to where it may purge its log. The content is read when a member asks for
/// it: everything that is applied can be read at any time.
pub(crate) struct Builder(Meta);

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Image;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        Ok(Snapshot { meta: self.0.clone(), snapshot: Image::Word })
    }
}
