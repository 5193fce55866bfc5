//! Times as they are shown: local ones, with their zone, or in the forms of Ganeti's clients.

use std::sync::Once;

use serde_json::Value;
use stdx::local_time::{LocalTime, broken_zone, local_time};

use crate::output::warn;

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

/// The form in which times are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeForm {
    /// That of Ganeti's clients, which leave out the zone.
    Ganeti,
    /// Ours: by it, whoever reads a line elsewhere knows the moment.
    Zoned,
}

impl TimeForm {
    /// `2026-11-20 13:05:09`, or `2026-11-20 13:05:09+01:00`.
    pub(crate) fn date(self, value: &Value) -> Option<String> {
        self.text(seconds(value)?, "")
    }

    /// The same with microseconds, of a pair.
    pub(crate) fn precise(self, pair: &Value) -> Option<String> {
        let micros = pair.get(1)?.as_i64()?;
        self.text(seconds(pair)?, &format!(".{micros:06}"))
    }

    /// `Fri Nov 20 13:05:09 2026`, or as [`Self::date`], of seconds since the epoch.
    pub(crate) fn spoken(self, seconds: i64) -> Option<String> {
        if self == Self::Zoned {
            return self.text(seconds, "");
        }
        let LocalTime { year, month, day, hour, minute, second, weekday, .. } = here(seconds)?;
        let month = MONTHS.get(usize::from(month).checked_sub(1)?)?;
        let weekday = WEEKDAYS.get(usize::from(weekday))?;
        Some(format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}"))
    }

    fn text(self, seconds: i64, fraction: &str) -> Option<String> {
        let LocalTime { year, month, day, hour, minute, second, ahead_minutes, .. } =
            here(seconds)?;
        let zone = match self {
            Self::Ganeti => String::new(),
            Self::Zoned => {
                let sign = if ahead_minutes < 0 { '-' } else { '+' };
                let ahead = ahead_minutes.abs();
                format!("{sign}{:02}:{:02}", ahead / 60, ahead % 60)
            }
        };
        Some(format!(
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}{zone}"
        ))
    }
}

/// The local time. That the zone of this machine is not what it seems is told once.
fn here(seconds: i64) -> Option<LocalTime> {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        if let Some(why) = broken_zone() {
            // Whoever does not see standard error sees the zone in most times.
            drop(warn(format_args!("gnt: {why}")));
        }
    });
    local_time(seconds)
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
            let form = TimeForm::Zoned;
            assert_eq!((form.date(&value), form.precise(&value)), (None, None));
            assert_eq!(micros(&value), None);
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
