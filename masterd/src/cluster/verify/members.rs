//! Core: whether every candidate holds a copy, and answers.

use model::cluster_status::{CandidateState, CandidateStatus};

use crate::config::finding::{Code, Finding};

/// The faults of candidates and witnesses, as the master sees them. The `refusing` nodes refused a
/// connection just now, before their silence has lasted.
pub fn check(candidates: &[CandidateStatus], refusing: &[&str]) -> Vec<Finding> {
    let found = |one: &CandidateStatus| of_candidate(one, refusing.contains(&one.node.as_str()));
    candidates.iter().filter_map(found).collect()
}

fn of_candidate(candidate: &CandidateStatus, refuses: bool) -> Option<Finding> {
    let node = candidate.node.as_str();
    if candidate.state == CandidateState::NotYet {
        let text = format!(
            "it has no copy of queue and configuration, and could not be the master; start masterd \
             on {node}, with `--peers` if its root is not `/`, and see `gnt cluster status`"
        );
        return Some(Finding::error(Code::Files, node, text));
    }
    if let Some(forgot) = &candidate.forgot {
        return Some(Finding::error(Code::Files, node, forgot));
    }
    let part = candidate.state.word();
    let text = format!(
        "its masterd does not answer, and it is a {part}; start masterd on {node}, or mend its \
         network"
    );
    (candidate.unreachable || refuses).then(|| Finding::error(Code::Reach, node, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_is_dead_or_has_no_copy_is_an_error() {
        let told = |change: &[(&str, serde_json::Value)]| {
            let mut one = json!({"node": "n2", "state": "voter", "master": false, "behind": 0,
                "heard_ms": 80, "unreachable": false, "since": null});
            for (key, value) in change {
                one[*key] = value.clone();
            }
            let one: CandidateStatus = serde_json::from_value(one).unwrap();
            let refusing = check(std::slice::from_ref(&one), &["n2"]);
            assert_eq!(refusing.len(), 1, "{refusing:?}");
            let found = check(&[one], &["n3"]);
            let lines = found.iter().map(|found| found.line(&Default::default()));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(told(&[]), "");
        let dead = told(&[("unreachable", json!(true))]);
        assert!(dead.starts_with("  - ERROR: node n2: its masterd does not answer"), "{dead}");
        let learner = told(&[("unreachable", json!(true)), ("state", json!("learner"))]);
        assert!(learner.contains("it is a learner"), "{learner}");
        let without = told(&[("state", json!("not-yet"))]);
        assert!(without.starts_with("  - ERROR: node n2: it has no copy"), "{without}");
        let forgot = told(&[("forgot", json!("it has another disk"))]);
        assert_eq!(forgot, "  - ERROR: node n2: it has another disk");
    }
}
