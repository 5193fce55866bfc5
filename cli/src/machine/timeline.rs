//! Core: the stages of a boot for a reader.

use serde_json::Value;

use crate::cells::plain;
use crate::details::Detail;
use crate::moment::{self, TimeForm};

const MICROS_PER_SECOND: f64 = 1e6;
/// Digits of a digest that tell one version of a document from another; `--json` has all.
const DIGITS: usize = 12;

/// Each stage on a line: seconds since the first one, the moment, the agent.
pub(super) fn detail(stages: &Value, times: TimeForm) -> Detail {
    let stages = stages.as_array().map(Vec::as_slice).unwrap_or_default();
    let first = stages.first().and_then(|stage| moment::micros(&stage["at"]));
    let line = |stage: &Value| {
        let at = moment::micros(&stage["at"]);
        let after = at.zip(first).map(|(at, first)| (at - first) as f64 / MICROS_PER_SECOND);
        let after = after.map_or_else(|| "-".to_owned(), |after| format!("{after:.1} s"));
        let date = times.date(&stage["at"]).unwrap_or_else(|| "-".to_owned());
        let fetched = &stage["fetched"];
        let (stage, agent) = (plain(&stage["stage"]), plain(&stage["agent"]));
        let fetched = match fetched.as_object() {
            None => String::new(),
            Some(fetched) => {
                let word = |name| fetched.get(name).map(plain).unwrap_or_default();
                let digest: String = word("sha256").chars().take(DIGITS).collect();
                format!("  {} {} {digest}", word("kind"), word("id"))
            }
        };
        Detail::Text(format!("{stage:<7} {after:>9}  {date}  {agent}{fetched}"))
    };
    match stages {
        [] => Detail::Text("-".to_owned()),
        stages => Detail::List(stages.iter().map(line).collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_count_from_the_first_stage() {
        let stages = json!([
            {"stage": "loader", "at": [100, 500_000], "agent": "n1"},
            {"stage": "system", "at": [112, 900_000], "agent": "n2"},
            {"stage": "config", "at": [113, 500_000], "agent": "n2",
                "fetched": {"kind": "ignition", "id": "1.2.3", "sha256": "0123456789abcdef"}},
        ]);
        let Detail::List(lines) = detail(&stages, TimeForm::Zoned) else { panic!() };
        let text = |at: usize| match &lines[at] {
            Detail::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        assert!(text(0).starts_with("loader      0.0 s  ") && text(0).ends_with("  n1"));
        assert!(text(1).starts_with("system     12.4 s  ") && text(1).ends_with("  n2"));
        assert!(text(2).ends_with("  n2  ignition 1.2.3 0123456789ab"), "{}", text(2));
        assert_eq!(detail(&json!([]), TimeForm::Zoned), Detail::Text("-".to_owned()));
    }
}
