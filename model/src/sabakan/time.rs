//! Core: moments as sabakan writes them: RFC 3339, and days without dashes in queries.

use serde_json::Value;

use crate::time::Timestamp;

/// `2026-11-20T13:05:09Z`.
pub fn shown(moment: Timestamp) -> String {
    moment.to_string().replacen(' ', "T", 1).replace(" UTC", "Z")
}

/// A pair of seconds and microseconds, as sabakan writes it.
pub fn of_pair(pair: &Value) -> Value {
    let moment = serde_json::from_value(pair.clone()).ok();
    moment.map(shown).map_or(Value::Null, Value::from)
}

/// The beginning of a day, UTC, that is written `20261120`.
pub fn day(text: &str) -> Option<Timestamp> {
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Timestamp::of_date(&format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..])).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_they_are_shown() {
        let moment = Timestamp::from_micros(1_542_763_425_000_000);
        assert_eq!(shown(moment), "2018-11-21T01:23:45Z");
        assert_eq!(day("20181121").map(shown), Some("2018-11-21T00:00:00Z".to_owned()));
        assert_eq!((day("2018112"), day("20181131"), day("2018-1-1")), (None, None, None));
    }
}
