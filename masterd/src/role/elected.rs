//! Core: whether another member leads by now, so that an attempt to move the role has come to its end.

use std::time::Duration;

use engine::{EngineStatus, LEASE_MS};
use queue_format::Epoch;

/// How long a member whose attempt failed listens for the one who won it: the winner says so to all
/// at once, and at each heartbeat.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_millis(LEASE_MS);

/// The epoch in which somebody leads who is not among `ours`, above `asked`: who takes the role from
/// the master of `asked` comes too late.
pub(crate) fn another(status: &EngineStatus, asked: Epoch, ours: [u64; 2]) -> Option<Epoch> {
    let EngineStatus { vote, elected, .. } = *status;
    (elected && vote > asked && !ours.contains(&vote.node)).then_some(vote)
}

/// Whether a member that follows may lead for as long as it takes to hand over, as it was asked to under
/// `asked`. The request may be old, since role commands wait for each other. A leader of that epoch that
/// was heard just now is no reason against it: who asks knew of it, and it may have been killed.
///
/// # Errors
/// The later epoch of which this member knows.
pub(crate) fn may_lead(status: &EngineStatus, asked: Epoch) -> Result<(), Epoch> {
    if status.vote > asked { Err(status.vote) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use engine::Members;

    use super::*;

    const ASKED: Epoch = Epoch { term: 2, node: 3 };

    fn status(term: u64, node: u64, elected: bool, heard_ms: Option<u64>) -> EngineStatus {
        EngineStatus {
            leads: None,
            vote: Epoch { term, node },
            elected,
            last: Default::default(),
            applied: Default::default(),
            heard_ms,
            members: Members::default(),
            followers: Default::default(),
            log_kept: 0,
            log_kept_bytes: 0,
            stopped: None,
        }
    }

    #[test]
    fn who_leads_above_the_master_that_was_asked_ends_the_attempt() {
        // Member 2 has member 3, the master, hand over.
        for (term, node, elected, ends) in [
            (2, 3, true, false),
            // Somebody wants to be elected; itself, or the one who was asked, is.
            (3, 1, false, false),
            (3, 2, true, false),
            (3, 3, true, false),
            (3, 1, true, true),
            // Of before.
            (1, 1, true, false),
        ] {
            let seen = another(&status(term, node, elected, Some(0)), ASKED, [2, 3]);
            assert_eq!(seen, ends.then_some(Epoch { term, node }), "{term}.{node} {elected}");
        }
    }

    #[test]
    fn who_knows_of_a_later_epoch_does_not_lead_to_hand_over() {
        for (term, node, elected, may) in [
            (2, 1, true, true),
            (2, 1, false, true),
            (2, 3, true, true),
            (3, 1, true, false),
            (3, 1, false, false),
            // Ids decide between epochs of one term.
            (2, 4, true, false),
        ] {
            // Whenever that was heard of.
            for heard_ms in [None, Some(0), Some(LEASE_MS + 1)] {
                let status = status(term, node, elected, heard_ms);
                let expected = if may { Ok(()) } else { Err(status.vote) };
                assert_eq!(may_lead(&status, ASKED), expected, "{status:?}");
            }
        }
    }
}
