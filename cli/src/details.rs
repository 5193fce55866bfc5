//! Core: details of objects as indented text, which YAML reads; the form is that of Ganeti's
//! `info` commands.

use serde_json::Value;
use stdx::text::line;
use unicode_width::UnicodeWidthStr as _;

use crate::python;

/// The value behind a key, or an element of a list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Detail {
    /// Text; it is not looked into.
    Text(String),
    /// One below the other, each with a dash.
    List(Vec<Detail>),
    /// Keys with what belongs to them.
    Map(Vec<Entry>),
    /// In brackets on one line.
    Inline(Vec<String>),
}

/// A key and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    key: String,
    /// Whether values of all aligned entries of a map stand under one another.
    aligned: bool,
    detail: Detail,
}

impl Entry {
    pub(crate) fn new(key: impl Into<String>, detail: impl Into<Detail>) -> Self {
        Self { key: key.into(), aligned: false, detail: detail.into() }
    }

    pub(crate) fn aligned(key: impl Into<String>, detail: impl Into<Detail>) -> Self {
        Self { aligned: true, ..Self::new(key, detail) }
    }
}

impl From<String> for Detail {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Detail {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&Value> for Detail {
    fn from(value: &Value) -> Self {
        match value {
            Value::Array(list) => Self::List(list.iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Map(map.iter().map(|(key, value)| Entry::new(key, value)).collect())
            }
            other => Self::Text(python::text(other)),
        }
    }
}

/// Objects, each with a dash.
pub(crate) fn lines(objects: Vec<Vec<Entry>>) -> String {
    render(&Detail::List(objects.into_iter().map(Detail::Map).collect()))
}

/// One object alone.
pub(crate) fn render(detail: &Detail) -> String {
    let mut text = String::new();
    write(&mut text, detail, 0, false);
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Writes `detail` at `depth`; `behind_key` is whether a key stands before it on its line.
fn write(text: &mut String, detail: &Detail, depth: usize, behind_key: bool) {
    let indent = "  ".repeat(depth);
    // The first line of what is not behind a key stands where its dash is.
    let begin = |text: &mut String, first: bool| {
        if behind_key && first {
            text.push('\n');
        }
        if behind_key || !first {
            text.push_str(&indent);
        }
    };
    match detail {
        Detail::Text(value) => {
            text.push_str(&line(value));
            text.push('\n');
        }
        Detail::Inline(values) => text.push_str(&format!("[{}]\n", line(&values.join(", ")))),
        Detail::List(list) if list.is_empty() => text.push('\n'),
        Detail::Map(entries) if entries.is_empty() => text.push('\n'),
        Detail::List(list) => {
            for (at, item) in list.iter().enumerate() {
                begin(text, at == 0);
                text.push_str("- ");
                write(text, item, depth + 1, false);
            }
        }
        Detail::Map(entries) => {
            let aligned = entries.iter().filter(|entry| entry.aligned);
            let width = aligned.map(|entry| entry.key.width()).max().unwrap_or_default();
            for (at, Entry { key, aligned, detail }) in entries.iter().enumerate() {
                begin(text, at == 0);
                let pad = if *aligned { width - key.width() } else { 0 };
                text.push_str(&format!("{}: {}", line(key), " ".repeat(pad)));
                write(text, detail, depth + 1, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nesting() {
        let log = Detail::Map(vec![
            Entry::new("Time", "10:00"),
            Entry::new("Content", Detail::Inline(vec!["1".to_owned(), "message".to_owned()])),
        ]);
        let first = vec![
            Entry::new("Job ID", "5"),
            Entry::aligned("Received", "a"),
            Entry::aligned("Processing end", "b"),
            Entry::new("Input", &json!({"x": null, "on": ["n1"], "no": [], "deep": {"y": 1.0}})),
            Entry::new("Reason", &json!([["a", 1], ["b", 2]])),
            Entry::new("Log", Detail::List(vec![log])),
        ];
        let second = vec![Entry::new("Job ID", "6"), Entry::new("Log", Detail::List(vec![]))];
        let expected = "\
- Job ID: 5
  Received:       a
  Processing end: b
  Input:\x20
    deep:\x20
      y: 1.0
    no:\x20
    on:\x20
      - n1
    x: None
  Reason:\x20
    - - a
      - 1
    - - b
      - 2
  Log:\x20
    - Time: 10:00
      Content: [1, message]
- Job ID: 6
  Log: ";
        assert_eq!(lines(vec![first, second]), expected);
    }
}
