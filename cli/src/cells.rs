//! How the values of lists look: those of Ganeti's objects as its clients print them, byte for
//! byte, since scripts read them; ours for readers.

use clap::ValueEnum;
use luxi::method::What;
use luxi::query::{Cell, CellStatus, FieldDefinition, FieldKind};
use serde_json::Value;

use crate::moment::{self, TimeForm};
use crate::python;

/// The text for a moment that is missing.
const NO_TIME: &str = "N/A";

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
    /// The objects that it shows.
    pub(crate) what: What,
    /// The unit of sizes.
    pub(crate) units: Units,
    /// Whether missing values are shown in words.
    pub(crate) verbose: bool,
    /// How times are shown.
    pub(crate) times: TimeForm,
    /// Whether the columns are ours, even of Ganeti's objects: then words stand for its letters, and
    /// values look as in other tables of ours.
    pub(crate) own: bool,
}

/// The text of a cell.
pub(crate) fn text(cell: &Cell, field: &FieldDefinition, look: Look) -> String {
    let Some(value) = cell.value() else {
        return missing(cell.status(), look.verbose).to_owned();
    };
    if let Some(text) = special(value, &field.name, look) {
        return text;
    }
    let is_ours = look.own || !look.what.is_ganetis();
    let other = |value: &Value| if is_ours { plain(value) } else { python::text(value) };
    match field.kind {
        FieldKind::Bool => if python::is_true(value) { "Y" } else { "N" }.to_owned(),
        FieldKind::Unit => value.as_f64().map_or_else(|| other(value), |mib| size(mib, look.units)),
        FieldKind::Timestamp => look
            .times
            .date(value)
            .unwrap_or_else(|| if is_ours { other(value) } else { NO_TIME.to_owned() }),
        FieldKind::Text
        | FieldKind::Number
        | FieldKind::Float
        | FieldKind::Other
        | FieldKind::Unknown => other(value),
    }
}

/// Fields that Ganeti's clients show in a form of their own.
fn special(value: &Value, field: &str, look: Look) -> Option<String> {
    Some(match (look.what, field) {
        (What::Job, "summary")
        | (What::Node, "pinst_list" | "sinst_list" | "tags")
        | (What::Network, "inst_list" | "tags")
        | (What::Group, "node_list" | "pinst_list") => joined(value.as_array()?, ","),
        (What::Job, field) if is_times(field) => {
            let time = |time: &Value| look.times.precise(time).unwrap_or_else(|| "?".to_owned());
            python::repr(&value.as_array()?.iter().map(time).collect())
        }
        (What::Node, "role") if look.own => role(value.as_str()?).to_owned(),
        (What::Job, "waits_for") if *value == Value::Array(Vec::new()) => "-".to_owned(),
        (What::Lock, "mode" | "owner" | "pending") if !python::is_true(value) => "-".to_owned(),
        (What::Lock, "owner") => joined(value.as_array()?, ","),
        (What::Lock, "pending") => {
            let request = |request: &Value| {
                let owners = joined(request.get(1)?.as_array()?, ",");
                Some(format!("{}:{owners}", python::text(request.get(0)?)))
            };
            value.as_array()?.iter().map(request).collect::<Option<Vec<_>>>()?.join(", ")
        }
        (What::Network, "group_list") => {
            let group = |group: &Value| {
                let [name, mode, link, vlan] = group.as_array()?.as_slice() else { return None };
                let [name, mode, link, vlan] = [name, mode, link, vlan].map(python::text);
                Some(format!("{name} ({mode}, {link}, {vlan})"))
            };
            value.as_array()?.iter().map(group).collect::<Option<Vec<_>>>()?.join(", ")
        }
        (What::Group, "ndparams") => match value {
            Value::Object(map) if !map.is_empty() => {
                let entry =
                    |(key, value): (&String, &Value)| format!("{key}={}", python::text(value));
                map.iter().map(entry).collect::<Vec<_>>().join(", ")
            }
            _ => "(empty)".to_owned(),
        },
        _ => return None,
    })
}

/// Whether the field is shown in a form of its own, and so begins at the left.
pub(crate) fn has_own_form(what: What, field: &str) -> bool {
    match what {
        What::Job => field == "summary" || is_times(field),
        What::Node => matches!(field, "pinst_list" | "sinst_list" | "tags"),
        What::Group => matches!(field, "node_list" | "pinst_list" | "ndparams"),
        What::Lock => matches!(field, "mode" | "owner" | "pending"),
        What::Network => matches!(field, "group_list" | "inst_list" | "tags"),
        _ => false,
    }
}

/// The word for the letter of a node's role.
pub(crate) fn role(letter: &str) -> &str {
    match letter {
        "M" => "master",
        "C" => "candidate",
        "R" => "regular",
        "D" => "drained",
        "O" => "offline",
        other => other,
    }
}

