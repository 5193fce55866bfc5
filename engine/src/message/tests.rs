use std::collections::{BTreeMap, BTreeSet};

use openraft::BasicNode;
use proptest::prelude::*;

use super::*;
use crate::types::{Membership, Payload, Proposal, members_to_text};

fn id(term: u64, node: u64, index: u64) -> LogId {
    log_id(Position { epoch: Epoch { term, node }, index: index + 1 }).unwrap()
}

/// Of one who knows of term 3.
fn known() -> Vote {
    Vote::new(3, 1)
}

fn members() -> Membership {
    let nodes: BTreeMap<u64, BasicNode> =
        (1..=3).map(|id| (id, BasicNode { addr: format!("n{id}") })).collect();
    Membership::new(vec![BTreeSet::from([1, 2, 3])], nodes).unwrap()
}

fn request() -> Append {
    let entry = |index, payload| LogEntry { log_id: id(3, 2, index), payload };
    Append {
        vote: Vote::new_committed(3, 2),
        prev_log_id: Some(id(2, 1, 6)),
        entries: vec![
            entry(7, Payload::Blank),
            entry(8, Payload::Membership(members())),
            entry(9, Payload::Normal(Proposal(Bytes::from_static(b"batch")))),
        ],
        leader_commit: None,
    }
}

#[test]
fn every_message_survives() {
    let request = request();
    let read = read_append(append(&request), &known()).unwrap();
    assert_eq!((read.vote, read.prev_log_id), (request.vote, request.prev_log_id));
    assert_eq!((read.leader_commit, read.entries), (request.leader_commit, request.entries));
    let answers = [
        Appended::Success,
        Appended::PartialSuccess(None),
        Appended::PartialSuccess(Some(id(3, 2, 0))),
        Appended::Conflict,
        Appended::HigherVote(Vote::new(9, 1)),
    ];
    for answer in answers {
        assert_eq!(read_appended(appended(&answer), &known()).unwrap(), answer);
    }
    let mut vote = Ballot::new(Vote::new(4, 1), None);
    vote.leadership_transfer = true;
    assert_eq!(read_ballot(ballot(&vote), &known()).unwrap(), vote);
    let answer = Balloted::new(Vote::new(4, 1), Some(id(3, 2, 9)), true);
    assert_eq!(read_balloted(balloted(&answer), &known()).unwrap(), answer);
    let offer = Transfer::new(Vote::new_committed(3, 2), 7, Some(id(3, 2, 9)));
    assert_eq!(read_transfer(transfer(&offer), &known()).unwrap(), offer);
    let changed =
        TransferLeaderError::VoteChanged { expected: Vote::new(3, 2), actual: Vote::new(4, 1) };
    let unflushed =
        TransferLeaderError::LogNotFlushed { expected: Some(id(3, 2, 9)), actual: None };
    for answer in [Ok(()), Err(changed), Err(unflushed)] {
        assert_eq!(read_transferred(transferred(&answer), &known()).unwrap(), answer);
    }
    let head = SnapshotHead {
        vote: Vote::new_committed(3, 2),
        at: position(&id(3, 2, 9)),
        members_at: position(&id(3, 2, 8)),
        members: members_to_text(&members()),
    };
    assert_eq!(read_snapshot_head(snapshot_head(&head), &known()).unwrap(), head);
    let contents = vec![
        (Key::parse("queue/serial").unwrap(), Bytes::from_static(b"7\n")),
        (Key::parse("config/cluster").unwrap(), Bytes::new()),
    ];
    assert_eq!(read_snapshot_part(snapshot_part(5, &contents)).unwrap(), (5, contents));
    assert_eq!(read_snapshot_end(snapshot_end(6)).unwrap(), 6);
    assert_eq!(read_voted(voted(&Vote::new(1, 2)), &known()).unwrap(), Vote::new(1, 2));
}

