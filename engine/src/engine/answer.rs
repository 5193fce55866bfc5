//! The answers to other members' questions.

use std::cmp::Ordering;

use bytes::Bytes;
use openraft::raft::{AppendEntriesResponse, SnapshotResponse};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use queue_format::Position;
use tokio::time::Instant;

use super::Engine;
use crate::message::{self, Ballot, Balloted, Kind, MessageError, SnapshotHead};
use crate::state::Image;
use crate::types::{
    StoredMembership, TypeConfig, Vote, bytes, fitting, log_id, members_from_text, position,
};

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The question is not understood, or cannot be one of a member that follows the rules.
    #[error("a question that cannot be: {reason}")]
    Malformed {
        /// The fault of the question.
        reason: String,
    },
    /// This member cannot answer any more.
    #[error("this member's engine has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// A part of a snapshot that nobody began, or that comes out of turn.
    #[error("this part of a snapshot comes out of turn: begin it again")]
    OutOfTurn,
    /// An entry is larger than this member's journal takes: its segments are smaller than those of
    /// who leads.
    #[error(
        "an entry of {bytes} bytes, and the journal here takes {limit}: give all candidates the same \
         `--journal-segment`, and this one a new store"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// Most that is taken.
        limit: usize,
    },
    /// So much is in the log and not yet known to be committed that the journal takes no more: the one
    /// of who leads is larger.
    #[error(
        "{bytes} bytes of entries are not yet known to be committed, and the journal here takes {limit} of \
         such: give all candidates the same `--journal-segment`, and this one a new store"
    )]
    NoRoom {
        /// What they take.
        bytes: usize,
        /// Most that is taken.
        limit: usize,
    },
    /// The snapshot cannot be stored.
    #[error("cannot store the snapshot: {reason}")]
    Store {
        /// The disk's error.
        reason: String,
    },
}

impl From<MessageError> for AnswerError {
    fn from(error: MessageError) -> Self {
        Self::Malformed { reason: error.to_string() }
    }
}

/// A snapshot that arrives in parts.
#[derive(Debug)]
pub(crate) struct Receiving {
    from: u64,
    head: SnapshotHead,
    parts: u32,
    image: Image,
}

fn malformed(reason: &str) -> AnswerError {
    AnswerError::Malformed { reason: reason.to_owned() }
}

fn not_stored(error: &std::io::Error) -> AnswerError {
    AnswerError::Store { reason: error.to_string() }
}

fn stopped(error: impl std::fmt::Display) -> AnswerError {
    AnswerError::Stopped { reason: error.to_string() }
}

/// Whether there cannot be one log with both: epochs do not fall along a log.
fn contradicts(at: Position, committed: Position) -> bool {
    match at.index.cmp(&committed.index) {
        Ordering::Less => at.epoch > committed.epoch,
        Ordering::Equal => at.epoch != committed.epoch,
        Ordering::Greater => at.epoch < committed.epoch,
    }
}

impl Engine {
    /// Answers what the member `from` asked by [`crate::Link::ask`]. The owner has made sure that it
    /// is that member, and that it meant this one.
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing is wrong with this member but for [`AnswerError::Stopped`].
    pub async fn answer(&self, from: u64, kind: u8, body: Bytes) -> Result<Bytes, AnswerError> {
        match Kind::of(kind)? {
            Kind::Append => self.take_entries(from, body).await,
            kind @ (Kind::Vote | Kind::PreVote) => {
                let ballot = message::read_ballot(body, &self.vote())?;
                if ballot.vote.leader_id().node_id != from {
                    return Err(malformed("a vote asked for somebody else"));
                }
                let is_vote = kind == Kind::Vote;
                Ok(message::balloted(&self.vote_for(ballot, is_vote).await?))
            }
            Kind::Transfer => {
                let request = message::read_transfer(body, &self.vote())?;
                if request.from_leader().leader_id().node_id != from {
                    return Err(malformed("leadership offered by somebody else"));
                }
                let answer = self.raft.handle_transfer_leader(request).await.map_err(stopped)?;
                Ok(message::transferred(&answer))
            }
            Kind::SnapshotBegin => {
                let head = message::read_snapshot_head(body, &self.vote())?;
                self.begin(from, head).await
            }
            Kind::SnapshotPart => self.take_part(from, body).await,
            Kind::SnapshotEnd => self.install(from, message::read_snapshot_end(body)?).await,
        }
    }

