//! Core: whose word a member takes, and what it says of its role entry.

use model::cluster::Role;
use queue_format::{Epoch, Health};
use rpc::peer::control::{PeerPosition, PeerRole, PeerState};
use rpc::peer::{PeerFailure, StoreId};
use serde::de::DeserializeOwned;

/// Whether to obey a question under `asked` that changes the member. It is refused where this member
/// knows of a later epoch, by its vote or by a role entry. A vote counts before anyone is elected by it,
/// since the election may be won unseen.
///
/// # Errors
/// The failure that names both epochs.
pub(super) fn heed(asked: Epoch, here: &PeerPosition) -> Result<(), PeerFailure> {
    let entry = here.role.as_ref().map(|role| role.epoch).unwrap_or_default();
    let known = here.epoch.max(entry);
    if asked < known { Err(PeerFailure::epoch(asked, known)) } else { Ok(()) }
}

/// Whether the store of `member` may be wiped where `here` is. Even where no store is known, there may
/// be a damaged one.
///
/// # Errors
/// Another member's store is here.
pub(super) fn may_purge(member: u64, here: StoreId) -> Result<(), PeerFailure> {
    match here.member {
        Some(other) if other != member => Err(PeerFailure::not_now(format!(
            "here is {here}, not member {member}: nothing was wiped"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The document `name` that is written so.
///
/// # Errors
/// It does not read.
pub(super) fn document<T: DeserializeOwned>(name: &str, content: &[u8]) -> Result<T, String> {
    serde_json::from_slice(content).map_err(|error| format!("document `{name}`: {error}"))
}

/// A role entry, as other members are told.
pub(super) fn role(role: Role) -> PeerRole {
    let Role { master, term, node, since: _ } = role;
    PeerRole { master, epoch: Epoch { term, node } }
}

/// The state by the store's health: `state`, unless the store has failed.
pub(super) fn state(health: &Health, state: PeerState) -> PeerState {
    match health {
        Health::Good | Health::DiskFull { .. } => state,
        Health::Failed { reason } => PeerState::Damaged { why: reason.clone() },
    }
}

#[cfg(test)]
mod tests {
    use rpc::peer::PeerFailureKind;
    use uuid::Uuid;

    use super::*;

    fn epoch(term: u64, node: u64) -> Epoch {
        Epoch { term, node }
    }

    fn here(vote: Epoch, entry: Option<Epoch>) -> PeerPosition {
        let role = entry.map(|epoch| PeerRole { master: "n1".parse().unwrap(), epoch });
        PeerPosition {
            member: Some(2),
            incarnation: Some(Uuid::from_u128(2)),
            node: "n2".parse().unwrap(),
            last: Default::default(),
            committed: Default::default(),
            epoch: vote,
            leader: None,
            voters: Vec::new(),
            changing: Vec::new(),
            learners: Vec::new(),
            role,
            leads: false,
            disk_full: false,
            state: PeerState::Standby,
            disk_free_mib: 1,
            last_job: None,
        }
    }

    #[test]
    fn an_epoch_that_is_over_is_not_obeyed() {
        for (asked, vote, entry, heeds) in [
            (epoch(3, 1), epoch(3, 1), Some(epoch(3, 1)), true),
            (epoch(4, 1), epoch(3, 1), Some(epoch(3, 1)), true),
            (epoch(2, 9), epoch(3, 1), None, false),
            // Ids decide between epochs of one term.
            (epoch(3, 1), epoch(3, 2), None, false),
            (epoch(3, 1), epoch(3, 1), Some(epoch(5, 2)), false),
            // A node without a store knows nothing.
            (Epoch::default(), Epoch::default(), None, true),
        ] {
            let answer = heed(asked, &here(vote, entry));
            assert_eq!(answer.is_ok(), heeds, "{asked} {vote} {entry:?}");
            let Err(failure) = answer else { continue };
            assert!(failure.kind == PeerFailureKind::Epoch && failure.certainly_not_done());
        }
        let failure = heed(epoch(2, 9), &here(epoch(3, 1), Some(epoch(5, 2)))).unwrap_err();
        let told = "epoch 2.9 is over: this member knows of epoch 5.2; another master took over";
        assert_eq!(failure.to_string(), told);
    }

    #[test]
    fn only_the_store_that_is_meant_is_wiped() {
        let store = StoreId::new(4, Uuid::from_u128(7));
        assert!(may_purge(4, store).is_ok() && may_purge(4, StoreId::NONE).is_ok());
        let failure = may_purge(3, store).unwrap_err();
        assert!(failure.certainly_not_done());
        assert!(failure.to_string().contains("member 4 with store"), "{failure}");
    }

    #[test]
    fn role_entries() {
        let content = br#"{"master":"n1","term":3,"node":7,"since":[1700000000,0]}"#;
        let read = role(document("config/role", content).unwrap());
        assert_eq!((read.master.as_str(), read.epoch), ("n1", epoch(3, 7)));
        let wrong = document::<Role>("config/role", b"{}").unwrap_err();
        assert!(wrong.starts_with("document `config/role`"), "{wrong}");
    }

    #[test]
    fn a_store_that_failed_is_damaged() {
        let failed = Health::Failed { reason: "fsync: EIO".to_owned() };
        let why = "fsync: EIO".to_owned();
        assert_eq!(state(&failed, PeerState::Standby), PeerState::Damaged { why });
        assert_eq!(state(&Health::Good, PeerState::Master), PeerState::Master);
    }
}
