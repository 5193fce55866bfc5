//! Core: what members say to each other, as bytes of our own.
//!
//! Nothing of the engine's shape crosses the wire, since a new version of it may change any of it
//! and members are upgraded one after the other. A question is its kind and a body that begins with
//! the version; integers are little-endian. A position is `term u64 | node u64 | index u64`, all
//! zeros for none; a vote `term u64 | node u64 | committed u8`.

use bytes::{Buf, BufMut, Bytes};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use queue_format::journal::record::{RecordError, decode_all};
use queue_format::journal::{Record, record};
use queue_format::{Epoch, Key, KeyError, Position};

use crate::types::{
    LogEntry, LogId, MembersError, TypeConfig, Vote, entry_from_stored, entry_to_stored, log_id,
    position,
};

type Append = AppendEntriesRequest<TypeConfig>;
type Appended = AppendEntriesResponse<TypeConfig>;
pub(crate) type Ballot = VoteRequest<TypeConfig>;
pub(crate) type Balloted = VoteResponse<TypeConfig>;
type Transfer = TransferLeaderRequest<TypeConfig>;
type Transferred = TransferLeaderResponse<TypeConfig>;

/// Version of these messages.
const VERSION: u8 = 1;

const POSITION_BYTES: usize = 24;

/// Terms that somebody may be ahead: a thousand overrides, each of which raises the term by a million,
/// and far more elections than a cluster ever sees.
pub const TERM_AHEAD_MAX: u64 = 1_000_000_000;

/// The subject of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Entries for the log, or none: a sign of life.
    Append = 1,
    /// A vote, please.
    Vote = 2,
    /// Would there be a vote?
    PreVote = 3,
    /// Lead from here on.
    Transfer = 4,
    SnapshotBegin = 5,
    SnapshotPart = 6,
    /// It is complete: install it.
    SnapshotEnd = 7,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Append,
        Self::Vote,
        Self::PreVote,
        Self::Transfer,
        Self::SnapshotBegin,
        Self::SnapshotPart,
        Self::SnapshotEnd,
    ];

    pub(crate) fn of(byte: u8) -> Result<Self, MessageError> {
        let known = Self::ALL.into_iter().find(|kind| *kind as u8 == byte);
        known.ok_or(MessageError::Kind(byte))
    }
}

/// Bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("a message of the unknown kind {0}: is the other side newer?")]
    Kind(u8),
    #[error("a message of version {found}, this program speaks {VERSION}: upgrade the older one")]
    Version { found: u8 },
    #[error("a message that ends too early")]
    Short,
    #[error("a message with {0} bytes too many")]
    Trailing(usize),
    #[error("a message with a {what} that cannot be")]
    Content { what: &'static str },
    #[error(
        "a message of term {found}, absurdly far ahead of {known}: the store of its sender is damaged"
    )]
    Term { found: u64, known: u64 },
    #[error(
        "a vote in term {voted}, absurdly far ahead of the last entry's, {last}: the store is damaged"
    )]
    OwnTerm { voted: u64, last: u64 },
    #[error("a message whose entries are none")]
    Record(#[from] RecordError),
    #[error("a message whose members are none")]
    Members(#[from] MembersError),
    #[error("a snapshot with a bad key")]
    Key(#[from] KeyError),
}

type Read<T> = Result<T, MessageError>;

/// The facts of a snapshot, before its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotHead {
    /// The leader's vote.
    pub(crate) vote: Vote,
    /// The last entry that it covers.
    pub(crate) at: Position,
    /// The entry that named its members.
    pub(crate) members_at: Position,
    /// Those members, in the form of `types`.
    pub(crate) members: String,
}

fn begun(bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 1);
    out.put_u8(VERSION);
    out
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    out.put_u64_le(position.epoch.term);
    out.put_u64_le(position.epoch.node);
    out.put_u64_le(position.index);
}

fn put_id(out: &mut Vec<u8>, id: Option<&LogId>) {
    put_position(out, id.map(position).unwrap_or_default());
}

fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    let leader = vote.leader_id();
    out.put_u64_le(leader.term);
    out.put_u64_le(leader.node_id);
    out.put_u8(u8::from(vote.is_committed()));
}

/// Whether somebody can have come to a term, by one who knows of `known`.
pub(crate) fn check_term(found: u64, known: u64) -> Read<()> {
    match found <= known.saturating_add(TERM_AHEAD_MAX) {
        true => Ok(()),
        false => Err(MessageError::Term { found, known }),
    }
}

/// Whether this member can have voted in a term, by the last entry of its log.
pub(crate) fn check_own_term(voted: u64, last: u64) -> Read<()> {
    check_term(voted, last).map_err(|_ahead| MessageError::OwnTerm { voted, last })
}

/// The rest of a message, and the term by which its own terms are measured. The engine makes any term
/// durable that it is told of, and goes on from there until none is left.
struct Rest(Bytes, u64);

impl Rest {
    fn open(mut bytes: Bytes) -> Read<Self> {
        if !bytes.has_remaining() {
            return Err(MessageError::Short);
        }
        match bytes.get_u8() {
            VERSION => Ok(Self(bytes, 0)),
            found => Err(MessageError::Version { found }),
        }
    }

    fn knowing(self, vote: &Vote) -> Self {
        Self(self.0, vote.leader_id().term)
    }

    fn take(&mut self, count: usize) -> Read<Bytes> {
        if self.0.len() < count {
            return Err(MessageError::Short);
        }
        Ok(self.0.split_to(count))
    }

    fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?.get_u8())
    }

    fn flag(&mut self) -> Read<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MessageError::Content { what: "flag" }),
        }
    }

    fn u32(&mut self) -> Read<u32> {
        Ok(self.take(4)?.get_u32_le())
    }

    fn u64(&mut self) -> Read<u64> {
        Ok(self.take(8)?.get_u64_le())
    }

    fn position(&mut self) -> Read<Position> {
        let mut raw = self.take(POSITION_BYTES)?;
        let epoch = Epoch { term: raw.get_u64_le(), node: raw.get_u64_le() };
        let position = Position { epoch, index: raw.get_u64_le() };
        if position.index == 0 && position != Position::default() {
            return Err(MessageError::Content { what: "position" });
        }
        check_term(position.epoch.term, self.1)?;
        Ok(position)
    }

    fn id(&mut self) -> Read<Option<LogId>> {
        Ok(log_id(self.position()?))
    }

    fn vote(&mut self) -> Read<Vote> {
        let (term, node) = (self.u64()?, self.u64()?);
        check_term(term, self.1)?;
        Ok(if self.flag()? { Vote::new_committed(term, node) } else { Vote::new(term, node) })
    }

    fn end<T>(self, value: T) -> Read<T> {
        if self.0.is_empty() { Ok(value) } else { Err(MessageError::Trailing(self.0.len())) }
    }
}

pub(crate) fn append(request: &Append) -> Bytes {
    let records: Vec<Record> =
        request.entries.iter().map(|entry| Record::Entry(entry_to_stored(entry))).collect();
    let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
    let mut out = begun(bytes + 17 + 2 * POSITION_BYTES);
    put_vote(&mut out, &request.vote);
    put_id(&mut out, request.prev_log_id.as_ref());
    put_id(&mut out, request.leader_commit.as_ref());
    records.iter().for_each(|record| record.encode(&mut out));
    out.into()
}

pub(crate) fn read_append(bytes: Bytes, known: &Vote) -> Read<Append> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let (vote, prev_log_id, leader_commit) = (rest.vote()?, rest.id()?, rest.id()?);
    let entry = |record| match record {
        Record::Entry(record::Entry { position: Position { index: 0, .. }, .. })
        | Record::Vote(_)
        | Record::Truncate { .. }
        | Record::Purge { .. } => Err(MessageError::Content { what: "record" }),
        Record::Entry(entry) => Ok(entry_from_stored(&entry)?),
    };
    let entries: Vec<LogEntry> =
        decode_all(rest.0)?.into_iter().map(entry).collect::<Result<_, _>>()?;
    follows(prev_log_id.as_ref(), &entries, &vote)?;
    Ok(Append { vote, prev_log_id, entries, leader_commit })
}

