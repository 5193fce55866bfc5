//! Core: fields of tokens. None has what a token is known by.

use std::sync::Arc;

use model::Timestamp;
use model::token::Token;

use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

/// A token at a moment.
#[derive(Debug, Clone)]
pub struct TokenRow {
    pub token: Arc<Token>,
    /// The time of the question: a token ends by itself.
    pub now: Timestamp,
}

/// A row of each token that is not forgotten.
pub fn rows(config: &Config, now: Timestamp) -> Vec<TokenRow> {
    let listed = config.tokens.values().filter(|token| !token.is_forgotten(now));
    listed.map(|token| TokenRow { token: Arc::clone(token), now }).collect()
}

/// The table.
pub const FIELDS: &[Field<TokenRow>] = fields! {
    "name", "Name", Text, "Its name, which is that of its user",
        |r| Cell::normal(r.token.name.as_str());
    "role", "Role", Text, "What it may do", |r| Cell::normal(r.token.role.as_str());
    "state", "State", Text, "`active`, `expired` or `revoked`",
        |r| Cell::normal(r.token.grant().state(r.now).as_str());
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&r.token.ctime);
    "expires", "Expires", Timestamp, "When it ends by itself; nothing means never",
        |r| json(&r.token.expires);
    "revoked", "Revoked", Timestamp, "When somebody ended it", |r| json(&r.token.revoked);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigChange;
    use crate::testing::{NOW, config, token};

    #[test]
    fn what_ended_long_ago_is_gone_and_no_field_has_the_hash() {
        let mut config = config(&[]);
        let day = |days: i64| Some(NOW.plus_seconds(days * 86_400));
        let active = token("a", 1);
        let expired = Token { expires: day(-29), ..token("b", 2) };
        let revoked = Token { expires: day(1), revoked: day(-29), ..token("c", 3) };
        let old = Token { expires: day(-30), ..token("d", 4) };
        config.apply([active, expired, revoked, old].map(ConfigChange::Token));
        let shown = rows(&config, NOW);
        let states =
            shown.iter().map(|row| (row.token.name.as_str(), row.token.grant().state(NOW)));
        let states: Vec<_> = states.map(|(name, state)| format!("{name} {state}")).collect();
        assert_eq!(states, ["a active", "b expired", "c revoked"]);
        for row in &shown {
            let hash = serde_json::to_string(&row.token.sha256).unwrap();
            for field in FIELDS {
                let told = format!("{:?}", field.value.of(row));
                assert!(!told.contains(hash.trim_matches('"')), "{told}");
            }
        }
    }
}
