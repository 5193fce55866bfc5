//! Core: moments as sabakan writes them: RFC 3339, and days without dashes in queries.

use serde_json::Value;

use crate::time::Timestamp;

/// `2026-11-20T13:05:09Z`.
#[must_use]
pub fn shown(moment: Timestamp) -> String {
    moment.to_string().replacen(' ', "T", 1).replace(" UTC", "Z")
}

/// A pair of seconds and microseconds, as sabakan writes it.
#[must_use]
pub fn of_pair(pair: &Value) -> Value {
    let moment = serde_json::from_value(pair.clone()).ok();
    moment.map(shown).map_or(Value::Null, Value::from)
}

/// Reads what RFC 3339 allows; parts of seconds are dropped.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let [hour, minute, second] = numbers(clock)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = rest
        .strip_prefix('.')
        .map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let ahead = match rest {
        "Z" | "z" => 0,
        zone => {
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let [hours, minutes] = numbers(zone.strip_prefix(['+', '-'])?)?;
            sign * (hours * 3_600 + minutes * 60)
        }
    };
    let day = Timestamp::of_date(date).ok()?;
    Some(day.plus_seconds(hour * 3_600 + minute * 60 + second - ahead))
}

/// The beginning of a day, UTC, that is written `20261120`.
#[must_use]
pub fn day(text: &str) -> Option<Timestamp> {
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Timestamp::of_date(&format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..])).ok()
}

/// Numbers of two digits with colons between them.
fn numbers<const N: usize>(text: &str) -> Option<[i64; N]> {
    let parts: Vec<i64> = text
        .split(':')
        .map(|part| part.parse().ok().filter(|_| part.len() == 2 && !part.starts_with(['+', '-'])))
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_they_are_shown() {
        let moment = Timestamp::from_micros(1_542_763_425_000_000);
        assert_eq!(shown(moment), "2018-11-21T01:23:45Z");
        for text in [
            "2018-11-21T01:23:45Z",
            "2018-11-21t01:23:45.678z",
            "2018-11-21T10:23:45+09:00",
            "2018-11-20T20:23:45-05:00",
        ] {
            assert_eq!(read(text), Some(moment), "{text}");
        }
        for text in [
            "",
            "2018-11-21",
            "2018-11-21T01:23:45",
            "2018-13-21T01:23:45Z",
            "2018-11-21T24:00:00Z",
            "2018-11-21T01:23:45+9:00",
            "tomorrow",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(day("20181121").map(shown), Some("2018-11-21T00:00:00Z".to_owned()));
        assert_eq!((day("2018112"), day("20181131"), day("2018-1-1")), (None, None, None));
    }
}
