//! The wall clock of this machine's time zone.

use std::mem::MaybeUninit;

use nix::libc;

/// A moment as the calendar and the clocks here show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// The year.
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
}

/// The local time at `seconds` since the epoch, by `TZ` or `/etc/localtime`; `None` for a year
/// that has no number.
#[must_use]
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_without_a_number() {
        assert_eq!(local_time(i64::MAX), None);
    }

    /// Whatever the zone is, it is less than a day and a half from UTC.
    #[test]
    fn dates() {
        let at = local_time(1_700_000_000).unwrap();
        assert_eq!((at.year, at.month), (2023, 11));
        assert!((13..=16).contains(&at.day) && at.minute < 60 && at.weekday < 7, "{at:?}");
        let next = local_time(1_700_000_000 + 86_400).unwrap();
        assert_eq!(next.weekday, (at.weekday + 1) % 7);
    }
}
