//! Core: whether another member leads by now, so that an attempt to move the role has come to its end.

use std::time::Duration;

use engine::{LEASE_MS, Standing};
use queue_format::Epoch;

/// How long a member whose attempt failed listens for the one who won it: the winner says so to all
/// at once, and at each heartbeat.
pub(super) const HEARD_WITHIN: Duration = Duration::from_millis(LEASE_MS);

/// The epoch in which somebody leads who is not among `ours`, above `asked`: who takes the role from
/// the master of `asked` comes too late.
pub(super) fn another(standing: &Standing, asked: Epoch, ours: [u64; 2]) -> Option<Epoch> {
    let Standing { vote, elected, .. } = *standing;
    (elected && vote > asked && !ours.contains(&vote.node)).then_some(vote)
}

/// Whether the member `me`, which follows, may lead for as long as it takes to hand over, as it was
/// asked to under `asked`. That was some time ago, since errands wait for each other.
///
/// # Errors
/// The epoch in which another member leads that is heard, or the later one of which this member knows.
pub(super) fn may_lead(standing: &Standing, asked: Epoch, me: u64) -> Result<(), Epoch> {
    let Standing { vote, elected, heard_ms, .. } = *standing;
    let is_led = elected && vote.node != me && heard_ms.is_some_and(|ms| ms <= LEASE_MS);
    if is_led || vote > asked { Err(vote) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use engine::Members;

    use super::*;

    const ASKED: Epoch = Epoch { term: 2, node: 3 };

    fn standing(term: u64, node: u64, elected: bool, heard_ms: Option<u64>) -> Standing {
        Standing {
            leads: None,
            vote: Epoch { term, node },
            elected,
            last: Default::default(),
            applied: Default::default(),
            heard_ms,
            members: Members::default(),
            followers: Default::default(),
            log_kept: 0,
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
            let seen = another(&standing(term, node, elected, Some(0)), ASKED, [2, 3]);
            assert_eq!(seen, ends.then_some(Epoch { term, node }), "{term}.{node} {elected}");
        }
    }

    #[test]
    fn who_hears_a_leader_or_knows_of_a_later_epoch_does_not_lead_to_hand_over() {
        let silent = Some(LEASE_MS + 1);
        // Member 3 is asked to.
        for (term, node, elected, heard_ms, may) in [
            (2, 1, true, silent, true),
            (2, 1, true, None, true),
            (2, 1, false, Some(0), true),
            (2, 1, true, Some(LEASE_MS), false),
            // Of itself it has heard.
            (2, 3, true, Some(0), true),
            (3, 1, true, silent, false),
            (3, 1, false, None, false),
        ] {
            let standing = standing(term, node, elected, heard_ms);
            let expected = if may { Ok(()) } else { Err(standing.vote) };
            assert_eq!(may_lead(&standing, ASKED, 3), expected, "{standing:?}");
        }
    }
}
