//! Core: how the values of lists look.

use clap::ValueEnum;
use luxi::query::{Cell, CellStatus, FieldDefinition, FieldKind};
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

/// A pair of seconds and microseconds since the epoch in microseconds.
pub(crate) fn micros(time: &Value) -> Option<i64> {
    let (seconds, micros) = (time.get(0)?.as_i64()?, time.get(1)?.as_i64()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// A value for other programs: each pair of seconds and microseconds that is a time is a number of
/// seconds since the epoch with its fraction.
pub(crate) fn json(value: &Value, field: &FieldDefinition) -> Value {
    if field.kind == FieldKind::Timestamp {
        return seconds(value);
    }
    match (field.name.as_ref(), value) {
        (name, Value::Array(times)) if is_times(name) => times.iter().map(seconds).collect(),
        ("oplog", Value::Array(logs)) => logs.iter().map(log_json).collect(),
        _ => value.clone(),
    }
}

/// Whether the field has a time of a job; Ganeti's kind for it is `other`.
pub(crate) fn is_moment(field: &str) -> bool {
    matches!(field, "received_ts" | "start_ts" | "end_ts")
}

/// Whether the field has a time for each opcode of a job.
pub(crate) fn is_times(field: &str) -> bool {
    matches!(field, "opstart" | "opexec" | "opend")
}

/// What one opcode said: entries of serial, time, type and text.
fn log_json(log: &Value) -> Value {
    let mut log = log.clone();
    let times = log.as_array_mut().into_iter().flatten().filter_map(|entry| entry.get_mut(1));
    times.for_each(|time| *time = seconds(time));
    log
}

fn seconds(time: &Value) -> Value {
    const MICROS_PER_SECOND: f64 = 1e6;
    micros(time).map_or_else(|| time.clone(), |micros| (micros as f64 / MICROS_PER_SECOND).into())
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

    #[test]
    fn times_for_programs() {
        for (name, kind, value, expected) in [
            ("a", FieldKind::Timestamp, "[1700000000,5]", "1700000000.000005"),
            ("a", FieldKind::Timestamp, "[1700000000,0]", "1700000000.0"),
            ("a", FieldKind::Timestamp, "1700000000.5", "1700000000.5"),
            ("a", FieldKind::Timestamp, "null", "null"),
            ("a", FieldKind::Other, "[1700000000,5]", "[1700000000,5]"),
            ("opend", FieldKind::Other, "[[1700000000,250000],null]", "[1700000000.25,null]"),
            (
                "oplog",
                FieldKind::Other,
                r#"[[[1,[5,250000],"message","x"]],[]]"#,
                r#"[[[1,5.25,"message","x"]],[]]"#,
            ),
        ] {
            let field = FieldDefinition::new(name, "A", kind, "");
            let value: Value = serde_json::from_str(value).unwrap();
            assert_eq!(json(&value, &field).to_string(), expected);
        }
    }
}
