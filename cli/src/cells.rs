//! Core: how the values of lists look.

use clap::ValueEnum;
use luxi::query::{Cell, CellStatus, FieldKind};
use model::Timestamp;
use serde_json::Value;

/// In which unit sizes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Units {
    /// The one that fits each, with its letter.
    H,
    /// Mebibytes.
    M,
    /// Gibibytes.
    G,
    /// Tebibytes.
    T,
}

/// How one list is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// The unit of sizes.
    pub(crate) units: Units,
    /// Whether missing values are shown in words.
    pub(crate) verbose: bool,
}

/// The text of a cell.
pub(crate) fn text(cell: &Cell, kind: FieldKind, look: Look) -> String {
    match cell.value() {
        Some(value) => match kind {
            FieldKind::Bool => bool_text(value),
            FieldKind::Unit => {
                value.as_f64().map_or_else(|| plain(value), |mib| size(mib, look.units))
            }
            FieldKind::Timestamp => time(value),
            FieldKind::Text
            | FieldKind::Number
            | FieldKind::Float
            | FieldKind::Other
            | FieldKind::Unknown => plain(value),
        },
        None => missing(cell.status(), look.verbose).to_owned(),
    }
}

const fn missing(status: CellStatus, verbose: bool) -> &'static str {
    match (status, verbose) {
        (CellStatus::Normal, _) => "",
        (CellStatus::Unknown, false) => "??",
        (CellStatus::NoData, false) => "?",
        (CellStatus::Unavailable, false) => "-",
        (CellStatus::Offline, false) => "*",
        (CellStatus::Unknown, true) => "(unknown)",
        (CellStatus::NoData, true) => "(nodata)",
        (CellStatus::Unavailable, true) => "(unavail)",
        (CellStatus::Offline, true) => "(offline)",
    }
}

fn bool_text(value: &Value) -> String {
    value.as_bool().map_or_else(|| plain(value), |yes| if yes { "Y" } else { "N" }.to_owned())
}

/// A value without quotes; lists with commas, what lies deeper as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        // A column that is empty would shift the others for who splits lines at blanks.
        Value::Array(list) if list.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let parts: Vec<_> = list
                .iter()
                .map(|part| match part {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
                .collect();
            parts.join(",")
        }
        other => other.to_string(),
    }
}

/// A size that comes in mebibytes.
fn size(mib: f64, units: Units) -> String {
    const STEP: f64 = 1024.0;
    match units {
        Units::M => format!("{mib:.0}"),
        Units::G => format!("{:.1}", mib / STEP),
        Units::T => format!("{:.1}", mib / STEP / STEP),
        Units::H if mib < STEP => format!("{mib:.0}M"),
        Units::H if mib < STEP * STEP => format!("{:.1}G", mib / STEP),
        Units::H => format!("{:.1}T", mib / STEP / STEP),
    }
}

/// A moment: seconds since the epoch, or a pair of seconds and microseconds.
pub(crate) fn time(value: &Value) -> String {
    let seconds = value.as_i64().or_else(|| value.get(0)?.as_i64());
    // Ganeti's configuration has times with a fraction; tables show whole seconds.
    let seconds = seconds.or_else(|| value.to_string().split('.').next()?.parse().ok());
    match seconds {
        Some(seconds) => Timestamp::default().plus_seconds(seconds).to_string(),
        None => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOOK: Look = Look { units: Units::H, verbose: false };

    #[test]
    fn values() {
        for (value, kind, expected) in [
            (json!("x"), FieldKind::Text, "x"),
            (json!(null), FieldKind::Text, "-"),
            (json!(true), FieldKind::Bool, "Y"),
            (json!(false), FieldKind::Bool, "N"),
            (json!(512), FieldKind::Unit, "512M"),
            (json!(100_045), FieldKind::Unit, "97.7G"),
            (json!(3_145_728), FieldKind::Unit, "3.0T"),
            (json!(1_700_000_000), FieldKind::Timestamp, "2023-11-14 22:13:20 UTC"),
            (json!(1_700_000_000.5), FieldKind::Timestamp, "2023-11-14 22:13:20 UTC"),
            (json!([1_700_000_000, 5]), FieldKind::Timestamp, "2023-11-14 22:13:20 UTC"),
            (json!(null), FieldKind::Timestamp, "-"),
            (json!(["a", 5, [1]]), FieldKind::Other, "a,5,[1]"),
            (json!([]), FieldKind::Other, "-"),
        ] {
            assert_eq!(text(&Cell::normal(value.clone()), kind, LOOK), expected, "{value}");
        }
        assert_eq!(size(100_045.0, Units::M), "100045");
        assert_eq!(size(100_045.0, Units::G), "97.7");
        let offline = Cell::without(CellStatus::Offline);
        assert_eq!(text(&offline, FieldKind::Text, LOOK), "*");
        assert_eq!(text(&offline, FieldKind::Text, Look { verbose: true, ..LOOK }), "(offline)");
    }
}
