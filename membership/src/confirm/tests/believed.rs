//! The believed part of an answer: a claim that cannot be true is not used, whatever else stands in its
//! row.

use super::super::*;
use super::{epoch, kill_all, name, question, says};

/// Far beyond what anybody comes to.
const ABSURD: u64 = 1 << 62;

#[test]
fn an_absurd_term_goes_nowhere() {
    let mut asked = question(Attempt::Failover, 2);
    asked.nodes[3].agent = Ok(AgentSays { obeys: epoch(ABSURD, 1), master: None });
    says(&mut asked.nodes[2]).vote = epoch(ABSURD, 3);
    let newest = |asked: &Question| confirm(asked).rows.iter().filter_map(|row| row.newest).max();
    assert_eq!(newest(&asked), Some(epoch(2, 1)));
    // Neither where its row says something else about it.
    asked.waivers.ignored = [name(3), name(4)].into();
    let verdict = confirm(&asked);
    assert!(matches!(verdict.rows[3].reason, Some(Reason::Ignored { .. })));
    assert_eq!(newest(&asked), Some(epoch(2, 1)));
}

#[test]
fn an_absurd_role_entry_names_no_master() {
    let mut asked = question(Attempt::Start, 1);
    let role = RoleEntry { master: name(3), epoch: epoch(ABSURD, 3) };
    says(&mut asked.nodes[2]).role = Some(role);
    let verdict = confirm(&asked);
    assert!(matches!(verdict.rows[2].reason, Some(Reason::Nonsense { .. })), "{verdict:?}");
    assert_eq!(verdict.decision, Decision::Go);
}

#[test]
fn an_override_hears_what_is_believed() {
    let mut asked = question(Attempt::Failover, 2);
    kill_all(&mut asked, &[0]);
    asked.nodes[2].agent = Ok(AgentSays { obeys: epoch(ABSURD, 1), master: None });
    asked.nodes[2].store = None;
    (asked.waivers.no_voting, asked.waivers.yes_do_it) = (true, true);
    asked.waivers.ignored = [name(3)].into();
    let verdict = confirm(&asked);
    assert!(matches!(verdict.decision, Decision::Override { .. }), "{verdict:?}");
    assert_eq!(verdict.rows[2].newest, None);
}
