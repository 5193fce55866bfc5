//! The wall clock of this machine's time zone.

use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use nix::libc;

/// A moment as the calendar and the clocks here show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// Minutes by which the clocks here are ahead of UTC at this moment.
    pub ahead_minutes: i64,
}

/// The local time at `seconds` since the epoch, by `TZ` or `/etc/localtime`; `None` for a year
/// that has no number.
pub fn local_time(seconds: i64) -> Option<LocalTime> {
    let mut fields = MaybeUninit::<libc::tm>::zeroed();
    #[expect(unsafe_code, reason = "only the C library knows the time zone")]
    // SAFETY: both pointers are valid for the call, and all zeros is a valid `tm`.
    let fields = unsafe {
        let known = libc::localtime_r(&raw const seconds, fields.as_mut_ptr());
        (!known.is_null()).then(|| fields.assume_init())
    }?;
    let small = |number: i32| u8::try_from(number).ok();
    Some(LocalTime {
        year: i64::from(fields.tm_year) + 1900,
        month: small(fields.tm_mon + 1)?,
        day: small(fields.tm_mday)?,
        hour: small(fields.tm_hour)?,
        minute: small(fields.tm_min)?,
        second: small(fields.tm_sec)?,
        weekday: small(fields.tm_wday)?,
        ahead_minutes: fields.tm_gmtoff / 60,
    })
}

/// The fault of the variable `TZ`, if any: the C library then shows UTC and says nothing.
pub fn broken_zone() -> Option<String> {
    let zone = std::env::var_os("TZ")?;
    let directory = std::env::var_os("TZDIR").filter(|directory| !directory.is_empty());
    let directory = directory.map_or_else(|| PathBuf::from(ZONES), PathBuf::from);
    let name = zone.to_string_lossy();
    let name = name.strip_prefix(':').unwrap_or(&name);
    // An absolute path replaces the directory.
    if is_rule(name) || begins_as_zone(&directory.join(name)) {
        return None;
    }
    let directory = directory.display();
    Some(format!("TZ={name} is no rule, and no time zone in {directory}: times are in UTC"))
}

/// The directory in which the C library looks for time zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// How a file of a time zone begins.
const ZONE_MARK: [u8; 4] = *b"TZif";

fn begins_as_zone(path: &Path) -> bool {
    let mut mark = [0; ZONE_MARK.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut mark));
    read.is_ok() && mark == ZONE_MARK
}

/// Whether the C library needs no file for it: `UTC`, or a rule of POSIX as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn is_rule(zone: &str) -> bool {
    if matches!(zone, "" | "UTC" | "UTC0" | "GMT") {
        return true;
    }
    let quoted = zone.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let name_ends = zone.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(zone.len());
    let (name, rest) = quoted.unwrap_or_else(|| zone.split_at(name_ends));
    let offset = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    name.len() >= 3 && offset.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_without_a_number() {
        assert_eq!(local_time(i64::MAX), None);
    }

    #[test]
    fn zones_that_need_no_file() {
        for zone in ["", "UTC", "EST5", "CET-1CEST,M3.5.0,M10.5.0/3", "<+0330>-3:30", "NST3:30NDT"]
        {
            assert!(is_rule(zone), "{zone}");
        }
        for zone in ["Europe/Berlin", "Nowhere", "E5", "<+03>", "5", "CET", "../x"] {
            assert!(!is_rule(zone), "{zone}");
        }
        let directory = std::env::temp_dir();
        assert!(!begins_as_zone(&directory) && !begins_as_zone(&directory.join("no/such/zone")));
    }

    /// Whatever the zone is, it is less than a day and a half from UTC.
    #[test]
    fn dates() {
        let at = local_time(1_700_000_000).unwrap();
        assert_eq!((at.year, at.month), (2023, 11));
        assert!((13..=16).contains(&at.day) && at.minute < 60 && at.weekday < 7, "{at:?}");
        assert!(at.ahead_minutes.abs() <= 26 * 60, "{at:?}");
        let next = local_time(1_700_000_000 + 86_400).unwrap();
        assert_eq!(next.weekday, (at.weekday + 1) % 7);
    }
}