/// The engine takes a row with holes, or of terms in which its sender did not lead yet, for a broken
/// invariant of its own, and panics.
fn follows(prev: Option<&LogId>, entries: &[LogEntry], leader: &Vote) -> Read<()> {
    let mut last = prev.copied();
    for entry in entries {
        let next = last.map_or(0, |last| last.index() + 1);
        if entry.log_id.index() != next || Some(entry.log_id) < last {
            return Err(MessageError::Content { what: "row of entries" });
        }
        last = Some(entry.log_id);
    }
    let ends = last.map(|last| last.committed_leader_id().term);
    match ends > Some(leader.leader_id().term) {
        true => Err(MessageError::Content { what: "row of entries" }),
        false => Ok(()),
    }
}

pub(crate) fn appended(answer: &Appended) -> Bytes {
    let mut out = begun(POSITION_BYTES + 1);
    match answer {
        Appended::Success => out.put_u8(0),
        Appended::PartialSuccess(id) => {
            out.put_u8(1);
            put_id(&mut out, id.as_ref());
        }
        Appended::Conflict => out.put_u8(2),
        Appended::HigherVote(vote) => {
            out.put_u8(3);
            put_vote(&mut out, vote);
        }
    }
    out.into()
}

pub(crate) fn read_appended(bytes: Bytes, known: &Vote) -> Read<Appended> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let answer = match rest.byte()? {
        0 => Appended::Success,
        1 => Appended::PartialSuccess(rest.id()?),
        2 => Appended::Conflict,
        3 => Appended::HigherVote(rest.vote()?),
        _ => return Err(MessageError::Content { what: "answer" }),
    };
    rest.end(answer)
}

pub(crate) fn ballot(request: &Ballot) -> Bytes {
    let mut out = begun(18 + POSITION_BYTES);
    put_vote(&mut out, &request.vote);
    put_id(&mut out, request.last_log_id.as_ref());
    out.put_u8(u8::from(request.leadership_transfer));
    out.into()
}

pub(crate) fn read_ballot(bytes: Bytes, known: &Vote) -> Read<Ballot> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let mut ballot = Ballot::new(rest.vote()?, rest.id()?);
    ballot.leadership_transfer = rest.flag()?;
    rest.end(ballot)
}

pub(crate) fn balloted(answer: &Balloted) -> Bytes {
    let mut out = begun(18 + POSITION_BYTES);
    put_vote(&mut out, &answer.vote);
    put_id(&mut out, answer.last_log_id.as_ref());
    out.put_u8(u8::from(answer.vote_granted));
    out.into()
}

pub(crate) fn read_balloted(bytes: Bytes, known: &Vote) -> Read<Balloted> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let (vote, last) = (rest.vote()?, rest.id()?);
    let granted = rest.flag()?;
    rest.end(Balloted::new(vote, last, granted))
}

pub(crate) fn transfer(request: &Transfer) -> Bytes {
    let mut out = begun(25 + POSITION_BYTES);
    put_vote(&mut out, request.from_leader());
    out.put_u64_le(*request.to_node_id());
    put_id(&mut out, request.last_log_id());
    out.into()
}

pub(crate) fn read_transfer(bytes: Bytes, known: &Vote) -> Read<Transfer> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let (from, to, last) = (rest.vote()?, rest.u64()?, rest.id()?);
    rest.end(Transfer::new(from, to, last))
}

