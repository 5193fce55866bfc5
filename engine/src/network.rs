//! The engine's network on the owner's links.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use openraft::{BasicNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use queue_format::Epoch;

use crate::message::{self, Kind, MessageError, SnapshotHead};
use crate::peers::{Link, PeerError, Peers};
use crate::state::Image;
use crate::types::{LogEntry, LogId, TypeConfig, Vote, fitting, members_to_text, position};

mod gathered;

/// How long entries may take to be durable at the other member: a disk that is busy flushes in
/// some hundred milliseconds. The engine's own limit, a heartbeat, would send them again meanwhile.
const APPEND_LIMIT: Duration = Duration::from_secs(3);

/// How long a part of a snapshot may take, and its begin: some writes to a file.
const SNAPSHOT_PART_LIMIT: Duration = Duration::from_secs(30);

/// How long a member may take to replace its files by a snapshot: a million of them.
const SNAPSHOT_END_LIMIT: Duration = Duration::from_secs(1_800);

/// Bytes of one part of a snapshot: large enough for few questions, small enough for memory.
const SNAPSHOT_PART_BYTES: usize = 1 << 20;

/// Bytes of entries in one question, or one entry that is larger: what a few milliseconds carry.
const APPEND_BYTES_MAX: usize = 4 << 20;

/// Makes links as the engine asks for them.
#[derive(Debug, Clone)]
pub(crate) struct Network(pub(crate) Arc<dyn Peers>);

/// One link of the engine.
pub(crate) struct Wire(Box<dyn Link>);

type Refused = RPCError<TypeConfig>;

type Appended = AppendEntriesResponse<TypeConfig>;

/// The outcome of each request of a stream.
type Answers<'a> = BoxStream<'a, Result<StreamAppendResult<TypeConfig>, Refused>>;

fn refused(error: &PeerError) -> Refused {
    if error.soon { NetworkError::new(error).into() } else { Unreachable::new(error).into() }
}

fn not_understood(error: &MessageError) -> Refused {
    Unreachable::from_string(format!("the answer of the other member: {error}")).into()
}

/// Refuses an answer that acknowledges anything but what a request carried, these `entries` behind `prev`: it
/// would count for a commit. And one that contradicts a request with nothing before it.
fn only_sent(answer: &Appended, prev: Option<LogId>, entries: &[LogEntry]) -> Result<(), Refused> {
    let is_sent = |upto| upto == prev || entries.iter().any(|entry| Some(entry.log_id) == upto);
    let makes_sense = match answer {
        Appended::PartialSuccess(upto) => is_sent(*upto),
        Appended::Conflict => prev.is_some(),
        Appended::Success | Appended::HigherVote(_) => true,
    };
    let wrong = MessageError::Content { what: "position" };
    if makes_sense { Ok(()) } else { Err(not_understood(&wrong)) }
}

impl Wire {
    async fn ask<T>(
        &mut self,
        kind: Kind,
        body: Bytes,
        limit: Duration,
        (read, vote): (impl FnOnce(Bytes, &Vote) -> Result<T, MessageError>, &Vote),
    ) -> Result<T, Refused> {
        let answer = self.0.ask(kind as u8, body, limit).await.map_err(|error| refused(&error))?;
        read(answer, vote).map_err(|error| not_understood(&error))
    }

