//! Times as they are shown: local ones, in the forms of Ganeti's clients.

use serde_json::Value;
use stdx::local_time::{LocalTime, local_time};

const MICROS_PER_SECOND: i64 = 1_000_000;
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment on the wire in whole seconds since the epoch: a number, or a pair of seconds and
/// microseconds.
pub(crate) fn seconds(value: &Value) -> Option<i64> {
    let whole = value.as_i64().or_else(|| value.get(0)?.as_i64());
    // Ganeti's configuration has times with a fraction.
    whole.or_else(|| value.is_f64().then(|| value.to_string().split('.').next()?.parse().ok())?)
}

/// A pair of seconds and microseconds since the epoch in microseconds.
pub(crate) fn micros(pair: &Value) -> Option<i64> {
    let (seconds, micros) = (pair.get(0)?.as_i64()?, pair.get(1)?.as_i64()?);
    seconds.checked_mul(MICROS_PER_SECOND)?.checked_add(micros)
}

/// `2026-11-20 13:05:09`.
pub(crate) fn date(value: &Value) -> Option<String> {
    let LocalTime { year, month, day, hour, minute, second, .. } = local_time(seconds(value)?)?;
    Some(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"))
}

/// The same with microseconds, of a pair.
pub(crate) fn precise(pair: &Value) -> Option<String> {
    let micros = pair.get(1)?.as_i64()?;
    Some(format!("{}.{micros:06}", date(pair)?))
}

/// `Fri Nov 20 13:05:09 2026`, of seconds since the epoch.
pub(crate) fn spoken(seconds: i64) -> Option<String> {
    let LocalTime { year, month, day, hour, minute, second, weekday } = local_time(seconds)?;
    let month = MONTHS.get(usize::from(month).checked_sub(1)?)?;
    let weekday = WEEKDAYS.get(usize::from(weekday))?;
    Some(format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}"))
}

/// A span in one or two units: `3 s`, `5 min`, `2 h 5 min`, `4 d 3 h`.
pub(crate) fn span(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        ..0 => "0 s".to_owned(),
        0 if micros > 0 => format!("{} ms", (micros / 1_000).max(1)),
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        3_600..86_400 if minutes % 60 > 0 => format!("{hours} h {} min", minutes % 60),
        3_600..86_400 => format!("{hours} h"),
        _ if hours % 24 > 0 => format!("{days} d {} h", hours % 24),
        _ => format!("{days} d"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_time() {
        for value in [json!(null), json!("x"), json!([]), json!({"a": 1})] {
            assert_eq!((date(&value), precise(&value), micros(&value)), (None, None, None));
        }
        assert_eq!(seconds(&json!(1_700_000_000.75)), Some(1_700_000_000));
        assert_eq!(micros(&json!([1, 5])), Some(1_000_005));
    }

    #[test]
    fn spans() {
        for (micros, text) in [
            (-5, "0 s"),
            (0, "0 s"),
            (20, "1 ms"),
            (12_345, "12 ms"),
            (59_999_999, "59 s"),
            (60_000_000, "1 min"),
            (3_600_000_000, "1 h"),
            (7_500_000_000, "2 h 5 min"),
            (86_400_000_000, "1 d"),
            (356_400_000_000, "4 d 3 h"),
        ] {
            assert_eq!(span(micros), text);
        }
    }
}