#[test]
fn entries_with_holes_are_refused() {
    let mut hole = request();
    hole.entries.remove(1);
    let told = read_append(append(&hole), &known()).unwrap_err().to_string();
    assert!(told.contains("row of entries"), "{told}");
    let mut behind = request();
    behind.prev_log_id = Some(id(4, 1, 6));
    assert!(read_append(append(&behind), &known()).is_err());
}

#[test]
fn entries_of_terms_to_come_are_refused() {
    let mut early = request();
    early.vote = Vote::new_committed(2, 1);
    let told = read_append(append(&early), &known()).unwrap_err().to_string();
    assert!(told.contains("row of entries"), "{told}");
}

/// The engine would make such a term durable, and come to its end with it.
#[test]
fn absurd_terms_are_refused_wherever_they_stand() {
    let highest = 3 + TERM_AHEAD_MAX;
    for (term, is_refused) in [(highest, false), (highest + 1, true), (u64::MAX, true)] {
        let (vote, last) = (Vote::new(term, 2), Some(id(term, 2, 9)));
        let lead = Vote::new_committed(term, 2);
        let request = Append { vote: lead, prev_log_id: last, entries: Vec::new(), ..request() };
        let head = SnapshotHead {
            vote: lead,
            at: Position::default(),
            members_at: Position::default(),
            members: members_to_text(&members()),
        };
        let changed = TransferLeaderError::VoteChanged { expected: known(), actual: vote };
        let partial = Appended::PartialSuccess(last);
        for read in [
            read_append(append(&request), &known()).map(drop),
            read_appended(appended(&Appended::HigherVote(vote)), &known()).map(drop),
            read_appended(appended(&partial), &known()).map(drop),
            read_ballot(ballot(&Ballot::new(vote, None)), &known()).map(drop),
            read_ballot(ballot(&Ballot::new(known(), last)), &known()).map(drop),
            read_balloted(balloted(&Balloted::new(vote, None, false)), &known()).map(drop),
            read_transfer(transfer(&Transfer::new(lead, 7, None)), &known()).map(drop),
            read_transferred(transferred(&Err(changed)), &known()).map(drop),
            read_snapshot_head(snapshot_head(&head), &known()).map(drop),
            read_voted(voted(&vote), &known()).map(drop),
        ] {
            assert_eq!(matches!(read, Err(MessageError::Term { .. })), is_refused, "{read:?}");
            assert_eq!(read.is_err(), is_refused);
        }
    }
    let told = read_voted(voted(&Vote::new(u64::MAX, 2)), &known()).unwrap_err().to_string();
    assert!(told.contains("the store of its sender is damaged"), "{told}");
}

#[test]
fn another_version_is_named() {
    let mut bytes = append(&request()).to_vec();
    bytes[0] = 2;
    let told = read_append(bytes.into(), &known()).unwrap_err().to_string();
    assert!(told.contains("version 2"), "{told}");
}

proptest! {
    #[test]
    fn decoding_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200), plausible: bool) {
        let mut bytes = bytes;
        if plausible && !bytes.is_empty() {
            bytes[0] = VERSION;
        }
        let bytes = Bytes::from(bytes);
        drop(read_append(bytes.clone(), &known()));
        drop(read_appended(bytes.clone(), &known()));
        drop(read_ballot(bytes.clone(), &known()));
        drop(read_balloted(bytes.clone(), &known()));
        drop(read_transfer(bytes.clone(), &known()));
        drop(read_transferred(bytes.clone(), &known()));
        drop(read_snapshot_head(bytes.clone(), &known()));
        drop(read_snapshot_part(bytes.clone()));
        drop(read_snapshot_end(bytes.clone()));
        drop(read_voted(bytes, &known()));
    }

    #[test]
    fn what_is_cut_is_refused(cut in 0_usize..200) {
        let whole = append(&request());
        let cut = cut.min(whole.len() - 1);
        // Between two entries a cut leaves a shorter message, as it would be said.
        if let Ok(read) = read_append(whole.slice(..cut), &known()) {
            prop_assert!(read.entries.len() < request().entries.len());
        }
    }
}
