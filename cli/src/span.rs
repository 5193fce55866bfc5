//! Core: spans of time as an operator writes them.

use crate::error::CliError;

/// A span in seconds: a whole number, with s, m, h, d or w behind it.
pub(crate) fn seconds(text: &str) -> Result<i64, CliError> {
    // Word for word what Ganeti's clients say.
    let wrong = || CliError::wrong_input(format!("Invalid time specification '{text}'"));
    let (number, factor) = match text.char_indices().last() {
        None => return Err(CliError::wrong_input("Empty time specification passed")),
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3_600),
        Some((at, 'd')) => (&text[..at], 86_400),
        Some((at, 'w')) => (&text[..at], 604_800),
        Some(_) => (text, 1),
    };
    if number.is_empty() {
        let told = "Invalid time specification (only suffix passed)";
        return Err(CliError::wrong_input(told));
    }
    let number: i64 = number.parse().map_err(|_no_number| wrong())?;
    // A negative age would be taken for `all`.
    let seconds = Some(number).filter(|number| *number >= 0);
    seconds.and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

/// The same, and months of 30 days (`mo`) and years of 365 days (`y`), which Ganeti's clients refuse.
pub(crate) fn seconds_or_longer(text: &str) -> Result<i64, CliError> {
    let days = [("mo", 30), ("y", 365)];
    let longer = days.iter().find_map(|(unit, days)| Some((text.strip_suffix(unit)?, *days)));
    match longer {
        None => seconds(text),
        Some((number, days)) => {
            let spans = seconds(&format!("{number}d"))?;
            spans.checked_mul(days).ok_or_else(|| CliError::wrong_input("the span is too long"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_and_years() {
        for (text, days) in [("1mo", 30), ("2y", 730), ("1d", 1)] {
            assert_eq!(seconds_or_longer(text).unwrap(), days * 86_400, "{text}");
        }
        for wrong in ["y", "mo", "-1y", "1.5y", "1smo", "99999999999999999y", "1Y"] {
            assert!(seconds_or_longer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans() {
        for (text, expected) in [
            ("90", 90),
            ("5s", 5),
            ("30m", 1_800),
            ("1h", 3_600),
            ("1d", 86_400),
            ("2w", 1_209_600),
        ] {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        for wrong in ["", "-1", "x", "1y", "h", "99999999999999999w", "5é", "1.5h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