    async fn take_entries(&self, from: u64, body: Bytes) -> Result<Bytes, AnswerError> {
        let mut request = message::read_append(body, &self.vote())?;
        if !request.vote.is_committed() || request.vote.leader_id().node_id != from {
            return Err(malformed("entries of somebody who does not lead"));
        }
        let committed = self.position();
        let told = request.entries.iter().map(|entry| &entry.log_id);
        if request.prev_log_id.iter().chain(told).any(|id| contradicts(position(id), committed)) {
            // The engine would take what it has for what was sent, and acknowledge it.
            return Err(malformed("entries of another history than what is committed here"));
        }
        // Entries that come at once are durable at once. Only applied entries, which are the durable
        // ones, free the journal. So no more is taken than a part of the journal holds.
        let all = request.entries.len();
        let limit = self.proposal_bytes_max();
        request.entries.truncate(fitting(&request.entries, limit));
        let bytes = request.entries.first().map(bytes).unwrap_or_default();
        if bytes > limit {
            return Err(AnswerError::TooLarge { bytes, limit });
        }
        let tail_max = self.tail_bytes_max;
        let tail = self.log.tail_beyond(tail_max, committed.index);
        if tail > tail_max && !request.entries.is_empty() {
            // Only applied entries free the journal: the next one would wait for ever. The engine learns
            // from the question what is committed, so that a later one fits.
            request.entries.clear();
            let answer = self.raft.append_entries(request).await.map_err(stopped)?;
            return match answer.is_success() {
                true => Err(AnswerError::NoRoom { bytes: tail, limit: tail_max }),
                // The leader is to know that it has another history, or is deposed.
                false => Ok(message::appended(&answer)),
            };
        }
        let taken = request.entries.last().map(|entry| entry.log_id);
        let is_part = request.entries.len() < all;
        let answer = self.raft.append_entries(request).await.map_err(stopped)?;
        if answer.is_success() {
            *self.heard.lock() = Some(Instant::now());
        }
        let answer = match answer {
            AppendEntriesResponse::Success if is_part => {
                AppendEntriesResponse::PartialSuccess(taken)
            }
            answer => answer,
        };
        Ok(message::appended(&answer))
    }

    async fn vote_for(&self, ballot: Ballot, is_vote: bool) -> Result<Balloted, AnswerError> {
        // The engine forgets with a restart whom it keeps to, and until when.
        let obeys = self.obeys_until.is_some_and(|until| Instant::now() < until);
        if obeys && !ballot.leadership_transfer {
            return Ok(Balloted::new(self.vote(), self.log.last(), false));
        }
        let answer = match is_vote {
            true => self.raft.vote(ballot).await,
            false => self.raft.pre_vote(ballot).await,
        };
        answer.map_err(stopped)
    }

    fn vote(&self) -> Vote {
        use openraft::async_runtime::watch::WatchReceiver;
        self.raft.metrics().borrow_watched().vote
    }

    async fn begin(&self, from: u64, head: SnapshotHead) -> Result<Bytes, AnswerError> {
        let leader = head.vote.leader_id();
        let of_leader = head.vote.is_committed() && leader.node_id == from;
        let possible = (head.at.epoch.term, head.at.epoch.node) <= (leader.term, leader.node_id);
        if !of_leader || !possible || head.members_at > head.at {
            return Err(malformed("a snapshot that its sender cannot have"));
        }
        members_from_text(&head.members).map_err(MessageError::from)?;
        let mine = self.vote();
        if mine > head.vote {
            return Ok(message::voted(&mine));
        }
        let vote = head.vote;
        // One at a time: what was being received is given up.
        drop(self.receiving.lock().take());
        let image =
            Image::arriving(&self.recorder, &head).await.map_err(|error| not_stored(&error))?;
        *self.receiving.lock() = Some(Receiving { from, head, parts: 0, image });
        Ok(message::voted(&vote))
    }

    fn taken(&self, from: u64, part: u32) -> Result<Receiving, AnswerError> {
        let mut slot = self.receiving.lock();
        match slot.take() {
            Some(receiving) if receiving.from == from && receiving.parts == part => Ok(receiving),
            other => {
                *slot = other;
                Err(AnswerError::OutOfTurn)
            }
        }
    }

    async fn take_part(&self, from: u64, body: Bytes) -> Result<Bytes, AnswerError> {
        let (number, part) = message::read_snapshot_part(body)?;
        let Receiving { head, parts, image, .. } = self.taken(from, number)?;
        let image = image.take(part).await;
        let image = image.map_err(|error| not_stored(&error))?;
        // Life of a leader: it is heard by its snapshot, too.
        *self.heard.lock() = Some(Instant::now());
        let vote = head.vote;
        *self.receiving.lock() = Some(Receiving { from, head, parts: parts + 1, image });
        Ok(message::voted(&vote))
    }

    async fn install(&self, from: u64, parts: u32) -> Result<Bytes, AnswerError> {
        let Receiving { head, image, .. } = self.taken(from, parts)?;
        let members = members_from_text(&head.members).map_err(MessageError::from)?;
        let meta = SnapshotMetaOf::<TypeConfig> {
            last_log_id: log_id(head.at),
            last_membership: StoredMembership::new(log_id(head.members_at), members),
        };
        if head.at <= self.position() {
            // The engine takes an older one for a broken invariant, and this member has it all.
            return Ok(message::voted(&head.vote));
        }
        let image = image.finish().await.map_err(|error| not_stored(&error))?;
        let snapshot = SnapshotOf::<TypeConfig, Image> { meta, snapshot: image };
        let installed = self.raft.install_full_snapshot(head.vote, snapshot).await;
        let SnapshotResponse { vote } = installed.map_err(stopped)?;
        Ok(message::voted(&vote))
    }
}

#[cfg(test)]
mod tests {
    use queue_format::Epoch;

    use super::*;

    #[test]
    fn histories_that_contradict_each_other() {
        let at = |term, index| Position { epoch: Epoch { term, node: 1 }, index };
        let committed = at(3, 10);
        for (told, is_other) in [
            (at(3, 10), false),
            (at(2, 9), false),
            (at(3, 4), false),
            (at(3, 11), false),
            (at(7, 11), false),
            // Entries of a leadership that began anew from an older copy.
            (at(4, 9), true),
            (at(2, 10), true),
            (at(4, 10), true),
            (at(2, 11), true),
        ] {
            assert_eq!(contradicts(told, committed), is_other, "{told}");
        }
    }
}
