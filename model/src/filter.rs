//! Core: a filter rule of the queue, as clients write it and as it is stored. The code that reads its
//! predicates decides their meaning.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::opcode::ReasonEntry;

/// The document `config/filters/UUID`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterRule {
    /// Its identity.
    pub uuid: String,
    /// The last job id that had been given out when the rule was made or replaced; 0 when none had.
    pub watermark: u64,
    /// Rules are looked at in the order of this number, smallest first.
    pub priority: u32,
    /// The conditions that a job must meet, all of them; none means that every job is meant.
    pub predicates: Vec<Predicate>,
    /// The action on a job that the rule is for.
    pub action: FilterAction,
    /// The requesters and their reasons, oldest first.
    pub reason_trail: Vec<ReasonEntry>,
}

/// A condition on a job; on the wire `["jobid", filter]`, and so on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predicate(
    /// The property of the job that is tested.
    pub PredicateKind,
    /// The condition, in the filter language of queries.
    pub Value,
);

/// A property of a job that a [`Predicate`] tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredicateKind {
    /// The job's id.
    JobId,
    /// One of its opcodes.
    OpCode,
    /// One entry of a reason trail of its opcodes.
    Reason,
}

/// The action on a job; on the wire a word, or `["RATE_LIMIT", n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterAction {
    /// It runs, whatever later rules say.
    Accept,
    /// It stays in the queue.
    Pause,
    /// It is canceled.
    Reject,
    /// Later rules decide: the rule has no effect.
    Continue,
    /// It stays in the queue while this many jobs run that the rule is for; at least 1.
    RateLimit(u32),
}

/// The word of a rate limit.
const RATE_LIMIT: &str = "RATE_LIMIT";

const WORDS: [(&str, FilterAction); 4] = [
    ("ACCEPT", FilterAction::Accept),
    ("PAUSE", FilterAction::Pause),
    ("REJECT", FilterAction::Reject),
    ("CONTINUE", FilterAction::Continue),
];

impl FilterAction {
    /// The action without its number.
    pub fn word(self) -> &'static str {
        let found = WORDS.iter().find(|(_, action)| *action == self);
        found.map_or(RATE_LIMIT, |(word, _)| word)
    }
}

/// `PAUSE`, `RATE_LIMIT 5`.
impl fmt::Display for FilterAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateLimit(n) => write!(f, "{RATE_LIMIT} {n}"),
            Self::Accept | Self::Pause | Self::Reject | Self::Continue => f.write_str(self.word()),
        }
    }
}

impl Serialize for FilterAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::RateLimit(n) => (RATE_LIMIT, n).serialize(serializer),
            Self::Accept | Self::Pause | Self::Reject | Self::Continue => {
                self.word().serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for FilterAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let limit = |n: &Value| n.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        let found = match &value {
            Value::String(text) => {
                WORDS.iter().find(|(word, _)| word == text).map(|(_, action)| *action)
            }
            Value::Array(list) => match list.as_slice() {
                [Value::String(word), n] if word == RATE_LIMIT => limit(n).map(Self::RateLimit),
                _ => None,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        };
        found.ok_or_else(|| {
            let found: String = value.to_string().chars().take(QUOTED_MAX).collect();
            D::Error::custom(format_args!(
                "the action of a filter rule is ACCEPT, PAUSE, REJECT, CONTINUE or \
                 [\"{RATE_LIMIT}\", n] with n from 1, not {found}"
            ))
        })
    }
}

/// Longest piece of a client's own text that an error repeats.
const QUOTED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_on_the_wire() {
        for (action, wire, shown) in [
            (FilterAction::Accept, json!("ACCEPT"), "ACCEPT"),
            (FilterAction::Pause, json!("PAUSE"), "PAUSE"),
            (FilterAction::Reject, json!("REJECT"), "REJECT"),
            (FilterAction::Continue, json!("CONTINUE"), "CONTINUE"),
            (FilterAction::RateLimit(5), json!(["RATE_LIMIT", 5]), "RATE_LIMIT 5"),
        ] {
            assert_eq!(serde_json::to_value(action).unwrap(), wire);
            assert_eq!(serde_json::from_value::<FilterAction>(wire).unwrap(), action);
            assert_eq!(action.to_string(), shown);
        }
        for bad in [
            json!("accept"),
            json!("RATE_LIMIT"),
            json!("RATE_LIMIT 5"),
            json!(["RATE_LIMIT"]),
            json!(["RATE_LIMIT", 0]),
            json!(["RATE_LIMIT", -1]),
            json!(["RATE_LIMIT", 1.5]),
            json!(["RATE_LIMIT", "5"]),
            json!(["RATE_LIMIT", 5, 5]),
            json!(["PAUSE"]),
            json!(null),
            json!(5),
        ] {
            let told = serde_json::from_value::<FilterAction>(bad.clone()).unwrap_err();
            assert!(told.to_string().contains("with n from 1, not"), "{bad}: {told}");
        }
    }

    #[test]
    fn rules_are_stored_as_they_were_given() {
        let text = json!({"uuid": "u", "watermark": 0, "priority": 3,
            "predicates": [["jobid", [">", "id", "watermark"]], ["opcode", ["=", "OP_ID", "X"]]],
            "action": ["RATE_LIMIT", 2], "reason_trail": [["gnt:user", "why", 5]]});
        let rule: FilterRule = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(rule.predicates[0].0, PredicateKind::JobId);
        assert_eq!(serde_json::to_value(&rule).unwrap(), text);
        for bad in [json!(["jobid"]), json!(["jobid", [], []]), json!(["node", []]), json!([])] {
            assert!(serde_json::from_value::<Predicate>(bad.clone()).is_err(), "{bad}");
        }
    }
}
