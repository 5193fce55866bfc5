//! Core: points in time as the job files and clients write them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Microseconds since 1970-01-01 UTC; on the wire Ganeti's pair `[seconds, microseconds]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND)
    }

    /// The beginning of a day, UTC, that is written `2026-11-20`.
    ///
    /// # Errors
    /// The text is no date.
    pub fn of_date(text: &str) -> Result<Self, NotADate> {
        let numbers = text.split('-').map(|part| part.parse::<u16>().ok());
        let numbers: Vec<u16> = numbers.collect::<Option<_>>().ok_or(NotADate)?;
        let &[year, month, day] = numbers.as_slice() else { return Err(NotADate) };
        let date = (i64::from(year), i64::from(month), i64::from(day));
        let days = days_from_civil(date);
        // No month has more days than the calendar gives back.
        let is_date = (1..=12).contains(&month) && civil_from_days(days) == date;
        is_date.then_some(Self(days * 86_400 * MICROS_PER_SECOND)).ok_or(NotADate)
    }

    /// Reads what RFC 3339 allows; parts of seconds are dropped.
    pub fn of_rfc3339(text: &str) -> Option<Self> {
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
        let day = Self::of_date(date).ok()?;
        Some(day.plus_seconds(hour * 3_600 + minute * 60 + second - ahead))
    }

    /// This moment moved by `seconds`.
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(MICROS_PER_SECOND)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.seconds(), self.0.rem_euclid(MICROS_PER_SECOND)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (seconds, micros) = <(i64, i64)>::deserialize(deserializer)?;
        Ok(Self(seconds.saturating_mul(MICROS_PER_SECOND).saturating_add(micros)))
    }
}

/// `2026-11-20 13:05:09 UTC`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
            of_day / 3_600,
            of_day / 60 % 60,
            of_day % 60
        )
    }
}

/// A text that is no date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write a date as 2026-11-20")]
pub struct NotADate;

/// Numbers of two digits with colons between them.
fn numbers<const N: usize>(text: &str) -> Option<[i64; N]> {
    let parts: Vec<i64> = text
        .split(':')
        .map(|part| part.parse().ok().filter(|_| part.len() == 2 && !part.starts_with(['+', '-'])))
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// The inverse of [`civil_from_days`].
fn days_from_civil((year, month, day): (i64, i64, i64)) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Gregorian date of a day number counted from 1970-01-01, by eras of 400 years.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_form_is_a_pair() {
        let t = Timestamp::from_micros(1_700_000_000_000_042);
        assert_eq!(serde_json::to_string(&t).unwrap(), "[1700000000,42]");
        assert_eq!(serde_json::from_str::<Timestamp>("[1700000000,42]").unwrap(), t);
    }

    #[test]
    fn moments_read() {
        let moment = Timestamp::from_micros(1_542_763_425_000_000);
        for text in [
            "2018-11-21T01:23:45Z",
            "2018-11-21t01:23:45.678z",
            "2018-11-21T10:23:45+09:00",
            "2018-11-20T20:23:45-05:00",
        ] {
            assert_eq!(Timestamp::of_rfc3339(text), Some(moment), "{text}");
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
            assert_eq!(Timestamp::of_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn dates_read() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2026-11-20", 1_795_132_800),
            ("2026-3-1", 1_772_323_200),
        ] {
            assert_eq!(Timestamp::of_date(text).unwrap().seconds(), seconds, "{text}");
        }
        for bad in [
            "",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-04-31",
            "2026-11",
            "a-b-c",
            "2026-11-20-1",
            "70000-01-01",
            "-2026-11-20",
        ] {
            assert_eq!(Timestamp::of_date(bad), Err(NotADate), "{bad}");
        }
    }

    #[test]
    fn dates_are_gregorian() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_179_909, "2026-11-20 13:05:09 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(Timestamp::from_micros(seconds * 1_000_000).to_string(), text);
        }
    }
}
