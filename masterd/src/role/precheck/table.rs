//! Core: a verdict for people, as rows of JSON for clients and as lines for the log.

use model::Code;
use model::node::NodeRole;
use model::role_check::{RoleAttempt, RoleCheck, RoleCheckRow, RoleDecision};

use membership::confirm::{Attempt, Decision, Question, Reason, Row, Verdict};

/// `verdict` on `question`, with every reason and what to do about it. [`RoleCheck::lines`] is the
/// same as text.
pub fn table(question: &Question, verdict: &Verdict) -> RoleCheck {
    let none: &[Reason] = &[];
    let (decision, reasons) = match &verdict.decision {
        Decision::Go => (RoleDecision::Go, none),
        Decision::GoAfterFetching { .. } => (RoleDecision::GoAfterFetching, none),
        Decision::Override { waived, .. } => (RoleDecision::Override, waived.as_slice()),
        Decision::Refuse { reasons } => (RoleDecision::Refuse, reasons.as_slice()),
    };
    let from = match verdict.decision {
        Decision::GoAfterFetching { from } => {
            let has = |id: u64| {
                move |node: &&membership::confirm::Asked| {
                    node.member.is_some_and(|member| member.expected.member == id)
                }
            };
            question.nodes.iter().find(has(from)).map(|node| node.name.clone())
        }
        _ => None,
    };
    let may_lose = match &verdict.decision {
        Decision::Override { may_lose, .. } => may_lose.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let mut what_to_do = Vec::new();
    if decision == RoleDecision::Refuse {
        for remedy in reasons.iter().map(Reason::remedy).filter(|remedy| !remedy.is_empty()) {
            if !what_to_do.contains(&remedy) {
                what_to_do.push(remedy);
            }
        }
    }
    RoleCheck {
        taker: question.taker.clone(),
        attempt: match question.attempt {
            Attempt::Start => RoleAttempt::Start,
            Attempt::Failover => RoleAttempt::Failover,
            Attempt::Automatic => RoleAttempt::Automatic,
        },
        decision,
        from,
        nodes: verdict.nodes.to_string(),
        voters: verdict.voters.to_string(),
        rows: verdict.rows.iter().map(row).collect(),
        reasons: reasons.iter().map(ToString::to_string).collect(),
        code: code(reasons),
        may_lose,
        what_to_do,
    }
}

/// The code of a majority of the voters that is missing, which nothing but an override does without; or else
/// the first one.
fn code(reasons: &[Reason]) -> Option<Code> {
    let mut codes = reasons.iter().filter_map(Reason::code);
    let voters = codes.clone().find(|code| *code == Code::TooFewVoters);
    voters.or_else(|| codes.next())
}

fn row(row: &Row) -> RoleCheckRow {
    RoleCheckRow {
        node: row.node.clone(),
        role: word(row.role).to_owned(),
        answer: row.answer.to_string(),
        position: row.position.map(|position| position.to_string()),
        master: row.master.clone(),
        counts: match (row.counts_as_node, row.counts_as_voter) {
            (true, true) => "node and voter",
            (true, false) => "node",
            (false, true) => "voter",
            (false, false) => "no",
        }
        .to_owned(),
        reason: row.reason.as_ref().map(ToString::to_string),
        remedy: Some(row.remedy()).filter(|remedy| !remedy.is_empty()),
    }
}

fn word(role: NodeRole) -> &'static str {
    match role {
        NodeRole::Candidate => "candidate",
        NodeRole::Regular => "regular",
        NodeRole::Drained => "drained",
        NodeRole::Offline => "offline",
    }
}

#[cfg(test)]
mod tests;
