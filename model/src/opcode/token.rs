//! Core: parameters of opcodes on tokens of the front door.

use serde::{Deserialize, Serialize};

use crate::name::Word;
use crate::role::Role;
use crate::time::Timestamp;
use crate::token::{DAYS_DEFAULT, SECONDS_PER_DAY, TokenDigest};

/// Parameters of `OP_TOKEN_ADD`. The token itself stays with the client that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenAdd {
    /// Its name.
    pub token_name: Word,
    /// SHA-256 of the token.
    pub sha256: TokenDigest,
    /// The role that it gives.
    pub role: Role,
    /// When it ends, in at most ten years; null means in 90 days, `never` that it does not.
    #[serde(default)]
    pub expires: TokenEnd,
}

/// When a token is to end. A token whose end nobody gave must not last for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TokenEnd {
    /// At a moment.
    At(Timestamp),
    /// As a word says it.
    Word(EndWord),
    /// [`DAYS_DEFAULT`] days after it was made.
    #[default]
    Usual,
}

/// A word for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndWord {
    /// It has none.
    Never,
}

impl TokenEnd {
    /// The end of a token that never ends.
    pub const NEVER: Self = Self::Word(EndWord::Never);

    /// The moment, of a token that was made at this one.
    pub fn of(self, made: Timestamp) -> Option<Timestamp> {
        match self {
            Self::At(end) => Some(end),
            Self::Word(EndWord::Never) => None,
            Self::Usual => Some(made.plus_seconds(i64::from(DAYS_DEFAULT) * SECONDS_PER_DAY)),
        }
    }
}

/// Parameters of `OP_TOKEN_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRemove {
    /// Its name.
    pub token_name: Word,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_unless_somebody_says_that_it_does_not() {
        let now = Timestamp::from_micros(5_000_000);
        let rest = format!(r#""token_name": "ci", "sha256": "{}", "role": "read""#, "a".repeat(64));
        for (expires, end) in [
            ("", Some(5 + 90 * 86_400)),
            (r#", "expires": null"#, Some(5 + 90 * 86_400)),
            (r#", "expires": [9, 0]"#, Some(9)),
            (r#", "expires": "never""#, None),
        ] {
            let op: TokenAdd = serde_json::from_str(&format!("{{{rest}{expires}}}")).unwrap();
            assert_eq!(op.expires.of(now).map(Timestamp::seconds), end, "{expires}");
            let again = serde_json::to_string(&op).unwrap();
            assert_eq!(serde_json::from_str::<TokenAdd>(&again).unwrap(), op);
        }
        let wrong = format!(r#"{{{rest}, "expires": "soon"}}"#);
        assert!(serde_json::from_str::<TokenAdd>(&wrong).is_err());
    }
}
