//! Times as operators read and write them: local ones, with their zone, or in the forms of Ganeti's
//! clients.

use std::sync::Once;

use model::Timestamp;
use serde_json::Value;
use stdx::local_time::{LocalTime, broken_zone, local_time};

use crate::error::CliError;
use crate::output::warn;
use crate::span;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
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
    /// The form of Ganeti's clients, which leave out the zone.
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

/// The local time. A broken zone of this machine is told once.
fn here(seconds: i64) -> Option<LocalTime> {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        if let Some(why) = broken_zone() {
            // A reader who does not see standard error sees the zone in most times.
            drop(warn(format_args!("gnt: {why}")));
        }
    });
    local_time(seconds)
}

/// A moment as an operator writes it: `today`, `yesterday`, a day or a time of day by the clock of
/// this machine, RFC 3339, or a span that has passed since.
///
/// # Errors
/// The text is none of these.
pub(crate) fn read(text: &str, now_micros: i64) -> Result<Timestamp, CliError> {
    let now = now_micros.div_euclid(MICROS_PER_SECOND);
    let ahead = |seconds| here(seconds).map_or(0, |time| time.ahead_minutes * 60);
    let wrong = || {
        CliError::wrong_input(format!(
            "`{text}` is no time; write today, yesterday, 2026-11-20, `2026-11-20 13:05`, \
             2026-11-20T13:05:09Z, 30m, 12h or 7d"
        ))
    };
    if let Some(moment) = Timestamp::of_rfc3339(text) {
        return Ok(moment);
    }
    let as_if_utc = written(text, now + ahead(now));
    if let Some(seconds) = as_if_utc {
        let seconds = utc_of_local(seconds, ahead);
        return seconds
            .checked_mul(MICROS_PER_SECOND)
            .map(Timestamp::from_micros)
            .ok_or_else(wrong);
    }
    let ago = span::seconds(text).map_err(|_error| wrong())?;
    Ok(Timestamp::from_micros(now_micros).plus_seconds(ago.checked_neg().ok_or_else(wrong)?))
}

/// The seconds of a day or a time of day, as if this machine's clock showed UTC. `here` is now.
fn written(text: &str, here: i64) -> Option<i64> {
    let midnight = here - here.rem_euclid(SECONDS_PER_DAY);
    match text {
        "today" => return Some(midnight),
        "yesterday" => return Some(midnight - SECONDS_PER_DAY),
        _ => {}
    }
    if let Ok(day) = Timestamp::of_date(text) {
        return Some(day.seconds());
    }
    let whole = [format!("{text}Z"), format!("{text}:00Z")];
    whole.iter().find_map(|text| Timestamp::of_rfc3339(text)).map(Timestamp::seconds)
}

/// The moment at which a clock shows `shown`, by how far it is ahead of UTC. A time that the clock shows
/// twice, or never, in a night of its change is a moment within that change.
fn utc_of_local(shown: i64, ahead: impl Fn(i64) -> i64) -> i64 {
    let near = shown - ahead(shown);
    shown - ahead(near)
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
    fn days_and_times_of_day_are_read() {
        let noon = Timestamp::of_rfc3339("2026-11-20T12:30:00Z").unwrap().seconds();
        for (text, expected) in [
            ("today", Some("2026-11-20T00:00:00Z")),
            ("yesterday", Some("2026-11-19T00:00:00Z")),
            ("2026-11-18", Some("2026-11-18T00:00:00Z")),
            ("2026-11-18 13:05", Some("2026-11-18T13:05:00Z")),
            ("2026-11-18T13:05:09", Some("2026-11-18T13:05:09Z")),
            ("2026-11-18 25:00", None),
            ("tomorrow", None),
            ("12h", None),
        ] {
            let expected = expected.map(|text| Timestamp::of_rfc3339(text).unwrap().seconds());
            assert_eq!(written(text, noon), expected, "{text}");
        }
        let now = noon * MICROS_PER_SECOND;
        assert_eq!(read("2h", now).unwrap().seconds(), noon - 7_200);
        assert_eq!(read("2026-11-20T13:05:09Z", now).unwrap().seconds(), noon + 2_109);
        for wrong in ["", "-1d", "soon", "2026-13-01", "20.11.2026"] {
            assert!(read(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_local_time_is_found_in_utc_on_both_sides_of_a_change_of_the_clock() {
        // The clock goes from one hour ahead to two at 100,000.
        let ahead = |seconds: i64| if seconds < 100_000 { 3_600 } else { 7_200 };
        for utc in [0, 50_000, 96_399, 100_000, 103_600, 200_000] {
            assert_eq!(utc_of_local(utc + ahead(utc), ahead), utc, "{utc}");
        }
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