pub(crate) fn transferred(answer: &Transferred) -> Bytes {
    let mut out = begun(2 * POSITION_BYTES + 1);
    match answer {
        Ok(()) => out.put_u8(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.put_u8(1);
            put_vote(&mut out, expected);
            put_vote(&mut out, actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.put_u8(2);
            put_id(&mut out, expected.as_ref());
            put_id(&mut out, actual.as_ref());
        }
    }
    out.into()
}

pub(crate) fn read_transferred(bytes: Bytes, known: &Vote) -> Read<Transferred> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let answer = match rest.byte()? {
        0 => Ok(()),
        1 => Err(TransferLeaderError::VoteChanged { expected: rest.vote()?, actual: rest.vote()? }),
        2 => Err(TransferLeaderError::LogNotFlushed { expected: rest.id()?, actual: rest.id()? }),
        _ => return Err(MessageError::Content { what: "answer" }),
    };
    rest.end(answer)
}

pub(crate) fn snapshot_head(head: &SnapshotHead) -> Bytes {
    let mut out = begun(17 + 2 * POSITION_BYTES + head.members.len());
    put_vote(&mut out, &head.vote);
    put_position(&mut out, head.at);
    put_position(&mut out, head.members_at);
    out.put_slice(head.members.as_bytes());
    out.into()
}

pub(crate) fn read_snapshot_head(bytes: Bytes, known: &Vote) -> Read<SnapshotHead> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let (vote, at, members_at) = (rest.vote()?, rest.position()?, rest.position()?);
    let members = String::from_utf8(rest.0.to_vec());
    let members = members.map_err(|_error| MessageError::Content { what: "text" })?;
    Ok(SnapshotHead { vote, at, members_at, members })
}

/// A part of a snapshot: its number, from 0, then `key length u16 | key | length u32 | content`.
pub(crate) fn snapshot_part(number: u32, contents: &[(Key, Bytes)]) -> Bytes {
    let bytes: usize =
        contents.iter().map(|(key, content)| key.as_str().len() + content.len()).sum();
    let mut out = begun(bytes + 6 * contents.len() + 4);
    out.put_u32_le(number);
    for (key, content) in contents {
        let key = key.as_str();
        out.put_u16_le(u16::try_from(key.len()).expect("a key is at most 1,608 bytes long"));
        out.put_slice(key.as_bytes());
        out.put_u32_le(u32::try_from(content.len()).expect("a content fits into a frame"));
        out.put_slice(content);
    }
    out.into()
}

pub(crate) fn read_snapshot_part(bytes: Bytes) -> Read<(u32, Vec<(Key, Bytes)>)> {
    let mut rest = Rest::open(bytes)?;
    let number = rest.u32()?;
    let mut contents = Vec::new();
    while !rest.0.is_empty() {
        let length = usize::from(rest.take(2)?.get_u16_le());
        let key = rest.take(length)?;
        let key = std::str::from_utf8(&key);
        let key = Key::parse(key.map_err(|_error| MessageError::Content { what: "text" })?)?;
        let length = usize::try_from(rest.u32()?).unwrap_or(usize::MAX);
        contents.push((key, rest.take(length)?));
    }
    Ok((number, contents))
}

/// The end of a snapshot: how many parts it had.
pub(crate) fn snapshot_end(parts: u32) -> Bytes {
    let mut out = begun(4);
    out.put_u32_le(parts);
    out.into()
}

pub(crate) fn read_snapshot_end(bytes: Bytes) -> Read<u32> {
    let mut rest = Rest::open(bytes)?;
    let parts = rest.u32()?;
    rest.end(parts)
}

/// The answer to anything about a snapshot: the receiver's vote.
pub(crate) fn voted(vote: &Vote) -> Bytes {
    let mut out = begun(17);
    put_vote(&mut out, vote);
    out.into()
}

pub(crate) fn read_voted(bytes: Bytes, known: &Vote) -> Read<Vote> {
    let mut rest = Rest::open(bytes)?.knowing(known);
    let vote = rest.vote()?;
    rest.end(vote)
}

#[cfg(test)]
mod tests;