    async fn send(
        &mut self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, Image>,
    ) -> Result<SnapshotResponse<TypeConfig>, Refused> {
        let members = &snapshot.meta.last_membership;
        let head = SnapshotHead {
            vote,
            at: snapshot.meta.last_log_id.as_ref().map(position).unwrap_or_default(),
            members_at: members.log_id().as_ref().map(position).unwrap_or_default(),
            members: members_to_text(members.membership()),
        };
        let begin = message::snapshot_head(&head);
        let read = (message::read_voted, &vote);
        let theirs = self.ask(Kind::SnapshotBegin, begin, SNAPSHOT_PART_LIMIT, read).await?;
        if theirs > vote {
            return Ok(SnapshotResponse::new(theirs));
        }
        let broken = |error: std::io::Error| Refused::from(NetworkError::new(&error));
        let mut image = snapshot.snapshot;
        let mut number = 0;
        loop {
            let (back, part) = image.part(SNAPSHOT_PART_BYTES).await.map_err(broken)?;
            image = back;
            let Some(part) = part else { break };
            let body = message::snapshot_part(number, &part);
            self.ask(Kind::SnapshotPart, body, SNAPSHOT_PART_LIMIT, read).await?;
            number += 1;
        }
        let end = message::snapshot_end(number);
        let theirs = self.ask(Kind::SnapshotEnd, end, SNAPSHOT_END_LIMIT, read).await?;
        Ok(SnapshotResponse::new(theirs))
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Wire;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Wire {
        Wire(self.0.link(target, &node.addr))
    }
}

impl RaftNetworkV2<TypeConfig> for Wire {
    type SnapshotData = Image;

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<Answers<'s>, Refused>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        stream_append_sequential(self, gathered::gathered(input), option)
    }

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<Appended, Refused> {
        let leader = request.vote.leader_id();
        let leadership = Epoch { term: leader.term, node: leader.node_id };
        let committed = request.leader_commit.as_ref().map(position).unwrap_or_default();
        if request.entries.is_empty() {
            let body = message::append(&request);
            let limit = option.hard_ttl();
            let read = (message::read_appended, &request.vote);
            let answer = self.ask(Kind::Append, body, limit, read).await?;
            only_sent(&answer, request.prev_log_id, &request.entries)?;
            if answer.is_success() {
                self.0.heard(leadership, None, committed);
            }
            return Ok(answer);
        }
        let all = request.entries.len();
        let mut request = request;
        request.entries.truncate(fitting(&request.entries, APPEND_BYTES_MAX));
        let body = message::append(&request);
        let read = (message::read_appended, &request.vote);
        let answer = self.ask(Kind::Append, body, APPEND_LIMIT, read).await?;
        let sent = request.entries.last().map(|entry| entry.log_id);
        let answer = match answer {
            Appended::Success if request.entries.len() < all => Appended::PartialSuccess(sent),
            answer => answer,
        };
        only_sent(&answer, request.prev_log_id, &request.entries)?;
        let matched = match &answer {
            Appended::Success => sent.as_ref().map(position),
            Appended::PartialSuccess(upto) => upto.as_ref().map(position),
            _ => None,
        };
        if matched.is_some() {
            self.0.heard(leadership, matched, committed);
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = message::ballot(&request);
        let read = (message::read_balloted, &request.vote);
        self.ask(Kind::Vote, body, option.hard_ttl(), read).await
    }

    // Left out, it would be granted by everyone who cannot be reached.
    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = message::ballot(&request);
        let read = (message::read_balloted, &request.vote);
        self.ask(Kind::PreVote, body, option.hard_ttl(), read).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, Image>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            biased;
            sent = self.send(vote, snapshot) => Ok(sent?),
            closed = cancel => Err(closed.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = message::transfer(&request);
        let read = (message::read_transferred, request.from_leader());
        self.ask(Kind::Transfer, body, option.hard_ttl(), read).await
    }
}

#[cfg(test)]
mod tests {
    use queue_format::Position;

    use super::*;
    use crate::types::{Payload, log_id};

    fn id(term: u64, index: u64) -> Option<LogId> {
        log_id(Position { epoch: Epoch { term, node: 1 }, index })
    }

    #[test]
    fn nobody_acknowledges_what_it_was_not_sent() {
        let entry =
            |(term, index)| LogEntry { log_id: id(term, index).unwrap(), payload: Payload::Blank };
        // The last one of a leadership, and two of the next.
        let entries = [(2, 7), (3, 8), (3, 9)].map(entry);
        for (prev, entries, upto, is_sent) in [
            (id(2, 6), &entries[..], id(2, 6), true),
            (id(2, 6), &entries, id(2, 7), true),
            (id(2, 6), &entries, id(3, 9), true),
            (id(2, 6), &entries, id(2, 5), false),
            (id(2, 6), &entries, None, false),
            (id(2, 6), &entries, id(3, 10), false),
            (id(2, 6), &entries, id(9, 1), false),
            // Between the two by their order, and in no log.
            (id(2, 6), &entries, id(2, 1_000_000), false),
            (id(2, 6), &entries, id(3, 2), false),
            (id(2, 6), &[], id(2, 6), true),
            (id(2, 6), &[], id(2, 7), false),
            (None, &[], None, true),
            (None, &[], id(2, 1), false),
        ] {
            let told = only_sent(&Appended::PartialSuccess(upto), prev, entries);
            assert_eq!(told.is_ok(), is_sent, "{prev:?} {upto:?}");
        }
        assert!(only_sent(&Appended::Success, None, &entries).is_ok());
        assert!(only_sent(&Appended::Conflict, id(2, 6), &entries).is_ok());
        assert!(
            only_sent(&Appended::Conflict, None, &entries).is_err(),
            "there is nothing to contradict"
        );
    }

    /// Answers a commit notice as if it had been sent a million entries.
    struct Boaster;

    impl Link for Boaster {
        fn ask(&mut self, _kind: u8, _body: Bytes, _limit: Duration) -> crate::peers::Answer<'_> {
            let answer = Appended::PartialSuccess(id(2, 1_000_000));
            Box::pin(async move { Ok(message::appended(&answer)) })
        }
    }

    #[tokio::test]
    async fn a_commit_notice_acknowledges_nothing() {
        let mut wire = Wire(Box::new(Boaster));
        let request = AppendEntriesRequest {
            vote: Vote::new_committed(2, 1),
            prev_log_id: id(2, 6),
            entries: Vec::new(),
            leader_commit: id(2, 6),
        };
        let option = RPCOption::new(APPEND_LIMIT);
        assert!(wire.append_entries(request, option).await.is_err());
    }
}