fn joined(list: &[Value], separator: &str) -> String {
    list.iter().map(python::text).collect::<Vec<_>>().join(separator)
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

/// A value of our own objects, without quotes; lists with commas, what lies deeper as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        // A column that is empty would shift the others for who splits lines at blanks.
        Value::Array(list) if list.is_empty() => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
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
pub(crate) fn size(mib: f64, units: Units) -> String {
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

/// A value for other programs: each pair of seconds and microseconds that is a time is a number of
/// seconds since the epoch with its fraction.
pub(crate) fn json(value: &Value, field: &FieldDefinition) -> Value {
    if field.kind == FieldKind::Timestamp {
        return seconds(value);
    }
    match (field.name.as_ref(), value) {
        ("received_ts" | "start_ts" | "end_ts", time) => seconds(time),
        ("stages" | "last_boot", Value::Array(stages)) => stages.iter().map(stage_json).collect(),
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
fn is_times(field: &str) -> bool {
    matches!(field, "opstart" | "opexec" | "opend")
}

/// A stage of a boot.
fn stage_json(stage: &Value) -> Value {
    let mut stage = stage.clone();
    if let Some(at) = stage.get_mut("at") {
        *at = seconds(at);
    }
    stage
}

/// The log of one opcode: entries of serial, time, type and text.
fn log_json(log: &Value) -> Value {
    let mut log = log.clone();
    let times = log.as_array_mut().into_iter().flatten().filter_map(|entry| entry.get_mut(1));
    times.for_each(|time| *time = seconds(time));
    log
}

fn seconds(time: &Value) -> Value {
    const MICROS_PER_SECOND: f64 = 1e6;
    let micros = moment::micros(time);
    micros.map_or_else(|| time.clone(), |micros| (micros as f64 / MICROS_PER_SECOND).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(what: What, name: &'static str, kind: FieldKind, value: Value) -> String {
        let look =
            Look { what, units: Units::H, verbose: false, times: TimeForm::Ganeti, own: false };
        text(&Cell::normal(value), &FieldDefinition::new(name, "A", kind, ""), look)
    }

    #[test]
    fn values() {
        for (value, kind, ours, ganetis) in [
            (json!("x"), FieldKind::Text, "x", "x"),
            (json!(null), FieldKind::Text, "-", "None"),
            (json!(true), FieldKind::Bool, "Y", "Y"),
            (json!(false), FieldKind::Bool, "N", "N"),
            (json!(512), FieldKind::Unit, "512M", "512M"),
            (json!(100_045), FieldKind::Unit, "97.7G", "97.7G"),
            (json!(3_145_728), FieldKind::Unit, "3.0T", "3.0T"),
            (json!(null), FieldKind::Timestamp, "-", "N/A"),
            (json!(["a", 5, [1]]), FieldKind::Other, "a,5,[1]", "['a', 5, [1]]"),
            (json!([]), FieldKind::Other, "-", "[]"),
        ] {
            assert_eq!(shown(What::Machine, "a", kind, value.clone()), ours, "{value}");
            assert_eq!(shown(What::Job, "a", kind, value.clone()), ganetis, "{value}");
        }
        assert_eq!(size(100_045.0, Units::M), "100045");
        assert_eq!(size(100_045.0, Units::G), "97.7");
        let offline = Cell::without(CellStatus::Offline);
        let look = Look {
            what: What::Node,
            units: Units::H,
            verbose: false,
            times: TimeForm::Ganeti,
            own: false,
        };
        let field = FieldDefinition::new("a", "A", FieldKind::Text, "");
        assert_eq!(text(&offline, &field, look), "*");
        assert_eq!(text(&offline, &field, Look { verbose: true, ..look }), "(offline)");
    }

    #[test]
    fn forms_of_their_own() {
        for (what, name, value, expected) in [
            (What::Job, "summary", json!(["A", "B(1)"]), "A,B(1)"),
            (What::Job, "opstart", json!([null]), "['?']"),
            (What::Node, "tags", json!(["a", "b"]), "a,b"),
            (What::Node, "tags", json!([]), ""),
            (What::Lock, "mode", json!(null), "-"),
            (What::Lock, "owner", json!(["job/1", "job/2"]), "job/1,job/2"),
            (What::Lock, "pending", json!([]), "-"),
            (
                What::Lock,
                "pending",
                json!([["shared", ["job/1", "job/2"]], ["exclusive", ["job/3"]]]),
                "shared:job/1,job/2, exclusive:job/3",
            ),
            (What::Group, "ndparams", json!({}), "(empty)"),
            (What::Group, "ndparams", json!({"a": 1, "b": true}), "a=1, b=True"),
        ] {
            assert_eq!(shown(what, name, FieldKind::Other, value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn times_for_programs() {
        for (name, kind, value, expected) in [
            ("a", FieldKind::Timestamp, "[1700000000,5]", "1700000000.000005"),
            ("a", FieldKind::Timestamp, "[1700000000,0]", "1700000000.0"),
            ("a", FieldKind::Timestamp, "1700000000.5", "1700000000.5"),
            ("a", FieldKind::Timestamp, "null", "null"),
            ("a", FieldKind::Other, "[1700000000,5]", "[1700000000,5]"),
            ("end_ts", FieldKind::Other, "[1700000000,5]", "1700000000.000005"),
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
