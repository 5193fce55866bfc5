//! Core: details of an object as indented text.

use serde_json::Value;

use crate::cells;

/// Lines of keys and values, the ones that belong to another further to the right.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    lines: Vec<String>,
    depth: usize,
}

impl Outline {
    /// Adds `- title: value`, the head of an object; what follows belongs to it.
    pub(crate) fn object(&mut self, title: &str, value: impl std::fmt::Display) {
        self.push("- ", title, value);
        self.depth += 1;
    }

    /// Adds `title: value`.
    pub(crate) fn entry(&mut self, title: &str, value: impl std::fmt::Display) {
        self.push("", title, value);
    }

    /// Adds `title:`; what follows belongs to it.
    pub(crate) fn section(&mut self, title: &str) {
        self.push("", title, "");
        self.depth += 1;
    }

    /// What follows belongs to what was before the last object or section.
    pub(crate) fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Adds `title: value`, going into maps.
    pub(crate) fn value(&mut self, title: &str, value: &Value) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.section(title);
                for (key, value) in map {
                    self.value(key, value);
                }
                self.end();
            }
            Value::Object(_) => self.entry(title, "{}"),
            Value::Array(list) if list.is_empty() => self.entry(title, "[]"),
            Value::Array(list) if !list.iter().all(Value::is_string) => self.entry(title, value),
            other => self.entry(title, cells::plain(other)),
        }
    }

    fn push(&mut self, mark: &str, title: &str, value: impl std::fmt::Display) {
        let indent = "  ".repeat(self.depth);
        let value = value.to_string().replace('\n', &format!("\n{indent}    "));
        let blank = if value.is_empty() { "" } else { " " };
        self.lines.push(format!("{indent}{mark}{title}:{blank}{value}"));
    }

    /// The text.
    pub(crate) fn into_text(self) -> String {
        self.lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nesting() {
        let mut outline = Outline::default();
        outline.object("Job ID", 5);
        outline.entry("Status", "success");
        outline.value("Input", &json!({"duration": 1, "on_nodes": [], "deep": {"x": null}}));
        outline.entry("Text", "a\nb");
        outline.end();
        outline.object("Job ID", 6);
        let expected = "- Job ID: 5\n  Status: success\n  Input:\n    deep:\n      x: -\n    \
                        duration: 1\n    on_nodes: []\n  Text: a\n      b\n- Job ID: 6";
        assert_eq!(outline.into_text(), expected);
    }
}
